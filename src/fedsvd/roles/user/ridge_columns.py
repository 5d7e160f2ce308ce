"""Step 8 of a regression on split columns with several penalties: one is chosen by generalised cross-validation.

The error of a penalty follows from the singular values s of the joint columns and from ``V^T w``, w the solution
without a penalty. The CSP has s and V, of which it splits ``[V^T, V^T w, s]`` among the users, w under a mask; the
users' parts of the last two go to the label holder, which so has s and ``V^T w``, and of V nothing. It chooses, and
sends all users the number of the penalty, the errors of all, and ``z = V^T w(alpha)`` of the one chosen. User l then
sends user i its part of ``Q_i V z``, and every user has its own coefficients. They are checked under P as those of one
penalty are.
"""

import math
from dataclasses import dataclass

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
from fedsvd.roles.user.prediction import ChosenRidge
from fedsvd.roles.user.requests import Give, Local, Script, Take
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
from fedsvd.roles.user.sums import bound_sum
from fedsvd.roles.user.work import Work
from fedsvd.secagg.words128 import add_into, to_integers
from fedsvd.statistics.ridge_path import RidgePath, generalised
from fedsvd.types import Float, Ring

_PROJECTED_BITS = SHARED_BITS + VECTOR_BITS
_PROJECTED_NOISE = _PROJECTED_BITS - 90  # the unit may lie 2^16 above the largest number
_SOLUTION_BITS = 2 * SHARED_BITS + GRID_BITS
_SOLUTION_NOISE = _SOLUTION_BITS - 60


@dataclass(frozen=True, repr=False)
class ChosenSolution:
    """The choice, this user's coefficients, (n_i, targets), and how long those of all users are together."""

    choice: ChosenRidge
    w_i: Float
    length: float


def chosen_ridge(work: Work, w_i: Float, units: Units) -> Script:
    """The penalty of least error and its coefficients, from those without a penalty, w_i (n_i, targets)."""
    plan, holder = work.plan, work.plan.label_user - 1
    vectors = np.stack([masked_row(work, column) for column in w_i.T])
    size = float(np.abs(vectors).max(initial=0.0))
    E = yield from bound_sum("vector bound", math.frexp(size)[1] if size else None, work.own)
    parts: Parts = yield from opened(work, VECTORS, vectors, E or 0)
    Q: Integers = yield from common_right_mask(work)
    if work.i == holder:
        received = []
        for i in range(plan.k):
            if i != holder:
                content: bytes = yield Take(i, projected_bytes(plan))
                received.append(content)
        chosen: Float = yield Local("path", lambda: _choose(work, parts, received, units, E or 0))
        for i in range(plan.k):
            if i != holder:
                yield Give(i, chosen.astype("<f8").tobytes())
    else:
        made: bytes = yield Local("path", lambda: _for_label_holder(work, parts))
        yield Give(holder, made)
        content = yield Take(holder, choice_bytes(plan))
        chosen = np.frombuffer(content, "<f8").astype(np.float64)
    choice, z = _read(work, chosen)
    return (yield from _own_solution(work, parts, Q, choice, z))


def _matrix(words: Ring, plan_N: int) -> Whole:
    """``[V^T, V^T v, s]`` in the ring, row by row."""
    return np.array(to_integers(words), object).reshape(plan_N, -1)


def _stripped(words: Ring, parts: Parts, N: int) -> Whole:
    """``[V^T (v - b), s]``: the users' vectors without what was on them, and the singular values, (N, targets + 1)."""
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


def _choose(work: Work, parts: Parts, received: list[bytes], units: Units, E: int) -> Float:
    """At the label holder: the number of the best penalty, the errors of all, and z of the best."""
    plan, N, t = work.plan, work.plan.N, work.plan.targets
    total = _stripped(add_into(parts.total.copy(), parts.mask), parts, N)
    for content in received:
        total = total + np.array(as_integers(content), object).reshape(N, t + 1)
    numbers = np.array([[float(signed(value)) for value in row] for row in total])
    s = np.ldexp(numbers[:, -1], parts.exponent - SHARED_BITS) / units.columns
    if not (np.isfinite(s).all() and (np.diff(s) <= 0.0).all() and s[-1] >= 0.0):
        raise VerificationFailed("the CSP split singular values that no table has", "nothing is released")
    kept = np.arange(N) < rank(s, plan.m, plan.n)
    along = np.where(kept[:, None], np.ldexp(numbers[:, :-1], E - _PROJECTED_BITS), 0.0)
    outside = parts.numbers * (units.labels * units.targets) ** 2
    path = RidgePath(s * kept, s[:, None] * along * units.targets, outside, plan.m, plan.centre)
    choice = generalised(path, plan.alphas)
    shrunk = path.shrinkage(np.asarray(plan.alphas))[choice.best]
    # V^T w(alpha) is V^T w, shrunk.
    z = shrunk[:, None] * along
    return np.concatenate(([float(choice.best)], choice.errors, z.ravel()))


def _read(work: Work, numbers: Float) -> tuple[ChosenRidge, Float]:
    """The choice that the label holder sent, and z, (N, targets)."""
    plan, count = work.plan, len(work.plan.alphas)
    if not np.isfinite(numbers).all() or numbers[0] not in range(count):
        raise VerificationFailed("the label holder chose a penalty that the plan does not have", "nothing is released")
    best, alphas = int(numbers[0]), np.asarray(plan.alphas)
    nothing = np.zeros((0, work.n_i, plan.targets))
    choice = ChosenRidge(alphas, numbers[1 : 1 + count], float(alphas[best]), plan.chosen_by, nothing)
    return choice, numbers[1 + count :].reshape(plan.N, plan.targets)


def _own_solution(work: Work, parts: Parts, Q: Integers, choice: ChosenRidge, z: Float) -> Script:
    """``T_i Q_i V z``, from the parts of all users."""
    plan, N, t = work.plan, work.plan.N, work.plan.targets
    exponent = math.frexp(float(np.abs(z).max(initial=0.0)))[1]
    steps = np.array(np.rint(np.ldexp(z, SHARED_BITS - exponent)).astype(np.int64), object)

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
        each = [part(work.i, turned(add_into(parts.total.copy(), parts.mask)))]
        each += [as_integers(content) for content in received]
        total = [
            math.ldexp(float(signed(sum(values))), exponent - _SOLUTION_BITS) for values in zip(*each, strict=True)
        ]
        w, T_i = np.array(total).reshape(-1, t), work.masks.T_i
        return w if T_i is None else to_numpy(T_i.left(work.put(w)))

    w_i: Float = yield Local("path", found)
    return ChosenSolution(choice, w_i, norm(z))
