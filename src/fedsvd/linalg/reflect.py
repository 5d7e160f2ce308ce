"""Products with Householder reflectors: LAPACK's on NumPy, compact WY by the array standard elsewhere."""

from typing import Any

import numpy as np
import scipy

from fedsvd.linalg.backend import check_info, namespace, solve_triangular
from fedsvd.linalg.foreign import subtract_product
from fedsvd.linalg.pools import small_work
from fedsvd.types import Array, Float

_WY = 256  # reflectors per compact-WY product off NumPy
LONGEST_CALL = 1e10  # multiplications in one call of ormqr, about half a second: between calls Ctrl-C is heard
NARROWEST = 256  # columns in one call of ormqr


def reflect(V: Array, tau: Array, X: Array, *, side: str, transposed: bool) -> Array:
    """X times ``H = H_1 ... H_k`` (or its transpose), ``H_j = I - tau_j v_j v_j^T``, from the given side.

    Column j of V holds v_j in LAPACK's form: zeros above row j, one at row j, neither stored. X is not changed.
    """
    xp = namespace(V, X)
    if xp is np:
        return _ormqr(V, tau, X, side, transposed)
    if side == "R":
        flipped = reflect(V, tau, xp.matrix_transpose(X), side="L", transposed=not transposed)
        return xp.matrix_transpose(flipped)
    X = xp.asarray(X, copy=True)
    reflect_over(V, X, transposed=transposed)
    return X


def reflect_over(V: Array, X: Array, *, transposed: bool) -> None:
    """``H X``, or ``H^T X``, over X, which is not NumPy's; tau follows from V."""
    xp, k = namespace(V, X), V.shape[1]
    starts = list(range(0, k, _WY))
    for start in starts if transposed else reversed(starts):
        _compact_wy(xp, V[:, start : min(start + _WY, k)], start, X, transposed)


def _compact_wy(xp: Any, V: Array, start: int, X: Array, transposed: bool) -> None:
    """One product with ``I - W T W^T``; T^-1 is the upper triangle of ``W^T W`` with its diagonal halved."""
    rows, k = V.shape[0] - start, V.shape[1]
    W = xp.tril(V[start:, :], k=-1) + xp.eye(rows, k, dtype=V.dtype, device=V.device)
    G = xp.matrix_transpose(W) @ W
    T_inverse = xp.triu(G) - 0.5 * (G * xp.eye(k, dtype=G.dtype, device=G.device))
    Z = solve_triangular(T_inverse, xp.matrix_transpose(W) @ X[start:, :], transposed=transposed)
    subtract_product(X[start:, :], W, Z)


def _ormqr(V: Float, tau: Float, X: Float, side: str, transposed: bool) -> Float:
    if X.size == 0 or V.shape[1] == 0:
        return X.copy()
    if not X.flags.f_contiguous:
        return _ormqr(V, tau, np.ascontiguousarray(X).T, "R" if side == "L" else "L", not transposed).T
    other = X.shape[1] if side == "L" else X.shape[0]
    width = max(NARROWEST, int(LONGEST_CALL / (4.0 * V.size)) // 64 * 64)
    if other <= width:
        return ormqr_at_once(V, tau, X, side, transposed)
    # The same numbers in pieces, so that an interruption does not wait for all of them.
    reflected = np.empty_like(X)
    for start in range(0, other, width):
        piece = np.s_[:, start : start + width] if side == "L" else np.s_[start : start + width, :]
        reflected[piece] = ormqr_at_once(V, tau, X[piece], side, transposed)
    return reflected


def ormqr_at_once(V: Float, tau: Float, X: Float, side: str, transposed: bool) -> Float:
    other = X.shape[1] if side == "L" else X.shape[0]
    lwork = max(1, other) * 64 + 65 * 64
    with small_work(4.0 * V.shape[1] * X.size):
        reflected, _, info = scipy.linalg.lapack.dormqr(side, "T" if transposed else "N", V, tau, X, lwork)
    check_info("ormqr", info)
    return np.asarray(reflected)
