"""Pages that are promised exist: one to each error code, the figure of messages as the tables have it, links."""

import ast
import inspect
import json
import re
from pathlib import Path

import pytest
from docs._ext import api_pages, changed_messages, step_pages
from docs._ext.role_pages import FIGURE, messages_sent, sequence
from tests.docs.snippets import DOCS, ROOT

import fedsvd
from fedsvd import errors
from fedsvd.protocol.tasks import Task
from fedsvd.studies.job_file import job_from, schema

ERRORS = DOCS / "errors"
CODES = {
    kind.code: name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.FedSVDError)
}


def codes_in_the_source() -> set[str]:
    """Every FSVD code that stands in a string of the source, docstrings and comments apart."""
    found = set()
    for path in (ROOT / "src" / "fedsvd").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(re.findall(r"\bFSVD-\d{3}\b", node.value))
    return found


def test_every_code_that_is_raised_has_its_page_and_no_other_has():
    assert codes_in_the_source() <= set(CODES)
    assert {path.stem for path in ERRORS.glob("FSVD-*.md")} == set(CODES)


@pytest.mark.parametrize("code", sorted(CODES))
def test_an_error_page_has_a_cause_and_what_to_do(code):
    text = (ERRORS / f"{code}.md").read_text(encoding="utf-8")
    title = "Unexpected error" if code == "FSVD-000" else CODES[code]
    assert text.startswith(f"# {code}: {title}\n")
    cause, todo = text.split("\n## Cause\n")[1].split("\n## What to do\n")
    assert len(cause.split()) >= 6
    assert todo.lstrip().startswith("- ")
    example = todo.split("\n## How it looks\n")[1]
    # FSVD-410 and FSVD-500 are bases: one of their kinds is shown.
    assert re.search(rf"```text\n{code[:6]}\d\d(: |$)", example), "an example of this code"
    index = (ERRORS / "index.md").read_text(encoding="utf-8")
    assert f"[{code}]({code}.md)" in index
    assert f"\n{code}\n" in index


def test_the_figure_of_messages_is_that_of_the_tables():
    assert (ROOT / FIGURE).read_text(encoding="utf-8") == sequence(), "run `python docs/_ext/role_pages.py`"
    assert ("PaddedBatch", "user", "csp") in messages_sent()
    assert ("Factors", "csp", "user") in messages_sent()
    assert not [
        name for name, sender, receiver in messages_sent() if "csp" not in (sender, receiver)
    ]  # all links end there


def test_the_page_of_steps_is_that_of_the_declarations_and_has_every_task():
    assert step_pages.PAGE.read_text(encoding="utf-8") == step_pages.page(), "run `python docs/_ext/step_pages.py`"
    shown = {study.task for study in step_pages.STUDIES.values()}
    assert shown == set(Task) - {Task.PREPARE, Task.FOREIGN}  # whose steps a study brings


def test_every_public_name_has_its_page_and_the_list_of_them_is_that_of_the_code():
    page = api_pages.PAGE.read_text(encoding="utf-8")
    assert api_pages.made(page) == page, "run `python docs/_ext/api_pages.py`"
    others = {name.rpartition(".")[2] for _, plain, whole in api_pages.OTHERS.values() for name in (*plain, *whole)}
    assert {*fedsvd.__all__} - {"__version__"} <= {*api_pages.TASKS} | others


@pytest.mark.parametrize("name", api_pages.TASKS)
def test_the_page_of_an_estimator_has_its_methods_its_options_and_where_it_is_used(name):
    page = api_pages.estimator_page(name)
    kind = getattr(fedsvd, name)
    assert f".. automethod:: fedsvd.{name}.fit" in page
    assert "sklearn" not in "".join(getattr(kind, method).__module__ for method in api_pages.methods(kind))
    assert "## See also" in page
    assert "Guides: " in page
    for parameter in inspect.signature(kind).parameters:
        assert re.search(rf"^ *{parameter}( :|,)", kind.__doc__, re.MULTILINE), f"{parameter} is not described"
    if api_pages.TASKS[name]:
        assert "| `digits` | `digits` | `--digits` |" in page or "digits" not in inspect.signature(kind).parameters


def test_the_schema_of_job_files_takes_what_the_program_takes():
    record = schema()
    json.dumps(record)
    sections = {"job", "dictionary", "match", "prepare", "masks", "csp", "authority", "foreign", "party"}
    assert set(record["properties"]) == sections
    keys = record["$defs"]["StudySection"]["properties"]
    text = (DOCS / "job-file.md").read_text(encoding="utf-8")
    for key in keys:
        assert f"`{key}`" in text
    parties = [{"name": "a"}, {"name": "b"}]
    job_from({"job": {"name": "n", "task": "lr", "label": "y", "memory": "1 GiB"}, "party": parties}, Path())


def links(path: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text))


@pytest.mark.parametrize(
    "path",
    sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md"]),
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_links_inside_the_repository_lead_somewhere(path):
    made = {"cli.md", "job-schema.json"}  # when the site is built
    for link in links(path):
        target, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        there = path.parent / target if target else path
        of_class = there.parent.name == "api" and there.stem in {*api_pages.TASKS, *api_pages.OTHERS}
        assert there.exists() or there.name in made or of_class, link
        if anchor and there.suffix == ".md":
            titles = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
            assert anchor in slugs, link


@pytest.mark.slow  # every module is parsed: four seconds
def test_the_page_of_changed_messages_is_the_one_of_this_tree():
    shown = changed_messages.PAGE.read_text(encoding="utf-8")
    assert shown == changed_messages.written(), "run `python docs/_ext/changed_messages.py`"


def test_a_message_is_changed_where_its_fault_is_alike_and_new_where_it_is_not():
    old = "no column is named {...}. Fix: one of {...}"
    new = f"{old}; did you mean {{...}}"
    before = {"data": {old, "a file is damaged. Fix: copy it again", "as it was"}}
    now = {"data": {new, "as it was"}, "cli": {"a party is down"}}
    page = changed_messages.page(before, now)
    assert "1 texts that were rewritten; 1 are the same,\n1 are new and 1 are gone" in page
    assert f"| `{old}` | `{new}` |" in page
    assert "damaged" not in page
    moved = changed_messages.page({"studies": before["data"]}, now)
    assert f"## data\n\n| 0.2.0 | now |\n|---|---|\n| `{old}` | `{new}` |" in moved


def test_the_text_of_an_error_leaves_its_values_open(tmp_path):
    source = tmp_path / "src/fedsvd/data"
    source.mkdir(parents=True)
    (source.parent / "errors.py").write_text("class DataError(Exception): ...\n")
    (source / "open.py").write_text(
        "def f(name):\n    raise DataError(f'no column is {name!r}', 'check the ' + 'name')\n"
        "RULE = Rule(lambda a: a.x, lambda a: f'{a.x} is left out', 'name it')\nprint('not an error')\n"
    )
    assert changed_messages.texts(tmp_path) == {
        "data": {"no column is {...}. Fix: check the name", "{...} is left out. Fix: name it"}
    }
