"""Widths of text in real fonts, read from the files that matplotlib brings: DejaVu is the widest common fallback."""

from functools import cache
from pathlib import Path

import pytest

_UNIT = 1000


@cache
def _font(name: str):
    matplotlib = pytest.importorskip("matplotlib")
    ft2font = pytest.importorskip("matplotlib.ft2font")
    font = ft2font.FT2Font(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf"))
    font.set_size(_UNIT, 72)
    return font


@cache
def _advance(name: str, character: str) -> float:
    ft2font = pytest.importorskip("matplotlib.ft2font")
    # An enumeration from matplotlib 3.10 on; a number before.
    flags = ft2font.LoadFlags.NO_HINTING if hasattr(ft2font, "LoadFlags") else ft2font.LOAD_NO_HINTING
    return _font(name).load_char(ord(character), flags=flags).linearHoriAdvance / 65536 / _UNIT


def width(words: str, name: str = "DejaVuSans") -> float:
    """Of a line at font size 1, without kerning, which only makes it shorter."""
    return sum(_advance(name, character) for character in words)


def widest(words: str, bold: bool = False) -> float:
    """In the widest of several fonts."""
    names = (
        ("DejaVuSans-Bold", "DejaVuSansMono-Bold", "DejaVuSerif-Bold")
        if bold
        else ("DejaVuSans", "DejaVuSansMono", "DejaVuSerif")
    )
    return max(width(words, name) for name in names)
