"""Step 7: an answer of the CSP is checked by sums before anything that depends on it is sent (specification, step 7).

The structure of an answer has been checked when it came (``answers.py``). Here

- ``eigen``  is zero iff each u_j is an eigenvector of the joint Gram matrix; it does not contain the spectrum;
- ``diag``   is compared with S^2, where S is released, before any user divides by S;
- ``trace``  is the squared joint norm, which with S proves that the vectors are the leading ones, where it does;
- ``C``      sees the small singular values, which ``eigen`` is blind to (sum family);
- ``residual`` is zero iff w solves the normal equations of a regression on split rows.

Lengths are compared, which no orthogonal P changes: the outcome is a function of what the CSP has seen and said and of
the users' secrets, not of the features behind P. Tolerances are those of rounding; what is beyond them is
``VerificationFailed``, with the same text whatever the data.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsvd.errors import VerificationFailed
from fedsvd.linalg import backend
from fedsvd.linalg.backend import namespace, to_numpy
from fedsvd.linalg.widen import unit
from fedsvd.protocol.sums import EIGEN_VECTORS
from fedsvd.protocol.tasks import Scheme
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user.masking import Operand
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.statistics import Prepared, panels_of
from fedsvd.roles.user.sums import NORM_WIDTH, SPECTRUM_WIDTH, checked_sum, total_sum, upper_triangle, within_bounds
from fedsvd.roles.user.work import Dense, Streamed, Work
from fedsvd.types import Array, Float

ROUNDING = 2.0**-53
_TOGETHER = 1 << 22  # numbers of U that are read at once, where it lies on disk


@dataclass(frozen=True)
class Checked:
    """What was verified of (U, S): whether they are proved to be the leading ones."""

    order_proved: bool
    trace: float | None = None  # the squared joint norm, in units of 2^2E


def check_factors(
    work: Work, prepared: Prepared, U: Float, sigma: Float | None, kept: list[Float] | None = None
) -> Script:
    """Raise ``VerificationFailed`` unless U, and S where it is released, are those of the joint matrix.

    U (m, rho) and S (rho,) come without the zero columns of the answer; S is in units of 2^E. ``A_i^T U`` is
    put into ``kept`` where that is given.
    """
    plan, F1 = work.plan, prepared.F1
    F = unit(F1)
    g = _secret_vectors(work, U.shape[1])
    products: _Products = yield Local("checks", lambda: _products(work, prepared.A_i, U, g, kept))
    residual = _eigen_residual(work, U, g, products)
    total = yield from checked_sum(plan, "eigen", residual / F**2, work.own, math.ldexp((F1 / F) ** 2, -52))
    eigen_tolerance = 64 * math.sqrt(plan.m * plan.k) * ROUNDING * (F1 / F) ** 2
    # Lengths, not largest entries: what P does not change says nothing of the basis in which data is held.
    lengths = np.linalg.norm(total[:-1].reshape(-1, EIGEN_VECTORS), axis=0)
    _expect(bool(lengths.max(initial=0.0) <= eigen_tolerance), "the vectors")
    _expect(bool(abs(total[-1]) <= eigen_tolerance), "the rank")
    if sigma is None:
        return Checked(False)
    energies = np.zeros(plan.planned_rank)
    energies[: len(sigma)] = products.energies
    diag = (yield from total_sum(plan, "diag", energies / F**2, work.own, SPECTRUM_WIDTH)) * F**2
    expected = np.zeros(plan.planned_rank)
    expected[: len(sigma)] = sigma**2
    diag_tolerance = 64 * (plan.k + math.sqrt(plan.m)) * ROUNDING * F1**2
    _expect(bool(np.abs(diag - expected).max(initial=0.0) <= diag_tolerance), "the singular values")
    trace = yield from joint_trace(work, products.norm, F)
    slack = plan.k * math.ldexp(F**2, SPECTRUM_WIDTH - 100)
    left = trace + slack - float(np.sum(sigma**2))
    proved = len(sigma) < plan.planned_rank or left <= float(sigma[-1]) ** 2
    if plan.scheme is Scheme.SUM and len(sigma):
        yield from _check_small(work, prepared.A_i, U, sigma)
    return Checked(proved, trace)


def joint_trace(work: Work, norm: float, F: float) -> Script:
    """The squared joint norm, from this user's own part of it, both in units of 2^2E."""
    own = np.array([norm / F**2])
    return float((yield from total_sum(work.plan, "trace", own, work.own, SPECTRUM_WIDTH))[0]) * F**2


def _check_small(work: Work, A_i: Operand, U: Float, sigma: Float) -> Script:
    """``S^-1 U^T G U S^-1 = I`` for all S_j above the level of rounding."""
    plan, r = work.plan, work.plan.planned_rank
    covered = int(np.count_nonzero(sigma > 64 * plan.m * ROUNDING * sigma[0]))
    C_i: Float = yield Local("checks", lambda: _in_own_basis(work, A_i, U[:, :covered] / sigma[:covered]))
    own = upper_triangle(within_bounds(C_i), r)
    del C_i
    total: Float = yield from total_sum(plan, "C", own, work.own, NORM_WIDTH)
    del own
    total -= upper_triangle(np.eye(covered), r)
    tolerance = 64 * plan.m * ROUNDING * float(sigma[0] / sigma[covered - 1])
    noise = plan.k * math.ldexp(1.0, NORM_WIDTH - 100)
    _expect(bool(max(total.max(), -total.min()) <= tolerance + noise), "the small singular values")


def check_solution(work: Work, prepared: Prepared, w: Float, features: int) -> Script:
    """Raise ``VerificationFailed`` unless w (features, targets) solves the normal equations of the scaled rows."""
    plan, F1 = work.plan, prepared.F1
    F = unit(F1)
    own = yield Local("checks", lambda: _normal_residual(work, prepared.A_i, w, features))
    size = 1.0 + float(np.linalg.norm(w, axis=0).max(initial=0.0))
    # A large solution has a large residual in rounding, and the sum has space for 2^57 units.
    scale = math.ldexp(1.0, math.frexp(size)[1])
    deviation = math.ldexp((F1 / F) ** 2, -52)
    total = yield from checked_sum(plan, "residual", own / (F**2 * scale), work.own, deviation)
    tolerance = 64 * math.sqrt(plan.M * plan.k) * ROUNDING * (F1 / F) ** 2 * size / scale
    noise = 8 * math.sqrt(plan.m * plan.k) * deviation
    _expect(bool(np.linalg.norm(total, axis=0).max(initial=0.0) <= tolerance + noise), "the coefficients")


# --- this user's part -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class _Products:
    """``A_i A_i^T U g`` (m, 3) for the secret g, ``||A_i^T u_j||^2`` (rho,), and ``||A_i||^2``."""

    turned: Float
    energies: Float
    norm: float


def _products(work: Work, A_i: Operand, U: Float, g: Float, kept: list[Float] | None = None) -> _Products:
    """One pass over A_i by columns; two by rows, where U may lie on disk and is read in the same panels."""
    if isinstance(A_i, Streamed) and A_i.at_once and 4 * 8 * work.n_i * U.shape[1] <= work.plan.memory:
        return _at_once(work, A_i, U, g, kept)
    if not work.plan.reads_rows or isinstance(A_i, Dense):
        return _by_columns(work, A_i, U, g, kept)
    W, squares = np.zeros((work.n_i, U.shape[1])), []
    for part in work.row_places("checks"):
        rows = A_i.rows(part.start, part.stop)
        W += to_numpy(backend.matmul(namespace(rows).matrix_transpose(rows), work.put(np.ascontiguousarray(U[part]))))
        squares.append(backend.norm(rows) ** 2)
    turned, Wg = np.empty((U.shape[0], EIGEN_VECTORS)), work.put(W @ g)
    for part in work.row_places("checks"):
        turned[part] = to_numpy(backend.matmul(A_i.rows(part.start, part.stop), Wg))
    if kept is not None:
        kept.append(W)
    return _Products(turned, np.einsum("ij,ij->j", W, W), math.fsum(squares))


def _at_once(work: Work, A_i: Streamed, U: Float, g: Float, kept: list[Float] | None) -> _Products:
    """A few products with the data where it lies."""
    memory = work.plan.memory
    W = A_i.transposed_times(U, memory)
    turned = A_i.times(W @ g, memory)
    if kept is not None:
        kept.append(W)
    return _Products(turned, np.einsum("ij,ij->j", W, W), A_i.squared_norm(memory))


def _by_columns(work: Work, A_i: Operand, U: Float, g: Float, kept: list[Float] | None) -> _Products:
    there, g_there = work.put(np.ascontiguousarray(U)), work.put(g)
    turned: Array = work.put(np.zeros((U.shape[0], EIGEN_VECTORS)))
    energies, squares = np.zeros(U.shape[1]), []
    parts: list[Float] = []
    for panel in panels_of(work, A_i):
        W_p = backend.matmul(namespace(panel).matrix_transpose(panel), there)
        turned = turned + backend.matmul(panel, backend.matmul(W_p, g_there))
        energies += to_numpy(backend.column_norms(W_p)) ** 2
        squares.append(backend.norm(panel) ** 2)
        if kept is not None:
            parts.append(to_numpy(W_p))
    if kept is not None:
        kept.append(parts[0] if len(parts) == 1 else np.concatenate(parts))
    return _Products(to_numpy(turned), energies, math.fsum(squares))


def _secret_vectors(work: Work, rho: int) -> Float:
    return Keystream.of(work.checks, "g", "gram").normal((work.plan.planned_rank, EIGEN_VECTORS))[:rho]


def _eigen_residual(work: Work, U: Float, g: Float, products: _Products) -> Float:
    """``A_i A_i^T U g - U (diag(U^T A_i A_i^T U) o g)``, and one number more where columns of U are missing."""
    r, rho = work.plan.planned_rank, U.shape[1]
    v, across = products.turned.copy(), products.energies[:, None] * g
    rows = max(1, _TOGETHER // max(1, rho))
    for start in range(0, len(U), rows):
        v[start : start + rows] -= backend.matmul(U[start : start + rows], across)
    missing = products.norm - float(products.energies.sum()) if rho < r else 0.0
    return np.append(v.ravel(), missing)


def _in_own_basis(work: Work, A_i: Operand, W: Float) -> Float:
    """``W^T A_i A_i^T W`` for W = U S^-1."""
    assert isinstance(A_i, Dense)
    return to_numpy(backend.gram(backend.matmul(work.put(np.ascontiguousarray(W.T)), A_i.A_i)))


def _normal_residual(work: Work, A_i: Operand, w: Float, features: int) -> Float:
    assert isinstance(A_i, Dense)
    X, Y = A_i.A_i[:features, :], A_i.A_i[features:, :]
    xp = namespace(X)
    return to_numpy(X @ xp.matrix_transpose(Y - work.put(np.ascontiguousarray(w.T)) @ X))


def _expect(right: bool, what: str) -> None:
    if not right:
        raise VerificationFailed(
            f"{what} in the CSP's answer are not those of the joint data",
            "nothing is released; run again, and ask the operator of the CSP if it repeats",
        )
