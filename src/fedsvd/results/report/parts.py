"""What a report is made of: sections with words, pictures and small tables."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Grid:
    """A small table; ``title`` is its caption."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    """A drawing with what it shows, and its numbers for those who would rather read them."""

    drawing: str
    caption: str
    numbers: Grid | None = None


@dataclass(frozen=True)
class Section:
    """One part of the page, under a heading."""

    id: str
    title: str
    words: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    grids: tuple[Grid, ...] = ()
    lines: tuple[str, ...] = ()  # a list
    code: str = ""


def grid(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Grid:
    """A table from anything that prints."""
    return Grid(title, tuple(header), tuple(tuple(str(cell) for cell in row) for row in rows))
