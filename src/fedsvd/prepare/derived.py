"""Tables made from a party's table as they are read: columns renamed, filled, encoded, standardised, adjusted.

A derived table is a source like any other, so everything after it streams; it reads the cells it needs of its base with
NaN where an entry is missing. What is no column of it (ids, labels, text) is still read from the base by name.
"""

import hashlib
import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource, as_run
from fedsvd.data.views import NumberedNames, Transposed, View
from fedsvd.errors import DataError
from fedsvd.types import Float

PANEL_CELLS = 1 << 20


class Derived(View):
    """A table whose rows are those of ``base`` and whose columns are computed from it."""

    def __init__(self, base: MatrixSource, names: Sequence[str]) -> None:
        super().__init__(base, (base.shape[0], len(names)), np.dtype(np.float64), names)

    def column(self, name: str) -> NDArray[Any]:
        return super().column(name) if name in (self.names or ()) else self._base.column(name)

    def text(self, name: str) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        return super().text(name) if name in (self.names or ()) else self._base.text(name)

    @abstractmethod
    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]: ...


class SideBySide(Derived):
    """The columns of two tables of the same rows."""

    def __init__(self, left: MatrixSource, right: MatrixSource) -> None:
        super().__init__(left, distinct((*names_of(left), *names_of(right))))
        self._right = right

    @property
    def text_names(self) -> frozenset[str]:
        return self._base.text_names | self._right.text_names

    def column(self, name: str) -> NDArray[Any]:
        return self._right.column(name) if name in names_of(self._right) else self._base.column(name)

    def text(self, name: str) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        return self._right.text(name) if name in names_of(self._right) else self._base.text(name)

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        wanted, ours = positions(columns, self.shape[1]), self._base.shape[1]
        left, right = wanted < ours, wanted >= ours
        out = np.empty((len(positions(rows, self.shape[0])), wanted.size), order="F")
        if left.any():
            out[:, left] = self._base.raw(rows, as_run(wanted[left]))
        if right.any():
            out[:, right] = self._right.raw(rows, as_run(wanted[right] - ours))
        return out

    def expect_unchanged(self) -> None:
        self._base.expect_unchanged()
        self._right.expect_unchanged()

    @property
    def settled(self) -> bool:
        return self._base.settled and self._right.settled

    @property
    def has_files(self) -> bool:
        return self._base.has_files or self._right.has_files

    def _place(self, row: int, column: int) -> str:
        ours = self._base.shape[1]
        return self._base._place(row, column) if column < ours else self._right._place(row, column - ours)


class Committed(Transposed):
    """A table turned over, as a session has it, whose digest covers numbers, gaps and texts: for a preparation."""

    def content_digest(self) -> bytes:
        return super().content_digest() if self.made_up else table_digest(self.T)


def table_digest(table: MatrixSource) -> bytes:
    """SHA-256 of a table as its party has it before tables are prepared together; one pass.

    Names and shape as JSON; then the columns of numbers row after row, float64 little-endian, one NaN for every gap;
    then each column of text, entry by entry: its length in UTF-8 (8 bytes, all ones for a gap) and its bytes.
    """
    names = names_of(table)
    text = [name for name in names if name in table.text_names]
    numbers = np.array([j for j, name in enumerate(names) if name not in table.text_names], dtype=np.intp)
    digest = hashlib.sha256(json.dumps([list(names), list(table.shape)], separators=(",", ":")).encode())
    if numbers.size:
        height = max(1, PANEL_CELLS // numbers.size)
        for start in range(0, table.shape[0], height):
            cells = table.raw(slice(start, min(start + height, table.shape[0])), as_run(numbers))
            digest.update(np.ascontiguousarray(np.where(np.isnan(cells), np.nan, cells), "<f8").data)
    for name in text:
        values, gaps = table.text(name)
        for value, gap in zip(values.tolist(), gaps.tolist(), strict=True):
            content = value.encode()
            digest.update(b"\xff" * 8 if gap else len(content).to_bytes(8, "little") + content)
    return digest.digest()


def names_of(source: MatrixSource) -> tuple[str, ...]:
    """The column names; x0, x1, ... where the data has none."""
    return tuple(source.names if source.names is not None else NumberedNames(source.shape[1])[:])


def distinct(names: Sequence[str]) -> Sequence[str]:
    """The names of a table to be made; refused where two columns of it would have one name."""
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        fault = f"two columns of the prepared table would be called {twice[0]!r}"
        raise DataError(fault, "call the column of the data otherwise (rename), or leave it out (drop)")
    return names


def row_panels(source: MatrixSource) -> Iterator[tuple[slice, Float]]:
    """All rows, about a million cells at a time, NaN where an entry is missing; with where each panel lies."""
    height = max(1, PANEL_CELLS // source.shape[1])
    for start in range(0, source.shape[0], height):
        rows = slice(start, min(start + height, source.shape[0]))
        yield rows, source.raw(rows, slice(0, source.shape[1]))


def positions(index: Index, length: int) -> NDArray[np.intp]:
    """Which of ``0 .. length-1`` an index means."""
    return np.arange(length)[index]
