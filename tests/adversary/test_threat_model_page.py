"""The threat model names the tests that hold its lines; this holds the naming."""

import re
from pathlib import Path

from fedsvd.protocol.messages import Message

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "threat-model.md"
KIT = TESTS.parent / "docs" / "reference" / "kit.md"
SECURITY = TESTS.parent / "SECURITY.md"


def defined():
    return {
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }


def test_every_test_that_the_threat_model_and_the_past_mistakes_name_exists():
    pages = PAGE.read_text(encoding="utf-8") + SECURITY.read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", pages))
    assert len(named) > 45
    assert named - defined() == set()


def test_every_test_and_file_that_the_page_of_the_kit_names_exists():
    page = KIT.read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:[\w/]+\.py::)?(test_\w+)`", page))
    files = re.findall(r"`([\w/]+\.py)(?:::\w+)?`", page)
    assert len(named) > 30
    assert named - defined() == set()
    assert [name for name in files if not (TESTS / name).is_file()] == []


def test_every_stated_leak_of_this_folder_stands_on_the_page():
    page = PAGE.read_text(encoding="utf-8")
    stated = [
        name
        for path in Path(__file__).parent.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+_this_is_stated)\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(stated) > 8
    assert [name for name in stated if name not in page] == []


def test_every_attack_that_the_page_names_is_a_function():
    product = TESTS.parent / "src" / "fedsvd" / "audit" / "attacks"
    lab = TESTS.parent / "lab" / "src" / "fedsvd_lab" / "attacks"
    files = [path for folder in (product, lab) for path in folder.glob("*.py") if path.stem != "__init__"]
    modules = {path.stem: path.read_text(encoding="utf-8") for path in files}
    named = re.findall(r"`(\w+)\.(\w+)`", PAGE.read_text(encoding="utf-8"))
    ours = {(module, name) for module, name in named if module in modules}
    assert len(ours) > 18
    assert [pair for pair in ours if f"def {pair[1]}(" not in modules[pair[0]]] == []
    silent = {"view", "unmix", "score", "calibration", "ica_table"}  # no attacks: readers, tools, scores, tables
    assert {module for module, _ in ours} >= set(modules) - silent


def test_every_message_between_parties_has_its_line_in_the_map_and_every_line_its_test():
    page = PAGE.read_text(encoding="utf-8")
    lines = page[page.index("## Step, message, test") :].split("\n## ")[0].splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| ") and "`" in line]
    mapped = {re.search(r"`(\w+)`", row[1])[1] for row in rows}
    kinds = [kind for kind in Message.__subclasses__() if kind.__module__ == Message.__module__]
    spoken = {kind.__name__ for kind in kinds} - {"Begin"}  # which stays at home
    assert mapped == spoken
    assert all(re.search(r"`test_\w+`", row[-1]) for row in rows)


def test_every_correction_has_its_test():
    text = (Path(__file__).parent / "test_corrections.py").read_text(encoding="utf-8")
    numbers = {int(number) for number in re.findall(r"^def test_C(\d+)_", text, re.MULTILINE)}
    assert numbers == set(range(1, 13))
