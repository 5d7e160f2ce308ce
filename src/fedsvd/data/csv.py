"""Matrices in text tables: ``.csv`` and ``.tsv``, also gzipped.

Text cannot be entered in the middle, so the file is parsed once, in chunks, when it is opened, and its numbers
go to a private temporary file (``storage/file_cells.py``); rows and columns are then read from there in any order and
as often as needed. Memory is bounded by the chunk while opening and by the panel after. Text columns (ids, dates)
may stand in the table: they are refused only when the matrix is read with them in it. The file itself is
opened for reading only.

Chunks become numbers in one of two ways that agree to the last bit. PyArrow reads plain files several times faster; it
is used when it is installed and gives up at the first thing that surprises it. The standard library then reads the file
from the start, finds the line, and has the last word: every refusal comes from it, so that the words do not depend on
what is installed.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.checks import not_numeric, text_with_gaps, to_text
from fedsvd.data.csv_layout import Given, Layout, lay_out
from fedsvd.data.source import Index, MatrixSource
from fedsvd.data.written import Writing, written_in
from fedsvd.storage.file_cells import FileCells, spooled
from fedsvd.types import Float

CHUNK_CELLS = 1 << 16
# PyArrow reads about forty blocks ahead, so a block bounds its memory: 10 MB by default, 80 MB for long rows.
# A block of fewer than 16 rows costs more in its columns than it saves in its cells.
_ARROW_BLOCK, ARROW_BLOCK_MOST = 1 << 18, 1 << 21
_ROWS_WANTED, _ROWS_NEEDED = 64, 16


class ArrowGaveUp(Exception):
    """PyArrow is not installed or met something that the standard library must judge."""


def plain_chunks(layout: Layout, text: dict[int, int]) -> Iterator[Float]:
    """Chunks of shape (rows, width) by the standard library; columns found to be text are NaN.

    ``text`` is a running record: it starts with the columns known to be text and grows by those found.
    """
    height = max(1, CHUNK_CELLS // layout.width)
    lines: list[int] = []
    chunk: list[list[str]] = []
    for line, cells in layout.rows():
        lines.append(line)
        chunk.append(cells)
        if len(chunk) == height:
            yield _numbers(chunk, lines, text, layout.writing)
            lines, chunk = [], []
    if chunk:
        yield _numbers(chunk, lines, text, layout.writing)


def _numbers(chunk: list[list[str]], lines: list[int], text: dict[int, int], writing: Writing) -> Float:
    width = len(chunk[0])
    keep = np.array([column not in text for column in range(width)])
    out = np.full((len(chunk), width), np.nan)
    cells = list(chain.from_iterable(compress(row, keep) for row in chunk))
    joined, decimal = "".join(cells), writing.decimal
    try:
        if not writing.is_plain or "_" in joined or not joined.isascii() or (decimal != "." and "." in joined):
            raise ValueError
        if decimal != ".":
            cells = [cell.replace(decimal, ".") for cell in cells]
        out[:, keep] = np.fromiter(map(float, cells), np.float64, len(cells)).reshape(len(chunk), -1)
    except ValueError:
        # A missing entry or a text: slower, cell by cell, which tells the two apart and finds the line.
        for column in np.flatnonzero(keep):
            _numbers_of_column([row[column] for row in chunk], lines, int(column), text, out, writing)
    return out


def _numbers_of_column(
    cells: list[str], lines: list[int], column: int, text: dict[int, int], out: Float, writing: Writing
) -> None:
    for row, cell in enumerate(cells):
        value = writing.number(cell, column)
        if value is None:
            text[column] = lines[row]
            return
        out[row, column] = value


def plain_cells(layout: Layout, column: int) -> list[str]:
    """All cells of one column as text, by the standard library."""
    return [cells[column] for _, cells in layout.rows()]


def arrow_chunks(layout: Layout) -> Iterator[Float]:
    """Chunks of shape (rows, width) by PyArrow; the columns in ``layout.text`` are NaN."""
    numbers = [column for column in range(layout.width) if column not in layout.text]
    for batch in _arrow_batches(layout, numbers, "double"):
        out = np.full((batch.num_rows, layout.width), np.nan)
        for place, column in enumerate(numbers):
            cells = batch.column(place)
            # PyArrow's to_numpy imports pandas, half a second, for nothing that is used here.
            out[:, column] = cells.to_numpy(zero_copy_only=False) if cells.null_count else np.from_dlpack(cells)
        yield out


def arrow_cells(layout: Layout, column: int) -> list[str]:
    """All cells of one column as text, by PyArrow."""
    batches = _arrow_batches(layout, [column], "string")
    return list(chain.from_iterable(batch.column(0).to_pylist() for batch in batches))


def _arrow_batches(layout: Layout, columns: list[int], kind: str) -> Iterator[Any]:
    try:
        import pyarrow
        from pyarrow import csv
    except ImportError:
        raise ArrowGaveUp from None
    block = min(max(_ARROW_BLOCK, _ROWS_WANTED * layout.longest_line), ARROW_BLOCK_MOST)
    if (
        not layout.plain_utf8
        or not layout.writing.is_plain
        or not columns
        or block < _ROWS_NEEDED * layout.longest_line
    ):
        raise ArrowGaveUp
    wanted = [f"c{column}" for column in columns]
    names = [f"c{column}" for column in range(layout.width)]
    try:
        yield from csv.open_csv(
            str(layout.path),
            read_options=csv.ReadOptions(column_names=names, skip_rows=layout.header_lines, block_size=block),
            parse_options=csv.ParseOptions(
                delimiter=layout.delimiter, newlines_in_values=True, ignore_empty_lines=layout.width > 1
            ),
            convert_options=csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pyarrow.type_for_alias(kind)),
                null_values=list(layout.writing.missing),
                strings_can_be_null=False,
                decimal_point=layout.writing.decimal,
            ),
        )
    except (pyarrow.ArrowException, OSError):
        raise ArrowGaveUp from None


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
        given: Given | None = None,
        scratch: Path | None = None,
    ) -> None:
        self._read(lay_out(path, delimiter, header, names, decimal, given), scratch)

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
            name = None if self.names is None else self.names[column]
            what = f"column {column if name is None else repr(name)} of {self._layout.path}"
            cells = self._texts(column)
            # Text without a digit is text, however numbers are written.
            like_numbers = any(each.isdigit() for cell in cells for each in cell)
            fix = {"fix": self._layout.how_numbers_are_written()} if like_numbers else {}
            raise not_numeric(what, f"text on line {self._text[column]}", name=name, held=written_in(cells), **fix)
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
        writing = self._layout.writing
        missing = {*writing.missing_texts, *writing.missing_in.get(position, ())}
        return text_with_gaps(cells, np.array([cell.strip() in missing for cell in cells]))

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
