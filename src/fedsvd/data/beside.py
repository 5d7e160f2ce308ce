"""Two matrices side by side as one source: a party's features and its labels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.index import Index
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ShapeError
from fedsvd.types import Float


class Beside(MatrixSource):
    """``[D, y]``: the columns of a source, then further columns held in memory."""

    def __init__(self, base: MatrixSource, y: Float) -> None:
        if y.ndim != 2 or y.shape[0] != base.shape[0]:
            raise ShapeError(f"labels of shape {y.shape} beside {base.shape[0]} rows")
        super().__init__((base.shape[0], base.shape[1] + y.shape[1]), np.dtype(np.float64))
        self._base = base
        self._y = y

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        ours = self._base.shape[1]
        wanted = np.arange(self.shape[1])[columns]
        left, right = wanted[wanted < ours], wanted[wanted >= ours] - ours
        if np.any(np.diff(wanted) != 1):
            both = np.concatenate((self._base._cells(rows, slice(0, ours)), self._y[rows]), axis=1)
            picked: NDArray[Any] = both[:, wanted]
            return picked
        parts = []
        if left.size:
            parts.append(self._base._cells(rows, slice(int(left[0]), int(left[-1]) + 1)))
        if right.size:
            parts.append(self._y[rows, int(right[0]) : int(right[-1]) + 1])
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
