"""The README's pictures are those of the program: badges say what is so, nothing is fetched to show them, and no text
leaves its box, whatever font the reader has."""

import re
import sys
from xml.etree import ElementTree

import pytest
from tests.docs.snippets import DOCS, ROOT
from tests.unit.results.report.fonts import widest

sys.path.insert(0, str(DOCS / "_ext"))
import readme_figures

FIGURES = sorted((DOCS / "figures").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


def test_badges_and_the_figure_of_a_federation_are_those_that_would_be_drawn():
    drawn = {f"badge-{name}": picture for name, picture in readme_figures.badges().items()}
    for name, picture in {**drawn, "federation": readme_figures.federation()}.items():
        stored = (DOCS / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert stored == picture, "run `python docs/_ext/readme_figures.py`"


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.name)
def test_a_figure_fetches_nothing_and_can_be_heard(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"url\(\s*[\"']?(?:https?:)?//|(?:href|src)=[\"'](?:https?:)?//|@import|@font-face", text)
    assert "<script" not in text
    shown = [name.read_text(encoding="utf-8") for name in (ROOT / "README.md", *DOCS.rglob("*.md"))]
    assert any(path.name in page for page in shown), "a figure that no page shows"


def pictures(root):
    """Every drawing of a file with its size: the file itself, or the drawings inside it."""
    inner = [node for node in root if node.tag == f"{SVG}svg"]
    for node in inner or [root]:
        box = node.get("viewBox") or f"0 0 {node.get('width')} {node.get('height')}"
        yield node, tuple(map(float, box.split()[2:]))


def extent(node, size):
    """Left and right end of a line of text in the widest font."""
    weight = node.get("class", "") == "strong"
    width = size * widest("".join(node.itertext()), weight)
    x, share = float(node.get("x")), {"middle": 0.5, "end": 1.0}.get(node.get("text-anchor"), 0.0)
    return x - share * width, x + (1 - share) * width


def leaving(text: str) -> list[str]:
    """Lines of text that are wider than the picture, or than the smallest box they stand in."""
    root = ElementTree.fromstring(text)
    size = float(re.search(r"text\s*{\s*font:\s*([\d.]+)px", text)[1]) if "text{font" in text else 11.0
    found = []
    for picture, (width, height) in pictures(root):
        boxes = [(0.0, 0.0, width, height)]
        for rect in picture.iter(f"{SVG}rect"):
            x, y, w, h = (float(rect.get(key, 0)) for key in ("x", "y", "width", "height"))
            boxes.append((x, y, x + w, y + h))
        for node in picture.iter(f"{SVG}text"):
            x, y = float(node.get("x")), float(node.get("y")) - size / 3
            around = [
                box for box in boxes if box[0] <= x <= box[2] and box[1] <= y <= box[3] and box[3] - box[1] >= size
            ]
            box = min(around, key=lambda box: (box[2] - box[0]) * (box[3] - box[1]))
            left, right = extent(node, size)
            if left < box[0] or right > box[2]:
                found.append("".join(node.itertext()))
    return found


@pytest.mark.parametrize("path", [path for path in FIGURES if path.name != "demo.svg"], ids=lambda path: path.name)
def test_no_text_leaves_its_box_in_the_widest_font(path):
    text = path.read_text(encoding="utf-8")
    assert "<text" in text
    assert leaving(text) == []


def test_text_that_leaves_its_box_is_found():
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 40"><style>text{font:14px sans-serif}</style>'
    box = '<rect x="0" y="0" width="100" height="40"/>'
    short, long = ('<text x="10" y="20">' + words + "</text>" for words in ("mask, pad", "compress, rotate, mask, pad"))
    assert leaving(f"{head}{box}{short}</svg>") == []
    assert leaving(f"{head}{box}{long}</svg>") == ["compress, rotate, mask, pad"]


def test_every_line_of_the_terminal_has_its_length_written_down():
    """Box drawing characters must meet, so a browser is told how long each piece is."""
    root = ElementTree.fromstring((DOCS / "figures" / "demo.svg").read_text(encoding="utf-8"))
    width = float(root.get("viewBox").split()[2])
    lines = [node for node in root.iter(f"{SVG}text") if "title" not in node.get("class")]
    assert lines
    for node in lines:
        assert float(node.get("x")) + float(node.get("textLength")) <= width


def test_a_terminal_is_drawn_from_what_was_said():
    picture = readme_figures.terminal("the numbers are right\n")
    assert "numbers" in picture
    assert "@font-face" not in picture
