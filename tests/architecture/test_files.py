"""Files open with a paragraph, stay short, and name no machine they were written on."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "fedsvd"
SOURCES = sorted(PACKAGE.rglob("*.py"))
LIMIT = 450  # the style page asks at 250 which second subject has moved in; this is where the answer is due
NOT_OURS = {"__pycache__", "build", "dist", "results", "shared"}
# A clone may stand directly in one of these, and texts may well name them.
ALLS_FOLDERS = {
    "/",
    "/app",
    "/builds",
    "/data",
    "/home",
    "/mnt",
    "/opt",
    "/root",
    "/src",
    "/srv",
    "/tmp",
    "/usr",
    "/var",
}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def our_files(folder: Path):
    for path in sorted(folder.iterdir()):
        if path.name in NOT_OURS or (path.name.startswith(".") and path.name not in (".ci", ".github")):
            continue
        if path.is_dir():
            yield from our_files(path)
        elif path.is_file() and path.stat().st_size < 1 << 22:
            yield path


def machine_paths(root: Path) -> re.Pattern[bytes]:
    """Finds the folder of the clone, and the folder above it unless that could be anyone's."""
    places = [str(root)]
    if str(root.parent) not in ALLS_FOLDERS:
        places.append(str(root.parent) + os.sep)
    return re.compile(rb"(?<![\w.~-])(?:" + b"|".join(re.escape(place.encode()) for place in places) + rb")")


def opens_with_a_paragraph(text: str) -> bool:
    """Whether the first words of a file say what lives there: a sentence, or one that leads on to a drawing."""
    if not text.startswith('"""'):
        return False
    paragraph = text[3:].split('"""')[0].split("\n\n")[0].strip()
    return len(paragraph.split()) >= 5 and paragraph[-1] in ".:"


def test_a_file_opens_with_a_paragraph():
    texts = {name_of(path): path.read_text(encoding="utf-8") for path in SOURCES}
    assert [name for name, text in texts.items() if text and not opens_with_a_paragraph(text)] == []


@pytest.mark.parametrize("text", ["import os\n", '"""Tools."""\n', '"""What lives here is not yet said"""\n'])
def test_a_file_without_one_is_found(text):
    assert not opens_with_a_paragraph(text)


def test_packages_below_the_first_have_empty_openings():
    openings = [path for path in SOURCES if path.name == "__init__.py" and path.parent != PACKAGE]
    assert openings
    assert [name_of(path) for path in openings if path.read_bytes()] == []


def test_every_folder_of_modules_is_a_package():
    folders = {path.parent for path in SOURCES}
    assert [name_of(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_no_file_has_more_lines_than_the_limit():
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {name: count for name, count in lines.items() if count > LIMIT} == {}


def test_no_file_names_the_machine_it_was_written_on():
    pattern = machine_paths(ROOT)
    files = list(our_files(ROOT))
    assert ROOT / "pyproject.toml" in files
    assert [name_of(path) for path in files if pattern.search(path.read_bytes())] == []


@pytest.mark.parametrize(
    ("clone", "text", "found"),
    [
        ("/build/7/fedsvd", b"see /build/7/fedsvd/src", True),
        ("/build/7/fedsvd", b"see /build/7/data", True),
        ("/build/7/fedsvd", b"cd '/build/7/fedsvd'", True),
        ("/build/7/fedsvd", b"other/build/7/", False),
        ("/build/7/fedsvd", b"/build/8/", False),
        ("/tmp/fedsvd", b"a file in /tmp/", False),
        ("/tmp/fedsvd", b"a file in /tmp/fedsvd/", True),
    ],
)
def test_a_planted_machine_path_is_found(clone, text, found):
    assert bool(machine_paths(Path(clone)).search(text)) is found
