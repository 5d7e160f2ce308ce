"""Step 8 of a regression on split columns with several penalties: one is chosen by generalised cross-validation.

The error of a penalty follows from the singular values s of the joint columns and from ``V^T w``, w the solution
without a penalty. The CSP has s and V, of which it splits ``[V^T, V^T w, V^T r, s]`` among the users, w and a secret r
under a mask; the users' parts of all but V go to the label holder, which so has s and ``V^T w``, and of V nothing. It
chooses, and sends all users the number of the penalty, the errors of all, how far rounding may move a coefficient (a
power of ten), ``z = V^T w(alpha)`` of the one chosen, and a secret zeta. User l then sends user i its part of
``Q_i V z`` and ``Q_i V zeta``, and every user has its own coefficients.

All that was read from the CSP is checked when the coefficients are (``challenge.py``), before anything is released:
``<A V zeta, A r> = zeta^T s^2 V^T r`` says that each row of V^T is a singular vector and s its value, ``||V zeta||^2 =
||zeta||^2`` that they are all of them, and the squares of the chosen coefficients' residuals must be those that the
path was computed with.

Columns are in units of their own, because a penalty is one number for all: under Q all are rounded alike, relative to
the largest, and what rounding did to the coefficients without a penalty is shrunk with them. Where units lie far apart
that is not little, and the bound says how much.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from fedsvd.errors import VerificationFailed
from fedsvd.linalg.backend import norm, to_numpy
from fedsvd.linalg.dense_svd import rank
from fedsvd.linalg.ring_forms import GRID_BITS, Integers
from fedsvd.protocol.shared import (
    SHARED_BITS,
    VECTOR_BITS,
    VECTORS,
    choice_bytes,
    own_solution_bytes,
    projected_bytes,
)
from fedsvd.protocol.sums import PROBE
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user.challenge import Probe, Sizes, secret_direction
from fedsvd.roles.user.checks import ROUNDING
from fedsvd.roles.user.columns import Columns
from fedsvd.roles.user.prediction import ChosenRidge
from fedsvd.roles.user.requests import ASK_ITS_OWNER, Give, Local, Script, Take
from fedsvd.roles.user.split_matrix import (
    Parts,
    Units,
    Whole,
    as_bytes,
    as_integers,
    common_right_mask,
    exchanged,
    masked_row,
    noisy,
    opened,
    own_rows,
    signed,
)
from fedsvd.roles.user.sums import bound_sum, wide_sum_of_floats
from fedsvd.roles.user.work import Work
from fedsvd.secagg.words128 import to_integers
from fedsvd.statistics.ridge_path import RidgePath, generalised
from fedsvd.types import Float, Ring

_PROJECTED_BITS = SHARED_BITS + VECTOR_BITS
_PROJECTED_NOISE = _PROJECTED_BITS - 90  # the unit may lie 2^16 above the largest number
_SOLUTION_BITS = 2 * SHARED_BITS + GRID_BITS
_SOLUTION_NOISE = _SOLUTION_BITS - 60
_SECRET_EXPONENT = 6  # a normal number is below 2^6 but for a chance below 1e-800
_TURNED = 1e-9  # of a squared length, between a vector and V times it


@dataclass(frozen=True, repr=False)
class ChosenSolution:
    """The choice, this user's coefficients, (n_i, targets), how long those of all are, and what checks them."""

    choice: ChosenRidge
    w_i: Float
    sizes: Sizes
    probe: Probe
    squares: Float | None  # of the residuals, in units of the labels, as the choice has them: at the label holder


@dataclass(frozen=True, repr=False)
class _Path:
    """What the label holder has: the choice as it is sent, and what the checks compare."""

    numbers: Float
    product: float  # zeta^T s^2 V^T r
    squares: Float  # of the residuals with the chosen penalty, of each target
    unpenalised: float  # the length of the coefficients without a penalty, and of what blinds left along a null space


def chosen_ridge(work: Work, columns: Columns, w_i: Float, units: Units, sizes: Sizes) -> Script:
    """The penalty of least error and its coefficients, from those without a penalty, w_i (n_i, targets).

    ``sizes`` are those of the problem without a penalty: rounding is relative to them.
    """
    plan, holder = work.plan, work.plan.label_user - 1
    vectors = np.stack([masked_row(work, column) for column in (*w_i.T, secret_direction(work, columns))])
    size = float(np.abs(vectors[:-1]).max(initial=0.0))
    E = (yield from bound_sum("vector bound", math.frexp(size)[1] if size else None, work.own)) or 0
    exponents = np.array([E] * plan.targets + [_SECRET_EXPONENT])
    parts: Parts = yield from opened(work, VECTORS, np.ldexp(vectors, -exponents[:, None]))
    path: _Path | None = None
    Q: Integers = yield from common_right_mask(work)
    if work.i == holder:
        received = []
        for i in range(plan.k):
            if i != holder:
                content: bytes = yield Take(i, projected_bytes(plan))
                received.append(content)
        path = yield Local("path", lambda: _choose(work, parts, received, units, exponents, sizes))
        assert path is not None
        chosen = path.numbers
        for i in range(plan.k):
            if i != holder:
                yield Give(i, chosen.astype("<f8").tobytes())
    else:
        made: bytes = yield Local("path", lambda: _for_label_holder(work, parts))
        yield Give(holder, made)
        content = yield Take(holder, choice_bytes(plan))
        chosen = np.frombuffer(content, "<f8").astype(np.float64)
    choice, z = _read(work, chosen, units)
    solution: Float = yield from _own_solution(work, parts, Q, z)
    x_i: Float = yield Local("path", lambda: columns.times(solution[:, -1:])[:, 0])
    turned_i = norm(solution[:, -1]) ** 2
    own = np.array([columns.energy() * turned_i, turned_i])
    length, turned = yield from wide_sum_of_floats(PROBE, own, work.own)
    zeta = norm(z[:, -1]) ** 2
    # All users have both numbers, and stop together.
    if not abs(turned - zeta) <= _TURNED * zeta:
        raise VerificationFailed("the singular vectors that the CSP split are not orthonormal")
    probe = Probe(x_i, math.sqrt(max(float(length), 0.0)), np.zeros(columns.width), path.product if path else 0.0)
    squares = path.squares if path else None
    sizes = replace(sizes, w=max(sizes.w, norm(z[:, :-1])), before=path.unpenalised if path else 0.0)
    return ChosenSolution(choice, solution[:, :-1], sizes, probe, squares)


def _matrix(words: Ring, plan_N: int) -> Whole:
    """``[V^T, V^T v, s]`` in the ring, row by row."""
    return np.array(to_integers(words), object).reshape(plan_N, -1)


def _stripped(words: Ring, parts: Parts, N: int) -> Whole:
    """``[V^T (v - b), s]``: the users' vectors without what was on them, and the singular values, (N, targets + 2)."""
    M = _matrix(words, N)
    found: Whole = np.concatenate((M[:, N:-1] - M[:, :N] @ parts.border.T, M[:, -1:]), axis=1)
    return found


def _for_label_holder(work: Work, parts: Parts) -> bytes:
    """Our mask in what the label holder is to have; s needs no noise, it is meant to be had."""
    own = _stripped(parts.mask, parts, work.plan.N)
    own[:, :-1] = np.array(noisy(list(own[:, :-1].ravel()), _PROJECTED_NOISE, work, "projected"), object).reshape(
        work.plan.N, -1
    )
    return as_bytes(list(own.ravel()))


def _choose(work: Work, parts: Parts, received: list[bytes], units: Units, exponents: Integers, sizes: Sizes) -> _Path:
    """At the label holder: the number of the best penalty, the errors of all, a bound, z of the best, zeta."""
    plan, N, t = work.plan, work.plan.N, work.plan.targets
    total = _stripped(parts.ours, parts, N)
    for content in received:
        total = total + np.array(as_integers(content), object).reshape(N, t + 2)
    numbers = np.array([[float(signed(value)) for value in row] for row in total])
    s = np.ldexp(numbers[:, -1], parts.exponent - SHARED_BITS) / units.columns
    if not (np.isfinite(s).all() and (np.diff(s) <= 0.0).all() and s[-1] >= 0.0):
        raise VerificationFailed("the CSP split singular values that no table has")
    kept = np.arange(N) < rank(s, plan.m, plan.n)
    projected = np.ldexp(numbers[:, :-1], exponents - _PROJECTED_BITS)
    along = np.where(kept[:, None], projected[:, :-1], 0.0)
    outside = parts.numbers * (units.labels * units.targets) ** 2
    path = RidgePath(s * kept, s[:, None] * along * units.targets, outside, plan.m, plan.centre)
    choice = generalised(path, plan.alphas)
    shrunk = path.shrinkage(np.asarray(plan.alphas))[choice.best]
    # V^T w(alpha) is V^T w, shrunk.
    zeta = Keystream.of(work.own, "zeta").normal(N)
    z = np.column_stack((shrunk[:, None] * along, zeta))
    squares = path.residual(np.array([choice.alpha]))[0]
    left = math.sqrt(float(np.max(squares / units.targets**2)))
    unpenalised = norm(projected[:, :-1])
    within = _rounding(s[kept], choice.alpha, replace(sizes, w=max(sizes.w, unpenalised)), left)
    sent = np.concatenate(([float(choice.best)], choice.errors, [within], z.ravel()))
    return _Path(sent, float(np.sum(zeta * s**2 * projected[:, -1])), squares, unpenalised)


def _rounding(s: Float, alpha: float, sizes: Sizes, residual: float) -> float:
    """How far rounding may move a coefficient of scaled labels: a power of ten, so that it says little of s.

    What the CSP has is the data but for ``delta`` of its norm. That moves ``U^T y`` by delta times the coefficients
    without a penalty, ``s / (s^2 + alpha)`` of which arrives; and turns the residuals into the columns by delta,
    ``1 / (s^2 + alpha)`` of which arrives.
    """
    if not len(s):
        return 0.0
    total = np.square(s) + alpha
    delta = 16.0 * ROUNDING * sizes.F1
    moved = delta * (float(np.max(s / total)) * sizes.w + float(np.max(1.0 / total)) * residual)
    return float(10.0 ** math.ceil(math.log10(moved))) if moved > 0.0 else 0.0


def _read(work: Work, numbers: Float, units: Units) -> tuple[ChosenRidge, Float]:
    """The choice that the label holder sent, and z with zeta behind it, (N, targets + 1)."""
    plan, count = work.plan, len(work.plan.alphas)
    if not np.isfinite(numbers).all() or numbers[0] not in range(count) or numbers[1 + count] < 0.0:
        raise VerificationFailed("the label holder chose a penalty that the plan does not have", ASK_ITS_OWNER)
    best, alphas = int(numbers[0]), np.asarray(plan.alphas)
    nothing, within = np.zeros((0, work.n_i, plan.targets)), numbers[1 + count] * units.targets
    choice = ChosenRidge(alphas, numbers[1 : 1 + count], float(alphas[best]), plan.chosen_by, nothing, within)
    return choice, numbers[2 + count :].reshape(plan.N, plan.targets + 1)


def _own_solution(work: Work, parts: Parts, Q: Integers, z: Float) -> Script:
    """``T_i Q_i V z``, from the parts of all users."""
    plan, N, t = work.plan, work.plan.N, z.shape[1]
    exponents = np.frexp(np.abs(z).max(axis=0, initial=0.0))[1]
    steps = np.array(np.rint(np.ldexp(z, SHARED_BITS - exponents)).astype(np.int64), object)

    def turned(words: Ring) -> Whole:
        found: Whole = _matrix(words, N)[:, :N].T @ steps
        return found

    def part(i: int, along: Whole) -> list[int]:
        rows = np.array(Q[own_rows(work, i)], object)
        return list((rows @ along).ravel())

    def made() -> dict[int, bytes]:
        ours, others = turned(parts.mask), [i for i in range(plan.k) if i != work.i]
        return {i: as_bytes(noisy(part(i, ours), _SOLUTION_NOISE, work, "own solution", i)) for i in others}

    sent: dict[int, bytes] = yield Local("path", made)
    received = yield from exchanged(work, lambda i: sent[i], lambda i: own_solution_bytes(plan, i))

    def found() -> Float:
        each = [part(work.i, turned(parts.ours))]
        each += [as_integers(content) for content in received]
        total = [float(signed(sum(values))) for values in zip(*each, strict=True)]
        w, T_i = np.ldexp(np.array(total).reshape(-1, t), exponents - _SOLUTION_BITS), work.masks.T_i
        return w if T_i is None else to_numpy(T_i.left(work.put(w)))

    return (yield Local("path", found))
