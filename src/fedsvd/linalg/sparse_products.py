"""Products of a sparse matrix with a few columns on a device: never made dense.

The matrix and its transpose are both kept by rows: a product by rows writes each number of its result once, where by
columns threads would wait for one another.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from fedsvd.types import Array

_WORD32 = np.iinfo(np.int32).max

Product = Callable[[Array], Array]


def sparse_products(X: Any, like: Array) -> tuple[Product, Product]:
    """``X W`` and ``X^T Q`` of a matrix of SciPy, where ``like`` is."""
    forward, back = (_there(scipy.sparse.csr_array(A), like) for A in (X, X.T))
    return lambda W: forward @ W, lambda Q: back @ Q


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
