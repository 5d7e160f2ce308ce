"""Products of a sparse matrix with a few columns, on a device or by several threads: never made dense.

The matrix and its transpose are both kept by rows: a product by rows writes each number of its result once, where by
columns threads would wait for one another. Rows are cut into pieces of about as many stored entries, one to a thread,
and each number is added up in the order of the whole: in C, for eight or sixteen columns at once
(``kernels/narrow.h``), or by SciPy, which takes twice as long for the same bits.
"""

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import scipy

from fedsvd.kernels import narrow
from fedsvd.types import Array, Each, Float

_WORD32 = np.iinfo(np.int32).max
_PIECES = 32  # at most
PIECE = 1 << 17
"""Stored entries that are worth a thread: a quarter of a millisecond."""

Product = Callable[[Array], Array]


def sparse_products(X: Any, like: Array) -> tuple[Product, Product]:
    """``X W`` and ``X^T Q`` of a matrix of SciPy, where ``like`` is."""
    forward, back = (_there(scipy.sparse.csr_array(A), like) for A in (X, X.T))
    return lambda W: forward @ W, lambda Q: back @ Q


class ByRows:
    """A matrix of SciPy in pieces of rows, which share its memory where it is stored by rows."""

    def __init__(self, A: Any, each: Each | None) -> None:
        A, self._each = scipy.sparse.csr_array(A), each
        count = max(1, min(_PIECES, A.nnz // PIECE))
        inner = np.searchsorted(A.indptr, [A.nnz * number // count for number in range(1, count)]).tolist()
        self._pieces = [(slice(a, b), _rows(A, a, b)) for a, b in pairwise((0, *inner, A.shape[0]))]
        self._height = A.shape[0]

    def times(self, B: Float) -> Float:
        """``A B``."""
        count = B.shape[1]
        by_vectors = narrow.available() and all(_counted(A) for _, A in self._pieces)
        wide = count + -count % narrow.EIGHT if by_vectors else count
        given, out = B, np.empty((self._height, wide))
        if wide > count or not B.flags.c_contiguous:
            given = np.zeros((B.shape[0], wide))
            given[:, :count] = B

        def piece(number: int) -> None:
            rows, A = self._pieces[number]
            if by_vectors:
                narrow.sparse(A.data, A.indices, A.indptr, given, out[rows])
            else:
                out[rows] = A @ given

        for _ in (self._each or map)(piece, range(len(self._pieces))):
            pass
        return out[:, :count]


def _rows(A: Any, start: int, stop: int) -> Any:
    begin, end = int(A.indptr[start]), int(A.indptr[stop])
    parts = A.data[begin:end], A.indices[begin:end], A.indptr[start : stop + 1] - A.indptr[start]
    return scipy.sparse.csr_array(parts, shape=(stop - start, A.shape[1]))


def _counted(A: Any) -> bool:
    """Whether entries are float64 and are counted in 32 bits, as SciPy does where it can."""
    return bool(A.data.dtype == np.float64 and A.indices.dtype == A.indptr.dtype == np.int32)


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
