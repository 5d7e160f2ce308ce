"""Products of part of a matrix with a few columns, by a worker of a cluster (``engine/cluster.py``).

Records are rows of the matrix, or its columns. A product *along* them has a row for each record of the part; one *over*
them is the part's term of a sum. Pure functions of what they are given: a worker that dies is replaced by another.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from fedsvd.data.checks import to_float
from fedsvd.data.source import MatrixSource, Reopen
from fedsvd.data.sparse import SparsePanels
from fedsvd.types import Float


@dataclass(frozen=True)
class Direction:
    """Which side of a matrix the records are, and whether a product is along them or over them."""

    by_rows: bool
    along: bool

    def product(self, panel: Any, A: Float) -> Float:
        """Of a panel of records, as the matrix has them, and A, or the rows of A that belong to them."""
        # Rows of the panel are multiplied where records are rows and the product is along them, or neither.
        left = panel if self.by_rows == self.along else panel.T
        found: Float = np.asarray(left @ A)
        return found


def product_of_source(reopen: Reopen, place: tuple[int, int], panel: int, how: Direction, A: Float) -> Float:
    """The part's product, from records ``place`` of a matrix that is opened here and read in panels."""
    source = reopen()
    start, stop = place
    found: list[Float] = []
    for first in range(start, stop, panel):
        last = min(first + panel, stop)
        own = A if how.along else A[first - start : last - start]
        made = how.product(_records(source, first, last, how.by_rows), own)
        if how.along or not found:
            found.append(made)
        else:
            found[0] += made
    return np.concatenate(found) if how.along else found[0]


def product_of_array(X: Any, how: Direction, A: Float) -> Float:
    """The product of records that are here already."""
    return how.product(to_float(X, lambda i, j: "a block of a Dask array"), A)


def _records(source: MatrixSource, first: int, last: int, by_rows: bool) -> Any:
    if isinstance(source, SparsePanels):
        block = source.sparse_rows(first, last) if by_rows else source.sparse_columns(first, last)
        return scipy.sparse.csr_array(block) if by_rows else block
    return source.rows(first, last) if by_rows else source.columns(first, last)
