"""The hot kernels of libraries other than NumPy, arranged so that almost all of the work is matrix products.

A GPU does large products at its full rate and little else: a triangular solve with a thousand unknowns runs at a
fraction of it, and so does a product whose result is small however long its inner side is, because its tiles are too
few for the chip. Here a solve is halved until only small triangles are left, whose inverses are products too, and a
Gram matrix is the sum of several shorter products made at once, or, where it is large, of its upper blocks alone.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy

from fedsvd.types import Array

_TRIANGLE = 128  # unknowns that are solved for at once
_HARMLESS = 4.0  # an inverse of this norm, in units of an orthogonal one's, leaves a residual of a few eps
_HOPELESS = 1e6  # from here on not even a second product would repair it
_SHORT = 2048  # a Gram matrix of fewer rows has too few tiles to fill a chip; from there on half of it is mirrored
_BATCHES = 16
_ALIGNED, _NARROW = 16, 1024  # numbers that rows are aligned to, where they are longer
_STRIPES, _STRIPE = 8, 2048  # stripes of a Gram matrix, twice as many where they would have more rows than this


def matmul(xp: Any, A: Array, B: Array) -> Array:
    """``A B``, lying in memory as B does, so that what is done with both of them next reads them alike."""
    if not _by_columns(B):
        return A @ B
    return xp.matrix_transpose(xp.matrix_transpose(B) @ xp.matrix_transpose(A))


def _by_columns(B: Array) -> bool:
    """Whether numbers of a column are neighbours in memory; False where a library does not say."""
    if not hasattr(B, "stride"):
        strides = getattr(B, "strides", (0, 0))
        return bool(strides[0] == 8 and strides[1] > 8)
    return bool(B.stride(0) == 1 and B.stride(1) > 1)


def aligned_width(columns: int) -> int:
    """So many columns of a row-major matrix that all its rows begin where a chip reads at full speed."""
    return -(-columns // _ALIGNED) * _ALIGNED if columns > _NARROW else columns


def aligned(xp: Any, X: Array) -> Array:
    """A copy of X, row-major, with columns of zeros up to ``aligned_width``."""
    copied = xp.zeros((X.shape[0], aligned_width(X.shape[1])), dtype=X.dtype, device=X.device)
    copied[:, : X.shape[1]] = X
    return copied


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
    # Three quarters of the work: the upper half of the rows, and the lower corner.
    half = m // 2
    upper = xp.sum(cut[:, :half, :] @ xp.matrix_transpose(cut), axis=0)
    corner = xp.sum(cut[:, half:, :] @ xp.matrix_transpose(cut[:, half:, :]), axis=0)
    lower = xp.concat((xp.matrix_transpose(upper[:, half:]), corner), axis=1)
    G = xp.concat((upper, lower), axis=0)
    rest = Z[:, batches * width :]
    return G + rest @ xp.matrix_transpose(rest) if rest.shape[1] else G


def _gram_by_stripes(xp: Any, Z: Array) -> Array:
    """The blocks on and above the diagonal, mirrored: little more than half of the work."""
    return mirrored(xp, add_gram(xp, None, Z))


def add_gram(xp: Any, K: Array | None, X: Array) -> Array:
    """``K + X X^T`` over K, or made anew; of a large one only the blocks on and above the diagonal are right."""
    m = X.shape[0]
    if m < _SHORT:
        return gram(xp, X) if K is None else K + gram(xp, X)
    K = xp.zeros((m, m), dtype=X.dtype, device=X.device) if K is None else K
    for start, stop in _stripes(m):
        _add_product(K[start:stop, start:], X[start:stop, :], xp.matrix_transpose(X[start:, :]))
    return K


def mirrored(xp: Any, K: Array) -> Array:
    """The symmetric matrix of these blocks on and above the diagonal, over K."""
    for start, stop in _stripes(K.shape[0]) if K.shape[0] >= _SHORT else ():
        K[stop:, start:stop] = xp.matrix_transpose(K[start:stop, stop:])
    return K


def plus_diagonal(xp: Any, A: Array, values: Array | float, *, spent: bool = False) -> Array:
    """A with values added to its diagonal; over A, where it is ``spent`` and contiguous."""
    n = A.shape[0]
    flat = xp.reshape(A if spent else xp.asarray(A, copy=True), (-1,))
    flat[:: n + 1] = flat[:: n + 1] + values
    return xp.reshape(flat, (n, n))


def _stripes(m: int) -> list[tuple[int, int]]:
    count = min(max(_STRIPES, m // _STRIPE), 2 * _STRIPES)
    ends = [m * stripe // count for stripe in range(count + 1)]
    return list(pairwise(ends))


def _add_product(C: Array, A: Array, B: Array) -> None:
    """``C += A B`` in place; in one kernel where the library has one."""
    if hasattr(C, "addmm_"):
        C.addmm_(A, B)
    else:
        C += A @ B


def solve_triangular(xp: Any, R: Array, B: Array, lower: bool, transposed: bool) -> Array:
    """``R^-1 B`` or ``R^-T B``; B is not changed."""
    if R.shape[0] <= _TRIANGLE or B.shape[1] < R.shape[0]:
        return _solve_at_once(xp, R, B, lower, transposed)
    A, lower = xp.matrix_transpose(R) if transposed else R, lower != transposed
    diagonal = _inverted_diagonal(xp, A, lower)
    if diagonal is None:
        return _solve_at_once(xp, R, B, lower != transposed, transposed)
    solved = xp.asarray(B, copy=True)
    _solve_in_place(A, solved, lower, diagonal)
    return solved


@dataclass(frozen=True, repr=False)
class _Diagonal:
    """The triangles on the diagonal with their inverses."""

    triangles: tuple[Array, ...]
    inverses: tuple[Array, ...]
    refined: bool  # whether a product with the inverse needs a second one

    def solve(self, k: int, B: Array) -> None:
        """B becomes the solution of triangle k."""
        X = self.inverses[k] @ B
        if self.refined:
            X = X + self.inverses[k] @ (B - self.triangles[k] @ X)
        B[:, :] = X


def _inverted_diagonal(xp: Any, A: Array, lower: bool) -> _Diagonal | None:
    """The inverted triangles of A; None where they are too ill conditioned for a product to stand for a solve.

    A product with an inverse leaves a residual of eps times the condition number, which a second one, on that residual,
    squares away. What counts is the condition with rows at unit length: of data whose columns differ in size alone
    nothing else is left of it.
    """
    triangles, inverses, norms = [], [], []
    for start in range(0, A.shape[0], _TRIANGLE):
        place = slice(start, min(start + _TRIANGLE, A.shape[0]))
        T = A[place, place]
        T = xp.tril(T) if lower else xp.triu(T)
        lengths = xp.linalg.vector_norm(T, axis=1, keepdims=True)
        inverse = _solve_at_once(xp, T / lengths, xp.eye(T.shape[0], dtype=T.dtype, device=T.device), lower, False)
        norms.append(xp.linalg.vector_norm(inverse))
        triangles.append(T)
        inverses.append(inverse / xp.matrix_transpose(lengths))
    worst = float(xp.max(xp.stack(norms))) / _TRIANGLE**0.5  # 1 for an orthogonal triangle
    if not worst <= _HOPELESS:
        return None
    return _Diagonal(tuple(triangles), tuple(inverses), worst > _HARMLESS)


def _solve_in_place(A: Array, B: Array, lower: bool, diagonal: _Diagonal, first: int = 0) -> None:
    """B becomes ``A^-1 B``: one half of the unknowns, a product, the other half; ``first`` is the first triangle."""
    n = A.shape[0]
    if n <= _TRIANGLE:
        diagonal.solve(first, B)
        return
    halves = max(1, n // (2 * _TRIANGLE))
    top, bottom = slice(0, halves * _TRIANGLE), slice(halves * _TRIANGLE, n)
    order = ((top, first), (bottom, first + halves)) if lower else ((bottom, first + halves), (top, first))
    (one, k_one), (other, k_other) = order
    _solve_in_place(A[one, one], B[one, :], lower, diagonal, k_one)
    subtract_product(B[other, :], A[other, one], B[one, :])
    _solve_in_place(A[other, other], B[other, :], lower, diagonal, k_other)


def subtract_product(C: Array, A: Array, B: Array) -> None:
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
    # A library that has none borrows SciPy's: a general solve would not do, it exchanges rows.
    trans, at_hand = "T" if transposed else "N", np.asarray(R)
    solved = scipy.linalg.solve_triangular(at_hand, np.asarray(B), trans=trans, lower=lower, check_finite=False)
    return xp.asarray(solved, device=B.device)


def gesvd(A: Array) -> tuple[Array, Array, Array]:
    """The thin SVD on a GPU by QR iterations: the library's own choice, Jacobi's, ends at a residual of 1e-12."""
    if type(A).__module__.partition(".")[0] == "torch":
        import torch

        U, sigma, Vt = torch.linalg.svd(A, full_matrices=False, driver="gesvd")
        return U, sigma, Vt
    import cupy

    U, sigma, Vt = cupy.linalg.svd(A, full_matrices=False)
    return U, sigma, Vt


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
