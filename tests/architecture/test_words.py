"""Plain technical English: words that mean something only in this codebase stand in no file and on no page.

Prose and identifiers are both read, of sources, templates, tests and benchmarks: ``make_room`` and ``_TheDoor`` are
found like ``room`` and ``door``. What replaces them is in CONTRIBUTING.md. The second half is about citations: a page,
a section or a file that is cited must exist.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "fedsvd").rglob("*.py"))
TEMPLATES = [path for kind in ("html", "js", "css") for path in sorted((ROOT / "src" / "fedsvd").rglob(f"*.{kind}"))]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / f"{n}.md" for n in ("README", "CONTRIBUTING", "SECURITY"))]
TESTS = [path for path in sorted((ROOT / "tests").rglob("*.py")) if path != Path(__file__)]
OTHERS = [path for folder in ("benchmarks", "examples") for path in sorted((ROOT / folder).rglob("*.py"))]
CITING = [*SOURCES, *PAGES, *TESTS]
READ = [*SOURCES, *TEMPLATES, *PAGES, *TESTS, *OTHERS]

WORDS = (
    *(
        "room",
        "rooms",
        "floor",
        "floors",
        "door",
        "doors",
        "house",
        "houses",
        "dice",
        "desk",
        "desks",
        "voice",
        "voices",
    ),
    *(
        "foretell",
        "foretells",
        "foretold",
        "hearer",
        "hearers",
        "speaker",
        "speakers",
        "whoever",
        "somebody",
        "everybody",
        "anybody",
        "holdings",
        "keeper",
        "keepers",
    ),
)
PHRASES = ("on another way", "in mid-", "for want of", "said aloud")
# What may stay, as (end of a file's name, line it stands in), and why.
ALLOWED = (
    ("results/result.py", '_READERS = {None: "everybody"', "the value is stored in manifests that people have"),
    ("docs/reference/formats.md", "`everybody`, `party`, `csp` or `authority`", "documents that stored value"),
)
MADE_UP = "docs/x.md"  # a page in a test of error texts


# One look at a whole text, then at a line: most have none of these letters in a row, and are not taken apart.
_SUSPECT = re.compile("|".join((*WORDS, *PHRASES)))


def found(text: str) -> Iterator[tuple[int, str, str]]:
    """Line number, word and line of every banned word; ``floor(`` is mathematics."""
    if not _SUSPECT.search(text.lower()):
        return
    for number, line in enumerate(text.splitlines(), 1):
        if not _SUSPECT.search(line.lower()):
            continue
        plain = re.sub(r"\bfloor\(", "(", line)
        apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", plain).replace("_", " ").lower()
        for word in re.findall(r"[a-z]+", apart):
            if word in WORDS:
                yield number, word, line
        for phrase in PHRASES:
            if phrase in plain.lower():
                yield number, phrase, line


def banned(path: Path) -> list[str]:
    name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    if name == "CONTRIBUTING.md":  # the list of what not to write
        text = re.sub(r"\n## Words\n.*?(?=\n## )", "", text, flags=re.DOTALL)
    return [
        f"{name}:{number}: {word}"
        for number, word, line in found(text)
        if not any(name.endswith(end) and part in line for end, part, _ in ALLOWED)
    ]


def cited_in_vain(text: str) -> list[str]:
    """Citations of pages and sections that are not in this repository."""
    pages = re.findall(r"\bdocs/[\w/.-]+\.md\b", text)
    missing = [page for page in pages if page != MADE_UP and not (ROOT / page).exists()]
    missing += re.findall(r"(?<![\w/-])0\d-(?:product|protocol|architecture|style|privacy|experiments)\b", text)
    # The specification has sections 1 to 7 and steps 0 to 9, and no section 5.2.
    return missing + re.findall(r"[Ss]pecification, (?:sections? )?\d+\.\d[\d.]*", text)


@pytest.mark.parametrize(
    "text",
    [
        "There is room for it.",
        "def make_room(self): ...",
        "class _TheDoor: ...",
        "bits filled with dice",
        "Whoever asks",
        "fingerprints go on another way",
        "it stopped in mid-study",
    ],
)
def test_a_banned_word_is_found_in_prose_and_in_names(text):
    assert list(found(text))


@pytest.mark.parametrize("text", ["np.floor(x)", "x = math.floor(y)", "indices = np.triu_indices(3)", "indoors"])
def test_other_words_are_let_be(text):
    assert not list(found(text))


def test_a_citation_of_a_page_that_is_not_here_is_found():
    text = "see docs/nowhere.md and 02-protocol, section 3, and the specification, 5.2.4, and docs/specification.md"
    assert cited_in_vain(text) == ["docs/nowhere.md", "02-protocol", "specification, 5.2.4"]


def test_no_word_has_a_meaning_of_its_own_here():
    assert [place for path in READ for place in banned(path)] == []


def test_templates_and_tests_are_read():
    assert {path.suffix for path in TEMPLATES} == {".html", ".js", ".css"}
    assert len(TESTS) > 300


def test_every_exception_is_needed():
    for end, part, why in ALLOWED:
        paths = [path for path in (*SOURCES, *PAGES) if path.as_posix().endswith(end)]
        assert any(part in path.read_text(encoding="utf-8") for path in paths), f"gone: {part} ({why})"


def test_what_is_cited_is_in_the_repository():
    cited = {path.relative_to(ROOT).as_posix(): cited_in_vain(path.read_text(encoding="utf-8")) for path in CITING}
    assert {name: missing for name, missing in cited.items() if missing} == {}


EXPLAINING = ("explanation/life-of-a-job", "explanation/speed")
NAMING_FILES = ("../CONTRIBUTING", "architecture", "glossary", "protocol", *EXPLAINING)


@pytest.mark.parametrize("page", NAMING_FILES)
def test_files_that_a_page_names_exist(page):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", text)
    assert named
    assert not [name for name in named if not (ROOT / "src" / "fedsvd" / name).exists() and not (ROOT / name).exists()]


def test_the_map_of_packages_has_every_package():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("## Packages")[1].split("\n## ")[0]
    mapped = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    there = [path for path in (ROOT / "src" / "fedsvd").iterdir() if not path.name.startswith("_")]
    assert sorted(mapped) == sorted(path.stem for path in there if path.is_dir() or path.suffix == ".py")
