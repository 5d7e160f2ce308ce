"""Step 7 of a regression on split columns: a solution is checked by one product under P (specification, step 7).

With ``e = y - A w`` and ``h = A g``, g secret, the normal equations say ``<e, h> = 0``. No user has e or h. All users
upload their parts under P, padded, user 1 with a secret z on top of h; the CSP answers ``<P e, P (h + z)>``; the label
holder compares it with ``<e, z>``, a sum for it alone. z is spread over all rows and as long as h in the space of A's
columns, so that the CSP cannot tell them apart there, and knows e but not which part of the product to hide.

Where an answer has a null space N, w is moved along it by a secret amount first: ``A (w + N gamma) = A w`` iff ``A N``
is zero, so that a false null space fails the same check before the sum that projects w along it.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsvd.errors import VerificationFailed
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user.checks import ROUNDING
from fedsvd.roles.user.columns import Columns
from fedsvd.roles.user.masked_rows import RowsUnderP
from fedsvd.roles.user.requests import Local, Multiply, Script
from fedsvd.roles.user.sums import SPECTRUM_WIDTH, total_sum
from fedsvd.roles.user.upload import encoded, power_above
from fedsvd.roles.user.work import Dense, Work
from fedsvd.secagg.dither import least_filled
from fedsvd.secagg.fixed_point import exponent
from fedsvd.types import Array, Float, Ring


@dataclass(frozen=True)
class Sizes:
    """What every user knows of the problem: the norms of A, of the (blinded) labels, and of the solution."""

    F1: float
    F_y: float
    w: float

    @property
    def residual(self) -> float:
        """What no user's part of a residual exceeds."""
        return self.F_y + self.F1 * self.w


def check_solution(work: Work, columns: Columns, y_i: Float, w_i: Float, sizes: Sizes) -> Script:
    """Raise ``VerificationFailed`` at the label holder unless w, in parts (n_i, targets), solves the joint problem."""
    plan, c = work.plan, work.masks.c
    e_i, h_i = yield Local("checks", lambda: _own_vectors(work, columns, y_i, w_i))
    z = _secret(work, sizes)
    own = e_i.T @ z
    vectors = np.column_stack((e_i, h_i + z if work.leads else h_i))
    of_e = power_above(1.001 * c * math.sqrt(plan.k) * sizes.residual)
    # g and z are normal: their lengths are within these bounds but for a chance below 1e-20.
    lengths = 10.0 + 2.0 * math.sqrt(plan.N), 10.0 + 2.0 * math.sqrt(plan.M / plan.N)
    of_h = power_above(1.001 * c * sizes.F1 * sum(lengths))
    products: Float | None = yield _multiply(work, vectors, (of_e, of_h))
    unit = of_e * of_h / c**2
    own = own / unit if unit else np.zeros_like(own)
    total: Float | None = yield from total_sum(plan, "challenge", own, work.own, SPECTRUM_WIDTH)
    if products is None or total is None:
        return
    spread = 1.0 + math.sqrt(plan.M / plan.N)
    tolerance = 64 * math.sqrt(plan.M * plan.k) * ROUNDING * sizes.F1 * sizes.residual * spread
    if not bool(np.abs(products - total).max(initial=0.0) * unit <= tolerance):
        raise VerificationFailed(
            "the coefficients in the CSP's answer are not those of the joint data",
            "nothing is released; run again, and ask the operator of the CSP if it repeats",
        )


def _own_vectors(work: Work, columns: Columns, y_i: Float, w_i: Float) -> tuple[Float, Float]:
    """This user's parts of e (M, targets) and of h (M,)."""
    g_i = Keystream.of(work.checks, "g", "columns", work.i).normal((columns.width, 1))
    product = columns.times(np.concatenate((w_i, g_i), axis=1))
    return y_i - product[:, :-1], product[:, -1]


def _secret(work: Work, sizes: Sizes) -> Float:
    """z: normal, as long as h in the space of A's columns."""
    z = Keystream.of(work.checks, "z", "columns").normal(work.plan.M)
    z *= sizes.F1 / math.sqrt(work.plan.N)
    return z


def _multiply(work: Work, vectors: Float, units: tuple[float, float]) -> Multiply:
    """These columns, in units of their own, under c and P."""
    plan, t = work.plan, work.plan.targets
    under = RowsUnderP(work, Dense(work.put(work.masks.c * vectors)), t + 1)
    least = least_filled(plan.M, 1, certain=True)
    columns = slice(0, t), slice(t, t + 1)
    parts = [(part, exponent(unit), least if unit > 0 else 0) for part, unit in zip(columns, units, strict=True)]

    def batch(number: int) -> Ring:
        rows: Array = under.panel(number)
        return encoded(rows, parts, work.own.derive("challenge", number), work.device, work.masks.each)

    return Multiply(batch, len(plan.row_panels))


def moved_along(work: Work, null_masked: Float, size: float) -> Float:
    """A secret combination of the null basis in an answer, (N, targets): as large as what it is later used for."""
    lost, targets = null_masked.shape[1], work.plan.targets
    weights = Keystream.of(work.checks, "gamma", "columns").normal((lost, targets))
    moved: Float = null_masked @ weights * (2.0 + size / math.sqrt(work.plan.N))
    return moved
