"""Top singular vectors in extended precision: one Newton step on LAPACK's basis, twice.

With U orthonormal and nearly singular vectors, the part of ``X X^T u_i`` along u_j, divided by the gap between squared
singular values, is what u_i lacks of u_j. The residual is formed in ``longdouble``; the correction is small, so double
is enough for it. What lies outside LAPACK's thin U is found in the same way with the singular value zero.
"""

from typing import Any

import numpy as np

from fedsvd.types import Float

Extended = Any  # NDArray[np.longdouble]
_STEPS = 2


def top_vectors(X: Float, U: Float, sigma: Float, r: int) -> Extended:
    """An orthonormal basis of the top r left singular vectors, in extended precision."""
    wide = X.astype(np.longdouble)
    V = U[:, :r].astype(np.longdouble)
    rest, others = U[:, r:], sigma[r:] ** 2
    for _ in range(_STEPS):
        V = _orthonormal(V)
        W = wide.T @ V
        theta = (W.T @ W).astype(np.float64)
        residual = (wide @ W - V @ (W.T @ W)).astype(np.float64)
        values, Q = np.linalg.eigh(theta)
        turned = residual @ Q
        inside = rest.T @ turned
        outside = turned - rest @ inside - U[:, :r] @ (U[:, :r].T @ turned)
        correction = rest @ (inside / (values - others[:, None])) + outside / values
        V = V + (correction @ Q.T).astype(np.longdouble)
    return _orthonormal(V)


def distance(truth: Extended, U: Float) -> float:
    """``||T T^T - U U^T||_F``: from the part of U outside T, in extended precision."""
    wide = U.astype(np.longdouble)
    outside = (wide - truth @ (truth.T @ wide)).astype(np.float64)
    back = (truth - wide @ (wide.T @ truth)).astype(np.float64)
    return float(np.hypot(np.linalg.norm(outside), np.linalg.norm(back)))


def _orthonormal(V: Extended) -> Extended:
    """One step of the polar iteration: V is orthonormal to rounding in double already."""
    return V + V @ (np.eye(V.shape[1], dtype=np.longdouble) - V.T @ V) / 2
