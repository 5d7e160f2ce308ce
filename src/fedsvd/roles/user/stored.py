"""Sums over the rows of a sparse table from its stored entries alone: the others are zero, and counted.

``sum_j (x_j - c)^2`` over a row is a sum over what is stored, and c^2 for each entry that is not: no term is negative,
so nothing cancels, and nothing is made dense.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.data.sparse import SparsePanels
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class StoredEntries:
    """What is stored of a table, and in which row."""

    data: Float
    row: NDArray[np.intp]
    rows: int
    width: int

    def sums(self) -> Float:
        """Of every row."""
        return self._added(self.data)

    def squares_about(self, centre: Float | float, factor: Float | float = 1.0) -> Float:
        """``sum_j ((x_j - c) f)^2`` of every row, with c and f of its own or common ones."""
        c, f = (np.broadcast_to(each, self.rows) for each in (centre, factor))
        missing = self.width - np.bincount(self.row, minlength=self.rows)
        found: Float = self._added(np.square((self.data - c[self.row]) * f[self.row])) + missing * np.square(c * f)
        return found

    def _added(self, values: Float) -> Float:
        found: Float = np.asarray(np.bincount(self.row, weights=values, minlength=self.rows), np.float64)
        return found


def stored_entries(source: MatrixSource) -> StoredEntries | None:
    """What is stored of a sparse table, in host memory; None of any other."""
    if not isinstance(source, SparsePanels):
        return None
    rows, width = source.shape
    X = source.sparse_columns(0, width)
    return StoredEntries(X.data, X.indices, rows, width)
