"""What a party has: the kind of every column, what is missing, what looks wrong, and what a study would refuse.

One pass over the numbers, in panels, and one over each column of text. A profile holds names, counts and orders of
magnitude, never an entry of the table; it is for the owner of the data and is not sent.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource, as_run
from fedsvd.data.suspects import id_columns, in_thousandths, is_list_of_ratings, misread_columns
from fedsvd.data.views import Without
from fedsvd.data.written import Written, map_line, misread_texts, written
from fedsvd.types import Float

_PANEL_CELLS = 1 << 20


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
    written: Written | None = None  # what its texts are, where they are not meant as text

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
    maps: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict
    )  # words of a map that would read it otherwise

    @property
    def missing(self) -> int:
        return sum(column.missing for column in self.columns)


def profile(source: MatrixSource, told: Collection[str] = ()) -> Profile:
    """The profile of one table; of the columns that are ``told`` the map of the table says how numbers are written."""
    names = tuple(source.names) if source.names is not None else tuple(f"x{j}" for j in range(source.shape[1]))
    text = {names.index(name) for name in source.text_names}
    numbers = np.array([j for j in range(len(names)) if j not in text], dtype=np.intp)
    found: dict[int, Column] = {j: _text_column(source, names[j]) for j in sorted(text)}
    for start in range(0, numbers.size, _PANEL_CELLS):
        part = numbers[start : start + _PANEL_CELLS]
        counted = _counted(source, part)
        found.update((int(j), counted.column(place, names[j])) for place, j in enumerate(part.tolist()))
    columns = tuple(found[j] for j in range(len(names)))
    misread = misread_columns(source)
    maps: dict[str, Mapping[str, object]] = {each.name: each.written.words for each in columns if each.written}
    maps |= {each.name: each.words for each in misread}
    thousands = [name for name in in_thousandths(source) if name not in maps and name not in told]
    either = (_either(thousands),) if thousands else ()
    suspicious = (*_suspicious(source, columns), *map(str, misread), *either)
    return Profile(source.shape[0], columns, tuple(_refused(columns)), suspicious, maps)


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
    levels, counts = np.unique(values[~missing], return_counts=True)
    found = written(dict(zip(levels.tolist(), counts.tolist(), strict=True)))
    kind = Kind.EMPTY if not len(levels) else Kind.DATE if found and "date" in found.words else Kind.TEXT
    return Column(name, kind, int(missing.sum()), levels=len(levels), constant=len(levels) == 1, written=found)


def _refused(columns: Sequence[Column]) -> Iterator[str]:
    """What a study would stop at, were these columns its matrix."""
    text = [column.name for column in columns if column.is_text and column.written is None]
    if text:
        ways = "name it as id (id), make indicators of its levels (categories), or leave it out (drop)"
        yield f"{_columns(text)} text, not numbers: {ways}"
    for fault, fix in misread_texts({column.name: column.written for column in columns}):
        yield f"{fault}: {fix}"
    gaps = [column for column in columns if column.missing and not column.is_text]
    if gaps:
        total = sum(column.missing for column in gaps)
        places = listed([f"{c.name} ({c.missing})" for c in gaps], quote=False)
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
        yield f"column {', '.join(ids)} numbers the rows, as an id does: name it as id (id), or leave it out (drop)"
    if ratings:
        yield "every row looks like one rating (user, item, mark), where a study wants a table of users by items"
    for column in columns:
        if column.is_text and column.written is None and column.levels == source.shape[0] > 1:
            yield f"column {column.name!r} has another text in each row, as an id has: name it as id (id)"
    constant = [column.name for column in columns if column.constant]
    if constant:
        yield f"{_columns(constant)} the same value in every row"
    empty = [column.name for column in columns if column.kind is Kind.EMPTY]
    if empty:
        yield f"{_columns(empty)} nothing at all"


def _either(names: Sequence[str]) -> str:
    """What is said of columns that may be decimals or thousands, with the line of a map for either."""
    first, several = names[0], len(names) > 1
    have = (
        "s {} have three decimals in all their entries, and are"
        if several
        else " {} has three decimals in all its entries, and is"
    )
    return (
        f"column{have.format(listed(names))} read so: 1.564 is less than 2. Where it was written for 1564, "
        f"{map_line(first, {'thousands': '.'})} in the map of the table; {map_line(first, {'decimal': '.'})} says "
        "that these are decimals"
    )


def _columns(names: Sequence[str]) -> str:
    """The beginning of a sentence about these columns."""
    return f"column {listed(names)} holds" if len(names) == 1 else f"columns {listed(names)} hold"


def listed(names: Sequence[str], quote: bool = True) -> str:
    """Names for a sentence, ten of them at most."""
    shown = [repr(name) if quote else name for name in names[:10]]
    return ", ".join(shown) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
