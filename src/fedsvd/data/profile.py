"""What a party has: the kind of every column, what is missing, what looks wrong, and what a study would refuse.

One pass over the numbers, in panels, and one over each column of text. A profile holds names, counts and orders of
magnitude, never an entry of the table; it is for the owner of the data and is not sent.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource, as_run
from fedsvd.data.suspects import id_columns, is_list_of_ratings, misread_columns
from fedsvd.data.views import Without
from fedsvd.types import Float

_PANEL_CELLS = 1 << 20
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_DATES_LOOKED_AT = 1000


class Kind(StrEnum):
    """What a column holds."""

    NUMBER = "number"
    WHOLE = "whole number"
    BINARY = "0 or 1"
    TEXT = "text"
    DATE = "date"
    EMPTY = "empty"


@dataclass(frozen=True)
class Column:
    """One column, in counts."""

    name: str
    kind: Kind
    missing: int
    infinite: int = 0
    levels: int = 0  # different texts; 0 for numbers
    constant: bool = False
    decade: int | None = None  # power of ten of the largest magnitude; None for text and zeros

    @property
    def is_text(self) -> bool:
        return self.kind in (Kind.TEXT, Kind.DATE)


@dataclass(frozen=True)
class Profile:
    """A table, column by column; ``refused`` is what a study would stop at, ``suspicious`` what it would not notice."""

    rows: int
    columns: tuple[Column, ...]
    refused: tuple[str, ...]
    suspicious: tuple[str, ...]

    @property
    def missing(self) -> int:
        return sum(column.missing for column in self.columns)


def profile(source: MatrixSource) -> Profile:
    """The profile of one table."""
    names = tuple(source.names) if source.names is not None else tuple(f"x{j}" for j in range(source.shape[1]))
    text = {names.index(name) for name in source.text_names}
    numbers = np.array([j for j in range(len(names)) if j not in text], dtype=np.intp)
    found: dict[int, Column] = {j: _text_column(source, names[j]) for j in sorted(text)}
    for start in range(0, numbers.size, _PANEL_CELLS):
        part = numbers[start : start + _PANEL_CELLS]
        counted = _counted(source, part)
        found.update((int(j), counted.column(place, names[j])) for place, j in enumerate(part.tolist()))
    columns = tuple(found[j] for j in range(len(names)))
    return Profile(source.shape[0], columns, tuple(_refused(columns)), tuple(_suspicious(source, columns)))


def compare(profiles: Mapping[str, Profile]) -> tuple[str, ...]:
    """What differs between tables that are meant to have the same columns: names and kinds."""
    tables = {file: {column.name: column for column in each.columns} for file, each in profiles.items()}
    every = list(dict.fromkeys(name for table in tables.values() for name in table))
    found = []
    for file, table in tables.items():
        lacking = [name for name in every if name not in table]
        if lacking:
            found.append(f"{file} has no column {_listed(lacking)}, which other files have")
    for name in every:
        held = {file: table[name] for file, table in tables.items() if name in table}
        as_text = [file for file, column in held.items() if column.is_text]
        if as_text and len(as_text) < len(held):
            found.append(f"column {name!r} is text in {', '.join(as_text)} and numbers elsewhere")
    common = set(every).intersection(*tables.values())
    if len({tuple(name for name in table if name in common) for table in tables.values()}) > 1:
        found.append("the files have their columns in different orders")
    return tuple(found)


class _Counted:
    """Running counts of some columns of numbers."""

    def __init__(self, width: int) -> None:
        self._missing, self._infinite = np.zeros(width, np.int64), np.zeros(width, np.int64)
        self._whole, self._binary = np.ones(width, bool), np.ones(width, bool)
        self._low, self._high = np.full(width, np.inf), np.full(width, -np.inf)

    def add(self, panel: Float) -> None:
        gaps, infinite = np.isnan(panel), np.isinf(panel)
        skip = gaps | infinite
        self._missing += gaps.sum(axis=0)
        self._infinite += infinite.sum(axis=0)
        self._whole &= (skip | (panel == np.floor(panel))).all(axis=0)
        self._binary &= (skip | (panel == 0) | (panel == 1)).all(axis=0)
        self._low = np.minimum(self._low, np.where(skip, np.inf, panel).min(axis=0))
        self._high = np.maximum(self._high, np.where(skip, -np.inf, panel).max(axis=0))

    def column(self, place: int, name: str) -> Column:
        low, high = float(self._low[place]), float(self._high[place])
        missing, infinite = int(self._missing[place]), int(self._infinite[place])
        if low > high:
            return Column(name, Kind.EMPTY, missing, infinite)
        kind = Kind.BINARY if self._binary[place] else Kind.WHOLE if self._whole[place] else Kind.NUMBER
        largest = max(abs(low), abs(high))
        decade = None if largest == 0 else int(np.floor(np.log10(largest)))
        return Column(name, kind, missing, infinite, constant=low == high, decade=decade)


def _counted(source: MatrixSource, columns: NDArray[np.intp]) -> _Counted:
    counted, wanted = _Counted(columns.size), as_run(columns)
    height = max(1, _PANEL_CELLS // columns.size)
    for start in range(0, source.shape[0], height):
        cells = source._cells(slice(start, min(start + height, source.shape[0])), wanted)
        if isinstance(cells, np.ma.MaskedArray):
            cells = np.ma.filled(cells.astype(np.float64), np.nan)
        counted.add(np.asarray(cells, dtype=np.float64))
    return counted


def _text_column(source: MatrixSource, name: str) -> Column:
    values, missing = source.text(name)
    held = values[~missing]
    levels = len(np.unique(held))
    sample = held[:_DATES_LOOKED_AT].tolist()
    kind = Kind.EMPTY if not sample else Kind.DATE if all(map(_DATE.fullmatch, sample)) else Kind.TEXT
    return Column(name, kind, int(missing.sum()), levels=levels, constant=levels == 1)


def _refused(columns: Sequence[Column]) -> Iterator[str]:
    """What a study would stop at, were these columns its matrix."""
    text = [column.name for column in columns if column.is_text]
    if text:
        yield f"{_columns(text)} text, not numbers: name it as id, leave it out (drop), or encode it (categories)"
    gaps = [column for column in columns if column.missing and not column.is_text]
    if gaps:
        total = sum(column.missing for column in gaps)
        places = _listed([f"{c.name} ({c.missing})" for c in gaps], quote=False)
        yield f'{total} entries are missing, in {places}: missing = "mean" or "drop" says what becomes of them'
    infinite = [column.name for column in columns if column.infinite]
    if infinite:
        yield f"{_columns(infinite)} infinite entries"


def _suspicious(source: MatrixSource, columns: Sequence[Column]) -> Iterator[str]:
    """What a study would take for data without a word."""
    complete = [j for j, column in enumerate(columns) if not column.is_text and not column.missing + column.infinite]
    ids = id_columns(Without(source, complete)) if complete else ()
    ratings = len(complete) == len(columns) and is_list_of_ratings(source)
    if ids:
        yield f"column {', '.join(ids)} numbers the rows, as an id does: name it as id, or leave it out"
    if ratings:
        yield "every row looks like one rating (user, item, mark), where a study wants a table of users by items"
    for column in columns:
        if column.is_text and column.levels == source.shape[0] > 1:
            yield f"column {column.name!r} has another text in each row, as an id has"
    yield from map(str, misread_columns(source))
    constant = [column.name for column in columns if column.constant]
    if constant:
        yield f"{_columns(constant)} the same value in every row"
    empty = [column.name for column in columns if column.kind is Kind.EMPTY]
    if empty:
        yield f"{_columns(empty)} nothing at all"


def _columns(names: Sequence[str]) -> str:
    """The beginning of a sentence about these columns."""
    return f"column {_listed(names)} holds" if len(names) == 1 else f"columns {_listed(names)} hold"


def _listed(names: Sequence[str], quote: bool = True) -> str:
    shown = [repr(name) if quote else name for name in names[:10]]
    return ", ".join(shown) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
