"""Matrices in Parquet files, streamed through PyArrow.

Parquet stores columns, cut into row groups that can only be entered at their start. Column panels read the
wanted columns and nothing else. Row panels taken in order continue where the last one ended, a batch at a time:
memory is bounded by the panel and one batch, however large the row group (a file written in one piece has one
group). A row panel out of order starts again at the head of its group. Rows in an arbitrary order
(``reordered``) would start again for every row, so the numbers then go once to a private temporary file
(``storage/file_cells.py``). Nulls count as NaN. A file is read, not mapped: others may change it (ADR 0043).
"""

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.checks import not_numeric, text_with_gaps, to_text
from fedsvd.data.source import Index, MatrixSource
from fedsvd.data.written import written_in
from fedsvd.errors import MissingExtra
from fedsvd.storage.faults import reading
from fedsvd.storage.file_cells import FileCells, spooled
from fedsvd.types import Float

BATCH_CELLS = 1 << 20
BUFFER = 1 << 16  # bytes of each column that are read at once; a column chunk may be as long as the file
_OPEN_CURSORS = 4


class ParquetSource(MatrixSource):
    """The table in one Parquet file; columns that are not numbers are refused only when they are read."""

    def __init__(self, path: Path, *, scratch: Path | None = None, file: Any = None) -> None:
        """``file`` is an open file of the same content, for a table that has no path of its own."""
        try:
            import pyarrow.parquet as parquet
        except ImportError:
            raise MissingExtra("Parquet files need PyArrow", "pip install 'fedsvd[data]'") from None
        with reading(f"{path} is not a Parquet file", "write it again as Parquet"):
            self._file = parquet.ParquetFile(file or path, buffer_size=BUFFER, pre_buffer=False)
            schema, metadata = self._file.schema_arrow, self._file.metadata
            sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        super().__init__((metadata.num_rows, len(schema)), np.dtype(np.float64), schema.names)
        self._in_file = [str(name) for name in schema.names]  # PyArrow makes the whole schema each time it is asked
        self._group_starts = np.concatenate([[0], np.cumsum(sizes)])
        self._text = {j: str(field.type) for j, field in enumerate(schema) if not _is_number(field.type)}
        self._path, self._scratch = path, scratch
        self._cursors: OrderedDict[tuple[int, tuple[int, ...]], _Cursor] = OrderedDict()
        self._spool: FileCells | None = None

    @property
    def text_names(self) -> frozenset[str]:
        return frozenset() if self.names is None else frozenset(self.names[column] for column in self._text)

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        touched = tuple(np.arange(self.shape[1])[columns].tolist())
        for column in sorted(self._text.keys() & set(touched)):
            name = None if self.names is None else self.names[column]
            texts, gaps = self._text_values(column)
            held = written_in(texts[~gaps].tolist())
            raise not_numeric(self._named(column), self._text[column], name=name, held=held)
        if isinstance(rows, slice) and self._spool is None:
            out = np.empty((rows.stop - rows.start, len(touched)), order="F")
            self._read(rows.start, touched, out)
            return out
        if self._spool is None:
            self._spool = spooled(self._chunks(), self.shape[1], self._scratch)
        return self._spool.read(rows, columns)

    def _read(self, start: int, columns: tuple[int, ...], out: Float) -> None:
        # A cursor waits under the place where it stands, so that two passes side by side find their own.
        with reading(f"{self._path} is damaged"):
            cursor = self._cursors.pop((start, columns), None) or self._cursor(start, columns)
            cursor.fill(out)
        if start + len(out) < self.shape[0]:
            self._cursors[start + len(out), columns] = cursor
        if len(self._cursors) > _OPEN_CURSORS:
            self._cursors.popitem(last=False)

    def _cursor(self, start: int, columns: tuple[int, ...]) -> "_Cursor":
        group = int(np.searchsorted(self._group_starts, start, side="right")) - 1
        names = [self._in_file[column] for column in columns]
        batches = self._file.iter_batches(
            batch_size=max(1, BATCH_CELLS // len(columns)),
            row_groups=range(group, self._file.num_row_groups),
            columns=names,
        )
        cursor = _Cursor(batches, names)
        cursor.skip(start - int(self._group_starts[group]))
        return cursor

    def _chunks(self) -> Iterator[Float]:
        """The whole table a batch at a time, NaN in the columns that are not numbers."""
        numbers = tuple(j for j in range(self.shape[1]) if j not in self._text)
        height = max(1, BATCH_CELLS // self.shape[1])
        for start in range(0, self.shape[0], height):
            chunk = np.full((min(height, self.shape[0] - start), self.shape[1]), np.nan)
            chunk[:, numbers] = self._cells(slice(start, start + len(chunk)), np.array(numbers))
            yield chunk

    def _values(self, position: int) -> NDArray[Any]:
        name = self._in_file[position]
        with reading(f"{self._path} is damaged"):
            column = self._file.read(columns=[name]).column(name)
            if position in self._text:
                return to_text(column.to_pylist(), column.is_null().to_numpy(), name)
            values: NDArray[Any] = column.to_numpy()
            return _as_float(column) if values.dtype == object else values

    def _text_values(self, position: int) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        if position not in self._text:
            return super()._text_values(position)
        name = self._in_file[position]
        with reading(f"{self._path} is damaged"):
            column = self._file.read(columns=[name]).column(name)
            return text_with_gaps(column.to_pylist(), column.is_null().to_numpy())

    def _named(self, column: int) -> str:
        return f"column {self._in_file[column]!r} of {self._path}"


class _Cursor:
    """A place in a stream of record batches; reading moves it on."""

    def __init__(self, batches: Iterator[Any], names: list[str]) -> None:
        self._batches = batches
        self._names = names
        self._rest: Any = None

    def skip(self, count: int) -> None:
        """Leave out the next ``count`` rows."""
        for _ in self._pieces(count):
            pass

    def fill(self, out: Float) -> None:
        """Fill ``out`` with the next rows; the columns keep the order asked for, not that of the file."""
        done = 0
        for piece in self._pieces(len(out)):
            for place, name in enumerate(self._names):
                out[done : done + piece.num_rows, place] = _as_float(piece.column(name))
            done += piece.num_rows

    def _pieces(self, count: int) -> Iterator[Any]:
        """Record batches of ``count`` rows in all; what is left of the last one waits for the next call."""
        while count > 0:
            batch = next(self._batches) if self._rest is None else self._rest
            self._rest = batch.slice(count) if batch.num_rows > count else None
            piece = batch.slice(0, count)
            count -= piece.num_rows
            yield piece


def _as_float(column: Any) -> Float:
    # Integers beyond 2^53 round as they do for arrays; PyArrow's safe cast would refuse them.
    numbers: Float = column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
    return numbers


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    checks = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    return any(check(kind) for check in checks)
