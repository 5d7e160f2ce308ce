"""Is this factorisation right? Asked before anything is released (step 6).

Solvers have returned wrong factors in silence: 32-bit LAPACK past its sizes, GPU drivers, a flipped bit in memory.
Everything here compares a result with the matrix itself, never with what the solver says of it, and raises
``VerificationFailed`` beyond a bound that follows from eps and the sizes alone. What can not be seen from residuals
is whether truncated triplets are the *largest* ones; for that the start block must be wide enough (``truncated_svd``).

Nothing is formed that is larger than a panel, a factor, or the matrix's panels as they come.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import scipy

from fedsvd.errors import ShapeError, VerificationFailed
from fedsvd.linalg import backend
from fedsvd.linalg.backend import EPS, namespace
from fedsvd.linalg.operators import Operator, PanelOperator, as_operator
from fedsvd.types import Array, expect_shape

PANEL = 1 << 22  # entries; 32 MiB
_PROBES = 8
_GOLDEN = (1 + math.sqrt(5)) / 2
_FIX = "nothing was released; run again, on another machine or backend if it repeats"


@dataclass(frozen=True)
class Quality:
    """What was measured of a factorisation; both are 0 for a perfect one."""

    residual: float
    orthogonality: float


def bounds(m: int, n: int, k: int, tolerance: float = 0.0) -> Quality:
    """The worst ``Quality`` that rounding excuses in k triplets of an m x n matrix.

    Residual: LAPACK's errors are random on random data (15 eps, whatever the size) and all of one sign at worst, on a
    matrix of ones, where 0.3 sqrt(m n) eps was measured; allowed is 64 + 2 sqrt(m n), and what a cut at the level of
    rounding (``dense_svd.rank``) leaves out. Orthogonality: k eps on random data, 17 k eps on square ones; allowed is
    64 (k + 16) eps. Vectors below the rank of a long matrix of one sign are worse, 0.8 n eps on ones under some BLAS
    kernels; they mean nothing and are cut before (``dense_svd.known_part``). ``tolerance`` is what an iterative solver
    was asked for.
    """
    cut = max(m, n) * math.sqrt(min(m, n) - k)
    return Quality(
        residual=tolerance + EPS * (64 + 2 * math.sqrt(m * n) + cut),
        orthogonality=tolerance + EPS * 64 * (k + 16),
    )


def verify_svd(A: Any, U: Array, sigma: Array, Vt: Array) -> Quality:
    """``||A - U diag(sigma) Vt||_F / ||A||_F`` and the orthogonality of both sides, within ``bounds``.

    A is an array, a SciPy sparse matrix or an operator; panels are read once each.
    """
    m, n, k = _check_shapes(A, U, sigma, Vt)
    _check_sigma(sigma)
    error = size = 0.0
    for by_rows, place, panel in _panels(A, U):
        left, right = (U[place, :], Vt) if by_rows else (U, Vt[:, place])
        product = backend.matmul(left * sigma, right)
        error = math.hypot(error, backend.norm(panel - product))
        size = math.hypot(size, backend.norm(panel))
    return within(Quality(_relative(error, size), _worst_side(U, Vt)), bounds(m, n, k))


def verify_by_probes(A: Array, U: Array, sigma: Array, Vt: Array) -> Quality:
    """``verify_svd`` at the cost of a few products with vectors: both figures are estimates from fixed probes.

    For a probe omega with entries of unit variance, ``||E omega||^2`` is on average ``||E||_F^2``: a wrong entry, sign
    or value shows as clearly as in the full product, whose work would be that of the factorisation again. The probes
    are fixed and look like noise; an error would have to be made for them to be missed. One wrong entry cannot be:
    over the eight probes cos(j theta) its mean square is 1 + (sin 17 theta / sin theta - 1) / 16, at least 0.7.
    """
    m, n, k = _check_shapes(A, U, sigma, Vt)
    _check_sigma(sigma)
    omega = probes(A, n)
    error = backend.matmul(A, omega) - backend.matmul(U, sigma[:, None] * backend.matmul(Vt, omega))
    residual = _relative(backend.norm(error) / math.sqrt(_PROBES), backend.norm(A))
    xp = namespace(U)
    sides = (_probed_orthogonality(U), _probed_orthogonality(xp.matrix_transpose(Vt)))
    return within(Quality(residual, max(sides)), bounds(m, n, k))


def verify_factor(R: Array, A: Array) -> float:
    """``R^T R = A A^T`` for the factor R of A^T, on a few probes, relative to ``||R||^2``."""
    omega = probes(A, A.shape[0])
    xp = namespace(R, A)
    error = backend.matmul(xp.matrix_transpose(R), backend.matmul(R, omega))
    error = error - backend.matmul(A, backend.matmul(xp.matrix_transpose(A), omega))
    residual = _relative(backend.norm(error), backend.norm(R) ** 2 * math.sqrt(_PROBES))
    m, n = A.shape
    return within(Quality(residual, 0.0), bounds(m, n, min(m, n))).residual


def probes(like: Array, rows: int) -> Array:
    """Fixed columns of length ``rows`` that look like noise of unit variance, in the library of ``like``."""
    xp = namespace(like)
    t = xp.arange(1, rows + 1, dtype=like.dtype, device=like.device)
    rate = xp.arange(1, _PROBES + 1, dtype=like.dtype, device=like.device) * _GOLDEN
    return math.sqrt(2) * xp.cos((t * t)[:, None] * rate[None, :])


def _probed_orthogonality(Q: Array) -> float:
    psi = probes(Q, Q.shape[1])
    error = backend.matmul(namespace(Q).matrix_transpose(Q), backend.matmul(Q, psi)) - psi
    return backend.norm(error) / math.sqrt(_PROBES)


def verify_truncated(A: Any, U: Array, sigma: Array, Vt: Array, tolerance: float = 1e-12) -> Quality:
    """The largest residual ``||(A v - sigma u, A^T u - sigma v)|| / sigma_1`` of k triplets, in two passes."""
    m, n, k = _check_shapes(A, U, sigma, Vt)
    _check_sigma(sigma)
    if k == 0:
        return Quality(0.0, 0.0)
    xp, operator = namespace(U, Vt), as_operator(A)
    V, scale = xp.matrix_transpose(Vt), sigma[0] if float(sigma[0]) > 0 else 1.0
    right = (operator.matmul(V) - U * sigma) / scale
    left = (operator.rmatmul(U) - V * sigma) / scale
    residual = xp.max(xp.hypot(backend.column_norms(right), backend.column_norms(left)))
    # No full sum over A is taken here, so neither its rounding nor the cut is to be excused.
    most = bounds(m, n, k, tolerance)
    most = Quality(tolerance + EPS * (64 + 4 * math.sqrt(m + n)), most.orthogonality)
    return within(Quality(float(residual), _worst_side(U, Vt)), most)


def verify_least_squares(A: Any, w: Array, y: Array, tolerance: float = 0.0) -> float:
    """``||A^T (A w - y)|| / (||A|| (||A|| ||w|| + ||y||))``: the normal equations, to working precision.

    In this measure a backward-stable solver is at eps whatever the condition number. w is (n,) or (n, q).
    ``tolerance`` is a rank cut-off coarser than rounding, where one was used.
    """
    xp = namespace(w, y)
    w, y = (x if len(x.shape) == 2 else xp.reshape(x, (-1, 1)) for x in (w, y))
    m, n = A.shape
    expect_shape("w", w, n, y.shape[1])
    expect_shape("y", y, m, w.shape[1])
    operator = as_operator(A)
    size = 0.0
    for _, _, panel in _panels(A, y):
        size = math.hypot(size, backend.norm(panel))
    gradient = backend.norm(operator.rmatmul(operator.matmul(w) - y))
    # Divided twice: the square of the size may overflow.
    residual = _relative(_relative(gradient, size), size * backend.norm(w) + backend.norm(y))
    most = Quality(tolerance + EPS * (64 + 2 * max(m, n)), 0.0)
    return within(Quality(residual, 0.0), most).residual


def verify_orthonormal(Q: Array) -> float:
    """``||Q^T Q - I||_F`` for orthonormal columns, within ``bounds``."""
    m, k = Q.shape
    if k > m:
        raise ShapeError(f"{k} orthonormal columns of length {m} do not exist")
    quality = Quality(0.0, _orthogonality(namespace(Q).matrix_transpose(Q)))
    return within(quality, bounds(m, k, k)).orthogonality


def _check_shapes(A: Any, U: Array, sigma: Array, Vt: Array) -> tuple[int, int, int]:
    (m, n), k = A.shape, sigma.shape[0]
    expect_shape("U", U, m, k)
    expect_shape("Vt", Vt, k, n)
    if k > min(m, n):
        raise ShapeError(f"{k} triplets of a {m} x {n} matrix")
    return m, n, k


def _check_sigma(sigma: Array) -> None:
    xp = namespace(sigma)
    # Written so that NaN fails: it compares false with everything.
    if not bool(xp.all(sigma >= 0) & xp.all(sigma[1:] <= sigma[:-1]) & xp.all(xp.isfinite(sigma))):
        raise VerificationFailed("singular values are not finite, nonnegative and descending", _FIX)


def within(quality: Quality, most: Quality) -> Quality:
    """What was measured, unless it is beyond what rounding excuses."""
    for name in ("residual", "orthogonality"):
        measured, allowed = getattr(quality, name), getattr(most, name)
        if not measured <= allowed:
            raise VerificationFailed(f"{name} {measured:.1e} is beyond its bound {allowed:.1e}", _FIX)
    return quality


def _relative(error: float, scale: float) -> float:
    if error == 0.0:
        return 0.0
    return error / scale if scale else math.inf


def _worst_side(U: Array, Vt: Array) -> float:
    # max() may pass over a NaN; a NaN in U or Vt has made the residual NaN before.
    return max(_orthogonality(namespace(U).matrix_transpose(U)), _orthogonality(Vt))


def _orthogonality(Qt: Array) -> float:
    """``||Qt Qt^T - I||_F``, block by block below the diagonal: half of the products, and never k x k at once."""
    xp = namespace(Qt)
    k = Qt.shape[0]
    width = max(1, min(k, PANEL // max(k, 1)))
    total = 0.0
    for start in range(0, k, width):
        stop = min(start + width, k)
        block = Qt[start:stop, :]
        eye = xp.eye(block.shape[0], dtype=Qt.dtype, device=Qt.device)
        below = backend.matmul(Qt[stop:, :], xp.matrix_transpose(block))
        total = math.hypot(total, backend.norm(backend.gram(block) - eye), math.sqrt(2) * backend.norm(below))
    return total


def _panels(A: Any, like: Array) -> Iterator[tuple[bool, slice, Array]]:
    """One pass over A in panels of bounded size: (whether by rows, place, panel)."""
    m, n = A.shape
    if isinstance(A, PanelOperator):
        yield from A.panels()
    elif scipy.sparse.issparse(A) or hasattr(A, "rmatmul"):
        yield from _columns_of(as_operator(A), like)
    else:
        step = max(1, PANEL // max(n, 1))
        for start in range(0, m, step):
            place = slice(start, min(start + step, m))
            yield True, place, A[place, :]


def _columns_of(A: Operator, like: Array) -> Iterator[tuple[bool, slice, Array]]:
    """Columns of an operator that has no panels, by products with columns of the identity."""
    xp = namespace(like)
    m, n = A.shape
    step = max(1, PANEL // max(m, n))
    for start in range(0, n, step):
        place = slice(start, min(start + step, n))
        columns = xp.eye(n, place.stop - start, k=-start, dtype=like.dtype, device=like.device)
        yield False, place, A.matmul(columns)
