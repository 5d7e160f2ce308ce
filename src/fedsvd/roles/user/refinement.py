"""Step 8 of a regression table: what float64 loses of an ill-conditioned table, from one more pass and two sums.

User 1 sends with its answer a transform T that makes the joint features nearly orthonormal, or zeros where the table is
well conditioned; every other user tests it on its own factor. Where there is one, all users pass over their rows once
more, in about 100 bits (``linalg.extended``), and add up

    refined gram    K = sum z^T z of the rows ``z = [1 / sqrt(n), (x - m) T]``
    gradient        ``sum [1, x - m]^T e`` and ``sum e^2`` of the residuals e at user 1's w

Both sums are in the plan; where T is zero they are made of zeros, so that the CSP sees no difference. The noise on the
gradient is 2^-100 of the residuals' norm: it must not cost the digits that this is for.
"""

from dataclasses import dataclass

import numpy as np

from fedsvd.linalg import extended
from fedsvd.linalg.extended import Pair
from fedsvd.protocol.plan import SessionPlan
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.sums import NORM_WIDTH, from_upper_triangle, total_sum, upper_triangle, wide_sum
from fedsvd.roles.user.work import Work
from fedsvd.secagg import wide
from fedsvd.statistics.refine import Refined, expect_transform, refined, transform_of
from fedsvd.types import Float

_NOISE_BITS = 100
_T_SLICES, _W_SLICES = 2, 3


@dataclass(frozen=True, repr=False)
class Transform:
    """T, (f, f), and exponents of the residuals' norms, of scaled rows."""

    T: Float
    exponents: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class ScaledRows:
    """How this user's rows are scaled and centred: powers of two, and the joint mean in these units."""

    inverse: Float  # (f + targets,)
    mean: Float | None
    weight: float


def proposal(R: Float, w: Float, rank: int) -> Float:
    """User 1's: whether there is a transform, the exponents and T's upper triangle; zeros without one."""
    f, t = w.shape
    numbers = np.zeros(1 + t + f * (f + 1) // 2)
    T = transform_of(R[:, :f]) if rank == f else None
    if T is None:
        return numbers
    T = np.stack([extended.on_grid(column, _T_SLICES) for column in T.T], axis=1)
    norms = np.maximum(np.linalg.norm(R[:, f:] - R[:, :f] @ w, axis=0), 2.0**-52 * np.linalg.norm(R[:, f:], axis=0))
    numbers[0] = 1.0
    numbers[1 : 1 + t] = np.frexp(norms)[1]
    numbers[1 + t :] = T[np.triu_indices(f)]
    return numbers


def read_proposal(plan: SessionPlan, numbers: Float, R: Float) -> Transform | None:
    """What user 1 sent, tested on this user's own factor."""
    f, t = plan.m, plan.targets
    if numbers[0] != 1.0:
        return None
    T = np.zeros((f, f))
    T[np.triu_indices(f)] = numbers[1 + t :]
    expect_transform(R[:, :f], T)
    exponents = tuple(int(number) for number in np.clip(numbers[1 : 1 + t], -900, 900))
    return Transform(T, exponents)


def refine(work: Work, rows: ScaledRows, found: Transform | None, w: Float) -> Script:
    """The result in the units of the scaled rows, or None where user 1 sent no transform."""
    plan, f, t = work.plan, work.plan.m, work.plan.targets
    q = f + int(plan.centre)
    K_i, gradient_i, exponents = np.zeros((q, q)), [0] * ((q + 1) * t), (0,) * t
    if found is not None:
        w = np.stack([extended.on_grid(column, _W_SLICES) for column in w.T], axis=1)
        K_i, gradient_i = yield Local("refine", lambda: _own_part(work, rows, found, w))
        exponents = found.exponents
    packed = yield from total_sum(plan, "refined gram", upper_triangle(K_i, q), work.own, NORM_WIDTH)
    widths = [max(3, e + wide.LOWEST - _NOISE_BITS) for e in exponents] * q
    widths += [max(3, 2 * e + wide.LOWEST - _NOISE_BITS) for e in exponents]
    total = wide.rounded((yield from wide_sum("gradient", gradient_i, widths, work.own)))
    if found is None:
        return None
    gradient, squares = total[: q * t].reshape(q, t), total[q * t :]
    K = from_upper_triangle(packed, q)
    better: Refined = refined(found.T, K, w, gradient, squares, weight=rows.weight, mean=rows.mean)
    return better


def _own_part(work: Work, rows: ScaledRows, found: Transform, w: Float) -> tuple[Float, list[int]]:
    """K_i, and the sums of ``[1, x - m]^T e`` and of ``e^2`` in units of 2^-1074."""
    f, t = w.shape
    first = int(rows.mean is not None)
    right = np.concatenate((found.T, w), axis=1)
    both = extended.sliced(Pair(right, np.zeros_like(right)), _W_SLICES, by_column=True)
    K, sums = np.zeros((f + first, f + first)), [0] * ((f + first + 1) * t)
    height = extended.MOST_TERMS
    for start in range(0, work.n_i, height):
        stop = min(start + height, work.n_i)
        D = work.source.columns(start, stop).T * rows.inverse
        ones = np.ones((stop - start, first))
        prior = np.ones(stop - start) if work.row_weights is None else work.row_weights[start:stop]
        centred = Pair(D, np.zeros_like(D)) if rows.mean is None else Pair(*extended.two_sum(D, -rows.mean))
        X = Pair(centred.high[:, :f], centred.low[:, :f])
        seen = extended.product(extended.sliced(X), both)
        Z = np.concatenate((ones / np.sqrt(rows.weight), seen.high[:, :f]), axis=1) * np.sqrt(prior)[:, None]
        K += Z.T @ Z
        e = Pair(-seen.high[:, f:], -seen.low[:, f:]).plus(centred.high[:, f:]).plus(centred.low[:, f:])
        weighted = extended.sliced(e.times(prior[:, None]))
        A = Pair(np.concatenate((ones, X.high), axis=1), np.concatenate((0.0 * ones, X.low), axis=1))
        here = extended.inner_products(extended.sliced(A), weighted)
        sums = extended.added(sums, here + extended.squares(extended.sliced(e), weighted))
    return K, sums
