"""Arrays: NumPy's and what NumPy can view, Dask's on a cluster, and Zarr's in a folder.

An array in memory is kept, not copied, and never written to: panels of a float64 array are read-only views of it. Other
types are converted panel by panel, so that a float32 or integer array is never doubled.

A Dask array is blocks on the workers of a cluster, or still to be made by them. A panel asked for here is computed
there and brought here; work on all of it is sent to the blocks instead (``lazy``, ``engine.cluster``). A Zarr store is
chunks in a folder, read as they are needed.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.checks import expect_matrix, expect_numeric, first_text_column
from fedsvd.data.source import Index, MatrixSource, pick
from fedsvd.errors import DataError, MissingExtra, NotFinite, RaggedRows, UnknownFormat
from fedsvd.storage.faults import reading


class ArraySource(MatrixSource):
    """A two-dimensional array of real numbers; a masked entry counts as missing."""

    def __init__(self, array: NDArray[Any], names: Iterable[object] | None = None) -> None:
        self._mapped = isinstance(array, np.memmap)  # a file, which others may write to
        array = array if isinstance(array, np.ma.MaskedArray) else np.asarray(array)
        expect_matrix(array.shape)
        column = first_text_column(array) if array.dtype == object else 0
        expect_numeric(array.dtype, f"column {column}")
        super().__init__(array.shape, array.dtype, names)
        self._array = array

    @property
    def in_memory(self) -> bool:
        return not self._mapped

    def inspect(self) -> None:
        if self._array.dtype.kind == "f" or isinstance(self._array, np.ma.MaskedArray):
            super().inspect()
            self._inspected = self._inspected and not self._mapped

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


class DaskSource(MatrixSource):
    """A two-dimensional Dask array of real numbers."""

    def __init__(self, array: Any, names: Iterable[object] | None = None) -> None:
        shape = tuple(array.shape)
        if any(isinstance(side, float) for side in shape):  # NaN: Dask does not know
            raise DataError("a Dask array that does not know its own shape", "call compute_chunk_sizes() on it first")
        expect_numeric(array.dtype, "column 0")
        super().__init__(shape, array.dtype, names)
        self._array = array

    def inspect(self) -> None:
        """Looked for where the blocks are; only the answer travels."""
        if self._array.dtype.kind == "f":
            import dask.array

            if not bool(dask.array.isfinite(self._array).all().compute()):
                raise NotFinite("a Dask array holds NaN or infinity", "fill or drop missing values before the study")

    def lazy(self) -> Any:
        return self._array

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        cells: NDArray[Any] = np.asarray(self._array[rows][:, columns].compute())
        return cells


class ZarrSource(MatrixSource):
    """The two-dimensional array in one ``.zarr`` folder, opened for reading only."""

    def __init__(self, path: Path, names: Iterable[object] | None = None) -> None:
        try:
            import zarr
        except ImportError:
            raise MissingExtra("Zarr stores need zarr", "pip install 'fedsvd[formats]'") from None
        with reading(f"{path} is not a Zarr store", "write it again with zarr"):
            array = zarr.open(str(path), mode="r")
        if not hasattr(array, "shape") or not hasattr(array, "oindex"):
            raise UnknownFormat(f"{path} is a group of arrays", "name one array inside it")
        expect_numeric(array.dtype, "column 0")
        super().__init__(array.shape, np.dtype(array.dtype), names)
        self._path, self._array = path, array

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        with reading(f"{self._path} is damaged"):
            cells: NDArray[Any] = np.asarray(self._array.oindex[rows, columns])
        return cells
