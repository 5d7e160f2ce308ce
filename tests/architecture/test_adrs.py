"""Decisions are recorded whole, and what holds them exists (ADR 0001); links between the pages lead somewhere.

A record's tests are found by reading the file that is named, as pytest would name them: ``file.py::test_name``, or
``file.py::TestClass::test_name``. Nothing is executed.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .imports import nodes

ROOT = Path(__file__).parents[2]
RECORDS = sorted((ROOT / "docs" / "adr").glob("*.md"))
SECTIONS = ["Status", "Context", "Decision", "Consequences", "Held by"]
# Numbers that were given out for 0.3.0 and not used: they are not given again, and no page may cite them.
NOT_USED = {"0042", "0044", "0045", "0047", "0048", "0050", "0053", "0070", "0078", "0079"}
NOT_USED |= {"0083", "0097"}  # who writes one of these takes it out here
GIVEN = {f"{number:04}" for number in range(100, 265)}  # to several hands at once: gaps are listed above at the end
LIMIT = 45  # lines; the aim is 35
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), *RECORDS]

WHOLE = """# 0099. Words are kept

## Status
Accepted.

## Context
Words fly.

## Decision
They are written.

## Consequences
They stay.

## Held by
- `tests/test_words.py::test_a_word_stays`, and `tests/test_words.py::TestWords::test_two_words_stay`
- the rule in `tests/rules.py`
"""
TESTS = "def test_a_word_stays(): ...\nclass TestWords:\n    def test_two_words_stay(self): ...\n"


def faults(name: str, text: str, root: Path) -> Iterator[str]:
    """What is wrong with a record, one sentence each."""
    number = re.fullmatch(r"(\d{4})-[a-z0-9]+(?:-[a-z0-9]+)*\.md", name)
    if number is None:
        yield "its name is not 0000-words-like-this.md"
    elif not re.match(rf"# {number[1]}\. \S.*\n\n", text):
        yield "its title does not open with its number"
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    if parts[1::2] != SECTIONS:
        yield f"its sections are {parts[1::2]}, not {SECTIONS}"
    yield from (f"its section {title!r} is empty" for title, body in _sections(parts) if not body)
    if len(text.splitlines()) > LIMIT:
        yield f"it has more than {LIMIT} lines"
    yield from _not_held(dict(_sections(parts)).get("Held by", ""), root)


def _sections(parts: list[str]) -> list[tuple[str, str]]:
    return [(title, body.strip()) for title, body in zip(parts[1::2], parts[2::2], strict=True)]


def _not_held(body: str, root: Path) -> Iterator[str]:
    named = re.findall(r"`([^`]+)`", body)
    if not any(reference.startswith(("tests/", "benchmarks/")) for reference in named):
        yield "no test holds it"
    for reference in named:
        path, *inner = reference.split("::")
        if not (root / path).exists():
            yield f"{reference}: there is no {path}"
        elif inner and not _defined(inner, (root / path).read_text(encoding="utf-8")):
            yield f"{reference}: nothing of that name is in the file"


def _defined(names: list[str], source: str) -> bool:
    """Whether ``source`` defines the last name inside the one before it, and so on."""
    module = nodes(source)[0]
    assert isinstance(module, ast.Module)
    body: list[ast.stmt] = module.body
    for name in names:
        found = [node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name]
        if not found:
            return False
        body = found[0].body
    return True


def broken_links(page: Path, root: Path) -> list[str]:
    """Links of a page to files that are not there, or to headings that are not in them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [
        link
        for link in re.findall(r"\]\(([^)\s]+)\)", text)
        if not re.match(r"[a-z]+:", link) and not _leads_somewhere(link, page, root)
    ]


def _leads_somewhere(link: str, page: Path, root: Path) -> bool:
    name, _, heading = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists() or not target.is_relative_to(root.resolve()):
        return False
    titles = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE) if heading else []
    return not heading or heading in [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]


@pytest.fixture
def tree(tmp_path):
    """A small root in which the whole record above is whole."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_words.py").write_text(TESTS)
    (tmp_path / "tests" / "rules.py").touch()
    return tmp_path


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name[:4])
def test_every_record_is_whole_and_held(path):
    assert list(faults(path.name, path.read_text(encoding="utf-8"), ROOT)) == []


def test_every_number_is_given_once_and_gaps_are_those_not_used():
    numbers = [path.name[:4] for path in RECORDS]
    assert len(numbers) == len(set(numbers))
    every = {f"{number:04}" for number in range(1, int(numbers[-1]) + 1)}
    assert every - set(numbers) - GIVEN == NOT_USED - GIVEN


def test_every_record_that_is_cited_is_written():
    cited = {}
    for path in [*PAGES, *(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        for number in re.findall(r"\bADR:? (\d{4})", path.read_text(encoding="utf-8")):
            cited.setdefault(number, path.relative_to(ROOT).as_posix())
    known = {path.name[:4] for path in RECORDS}
    assert {number: path for number, path in cited.items() if number not in known} == {}
    assert {"0003", "0004", "0005", "0007", "0012", "0013"} <= set(cited), "nothing was read"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page):
    assert broken_links(page, ROOT) == []


def test_a_whole_record_has_no_faults(tree):
    assert list(faults("0099-words-are-kept.md", WHOLE, tree)) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("# 0099.", "# 0098.", "title"),
        ("## Status\nAccepted.\n\n", "", "sections"),
        ("## Held by", "## Kept by", "sections"),
        ("## Context\nWords fly.\n\n## Decision", "## Decision\nFirst.\n\n## Context", "sections"),
        ("They stay.", "", "'Consequences' is empty"),
        ("They stay.", "They stay.\n" * LIMIT, "lines"),
        ("words.py::test_a_word", "letters.py::test_a_word", "there is no tests/test_letters.py"),
        ("::test_a_word_stays", "::test_a_word_goes", "nothing of that name"),
        ("::TestWords", "", "nothing of that name"),
        ("::test_a_word_stays", "::TestWords::test_a_word_stays", "nothing of that name"),
        ("tests/rules.py", "tests/laws.py", "there is no tests/laws.py"),
        ("tests/rules.py", "test_without_its_file", "there is no test_without_its_file"),
        ("`", "", "no test holds it"),
    ],
)
def test_a_planted_fault_is_found(old, new, fault, tree):
    assert old in WHOLE
    found = list(faults("0099-words-are-kept.md", WHOLE.replace(old, new), tree))
    assert any(fault in sentence for sentence in found), found


@pytest.mark.parametrize("name", ["99-words.md", "0099_words.md", "0099-Words.md", "0099.md"])
def test_a_record_under_another_kind_of_name_is_found(name, tree):
    assert any("its name" in sentence for sentence in faults(name, WHOLE, tree))


def test_planted_links_to_nowhere_are_found(tree):
    (tree / "other.md").write_text("# Other\n\n## What `it` is\n")
    page = tree / "page.md"
    page.write_text(
        "# Page\n[a](other.md) [b](other.md#what-it-is) [c](#page) [d](tests) [e](https://example.org/x)\n"
        "```\n[f](code.md)\n```\n[g](gone.md) [h](other.md#what-it-was) [i](#nowhere) [j](../outside.md)\n"
    )
    (tree.parent / "outside.md").touch()
    assert broken_links(page, tree) == ["gone.md", "other.md#what-it-was", "#nowhere", "../outside.md"]
