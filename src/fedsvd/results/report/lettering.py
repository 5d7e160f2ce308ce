"""How wide text is in the widest font it may be shown in, and text cut or wrapped to a width.

A drawing does not know the reader's font. Widths here are at least those of DejaVu Sans, DejaVu Sans Mono, DejaVu
Serif, Liberation Sans and Verdana for every character, so that what fits by this file fits in any of them.
"""

import unicodedata
from collections.abc import Iterator, Sequence

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""

SIZE = 12.0
"""The font size of every drawing, in units of the drawing."""

_BOLD = 1.13  # of the regular width, at least, for the widest characters
_WIDE, _BROAD, _CAPITAL, _PLAIN = 1.08, 0.92, 0.9, 0.66  # in units of the font size
_WIDEST, _BROADER = frozenset("mMW@%—…→←"), frozenset("w+<=>~^#&×÷≤≥±−")
_LATIN = 0x250


def text_width(words: str, *, size: float = SIZE, bold: bool = False) -> float:
    """The most that a line of text takes."""
    return sum(map(_share, words)) * size * (_BOLD if bold else 1.0)


def _share(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if character in _WIDEST:
        return _WIDE
    if character in _BROADER:
        return _BROAD
    if unicodedata.east_asian_width(character) in "WF":
        return _WIDE
    if ord(character) < _LATIN:
        return _CAPITAL if character.isupper() else _PLAIN
    return _WIDE if character.isalpha() else _BROAD


def shortened(words: str, width: float, *, size: float = SIZE, bold: bool = False) -> str:
    """Text that fits a width: cut in the middle, because names of columns often differ at their end alone."""
    if text_width(words, size=size, bold=bold) <= width:
        return words
    for left in range(len(words) - 1, 0, -1):
        head = (left + 1) // 2
        cut = f"{words[:head].rstrip()}…{words[len(words) - (left - head) :].lstrip()}"
        if text_width(cut, size=size, bold=bold) <= width:
            return cut
    return "…"


def in_columns(words: Sequence[str], width: float, gap: float) -> Iterator[tuple[float, int]]:
    """Where each entry of a legend stands: its place across and its line, from left to right."""
    x, line = 0.0, 0
    for word in words:
        needed = text_width(word) + gap
        if x and x + needed > width:
            x, line = 0.0, line + 1
        yield x, line
        x += needed


def placed(
    wanted: Sequence[tuple[str, tuple[float, float]]], dots: Sequence[tuple[float, float]], frame: Box
) -> list[tuple[float, float] | None]:
    """Where the name of each mark begins, on its baseline, so that no two names overlap and none covers a mark.

    Of the places around a mark the one that covers the fewest other ``dots`` is taken, and none (the name is left
    out) where each of them meets a name, a mark or the edge.
    """
    taken: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for _, (x, y) in wanted]
    found: list[tuple[float, float] | None] = []
    for own, (words, mark) in enumerate(wanted):
        others = taken[:own] + taken[own + 1 :]
        free = [spot for spot in _around(mark, text_width(words)) if _free(_box(spot, words), others, frame)]
        best = min(free, key=lambda spot: _covered(_box(spot, words), dots), default=None)
        found.append(best)
        if best is not None:
            taken.append(_box(best, words))
    return found


def _around(mark: tuple[float, float], width: float) -> list[tuple[float, float]]:
    x, y = mark
    across = (x + 7, x - 7 - width, x - width / 2)
    sides = [(place, y + rise) for rise in (4, -5, 13) for place in across[:2]]
    return [*sides, (across[2], y - 8), (across[2], y + 17)]


def _box(spot: tuple[float, float], words: str) -> Box:
    return spot[0], spot[1] - SIZE, spot[0] + text_width(words), spot[1] + SIZE / 4


def _free(box: Box, taken: Sequence[Box], frame: Box) -> bool:
    inside = box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] and box[3] <= frame[3]
    return inside and not any(_meet(box, other) for other in taken)


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _covered(box: Box, dots: Sequence[tuple[float, float]]) -> int:
    """How many dots a name in this box would cover."""
    return sum(_holds(box, dot) for dot in dots)


def _holds(box: Box, dot: tuple[float, float]) -> bool:
    return box[0] - 2 <= dot[0] <= box[2] + 2 and box[1] - 2 <= dot[1] <= box[3] + 2
