"""Matrices in Zarr stores: chunks in a folder, read as they are needed."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.checks import expect_numeric
from fedsvd.data.index import Index
from fedsvd.data.source import MatrixSource
from fedsvd.errors import MissingExtra, UnknownFormat


class ZarrSource(MatrixSource):
    """The two-dimensional array in one ``.zarr`` folder, opened for reading only."""

    def __init__(self, path: Path, names: Iterable[object] | None = None) -> None:
        try:
            import zarr
        except ImportError:
            raise MissingExtra("Zarr stores need zarr", "pip install 'fedsvd[formats]'") from None
        try:
            array = zarr.open(str(path), mode="r")
        except (ValueError, KeyError, OSError):
            raise UnknownFormat(f"{path} is not a Zarr store", "write it again with zarr") from None
        if not hasattr(array, "shape") or not hasattr(array, "oindex"):
            raise UnknownFormat(f"{path} is a group of arrays", "name one array inside it")
        expect_numeric(array.dtype, "column 0")
        super().__init__(array.shape, np.dtype(array.dtype), names)
        self._array = array

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        cells: NDArray[Any] = np.asarray(self._array.oindex[rows, columns])
        return cells
