"""The README's pictures are those of the program: badges say what is so, and nothing is fetched to show them."""

import re
import sys

import pytest
from tests.docs.snippets import DOCS, ROOT

sys.path.insert(0, str(DOCS / "_ext"))
import readme_figures

FIGURES = sorted((DOCS / "figures").glob("*.svg"))


def test_badges_are_true():
    for name, picture in readme_figures.badges().items():
        kept = (DOCS / "figures" / f"badge-{name}.svg").read_text(encoding="utf-8")
        assert kept == picture, "run `python docs/_ext/readme_figures.py`"


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.name)
def test_a_figure_fetches_nothing_and_can_be_heard(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"url\(\s*[\"']?(?:https?:)?//|(?:href|src)=[\"'](?:https?:)?//|@import|@font-face", text)
    assert "<script" not in text
    shown = [name.read_text(encoding="utf-8") for name in (ROOT / "README.md", *DOCS.rglob("*.md"))]
    assert any(path.name in page for page in shown), "a figure that no page shows"


def test_a_terminal_is_drawn_from_what_was_said():
    picture = readme_figures.terminal("the numbers are right\n")
    assert "numbers" in picture
    assert "@font-face" not in picture
