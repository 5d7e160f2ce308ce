"""Step 7: that no direction outside of U holds more than the vectors of an answer do (specification, step 7).

True eigenvectors pass the eigen-check whichever they are: last ones could be handed out as first. Where the trace, with
S, does not show that little is left outside, users search there: Lanczos' method from secret directions, products by
sums, rounded to 16 bits. What it finds is there (the answer is refused if that is more than the last vector has); what
it misses is bounded by Kuczynski and Wozniakowski. What is opened so is stated in the threat model.

Where the search would open more than half of what is outside, and with U all of the joint Gram matrix, it is not made:
the mean over the directions there takes the place of the largest value that is found, and the bound is wider by it.

Without S the vectors' own energies are not opened. A user sets a flag where it alone has a k-th part of what was found:
if all users together have it, one of them has a k-th part, so that no honest answer is refused, and a vector for which
no flag is set has less than was found outside.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedsvd.errors import VerificationFailed
from fedsvd.linalg.outside import Outside
from fedsvd.protocol.sums import (
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
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.sums import SPECTRUM_WIDTH, any_of, rounded_sum, total_sum
from fedsvd.roles.user.work import Work
from fedsvd.types import Float

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
        _expect(left <= order_left(plan) * ((1.0 + ORDER_SLACK) * last + found.slack))
    if not steps:
        return (yield from _by_mean(work, found))
    start = Keystream.of(work.checks, "order").normal((plan.m, ORDER_BLOCK))
    outside: Outside = yield Local("order", lambda: Outside(found.U, start, steps, work.allocate))
    own: Float = yield Local("order", lambda: _projected(found.U, times(outside.directions)))
    if sigma is not None:
        exponent = _exponent(max(last, found.slack), plan.m)
    else:
        exponent = yield from _unit_of(work, own, found.F)
    largest, limit = 0.0, math.inf if sigma is None else (1.0 + ORDER_SLACK) * last + found.slack
    for j in range(1, steps + 1):
        if j > 1:
            own = yield Local("order", lambda: _projected(found.U, times(outside.directions)))
        total: Float = yield from rounded_sum(plan, order_step(j), own, exponent, work.own)
        largest = outside.add(total)
        _expect(largest <= limit)
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
    _expect(bool(held.all()))
    return Order(math.sqrt(factor * work.plan.k), bits, released=False)


def _projected(U: Float, product: Float) -> Float:
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


def _expect(right: bool) -> None:
    if not right:
        raise VerificationFailed(
            "the vectors in the CSP's answer are not the leading ones of the joint data",
            "nothing is released; run again, and ask the operator of the CSP if it repeats",
        )
