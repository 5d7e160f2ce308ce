"""The diagrams in ``docs/diagrams`` are those of the role tables, and ``docs/protocol.md`` names what exists."""

import re
from pathlib import Path

import pytest
from docs._ext.role_pages import FOLDER, ROLES, diagram, write

from fedsvd.protocol import messages
from fedsvd.protocol.messages import Message

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "protocol.md"
KINDS = {
    name: kind
    for name, kind in vars(messages).items()
    if isinstance(kind, type) and issubclass(kind, Message) and kind is not Message
}


@pytest.mark.parametrize("name", ROLES)
def test_a_diagram_is_fresh(name):
    written = (ROOT / FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert written == diagram(name), "stale: run `python docs/_ext/role_pages.py` and commit docs/diagrams"


def test_no_diagram_is_left_over():
    assert {path.stem for path in (ROOT / FOLDER).iterdir()} == set(ROLES)


def test_a_diagram_shows_every_row_and_every_state(tmp_path):
    write(tmp_path)
    for name, (machine, _, _) in ROLES.items():
        text = (tmp_path / FOLDER / f"{name}.md").read_text(encoding="utf-8")
        for row in machine.TABLE.values():
            assert f"| {row.state.name} | {row.message.__name__} |" in text
            for state in row.leads_to:
                arrow = rf"{row.state.name} --> {state.name}: .*\b{row.message.__name__}\b"
                assert re.search(arrow, text)
        assert len(re.findall(r"^\| [A-Z]", text, re.MULTILINE)) == len(machine.TABLE)


def rows_of_the_page():
    """The rows of the page's step table: (step, messages, handlers, tests)."""
    text = PAGE.read_text(encoding="utf-8")
    table = re.findall(r"^\| (\d[^|]*) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", text, re.MULTILINE)
    assert len(table) >= 10
    return table


def test_the_page_names_every_message_and_no_other():
    named = {word for _, said, _, _ in rows_of_the_page() for word in re.findall(r"`(\w+)`", said)}
    assert named == set(KINDS)


def test_the_page_names_handlers_that_hear_these_messages():
    """``CSP._on_ready``, say: a handler of that role whose row takes one of the messages beside it."""
    roles = {"TA": "trusted-authority", "CSP": "service-provider", "User": "user"}
    seen = set()
    for step, said, handlers, _ in rows_of_the_page():
        kinds = set(re.findall(r"`(\w+)`", said)) | ({"Computed"} if "*value*" in said else set())
        for role, handler in re.findall(r"`(TA|CSP|User)\.(\w+)`", handlers):
            table = ROLES[roles[role]][0].TABLE.values()
            heard = {row.message.__name__ for row in table if row.handler.__name__ == handler}
            assert heard & kinds, f"step {step}: {role}.{handler} hears {heard or 'nothing'}, not {kinds}"
            seen.add((roles[role], handler))
    every = {(name, row.handler.__name__) for name, (machine, _, _) in ROLES.items() for row in machine.TABLE.values()}
    assert seen == every, "every handler stands beside its step"


def test_the_page_names_tests_that_exist():
    for step, _, _, tests in rows_of_the_page():
        named = re.findall(r"`(tests/[\w/]+\.py)`", tests)
        assert named, f"step {step} names no test"
        assert [path for path in named if not (ROOT / path).is_file()] == []
