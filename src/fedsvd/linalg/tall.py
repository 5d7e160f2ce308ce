"""Matrices with one long side stay where they are, on a device or in host memory; small ones are NumPy's.

What is decided about a long matrix (a rank, a root, a rotation) follows from its products with others, a few hundred
numbers a side. LAPACK computes that in host memory, where a device would wait for it; products with long matrices are
the device's.
"""

import numpy as np

from fedsvd.linalg import backend
from fedsvd.linalg.backend import column_norms, like, matmul, namespace, to_numpy
from fedsvd.types import Array, Float


def inner(A: Array, B: Array) -> Float:
    """``A^T B`` of two long matrices, in host memory."""
    return to_numpy(matmul(A.T, B))


def combined(A: Array, c: Float) -> Array:
    """``A c`` of a long A and a small c of NumPy, where A is."""
    return matmul(A, like(np.ascontiguousarray(c), A))


def less(A: Array, B: Array, c: Float) -> Array:
    """``A - B c`` of long A and B and a small c of NumPy, in memory of its own."""
    if isinstance(A, np.ndarray):
        return matmul(B, -c, np.array(A.T, order="C").T, add=True)
    return A - combined(B, c)


def scaled(A: Array, factors: Float) -> Array:
    """A with every column times its factor, of NumPy."""
    return A * like(factors[None, :], A)


def lengths(A: Array) -> Float:
    """The norm of every column, in host memory."""
    return to_numpy(column_norms(A))


def squares(A: Array) -> Float:
    """The squared norm of every column, in host memory."""
    if isinstance(A, np.ndarray):
        found: Float = np.einsum("ij,ij->j", A, A)
        return found
    return to_numpy(namespace(A).sum(A * A, axis=0))


def same(A: Array, B: Array) -> bool:
    """Whether both are one matrix, or equal in host memory, bit for bit."""
    return A is B or (isinstance(A, np.ndarray) and isinstance(B, np.ndarray) and np.array_equal(A, B))


def tall_qr(A: Array) -> tuple[Array, Float]:
    """Thin QR with a positive diagonal of R, a continuous function; R in host memory."""
    Q, R = backend.qr(A)
    R = to_numpy(R)
    signs = np.where(np.diagonal(R) < 0.0, -1.0, 1.0)
    return scaled(Q, signs), R * signs[:, None]
