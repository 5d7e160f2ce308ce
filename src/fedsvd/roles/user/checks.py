"""Step 7: an answer of the CSP is checked by sums before anything that depends on it is sent (specification, step 7).

The structure of an answer has been checked when it came (``answers.py``), and all users are known to hold the same one.
Here, with secret normal vectors g and h of the users,

- ``eigen``  is h^T R g, R the residual of U, zero iff each u_j is an eigenvector of the joint Gram matrix;
- ``diag``   is h^T (diag - S^2), where S is released, before any user divides by S;
- ``trace``  is the squared joint norm, which with S shows that the vectors are the leading ones, where it does;
- ``C``      sees the small singular values, which ``eigen`` is blind to (sum family);
- ``residual`` is h^T N g, N that of the normal equations of a regression on split rows;
- ``Order`` bounds what U leaves out.

Each is a few numbers, opened modulo a little more than their tolerance: a made-up answer would otherwise let users read
the joint Gram matrix from the residuals. g and h are normal and no one outside knows them, so that the law of what is
opened does not change with P: the outcome is one of what the CSP has seen and said and of the users' secrets, not of
the features behind P. Tolerances are those of rounding; what is beyond them is ``VerificationFailed``, with the same
text whatever the data.

The order: no direction outside of U holds more than the vectors of an answer do. True eigenvectors pass the eigen-check
whichever they are: last ones could be handed out as first. Where the trace, with S, does not show that little is left
outside, users search there: Lanczos' method from secret directions, products by sums, rounded to 16 bits. What it finds
is there (the answer is refused if that is more than the last vector has); what it misses is bounded by Kuczynski and
Wozniakowski. What is opened so is stated in the threat model.

Where the search would open more than half of what is outside, and with U all of the joint Gram matrix, it is not made:
the mean over the directions there takes the place of the largest value that is found, and the bound is wider by it.

Without S the vectors' own energies are not opened. A user sets a flag where it alone has a k-th part of what was found:
if all users together have it, one of them has a k-th part, so that no honest answer is refused, and a vector for which
no flag is set has less than was found outside.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from fedsvd.errors import VerificationFailed
from fedsvd.linalg import backend
from fedsvd.linalg.backend import namespace, to_numpy
from fedsvd.linalg.outside import Outside
from fedsvd.linalg.widen import unit
from fedsvd.protocol.sums import (
    CHECK_NUMBERS,
    EIGEN_VECTORS,
    INNER_PRODUCTS,
    ORDER_BITS,
    ORDER_BLOCK,
    ORDER_CLASSES,
    ORDER_FACTOR,
    ORDER_HELD,
    ORDER_OUTSIDE,
    ORDER_SLACK,
    ORDER_UNIT,
    order_left,
    order_step,
    order_steps,
)
from fedsvd.protocol.tasks import Scheme
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user.masking import Operand
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.shared import once_in_process
from fedsvd.roles.user.statistics import Prepared, panels_of
from fedsvd.roles.user.sums import SPECTRUM_WIDTH, any_of, folded_sum, rounded_sum, total_sum
from fedsvd.roles.user.work import Dense, Streamed, Work
from fedsvd.types import Array, Float

_BITS = 16  # of a product, relative to its largest entry over sqrt(m)


@dataclass(frozen=True)
class Order:
    """What was shown of what lies outside of U: at most ``factor`` times the last singular value, with ``bits``."""

    factor: float  # of singular values; 0 where nothing is outside
    bits: int = 0  # it fails with probability 2^-bits; 0 where it cannot
    released: bool = True  # whether S is: else it is no vector's value times the factor, and their own order is open

    @property
    def text(self) -> str:
        """What was proved, in words."""
        if self.factor == 0.0:
            return "nothing is left outside of the vectors but rounding"
        than = "the last singular value" if self.released else "what any of the vectors holds"
        times = "" if self.factor == 1.0 else f"{self.factor:.2f} times "
        bound = f"no direction outside of the vectors holds more than {times}{than}"
        chance = f", with probability 1 - 2^-{self.bits}" if self.bits else ""
        return bound + chance + ("" if self.released else "; their order among themselves is not shown")

    def record(self) -> dict[str, Any]:
        """What a manifest has of it beside the certificate: nothing."""
        return {}


class Shown(Protocol):
    """What was shown of the order of the vectors."""

    @property
    def text(self) -> str: ...
    def record(self) -> dict[str, Any]: ...


@dataclass(frozen=True, repr=False)
class Measured:
    """What the checks before have: the answer, own energies and norm squared, what rounding hides, the unit."""

    U: Float
    sigma: Float | None
    energies: Float
    norm: float
    slack: float
    F: float


def check_order(work: Work, found: Measured, trace: float | None, times: Callable[[Float], Float]) -> Script:
    """What is shown of the space outside of U; ``VerificationFailed`` where more is there than in a vector of U."""
    plan, sigma = work.plan, found.sigma
    steps, rho, last = order_steps(plan), found.U.shape[1], 0.0
    if not order_left(plan) or rho < plan.planned_rank:
        return Order(0.0)
    if sigma is not None and trace is not None:
        last, left = float(sigma[-1]) ** 2, trace - float(np.sum(sigma**2))
        if left <= last + found.slack:
            return Order(1.0)
        _expect_order(left <= order_left(plan) * ((1.0 + ORDER_SLACK) * last + found.slack))
    if not steps:
        return (yield from _by_mean(work, found))
    start = _secret(work, (plan.m, ORDER_BLOCK), "order")

    def begun() -> Outside:
        made: Outside = once_in_process(
            work.memo, "order", (found.U, start), lambda: Outside(found.U, start, steps, work.allocate)
        )
        return made

    outside: Outside = yield Local("order", begun)
    own: Float = yield Local("order", partial(_product, found.U, outside, times))
    if sigma is not None:
        exponent = _exponent(max(last, found.slack), plan.m)
    else:
        exponent = yield from _unit_of(work, own, found.F)
    largest, limit = 0.0, math.inf if sigma is None else (1.0 + ORDER_SLACK) * last + found.slack
    for j in range(1, steps + 1):
        if j > 1:
            own = yield Local("order", partial(_product, found.U, outside, times))
        total: Float = yield from rounded_sum(plan, order_step(j), own, exponent, work.own)
        outside = once_in_process(work.memo, order_step(j), (outside, total), partial(outside.added, total))
        largest = outside.largest
        _expect_order(largest <= limit)
        if sigma is None and (entry := float(np.abs(total).max(initial=0.0))):
            exponent = max(exponent, _exponent(entry, plan.m))
    return (yield from _bounded(work, found, largest, ORDER_FACTOR, ORDER_BITS))


def _by_mean(work: Work, found: Measured) -> Script:
    """One direction outside holds at most as much as all do; with S their mean has been compared."""
    left, mean = order_left(work.plan), 0.0
    if found.sigma is None:
        own = np.array([found.norm - float(found.energies.sum())]) / found.F**2
        total: Float = yield from total_sum(work.plan, ORDER_OUTSIDE, own, work.own, SPECTRUM_WIDTH)
        mean = float(total[0]) * found.F**2 / left
    return (yield from _bounded(work, found, mean, (1.0 + ORDER_SLACK) ** 2 * left, 0))


def _bounded(work: Work, found: Measured, largest: float, factor: float, bits: int) -> Script:
    if found.sigma is not None:
        return Order(math.sqrt(factor), bits)
    enough = ((1.0 - ORDER_SLACK) * largest - found.slack) / work.plan.k
    held = yield from any_of(ORDER_HELD, found.energies >= enough, work.own)
    _expect_order(bool(held.all()))
    return Order(math.sqrt(factor * work.plan.k), bits, released=False)


def _product(U: Float, outside: Outside, times: Callable[[Float], Float]) -> Float:
    """Own part of G V, V the block in hand, outside of U."""
    product = times(outside.directions)
    projected: Float = product - U @ (U.T @ product)
    return projected


def _exponent(largest: float, m: int) -> int:
    """Of the unit in which products are rounded, by what they can be: a number all users have, digit for digit."""
    return math.frexp(largest)[1] - _BITS - math.ceil(math.log2(m) / 2)


def _unit_of(work: Work, own: Float, F: float) -> Script:
    """The same by the largest entry that any user has: its power of two, and nothing of whose it is."""
    entry = float(np.abs(own).max(initial=0.0)) / F**2
    reached = np.array([entry >= math.ldexp(1.0, -power) for power in range(ORDER_CLASSES)])
    found = yield from any_of(ORDER_UNIT, reached, work.own)
    first = int(np.argmax(found)) if found.any() else ORDER_CLASSES
    return _exponent(math.ldexp(F**2, -first), work.plan.m)


def _secret(work: Work, shape: tuple[int, ...], *labels: str | int) -> Float:
    """Secret normals of the users, which those of one process that have the same seed draw once."""

    def drawn() -> Float:
        normals = Keystream.of(work.checks, *labels).normal(shape)
        normals.flags.writeable = False
        return normals

    found: Float = once_in_process(work.memo, f"secret {labels} {shape}", (work.checks.reveal(),), drawn)
    return found


def _expect_order(right: bool) -> None:
    if not right:
        raise VerificationFailed(
            "the vectors in the CSP's answer are not the leading ones of the joint data",
            "nothing is released; run again, and ask the operator of the CSP if it repeats",
        )


ROUNDING = 2.0**-53
_TOGETHER = 1 << 22  # numbers of U that are read at once, where it lies on disk
_H_ROWS = 1 << 16  # rows of the secret h that are drawn at once
_NORMAL = 4.0  # an inner product with a normal vector is so much longer than the other, or less, but for a rare chance


@dataclass(frozen=True)
class Checked:
    """What was verified of (U, S), and the largest number that users opened of their residual, relative to s^2."""

    order: Shown
    residual: float
    trace: float | None = None  # the squared joint norm, in units of 2^2E
    bits: int = 0  # that were opened of products, where the data decides how many there are


def check_factors(
    work: Work, prepared: Prepared, U: Float, sigma: Float | None, kept: list[Float] | None = None
) -> Script:
    """Raise ``VerificationFailed`` unless U, and S where it is released, are those of the joint matrix.

    U (m, rho) and S (rho,) come without the zero columns of the answer; S is in units of 2^E. ``A_i^T U`` is
    put into ``kept`` where that is given.
    """
    plan, F1 = work.plan, prepared.F1
    F = unit(F1)
    size, rho = (F1 / F) ** 2, U.shape[1]
    g = _secret(work, (plan.planned_rank, EIGEN_VECTORS), "g", "gram")[:rho]
    products: _Products = yield Local("checks", lambda: _products(work, prepared.A_i, U, g, kept))
    own: Float = yield Local("checks", lambda: _eigen_numbers(work, U, g, products))
    limit = _NORMAL * 64 * math.sqrt(plan.m * plan.k) * ROUNDING * size
    noise = math.ldexp(size * math.sqrt(plan.m), -52)
    total: Float = yield from folded_sum("eigen", own / F**2, work.own, noise, limit)
    largest = float(np.abs(total).max())
    _expect(largest <= limit, "the vectors")
    residual, slack = largest / size if size else 0.0, 64 * (plan.k + math.sqrt(plan.m)) * ROUNDING * F1**2
    measured = Measured(U, sigma, products.energies, products.norm, slack, F)
    trace: float | None = None
    if sigma is not None:
        yield from _check_values(work, products.energies, sigma, F, slack)
        trace = yield from joint_trace(work, products.norm, F)
        if plan.scheme is Scheme.SUM and len(sigma):
            yield from _check_small(work, prepared.A_i, U, sigma)
    order: Order = yield from check_order(work, measured, trace, lambda V: gram_times(work, prepared.A_i, V))
    return Checked(order, residual, trace)


def joint_trace(work: Work, norm: float, F: float) -> Script:
    """The squared joint norm, from this user's own part of it, both in units of 2^2E."""
    own = np.array([norm / F**2])
    return float((yield from total_sum(work.plan, "trace", own, work.own, SPECTRUM_WIDTH))[0]) * F**2


def _check_values(work: Work, energies: Float, sigma: Float, F: float, slack: float) -> Script:
    """``||A^T u_j||^2 = S_j^2``, in a few secret combinations."""
    plan = work.plan
    h = _secret(work, (EIGEN_VECTORS, plan.planned_rank), "h", "diag")[:, : len(sigma)]
    own = h @ (energies - sigma**2 if work.leads else energies) / F**2
    limit, noise = _NORMAL * slack / F**2, slack / (64 * F**2)
    total: Float = yield from folded_sum("diag", own, work.own, noise / math.sqrt(plan.k), limit)
    _expect(bool(np.abs(total).max() <= limit), "the singular values")


def _check_small(work: Work, A_i: Operand, U: Float, sigma: Float) -> Script:
    """``S^-1 U^T G U S^-1 = I`` for all S_j above the level of rounding, in a few secret combinations."""
    plan, r = work.plan, work.plan.planned_rank
    covered = int(np.count_nonzero(sigma > 64 * plan.m * ROUNDING * sigma[0]))
    g, h = (
        _secret(work, (r, EIGEN_VECTORS if letter == "g" else CHECK_NUMBERS), letter, "C")[:covered]
        for letter in ("g", "h")
    )
    g = np.repeat(g, INNER_PRODUCTS, axis=1)
    W = U[:, :covered] / sigma[:covered]
    own: Float = yield Local("checks", lambda: _in_own_basis(work, A_i, backend.matmul(W, np.hstack((g, h)))))
    if work.leads:
        own = own - np.einsum("jl,jl->l", g, h)
    limit = _NORMAL * 64 * plan.m * ROUNDING * float(sigma[0] / sigma[covered - 1]) + 2.0**-40
    total: Float = yield from folded_sum("C", np.nan_to_num(own), work.own, 2.0**-50, limit)
    _expect(bool(np.abs(total).max() <= limit), "the small singular values")


def check_solution(work: Work, prepared: Prepared, w: Float, features: int) -> Script:
    """The largest number opened of the residual, relative to s^2, if w (features, targets) solves the normal equations.

    Else ``VerificationFailed``. Rows are scaled.
    """
    plan, F1 = work.plan, prepared.F1
    F = unit(F1)
    residual: Float = yield Local("checks", lambda: _normal_residual(work, prepared.A_i, w, features))
    size = 1.0 + float(np.linalg.norm(w, axis=0).max(initial=0.0))
    # A large solution has a large residual in rounding.
    scale = math.ldexp(1.0, math.frexp(size)[1])
    g = _secret(work, (plan.targets, EIGEN_VECTORS), "g", "residual")
    own = _inner_products(work, "residual", residual @ g) / (F**2 * scale)
    noise = math.ldexp((F1 / F) ** 2 * math.sqrt(plan.m), -52)
    tolerance = 64 * math.sqrt(plan.M * plan.k * plan.targets) * ROUNDING * (F1 / F) ** 2 * size / scale
    limit = _NORMAL * tolerance + 16 * math.sqrt(plan.k) * noise
    total: Float = yield from folded_sum("residual", own, work.own, noise, limit)
    largest = float(np.abs(total).max())
    _expect(largest <= limit, "the coefficients")
    return largest * scale / (F1 / F) ** 2 if F1 else 0.0


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
    # Squares of the data where it lies may be beyond float64; the norm that is known is in the common unit.
    norm = A_i.squared_norm(memory) if A_i.norm is None or A_i.mean is not None else A_i.norm**2
    return _Products(turned, np.einsum("ij,ij->j", W, W), norm)


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


def _eigen_numbers(work: Work, U: Float, g: Float, products: _Products) -> Float:
    """``h^T (A_i A_i^T U g - U (diag(U^T A_i A_i^T U) o g))``, two h for each g.

    Where U has all that the rank can be, what is left outside of it is added, each time with a secret factor.
    """
    plan, rho = work.plan, U.shape[1]
    v, across = products.turned.copy(), products.energies[:, None] * g
    rows = max(1, _TOGETHER // max(1, rho))
    for start in range(0, len(U), rows):
        v[start : start + rows] -= backend.matmul(U[start : start + rows], across)
    if rho == plan.planned_rank < min(plan.m, plan.n):
        return _inner_products(work, "eigen", v)
    factors = _secret(work, (CHECK_NUMBERS,), "h", "rank")
    left = products.norm - float(products.energies.sum())
    return _inner_products(work, "eigen", v) + factors * left


def _inner_products(work: Work, name: str, v: Float) -> Float:
    """``h^T v`` of each column of v with secret vectors of its own, drawn as they are needed."""
    found = np.zeros((v.shape[1], INNER_PRODUCTS))
    for number, start in enumerate(range(0, len(v), _H_ROWS)):
        rows = v[start : start + _H_ROWS]
        h = _secret(work, (len(rows), v.shape[1], INNER_PRODUCTS), "h", name, number)
        found += np.einsum("mj,mjl->jl", rows, h)
    return found.ravel()


def gram_times(work: Work, A_i: Operand, V: Float) -> Float:
    """``A_i A_i^T V``: one pass over A_i by columns, two by rows."""
    if isinstance(A_i, Streamed) and A_i.at_once:
        return A_i.gram_times(V, work.plan.memory)
    if work.plan.reads_rows and not isinstance(A_i, Dense):
        W, found = np.zeros((work.n_i, V.shape[1])), np.empty(V.shape)
        for part in work.row_places("order"):
            rows = A_i.rows(part.start, part.stop)
            W += to_numpy(backend.matmul(namespace(rows).matrix_transpose(rows), work.put(V[part])))
        there = work.put(W)
        for part in work.row_places("order"):
            found[part] = to_numpy(backend.matmul(A_i.rows(part.start, part.stop), there))
        return found
    there, total = work.put(np.ascontiguousarray(V)), work.put(np.zeros(V.shape))
    for panel in panels_of(work, A_i):
        total = total + backend.matmul(panel, backend.matmul(namespace(panel).matrix_transpose(panel), there))
    return to_numpy(total)


def _in_own_basis(work: Work, A_i: Operand, W: Float) -> Float:
    """``<A_i^T W g, A_i^T W h>`` of pairs of columns, the first half of which are W g and the others W h."""
    assert isinstance(A_i, Dense)
    turned = to_numpy(backend.matmul(namespace(A_i.A_i).matrix_transpose(A_i.A_i), work.put(W)))
    half = turned.shape[1] // 2
    found: Float = np.einsum("nl,nl->l", turned[:, :half], turned[:, half:])
    return found


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
