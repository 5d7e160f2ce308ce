"""Matrices in memory: NumPy arrays, memory maps, nested lists, and whatever offers itself as an array.

The array is kept, not copied, and never written to: panels of a float64 array are read-only views of it. Other
types are converted panel by panel, so that a float32 or integer array is never doubled.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.checks import expect_matrix, expect_numeric, first_text_column
from fedsvd.data.index import Index, pick
from fedsvd.data.source import MatrixSource
from fedsvd.errors import RaggedRows, UnknownFormat


class ArraySource(MatrixSource):
    """A two-dimensional array of real numbers; a masked entry counts as missing."""

    def __init__(self, array: NDArray[Any], names: Iterable[object] | None = None) -> None:
        array = array if isinstance(array, np.ma.MaskedArray) else np.asarray(array)
        expect_matrix(array.shape)
        column = first_text_column(array) if array.dtype == object else 0
        expect_numeric(array.dtype, f"column {column}")
        super().__init__(array.shape, array.dtype, names)
        self._array = array

    def inspect(self) -> None:
        if self._array.dtype.kind == "f" or isinstance(self._array, np.ma.MaskedArray):
            super().inspect()

    @property
    def _by_columns(self) -> bool:
        return abs(self._array.strides[0]) < abs(self._array.strides[1])

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        return pick(self._array, rows, columns)


def from_rows(rows: Sequence[Any], names: Iterable[object] | None = None) -> ArraySource:
    """The source of a list of rows; refused when they differ in length or hold something but numbers."""
    lengths = [len(row) if isinstance(row, Sequence | np.ndarray) else 0 for row in rows]
    for place, length in enumerate(lengths):
        if length != lengths[0]:
            fault = f"row {place} (counted from 0) has {length} entries, row 0 has {lengths[0]}"
            raise RaggedRows(fault, "give all rows the same length")
    try:
        array = np.asarray(rows)
    except ValueError:
        raise RaggedRows("the entries of some rows differ in depth", "give rows of plain numbers") from None
    if array.ndim == 2 and array.dtype.kind not in "biuf" and array.size:
        # NumPy turns one text among the numbers into an array of text; the culprit is found in the list.
        expect_numeric(array.dtype, f"column {first_text_column(rows)}")
    return ArraySource(array, names)


def from_array_like(data: Any, names: Iterable[object] | None = None) -> ArraySource:
    """The source of an object that NumPy can view, such as a PyTorch tensor in main memory."""
    try:
        array = np.asarray(data)
    except (TypeError, RuntimeError, ValueError):
        # The cause is not chained: another library's message may quote entries.
        raise UnknownFormat(
            f"a {type(data).__module__}.{type(data).__name__} does not offer itself to NumPy",
            "bring it to main memory as a NumPy array first",
        ) from None
    return ArraySource(array, names)
