"""Products of a sparse matrix with a few columns, on a device or by several threads: never made dense.

The matrix and its transpose are both kept by rows: a product by rows writes each number of its result once, where by
columns threads would wait for one another. Rows are cut into pieces of about as many stored entries, one to a thread,
and each number is added up in the order of the whole: in C, for eight or sixteen columns at once
(``kernels/narrow.h``), or by SciPy, which takes twice as long for the same bits.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from fedsvd.kernels import narrow
from fedsvd.linalg.few_columns import threads_for
from fedsvd.types import Array, Each, Float

_WORD32 = np.iinfo(np.int32).max
_PIECES = 32  # at most
STORED = 2
"""Numbers of a dense matrix that take as long as one that is stored with its place."""

PIECE = 1 << 15
"""Stored entries of a piece, at least: a tenth of a millisecond."""

Product = Callable[[Array], Array]


def sparse_products(X: Any, like: Array) -> tuple[Product, Product]:
    """``X W`` and ``X^T Q`` of a matrix of SciPy, where ``like`` is."""
    forward, back = (_there(scipy.sparse.csr_array(A), like) for A in (X, X.T))
    return lambda W: forward @ W, lambda Q: back @ Q


class ByRows:
    """A matrix of SciPy in pieces of rows, which share its memory where it is stored by rows; ``each`` is SciPy's."""

    def __init__(self, A: Any, each: Each | None) -> None:
        self._A, self._each = scipy.sparse.csr_array(A), each
        A = self._A
        count = max(1, min(_PIECES, A.nnz // PIECE))
        inner = np.searchsorted(A.indptr, [A.nnz * number // count for number in range(1, count)]).tolist()
        self._cuts = [0, *inner, A.shape[0]]
        # Entries are float64, and are counted in 32 bits, as SciPy does where it can. C reads what lies in one piece;
        # SciPy also multiplies matrices whose parts are every second number of longer arrays.
        parts = A.data, A.indices, A.indptr
        kinds = all(part.dtype == kind for part, kind in zip(parts, (np.float64, np.int32, np.int32), strict=True))
        self._in_c = kinds and all(part.flags.c_contiguous and part.flags.aligned for part in parts)

    def times(self, B: Float) -> Float:
        """``A B``."""
        A, count = self._A, B.shape[1]
        if not (narrow.available() and self._in_c):
            return self._by_scipy(B if B.flags.c_contiguous else np.ascontiguousarray(B))
        wide = count + -count % narrow.EIGHT
        given, out = B, np.empty((A.shape[0], wide))
        if wide > count or not B.flags.c_contiguous:
            given = np.zeros((B.shape[0], wide))
            given[:, :count] = B
        several = threads_for(STORED * A.nnz, wide)
        narrow.sparse(A.data, A.indices, A.indptr, given, out, self._cuts, several)
        return out[:, :count]

    def _by_scipy(self, B: Float) -> Float:
        A, out = self._A, np.empty((self._A.shape[0], B.shape[1]))

        def piece(number: int) -> None:
            start, stop = self._cuts[number : number + 2]
            begin, end = int(A.indptr[start]), int(A.indptr[stop])
            parts = A.data[begin:end], A.indices[begin:end], A.indptr[start : stop + 1] - A.indptr[start]
            out[start:stop] = scipy.sparse.csr_array(parts, shape=(stop - start, A.shape[1])) @ B

        for _ in (self._each or map)(piece, range(len(self._cuts) - 1)):
            pass
        return out


def has_sparse(like: Array | None) -> bool:
    """Whether products of sparse matrices are made where ``like`` is, None for host memory."""
    return like is None or type(like).__module__.partition(".")[0] in ("torch", "cupy")


def _there(A: Any, like: Any) -> Any:
    if type(like).__module__.startswith("cupy"):
        from cupyx.scipy.sparse import csr_matrix

        return csr_matrix(A)
    import torch

    kind = np.int32 if max(A.nnz, *A.shape) <= _WORD32 else np.int64
    parts = (torch.from_numpy(part.astype(kind)) for part in (A.indptr, A.indices))
    values = torch.from_numpy(np.array(A.data, np.float64))
    with warnings.catch_warnings():
        # PyTorch says of every first matrix by rows that these may change; they are used for a product and no more.
        warnings.simplefilter("ignore", UserWarning)
        made = torch.sparse_csr_tensor(*parts, values, size=A.shape, dtype=torch.float64)
    return made.to(like.device)
