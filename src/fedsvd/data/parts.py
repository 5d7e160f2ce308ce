"""A table in several files: the parts of a folder, one below the other in the order of their names."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource
from fedsvd.errors import RaggedRows, UnknownFormat


class StackedSource(MatrixSource):
    """Sources of the same columns as one source; a row belongs to the part it lies in."""

    def __init__(self, parts: Sequence[MatrixSource]) -> None:
        first = parts[0]
        for number, part in enumerate(parts):
            if part.shape[1] != first.shape[1] or part.names != first.names:
                raise RaggedRows(f"part {number} has other columns than part 0", "write all parts with one schema")
        self._parts = tuple(parts)
        self._starts = np.concatenate(([0], np.cumsum([part.shape[0] for part in parts])))
        kind = np.result_type(*(part.dtype for part in parts))
        super().__init__((int(self._starts[-1]), first.shape[1]), kind, first.names)

    @property
    def text_names(self) -> frozenset[str]:
        return self._parts[0].text_names

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        if isinstance(rows, slice):
            first, last = np.searchsorted(self._starts, (rows.start, rows.stop - 1), side="right") - 1
            pieces = [
                self._parts[p]._cells(
                    slice(max(rows.start - self._starts[p], 0), min(rows.stop, self._starts[p + 1]) - self._starts[p]),
                    columns,
                )
                for p in range(first, last + 1)
            ]
            return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        owner = np.searchsorted(self._starts, rows, side="right") - 1
        width = np.arange(self.shape[1])[columns].size
        out = np.empty((rows.size, width), self.dtype)
        for p in np.unique(owner):
            mine = owner == p
            out[mine] = self._parts[p]._cells(rows[mine] - self._starts[p], columns)
        return out

    def _values(self, position: int) -> NDArray[Any]:
        return np.concatenate([part._values(position) for part in self._parts])

    def _text_values(self, position: int) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        values, missing = zip(*(part._text_values(position) for part in self._parts), strict=True)
        return np.concatenate(values), np.concatenate(missing)

    def _place(self, row: int, column: int) -> str:
        part = int(np.searchsorted(self._starts, row, side="right")) - 1
        return f"{self._parts[part]._place(row - int(self._starts[part]), column)} of part {part}"


def open_parts(folder: Path, suffix: str, open_part: Callable[[Path], MatrixSource]) -> MatrixSource:
    """The files of this suffix in a folder, as one table."""
    files = sorted(path for path in folder.iterdir() if path.name.lower().endswith(suffix) and path.is_file())
    if not files:
        raise UnknownFormat(f"no file ends in {suffix} in the folder {folder}", f"name a folder of {suffix} parts")
    return StackedSource([open_part(path) for path in files])
