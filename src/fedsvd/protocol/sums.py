"""The sums of a plan (specification, section 2): names, kinds, lengths, order; all known before the session begins.

They follow from ``plan.steps``. The CSP adds up these and no others, and a user opens them in this order. ``wide`` sums
hold numbers of any magnitude, ``total`` sums words of 128 bits in a public unit, ``short`` sums words of 64 bits,
``bound`` is the OR that finds the common unit. The sum ``gram`` comes in batches of rows of the upper triangle. A sum
with a receiver is opened by that user alone.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from fedsvd.errors import ConfigError
from fedsvd.linalg.exact_gram import row_panels
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import SUMS, PlannedStep, StepKind, listed
from fedsvd.secagg.sums import PlannedSum, SumKind, even_batches

EIGEN_VECTORS, INNER_PRODUCTS = 3, 2
"""Secret vectors g of a check, and secret vectors h to each: h^T R g is all that is opened of a residual R (step 7)."""

CHECK_NUMBERS = EIGEN_VECTORS * INNER_PRODUCTS

ORDER = "the trace does not show the order"
ORDER_UNIT, ORDER_HELD, ORDER_OUTSIDE = "order unit", "order held", "order outside"
"""Without S: the unit in which products outside of U are rounded; which vectors some user alone has enough of; how much
is outside, where it is not searched."""

ORDER_BLOCK = 2
"""Directions that are multiplied at once: a second one saves half of the steps, each a round and perhaps a pass."""

ORDER_CLASSES = 128
"""Powers of two below F^2 among which that unit is found."""

ORDER_FACTOR, ORDER_BITS, ORDER_SLACK = 2.0, 20, 2.0**-6
"""Energy outside of U, relative to that of its last vector, that is missed with probability 2^-20; and what rounding of
products may hide of it."""

MOST_SUMMED = 1 << 17
"""Rows of a Gram matrix that is summed, at most; its triangle has 2^33 words then, and 8192 batches."""

NULL_SPACE = "null space"
"""The one sum whose length follows from the CSP's answer: on split columns that lost rank."""

LOST = "rank is lost"
"""Whether there is such a sum."""

FELL, STEPPED = "the deviance fell", "a step"
"""What an evaluation of a model may leave out: the Gram matrix, and in it the next coefficients."""

LABEL_MEAN, PROJECTED, LEFT = "label mean", "projected", "left"
"""Of a regression on components by steps: the labels' mean, their products with components, and what these leave."""

PROBE = "probe"
"""How long the products are by which what the CSP splits is checked, and what users add up of it (section 5)."""

IMPLAUSIBLE = "implausible"
"""Whether any user's own block of an inverse does not fit its own columns (section 5)."""


@lru_cache(maxsize=8)
def planned_sums(plan: SessionPlan) -> tuple[PlannedSum, ...]:
    """Every sum of a session on this plan, in order, but for those whose length the data decides."""
    return tuple(summed(step) for step in listed(plan.steps) if step.kind in SUMS and not step.upto)


def null_space_sum(plan: SessionPlan, rank: int) -> PlannedSum | None:
    """The sum that finds the solution of least norm on split columns: its length follows from the CSP's own answer."""
    for step in listed(plan.steps):
        if step.name == NULL_SPACE and rank < plan.N:
            return summed(replace(step, size=null_space_numbers(plan, rank)))
    return None


def null_space_numbers(plan: SessionPlan, rank: int) -> int:
    """Numbers of that sum: products of the null space, and of the solution with it."""
    lost = plan.N - rank
    return lost * (2 * lost + plan.targets)


def summed(step: PlannedStep) -> PlannedSum:
    """A step that is a sum, with its batches."""
    match step.kind:
        case StepKind.GRAM:
            return PlannedSum(step.name, SumKind.TOTAL, gram_batches(step.size), step.step)
        case StepKind.BOUND | StepKind.SHARED:
            return PlannedSum(step.name, SumKind(step.kind.value), (step.size,), 0)
        case StepKind.WIDE:
            return PlannedSum(step.name, SumKind.WIDE, even_batches(SumKind.WIDE, step.size), 1074)
        case StepKind.SHORT:
            return PlannedSum(step.name, SumKind.SHORT, even_batches(SumKind.SHORT, step.size), step.step)
        case _:
            batches = even_batches(SumKind.TOTAL, step.size)
            return PlannedSum(step.name, SumKind.TOTAL, batches, step.step, step.to or None)


@lru_cache(maxsize=8)
def order_sums(plan: SessionPlan) -> tuple[PlannedSum, ...]:
    """The sums that bound what an answer leaves out; they are sent unless the trace has shown it already (step 7)."""
    steps = listed(tuple(step for step in _everywhere(plan.steps) if step.name == ORDER))
    return tuple(summed(step) for step in steps)


def _everywhere(steps: tuple[PlannedStep, ...]) -> Iterator[PlannedStep]:
    for step in steps:
        yield step
        yield from _everywhere(step.body)


def order_step(j: int) -> str:
    """The sum of step j, from 1."""
    return f"order {j}"


def order_left(plan: SessionPlan) -> int:
    """Directions outside of an answer's U that can hold anything; 0 where U has all of the rank."""
    return max(0, min(plan.m, plan.n) - plan.planned_rank)


def order_steps(plan: SessionPlan) -> int:
    """Steps of Lanczos' method outside of U; 0 where that is not searched."""
    return sum(step.name not in (ORDER_UNIT, ORDER_HELD, ORDER_OUTSIDE) for step in order_sums(plan))


@lru_cache(maxsize=64)
def gram_batches(M: int) -> tuple[int, ...]:
    """Words in each batch of the upper triangle of an M x M matrix, rows from the top."""
    if M > MOST_SUMMED:
        raise ConfigError(f"a Gram matrix of {M:,} x {M:,}", f"at most {MOST_SUMMED:,} rows and targets together")
    return tuple((stop - start) * (2 * M - start - stop + 1) // 2 for start, stop in row_panels(M))
