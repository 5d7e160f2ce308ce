"""Matrices that Dask holds: an array of blocks on the workers of a cluster, or still to be made by them.

A panel asked for here is computed there and brought here. Anyone who has work to do on all of it sends the work to the
blocks instead (``lazy``, ``engine.cluster``).
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.checks import expect_numeric
from fedsvd.data.index import Index
from fedsvd.data.source import MatrixSource
from fedsvd.errors import DataError, NotFinite


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
