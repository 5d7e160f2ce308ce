"""The threat model names the tests that hold its lines; this holds the naming."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "threat-model.md"


def defined():
    return {
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }


def test_every_test_that_the_threat_model_names_exists():
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))
    assert len(named) > 30
    assert named - defined() == set()


def test_every_stated_leak_of_this_folder_stands_on_the_page():
    page = PAGE.read_text(encoding="utf-8")
    stated = [
        name
        for path in Path(__file__).parent.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+_this_is_stated)\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(stated) > 8
    assert [name for name in stated if name not in page] == []


def test_every_correction_has_its_test():
    text = (Path(__file__).parent / "test_corrections.py").read_text(encoding="utf-8")
    numbers = {int(number) for number in re.findall(r"^def test_C(\d+)_", text, re.MULTILINE)}
    assert numbers == set(range(1, 13))
