"""Factors that were computed elsewhere, checked before anything is done with them (specification, steps 6 and 7).

An answer is U, (m, r), and where it is released sigma, (r,), with r as planned. Where the rank is lower, only the first
columns are nonzero: their number is called rho, and the columns and values after them are exactly zero. Two questions
are asked of it. Has it the structure that every honest answer has? That takes no data. Is it the SVD of a given factor
R, vectors of the smallest values included? A residual of ``R^T R`` relative to s_1^2 would not see those below
1e-8 s_1, so that each vector is tested in the scale of its own singular value.
"""

import math

import numpy as np

from fedsvd.errors import AnswerRefused, VerificationFailed
from fedsvd.linalg import backend
from fedsvd.linalg.backend import namespace
from fedsvd.linalg.ring128 import cast
from fedsvd.types import Array, expect_shape

_EPS = 2.0**-53
_ORTHOGONALITY = 1e-13  # of U^T U - I, entry by entry, times sqrt(m)
_MOST_ENTRY = 2.0  # of vectors that are orthonormal: squares of larger numbers could overflow
_FEW_ROWS = 64
_MOST_ENERGY = 0.25  # of sum sigma^2 in units of F^2: what the choice of the unit leaves (exact_gram.unit)


def expect_structure(U: Array, sigma: Array | None, m: int, r: int, most: float = _MOST_ENERGY) -> int:
    """rho, the number of nonzero columns of an answer; ``AnswerRefused`` unless it is one that could be honest.

    ``most`` bounds the sum of sigma^2. No text of a refusal holds a number that depends on data.
    """
    if tuple(U.shape) != (m, r) or (sigma is not None and tuple(sigma.shape) != (r,)):
        raise _refused("its shapes are not the planned ones")
    fault = _fault(U, sigma)
    if fault:
        raise _refused(fault)
    rho = rank_shown(U)
    if not _orthogonality(U[:, :rho]) <= _ORTHOGONALITY * math.sqrt(m):
        raise _refused("its singular vectors are not orthonormal")
    if sigma is not None:
        expect_energy(sigma, math.sqrt(most))
    return rho


def expect_energy(sigma: Array, most: float) -> None:
    """Refuse singular values whose norm is beyond that of the joint matrix, in their own unit."""
    if not backend.norm(sigma) <= most:
        raise _refused("its singular values are beyond the joint norm")


def expect_orthonormal(gram: Array, m: int) -> int:
    """rho of a U' that came in panels of rows, from its Gram matrix; ``AnswerRefused`` where it has no structure."""
    xp = namespace(gram)
    shown = xp.linalg.diagonal(gram) > 0.0
    rho = int(xp.count_nonzero(shown))
    if not bool(xp.all(shown[:rho])):
        raise _refused("a zero column stands before one that is not zero")
    identity = xp.eye(rho, dtype=gram.dtype, device=gram.device)
    if rho and not float(xp.max(xp.abs(gram[:rho, :rho] - identity))) <= _ORTHOGONALITY * math.sqrt(m):
        raise _refused("its singular vectors are not orthonormal")
    return rho


def accepts(R: Array, U: Array, sigma: Array, cut: float) -> float:
    """The worst measure of ``R^T = U diag(sigma) W^T`` in units of its tolerance; ``VerificationFailed`` above 1.

    R is (m, m), U (m, r) and sigma (r,), in R's unit, with zeros after the rank. ``W = R U diag(sigma)^-1`` must have
    orthonormal columns, each as far as its sigma is above rounding. What is left of R outside of U must not exceed the
    last sigma, nor, where the rank is below r, ``cut sigma_1``: vectors that do not lead, or were left out, show there.
    ``cut`` is the rank rule's, max(m, n) 2^-52.
    """
    xp, (m, r) = namespace(R, U, sigma), U.shape
    expect_shape("R", R, m, m)
    expect_shape("sigma", sigma, r)
    if _fault(U, sigma):
        raise _wrong()
    rho, top = rank_shown(U), float(sigma[0]) if r else 0.0
    U = U[:, :rho]
    product = backend.matmul(R, U)
    least = float(sigma[r - 1]) if rho == r else 0.0
    limit = max(least, cut * top) + 64.0 * m * _EPS * top
    if not _norm_is_within(R - backend.matmul(product, xp.matrix_transpose(U)), limit):
        raise _wrong()
    worst = _orthogonality(U) / (_ORTHOGONALITY * math.sqrt(m))
    clear = _count(sigma[:rho] > m * 2.0**-52 * top)
    if clear:
        ratio = top / sigma[:clear]
        tolerance = 64.0 * m * _EPS * (ratio[:, None] + ratio[None, :])
        worst = max(worst, float(xp.max(_deviation(product[:, :clear] / sigma[:clear]) / tolerance)))
    if not worst <= 1.0:
        raise _wrong()
    return worst


def rank_shown(U: Array) -> int:
    """The number of columns of U that are not zero."""
    return _count(_shown(U))


def _shown(U: Array) -> Array:
    """Which columns of U are not zero: nearly all are known from a few rows."""
    xp = namespace(U)
    shown = xp.any(U[: min(_FEW_ROWS, U.shape[0]), :] != 0.0, axis=0)
    return shown if bool(xp.all(shown)) else xp.any(U != 0.0, axis=0)


def _fault(U: Array, sigma: Array | None) -> str:
    """What no honest answer shows, in words; empty where there is nothing of the kind."""
    xp = namespace(U) if sigma is None else namespace(U, sigma)
    if 0 not in U.shape and not (float(xp.max(U)) <= _MOST_ENTRY and float(xp.min(U)) >= -_MOST_ENTRY):  # nor NaN
        return "its singular vectors are not orthonormal"
    shown = _shown(U)
    rho = _count(shown)
    if not bool(xp.all(shown[:rho])):
        return "a zero column stands before one that is not zero"
    if sigma is None:
        return ""
    # Written so that NaN fails: it compares false with everything.
    if not bool(xp.all(xp.isfinite(sigma) & (sigma >= 0.0))) or not bool(xp.all(sigma[1:] <= sigma[:-1])):
        return "its singular values are not finite, nonnegative and descending"
    if bool(xp.any(sigma[rho:] != 0.0)):
        return "a singular value has no singular vector"
    return ""


def _count(mask: Array) -> int:
    xp = namespace(mask)
    return int(xp.sum(cast(mask, xp.int64)))


def _deviation(Q: Array) -> Array:
    """``|Q^T Q - I|``, entry by entry."""
    xp = namespace(Q)
    G = backend.gram(xp.matrix_transpose(Q))
    if xp is np:  # in its place: it may be as large as the memory allows
        G[np.diag_indices_from(G)] -= 1.0
        return np.abs(G, out=G)
    return xp.abs(G - xp.eye(G.shape[0], dtype=G.dtype, device=G.device))


def _orthogonality(Q: Array) -> float:
    return float(namespace(Q).max(_deviation(Q))) if Q.shape[1] else 0.0


def _norm_is_within(A: Array, limit: float) -> bool:
    """Whether the largest singular value of A is at most ``limit``, up to a few eps."""
    if backend.norm(A) <= limit:
        return True
    return limit > 0.0 and backend.is_definite(backend.gram(namespace(A).matrix_transpose(A)), -1.0, limit * limit)


def _refused(fault: str) -> AnswerRefused:
    return AnswerRefused(f"an answer was refused: {fault}", "nothing was computed from it; ask the CSP what it runs")


def _wrong() -> VerificationFailed:
    return VerificationFailed(
        "the factors that were sent are not those of the joint Gram matrix",
        "nothing was released; run again, and ask the party that sent them if it repeats",
    )
