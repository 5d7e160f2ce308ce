"""Matrices in text tables: ``.csv`` and ``.tsv``, also gzipped.

Text cannot be entered in the middle, so the file is parsed once, in chunks, when it is opened, and its numbers
go to a private temporary file (``storage/file_cells.py``); rows and columns are then read from there in any order and
as often as needed. Memory is bounded by the chunk while opening and by the panel after. Text columns (ids, dates)
may stand in the table: they are refused only when the matrix is read with them in it. The file itself is
opened for reading only.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.checks import not_numeric, text_with_gaps, to_text
from fedsvd.data.csv_layout import MISSING, Layout, lay_out
from fedsvd.data.csv_parse import ArrowGaveUp, arrow_cells, arrow_chunks, plain_cells, plain_chunks
from fedsvd.data.source import Index, MatrixSource
from fedsvd.storage.file_cells import FileCells, spooled


class CsvSource(MatrixSource):
    """The table in one text file; names come from its header."""

    def __init__(
        self,
        path: Path,
        names: Iterable[object] | None = None,
        *,
        delimiter: str | None = None,
        decimal: str | None = None,
        header: bool | None = None,
        scratch: Path | None = None,
    ) -> None:
        self._read(lay_out(path, delimiter, header, names, decimal), scratch)

    def _read(self, layout: Layout, scratch: Path | None) -> None:
        self._layout = layout
        self._table, self._text = _parsed(self._layout, scratch)
        super().__init__(self._table.shape, np.dtype(np.float64), self._layout.names)

    @property
    def text_names(self) -> frozenset[str]:
        return frozenset() if self.names is None else frozenset(self.names[column] for column in self._text)

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        touched = set(np.arange(self.shape[1])[columns].tolist()) if self._text else set()
        for column in sorted(touched & self._text.keys()):
            name = column if self.names is None else repr(self.names[column])
            raise not_numeric(
                f"column {name} of {self._layout.path}",
                f"text on line {self._text[column]}",
                self._layout.how_numbers_are_written(),
                None if self.names is None else self.names[column],
            )
        return self._table.read(rows, columns)

    def _texts(self, position: int) -> list[str]:
        try:
            return arrow_cells(self._layout, position)
        except ArrowGaveUp:
            return plain_cells(self._layout, position)

    def _text_values(self, position: int) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        if position not in self._text:
            return super()._text_values(position)
        cells = self._texts(position)
        return text_with_gaps(cells, np.array([cell.strip() in MISSING for cell in cells]))

    def _values(self, position: int) -> NDArray[Any]:
        cells = self._texts(position)
        name = str(position if self.names is None else self.names[position])
        if position not in self._text and not all(cell.strip().lstrip("-").isdecimal() for cell in cells):
            return self._table.read(slice(0, self.shape[0]), slice(position, position + 1))[:, 0]
        return _whole_numbers(to_text(cells, np.array([not cell.strip() for cell in cells]), name))


def _parsed(layout: Layout, scratch: Path | None) -> tuple[FileCells, dict[int, int]]:
    """The numbers of the whole table, and the columns that are text with the line of their first text."""
    try:
        return spooled(arrow_chunks(layout), layout.width, scratch), layout.text
    except ArrowGaveUp:
        text = dict(layout.text)
        return spooled(plain_chunks(layout, text), layout.width, scratch), text


def _whole_numbers(text: NDArray[np.str_]) -> NDArray[Any]:
    """The numbers as int64 where that loses nothing, else the text: ``007`` is a name, not the number 7."""
    try:
        numbers = text.astype(np.int64)
    except (ValueError, OverflowError):
        return text
    return numbers if np.array_equal(numbers.astype(np.str_), text) else text
