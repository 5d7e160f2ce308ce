"""What a session opens, and to whom, as the steps of its plan declare it: the numbers that each role comes to see.

A step says what it opens (``What``); here is how many numbers that is, to whom, in how many bits, and whether they are
of single records or of all together. Bits are nominal where no step says theirs: those of a float64, although the words
of a sum are wider. What follows from an earlier opening, such as S from a Gram matrix, opens nothing more and has no
bits.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from fedsvd.protocol.foreign import opened_bits, opened_numbers
from fedsvd.protocol.held import model_bits
from fedsvd.protocol.matching import answer_rows, pairs_of
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.shared import challenge_columns
from fedsvd.protocol.steps import FACTORS, SIZE_CLASSES, SUMS, PlannedStep, StepKind, What, listed
from fedsvd.protocol.tasks import Item

NUMBER, FLAG, ROUNDED = 53, 1, 16
"""Bits of a number of float64, of an OR, and of a product outside of U (specification, step 7)."""

SIZE_BITS = 7
"""Bits of one of 128 powers of two."""

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
    return frozenset(each.what for each in openings(plan, listed(plan.steps)) if each.to is not To.CSP)


def openings(plan: SessionPlan, steps: Iterable[PlannedStep]) -> Iterator[Opening]:
    """What these steps of a plan open: ``listed(plan.steps)`` for the most there can be."""
    for step in steps:
        yield from _of_step(plan, step)


def expected_bits(plan: SessionPlan) -> int:
    """Bits that the users are expected to open of a model by few digits, by a formula of public numbers alone.

    About twelve scores, two openings of the information and the table, and the sums at both ends. Nearly dependent
    columns, and data that is nearly separated, take more: ``granted_bits`` is the end of it.
    """
    about = plan.glm
    return 0 if about is None or not about.few_digits else model_bits(about, plan.M - 1)


def granted_bits(plan: SessionPlan) -> int:
    """Bits beyond which every user ends a model by few digits before it opens them."""
    return _GRANTED * expected_bits(plan)


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
            yield Opening(step.what, To.USERS, step.size // 8, 0)  # user 1 computed it from what all had opened
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
    per = Per.RECORD if step.what is What.SCORES else Per.JOINT
    return Opening(step.what, To.ONE if step.to else To.USERS, numbers, bits, per)


def _of_answer(plan: SessionPlan, step: PlannedStep) -> Iterator[Opening]:
    """What the CSP sees of an upload, and what users read in its answer."""
    yield Opening(What.RATIOS, To.CSP, min(plan.M, plan.N), NUMBER)
    if step.name != FACTORS:
        yield Opening(step.what, To.USERS, step.size * plan.targets, NUMBER)
        return
    yield Opening(step.what, To.USERS, plan.M * step.size, NUMBER)
    if plan.releases(Item.SPECTRUM):
        yield Opening(What.SPECTRUM, To.USERS, min(step.size, plan.N), NUMBER)
