"""The hot kernels of libraries other than NumPy, arranged so that almost all of the work is matrix products.

A GPU does large products at its full rate and little else: a triangular solve with a thousand unknowns runs at a
fraction of it, and so does a product whose result is small however long its inner side is, because its tiles are too
few for the chip. Here a solve is halved until only small triangles are left, and a Gram matrix is the sum of several
shorter products made at once, or, where it is large, of its upper blocks alone.
"""

from itertools import pairwise
from typing import Any

from fedsvd.types import Array

_TRIANGLE = 256  # unknowns that are solved for at once
_SHORT = 2048  # a Gram matrix of fewer rows has too few tiles to fill a chip; from there on half of it is mirrored
_BATCHES = 16
_STRIPES = 8


def gram(xp: Any, Z: Array) -> Array:
    """``Z Z^T``, symmetric."""
    m, c = Z.shape
    if m >= _SHORT:
        return _gram_by_stripes(xp, Z)
    batches = min(_BATCHES, c // max(4 * m, 1))
    if batches < 2:
        return Z @ xp.matrix_transpose(Z)
    width = c // batches
    cut = xp.permute_dims(xp.reshape(Z[:, : batches * width], (m, batches, width)), (1, 0, 2))
    G = xp.sum(cut @ xp.matrix_transpose(cut), axis=0)
    rest = Z[:, batches * width :]
    return G + rest @ xp.matrix_transpose(rest) if rest.shape[1] else G


def _gram_by_stripes(xp: Any, Z: Array) -> Array:
    """The blocks on and above the diagonal, mirrored: little more than half of the work."""
    m = Z.shape[0]
    G = xp.empty((m, m), dtype=Z.dtype, device=Z.device)
    ends = [m * stripe // _STRIPES for stripe in range(_STRIPES + 1)]
    for start, stop in pairwise(ends):
        product = Z[start:stop, :] @ xp.matrix_transpose(Z[start:, :])
        G[start:stop, start:] = product
        G[stop:, start:stop] = xp.matrix_transpose(product[:, stop - start :])
    return G


def solve_triangular(xp: Any, R: Array, B: Array, lower: bool, transposed: bool) -> Array:
    """``R^-1 B`` or ``R^-T B``; B is not changed."""
    if R.shape[0] <= _TRIANGLE or B.shape[1] < _TRIANGLE:
        return _solve_at_once(xp, R, B, lower, transposed)
    solved = xp.asarray(B, copy=True)
    _solve_in_place(xp, xp.matrix_transpose(R) if transposed else R, solved, lower != transposed)
    return solved


def _solve_in_place(xp: Any, A: Array, B: Array, lower: bool) -> None:
    """B becomes ``A^-1 B``: one half of the unknowns, a product, then the other half."""
    n = A.shape[0]
    if n <= _TRIANGLE:
        B[:, :] = _solve_at_once(xp, A, B, lower, False)
        return
    half = _TRIANGLE * max(1, n // (2 * _TRIANGLE))
    first, second = (slice(0, half), slice(half, n)) if lower else (slice(half, n), slice(0, half))
    _solve_in_place(xp, A[first, first], B[first, :], lower)
    _subtract_product(B[second, :], A[second, first], B[first, :])
    _solve_in_place(xp, A[second, second], B[second, :], lower)


def _subtract_product(C: Array, A: Array, B: Array) -> None:
    """``C -= A B`` in place; in one kernel where the library has one."""
    if hasattr(C, "addmm_"):
        C.addmm_(A, B, alpha=-1.0)
    else:
        C -= A @ B


def _solve_at_once(xp: Any, R: Array, B: Array, lower: bool, transposed: bool) -> Array:
    module = type(R).__module__.partition(".")[0]
    if module == "torch":
        import torch

        return torch.linalg.solve_triangular(R.mT if transposed else R, B, upper=lower == transposed)
    if module == "cupy":
        from cupyx.scipy.linalg import solve_triangular as solve

        return solve(R, B, trans="T" if transposed else "N", lower=lower, check_finite=False)
    return xp.linalg.solve(xp.matrix_transpose(R) if transposed else R, B)


def qr_r(xp: Any, A: Array) -> Array:
    """The triangular factor of ``A`` without its orthogonal one, where the library can leave that out."""
    module = type(A).__module__.partition(".")[0]
    if module == "torch":
        import torch

        return torch.linalg.qr(A, mode="r").R
    if module == "cupy":
        import cupy

        return cupy.linalg.qr(A, mode="r")
    return xp.linalg.qr(A)[1]
