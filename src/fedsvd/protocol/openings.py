"""What a session opens, and to whom, as the steps of its plan declare it: the numbers that each role comes to see.

A step says what it opens (``What``); here is how many numbers that is, to whom, in how many bits, and whether they are
of single records or of all together. Bits are nominal where no step says theirs: those of a float64, although the words
of a sum are wider. What follows from an earlier opening, such as S from a Gram matrix, opens nothing more and has no
bits.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from fedsvd.protocol.directions import direction_bits, most_products
from fedsvd.protocol.foreign import opened_bits, opened_numbers
from fedsvd.protocol.hazards import (
    CLOCK_BITS,
    EXPOSURE_BITS,
    SCHOENFELD_BITS,
    SIZES,
    HazardsPlan,
    baseline_times,
    schoenfeld_numbers,
)
from fedsvd.protocol.held import matrix_bits, model_bits, regression_bits, table_bits
from fedsvd.protocol.matching import answer_rows, pairs_of
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.quality import QUALITY, QUALITY_BITS, ROC, ROCPlan, quality_numbers
from fedsvd.protocol.shared import challenge_columns
from fedsvd.protocol.steps import CAPPED_AT, FACTORS, SIZE_CLASSES, SUMS, PlannedStep, StepKind, What, listed
from fedsvd.protocol.tasks import Item, Scheme, Split

NUMBER, FLAG, ROUNDED = 53, 1, 16
"""Bits of a number of float64, of an OR, and of a product outside of U (specification, step 7)."""

SIZE_BITS, UNIT_BITS = 7, 8
"""Bits of one of 128 powers of two, and of one of 133."""

_GRANTED = 8
"""How many times the expected bits a model may open before every user ends it."""


class To(StrEnum):
    """Who sees an opening."""

    USERS = "users"  # all of them
    EACH = "each user"  # its own part alone
    ONE = "one user"
    CSP = "csp"


class Per(StrEnum):
    """Of what an opened number is."""

    JOINT = "joint"
    RECORD = "record"


@dataclass(frozen=True)
class Opening:
    """``numbers`` of one kind, opened to these, of ``bits`` each."""

    what: What
    to: To
    numbers: int
    bits: int
    per: Per = Per.JOINT


@lru_cache(maxsize=64)
def opened(plan: SessionPlan) -> frozenset[What]:
    """Everything that any user may come to see in a session on this plan."""
    return frozenset(each.what for each in all_openings(plan) if each.to is not To.CSP)


@lru_cache(maxsize=16)
def all_openings(plan: SessionPlan) -> tuple[Opening, ...]:
    """The most there can be: several rules ask for it, and hundreds of rounds have thousands of steps."""
    return tuple(openings(plan, listed(plan.steps)))


def openings(plan: SessionPlan, steps: Iterable[PlannedStep]) -> Iterator[Opening]:
    """What these steps of a plan open: ``listed(plan.steps)`` for the most there can be."""
    products = most_products(plan) if plan.scheme is Scheme.STEPS else 0
    for step in steps:
        if step.what is What.PRODUCTS:
            # A step may open all columns of its block, and all steps together no more than the plan has directions.
            per = Per.RECORD if plan.split is Split.VERTICAL else Per.JOINT
            yield Opening(step.what, To.USERS, min(step.size, products), direction_bits(plan), per)
            products -= min(step.size, products)
        else:
            yield from _of_step(plan, step)


def expected_bits(plan: SessionPlan) -> int:
    """Bits that users are expected to open of each other's records, by a formula of public numbers alone.

    A model by few digits: about twelve scores, two openings of the information and the table, and the sums at both
    ends; a regression table by few digits has the matrix once and six scores. Nearly dependent columns, and data that
    is nearly separated, take more: ``granted_bits`` is the end of it. A model in all digits: the matrices of eight
    iterations. By steps: as many directions as the plan has at most. Everything else: what its steps open, each number
    once. Not counted are checks, whose numbers are zero but for rounding, the same matrix in more digits, which few
    studies need, and Gram matrices of permuted columns.
    """
    return judged_bits(plan, label=True)


@lru_cache(maxsize=64)
def judged_bits(plan: SessionPlan, label: bool) -> int:
    """The same; where ``label`` is not set, without the numbers that labels alone went into."""
    about = plan.glm
    if about is not None:
        more = quality_numbers(plan) * (QUALITY_BITS + SIZE_BITS) + _roc_bits(plan) + _hazard_bits(plan)
        P, scored = plan.M - 1, about.scored(plan.m, plan.centre) if plan.robust else 0
        return more + (model_bits(about, P, scored) if about.few_digits else about.fits * matrix_bits(P, scored))
    if plan.table is not None:
        return table_bits(plan.table, plan.n)
    if plan.few_digits:
        return regression_bits(plan.digits, plan.m, plan.centre, plan.targets, bool(plan.robust), label)
    found = totals(each for each in all_openings(plan) if each.to is not To.CSP)
    if any(what is What.PREPARED for what, _ in found):
        return sum(bits for _, bits in found.values())  # every round of an imputation opens a matrix of its own
    gram = any(what is What.GRAM for what, _ in found)
    features = plan.M if label else plan.m
    bits = 0
    for (what, _), (numbers, opened_to) in found.items():
        match what:
            case What.CHECK | What.REFINED | What.PERMUTED:
                continue
            case What.ENERGY | What.NORM if gram:
                continue  # the trace and the diagonal of the matrix
            case What.VECTORS | What.SPECTRUM if gram or plan.scheme is Scheme.STEPS:
                continue  # follow from it
            case What.UNIT:
                bits += UNIT_BITS
            case What.MEAN | What.ENERGY:
                bits += NUMBER * min(numbers, features)
            case What.GRAM:
                bits += NUMBER * min(numbers, features * (features + 1) // 2)
            case What.VECTORS:
                r = numbers // plan.M
                bits += NUMBER * (numbers - r * (r + 1) // 2)  # columns of length 1, at right angles
            case _:
                bits += opened_to
    return bits


def opened_in(plan: SessionPlan, played: Iterable[tuple[str, int]], counted: float) -> int:
    """Bits that users opened in a session in which these sums were played, each with its numbers; ``counted``: words of
    few digits, as a user counts them. Where the data decides nothing they are the expected ones."""
    if plan.scheme is Scheme.STEPS:
        return expected_bits(plan) - direction_bits(plan) * most_products(plan) + math.ceil(counted)
    if plan.few_digits:
        return math.ceil(counted) + _roc_bits(plan)
    if plan.glm is None:
        return expected_bits(plan)
    numbers = sum(numbers for name, numbers in played if not name.startswith((QUALITY, ROC)))
    return NUMBER * numbers + math.ceil(counted) + _roc_bits(plan)


def _hazard_bits(plan: SessionPlan) -> int:
    """Of what a Cox model is asked for after its fit."""
    numbers, bins, about = schoenfeld_numbers(plan), baseline_times(plan), HazardsPlan.of(plan)
    found = numbers * SCHOENFELD_BITS + (CLOCK_BITS + (1 + SIZES) * SIZE_BITS if numbers else 0)
    least = 1 if about is None else about.least
    return found + bins * (EXPOSURE_BITS + SIZE_BITS + _count_bits(plan, least))


def _roc_bits(plan: SessionPlan) -> int:
    """Of counts of cases and controls, which no user counts as it opens them."""
    about = ROCPlan.of(plan) if plan.glm is not None else None
    return 0 if about is None else about.numbers * _count_bits(plan, about.least)


def _count_bits(plan: SessionPlan, least: int) -> int:
    """Of one count of all records, in multiples of ``least``."""
    return (plan.n // max(least, 1)).bit_length()


def in_bits(bits: int) -> str:
    """What a study opens, in words."""
    return f"about {bits:,} bits of all parties' records together"


def granted_bits(plan: SessionPlan) -> int:
    """Bits beyond which every user ends a model by few digits before it opens them."""
    counted = plan.few_digits or any(step.kind is StepKind.DIGITS for step in plan.steps)
    return _GRANTED * expected_bits(plan) if counted else 0


def totals(found: Iterable[Opening]) -> dict[tuple[What, To], tuple[int, int]]:
    """Numbers and bits of all openings, by what they are and who sees them."""
    added: dict[tuple[What, To], tuple[int, int]] = {}
    for each in found:
        numbers, bits = added.get((each.what, each.to), (0, 0))
        added[each.what, each.to] = numbers + each.numbers, bits + each.numbers * each.bits
    return added


def _of_step(plan: SessionPlan, step: PlannedStep) -> Iterator[Opening]:
    match step.kind:
        case StepKind.UPLOAD:
            yield from _of_answer(plan, step)
        case StepKind.COMPARE:
            yield Opening(step.what, To.EACH, answer_rows(plan), FLAG, Per.RECORD)
            yield Opening(step.what, To.CSP, answer_rows(plan), FLAG, Per.RECORD)
        case StepKind.CHALLENGE:
            yield Opening(What.CHECK, To.ONE, challenge_columns(plan) ** 2, NUMBER)
        case StepKind.EXCHANGE if step.what:
            taken = (pairs_of(plan, i)[step.name][1] for i in range(plan.k))
            yield Opening(step.what, To.EACH, max(sum(pair.size for pair in pairs) for pairs in taken) // 8, NUMBER)
        case StepKind.FROM_USER_1 if step.what:
            # user 1 computed it from what all had opened
            yield Opening(step.what, To.USERS, step.size // 8, 0, _per(step.what))
        case StepKind.WHOLE if step.what is What.CAPPED:
            yield Opening(step.what, To.USERS, step.size, (CAPPED_AT * plan.k).bit_length())
        case StepKind.WHOLE if step.what in (What.FIVES, What.CELLS, What.TABLE, What.ROC):
            yield Opening(step.what, To.USERS, step.size, _count_bits(plan, step.step))
        case kind if kind in SUMS and step.what:
            yield _of_sum(step)


def _of_sum(step: PlannedStep) -> Opening:
    if step.what is What.DECLARED:
        return Opening(step.what, To.USERS, opened_numbers(step), opened_bits(step))
    if step.what is What.SIZES:
        return Opening(step.what, To.USERS, step.size // len(SIZE_CLASSES), SIZE_BITS)
    if step.kind is StepKind.DIGITS:
        return Opening(step.what, To.USERS, step.size, step.step)
    numbers = step.size * (step.size + 1) // 2 if step.kind is StepKind.GRAM else step.size
    bits = FLAG if step.kind is StepKind.BOUND else NUMBER
    if step.what is What.ORDER and step.kind is StepKind.TOTAL and not step.step:
        bits = ROUNDED
    return Opening(step.what, To.ONE if step.to else To.USERS, numbers, bits, _per(step.what))


def _per(what: What) -> Per:
    """Scores and canonical variables have a number for each record, in whatever way they are opened."""
    return Per.RECORD if what in (What.SCORES, What.CANONICAL) else Per.JOINT


def _of_answer(plan: SessionPlan, step: PlannedStep) -> Iterator[Opening]:
    """What the CSP sees of an upload, and what users read in its answer."""
    yield Opening(What.RATIOS, To.CSP, min(plan.M, plan.N), NUMBER)
    if step.name != FACTORS:
        yield Opening(step.what, To.USERS, step.size * plan.targets, NUMBER)
        return
    yield Opening(step.what, To.USERS, plan.M * step.size, NUMBER, _per(step.what))
    if plan.releases(Item.SPECTRUM):
        yield Opening(What.SPECTRUM, To.USERS, min(step.size, plan.N), NUMBER)
