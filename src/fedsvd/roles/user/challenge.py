"""Step 7 of a regression on split columns: a solution is checked by one product under P (specification, step 7).

With ``e = y - A w`` and ``h = A g``, g secret, the normal equations say ``<e, h> = 0``. No user has e or h. All users
upload their parts under P, padded, user 1 with a secret z on top of h; the CSP answers ``<P e, P (h + z)>``; the label
holder compares it with ``<e, z>``, a sum for it alone. z is spread over all rows and as long as h in the space of A's
columns, so that the CSP cannot tell them apart there, and knows e but not which part of the product to hide.

Where an answer has a null space N, w is moved along it by a secret amount first: ``A (w + N gamma) = A w`` iff ``A N``
is zero, so that a false null space fails the same check before the sum that projects w along it.

Where the CSP splits a matrix among the users, two columns more are multiplied. ``x = A u`` of a *probe* u, for which
the matrix that was split says what ``<x, h>`` is. And ``kappa e + z'``, kappa and z' secret: its product with e is
``kappa ||e||^2 + <e, z'>``, by which the label holder checks the squares of the residuals that the CSP answers with: a
CSP that does not know kappa cannot alter both alike, and z' is so long that it does not see kappa.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fedsvd.errors import VerificationFailed
from fedsvd.protocol.shared import challenge_columns
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
    before: float = 0.0  # at the label holder: the length of coefficients that the solution was made of

    @property
    def residual(self) -> float:
        """What no user's part of a residual exceeds."""
        return self.F_y + self.F1 * self.w

    @property
    def rounded(self) -> float:
        """What rounding of a residual is relative to.

        A chosen ridge shrinks a solution that lacks the blinds: where rank is lost these stay along the null space,
        and may be longer than any solution.
        """
        return self.F_y + self.F1 * max(self.w, self.before)


@dataclass(frozen=True, repr=False)
class Probe:
    """This user's part of ``x = A u``, a bound of all parts, and what it adds to what ``<x, h>`` is to be."""

    x_i: Float  # (M,)
    length: float  # the root of all ``||A_i||^2 ||u_i||^2``: rounding is relative to it
    along: Float  # (width,): its product with the secret direction is this user's part
    more: float = 0.0  # likewise, as a number

    @classmethod
    def of_nothing(cls, work: Work, columns: Columns) -> "Probe":
        """What is added up where nothing can be probed: the CSP sees no difference."""
        return cls(np.zeros(work.plan.M), 0.0, np.zeros(columns.width))


def check_solution(
    work: Work, columns: Columns, y_i: Float, w_i: Float, sizes: Sizes, alpha: float = 0.0, probe: Probe | None = None
) -> Script:
    """Raise ``VerificationFailed`` at the label holder unless w, in parts (n_i, targets), solves the joint problem.

    With a penalty alpha that is no rows of A, the normal equations say ``<e, h> = alpha <w, g>``. With a probe, that is
    checked too, and the label holder has the squares of the residuals of each target; other users have None.
    """
    plan, c, t = work.plan, work.masks.c, work.plan.targets
    e_i, h_i = yield Local("checks", lambda: _own_vectors(work, columns, y_i, w_i))
    z, g = _secret(work, sizes), secret_direction(work, columns)
    # g and z are normal: their lengths are within these bounds but for a chance below 1e-20.
    lengths = 10.0 + 2.0 * math.sqrt(plan.N), 10.0 + 2.0 * math.sqrt(plan.M / plan.N)
    bounds = [(sizes.residual, t), (sizes.F1 * sum(lengths), 1)]
    own, parts = [e_i.T @ z + alpha * (w_i.T @ g)], [e_i, (h_i + z if work.leads else h_i)[:, None]]
    if probe is not None:
        squared = _Squares.of(work, sizes)
        bounds[1:1] = [(probe.length, 1), (2.0 * t * sizes.residual + squared.length, 1)]
        own += [np.array([probe.x_i @ z + probe.along @ g + probe.more]), e_i.T @ squared.z]
        parts[1:1] = [probe.x_i[:, None], (e_i @ squared.kappa + (squared.z if work.leads else 0.0))[:, None]]
    units = [power_above(1.001 * c * math.sqrt(plan.k) * bound) for bound, _ in bounds]
    gram: Float | None = yield _multiply(work, parts, units)
    unit = np.repeat(np.array(units) / c, [count for _, count in bounds])
    of_own = unit[-1] * unit[: len(own[0]) + (probe is not None)]
    if probe is not None:
        of_own = np.append(of_own, np.full(t, power_above(sizes.residual * squared.length)))
    scaled = np.divide(np.concatenate(own), of_own, out=np.zeros(len(of_own)), where=of_own > 0)
    total: Float | None = yield from total_sum(plan, "challenge", scaled, work.own, SPECTRUM_WIDTH)
    if gram is None or total is None:
        return None
    G, expected = gram.reshape(len(unit), len(unit)) * unit * unit[:, None], total * of_own
    spread = 1.0 + math.sqrt(plan.M / plan.N)
    rounding = 64 * math.sqrt(plan.M * plan.k) * ROUNDING
    tolerance = rounding * (sizes.F1 * sizes.rounded * spread + alpha * max(sizes.w, sizes.before))
    _expect(G[:t, -1] - expected[:t], tolerance, "the coefficients in the CSP's answer are not those of the joint data")
    if probe is None:
        return None
    tolerance = rounding * sizes.F1 * probe.length * spread
    _expect(G[t, -1] - expected[t], tolerance, "the matrix that the CSP splits is not that of the joint columns")
    squares = G[:t, :t] @ squared.kappa + expected[t + 1 :]
    tolerance = rounding * sizes.rounded * (squared.deviation + math.sqrt(float(np.diag(G)[:t].max())))
    _expect(G[:t, -2] - squares, tolerance, "the residuals in the CSP's answer are not those of the joint data")
    return np.diag(G)[:t].copy()


def expect_squares(work: Work, squares: Float, claimed: Float, sizes: Sizes) -> None:
    """Raise ``VerificationFailed`` unless the checked squares of residuals are those that a choice was made by."""
    tolerance = 64 * math.sqrt(work.plan.M * work.plan.k) * ROUNDING * sizes.rounded * sizes.F_y
    _expect(squares - claimed, tolerance, "the residuals in the CSP's answer are not those of the joint data")


def _expect(difference: Float, tolerance: float, fault: str) -> None:
    if not bool(np.abs(difference).max(initial=0.0) <= tolerance):
        raise VerificationFailed(fault)


@dataclass(frozen=True, repr=False)
class _Squares:
    """What hides and checks the squares of residuals: kappa of each target, and z', as long along e as e itself."""

    kappa: Float  # (targets,)
    z: Float  # (M,)
    deviation: float
    length: float  # of z', and more

    @classmethod
    def of(cls, work: Work, sizes: Sizes) -> "_Squares":
        plan, stream = work.plan, Keystream.of(work.checks, "kappa", "columns")
        # Scaled, a label deviates by less than 1, and a residual is no longer than its label.
        largest = 1.0 if work.row_weights is None else max(1.0, float(np.max(work.row_weights)))
        deviation = math.sqrt(plan.m * largest)
        kappa = np.ldexp((stream.words(plan.targets) >> np.uint64(11)).astype(np.float64), -53) + 1.0
        return cls(kappa, deviation * stream.normal(plan.M), deviation, deviation * (10.0 + 2.0 * math.sqrt(plan.M)))


def _own_vectors(work: Work, columns: Columns, y_i: Float, w_i: Float) -> tuple[Float, Float]:
    """This user's parts of e (M, targets) and of h (M,)."""
    g_i = secret_direction(work, columns)
    product = columns.times(np.concatenate((w_i, g_i[:, None]), axis=1))
    return y_i - product[:, :-1], product[:, -1]


def secret_direction(work: Work, columns: Columns) -> Float:
    """This user's part of g, (width,)."""
    return Keystream.of(work.checks, "g", "columns", work.i).normal(columns.width)


def _secret(work: Work, sizes: Sizes) -> Float:
    """z: normal, as long as h in the space of A's columns."""
    z = Keystream.of(work.checks, "z", "columns").normal(work.plan.M)
    z *= sizes.F1 / math.sqrt(work.plan.N)
    return z


def _multiply(work: Work, blocks: list[Float], units: list[float]) -> Multiply:
    """The columns of these blocks, in units of their own, under c and P."""
    plan = work.plan
    under = RowsUnderP(work, Dense(work.put(work.masks.c * np.concatenate(blocks, axis=1))), challenge_columns(plan))
    least = least_filled(plan.M, 1, certain=True)
    ends = np.cumsum([0, *(block.shape[1] for block in blocks)]).tolist()
    places = [slice(start, stop) for start, stop in pairwise(ends)]
    parts = [(part, exponent(unit), least if unit > 0 else 0) for part, unit in zip(places, units, strict=True)]

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
