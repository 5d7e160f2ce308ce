"""Public numbers of the family ``steps``: how wide its blocks are, how many directions and steps there may be.

All follow from the plan, so that lengths of sums and messages depend on no data: a block that needs fewer columns is
filled up with zeros. What the data decides is how many steps are played, and how often a block is orthogonalised.
"""

import math
from collections.abc import Sequence

from fedsvd.errors import StorageError
from fedsvd.linalg.golub_kahan import TOLERANCE
from fedsvd.linalg.joint_blocks import PASSES
from fedsvd.protocol.model import Digits
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import SHORT_STEP
from fedsvd.protocol.tasks import Scheme, Split
from fedsvd.types import byte_size

MOST_STEPS = 200
"""Steps after the first, at most."""

TOLERANCES = {Digits.ALL: TOLERANCE, Digits.MORE: 1e-11, Digits.TABLE: 1e-8}
"""Residual of a vector, relative to s_1, at which a search ends; words have as many bits fewer as it is larger."""

_FILLED = 5  # last bits of a word, at random

STEPS = "step"
"""The repetition of a plan by steps."""

CHECKPOINT, HELD = "checkpoint", "held"
"""User 1's digests of what an earlier session found, and which of them a user does not have."""

CHECKPOINT_BYTES = 8 + 2 * 32
"""How many steps it had, and digests after the last two of them."""

AT_FIRST = "a search that starts"
"""Why the first block is played: nothing is there to go on from."""

ANSWERS, CERTIFICATES = "answers", "certificates"
"""Repetitions of a plan by a share of the variance: blocks of the answer, and of the sums that certify them."""

CROSS = ("cross", "cross again", "third cross", "fourth cross", "fifth cross", "sixth cross")
ROOT = ("root", "root again", "third root", "fourth root", "fifth root", "sixth root")
"""Products of a block with itself and with earlier ones, and what user 1 makes of them: pass after pass."""

assert len(CROSS) == len(ROOT) == PASSES

USUAL_PASSES = 2
ILL = ("an ill-conditioned block", "a very ill-conditioned block", "a block of little rank", "a block of noise")
"""Passes of every block, and why up to four more are played where they are needed."""

FULL = "a basis that is full"
"""Why user 1 sends what a restart keeps: after rounds that the plan names."""

_OVERSAMPLED = 8
_NARROW, _OF_COMPONENTS = 16, 8  # directions of a block, of more components than these: as many, or an eighth of them
_BY_SHARE = 24  # the same where it is not known how many components there will be
_WIDEST, _TIMES = 320, 4  # directions of a basis at most: these, or this number for each component
_A_COMPONENT, _MORE = 60, 64  # directions for each component, and in any case
_MOST_BY_SHARE = 256
_FEW_FEATURES = 512
_FEW, _SEEN_OF_FEW, _SEEN = 2, (8, 62), (7, 70)  # components; steps that were seen with them, and with more
_FLOPS_OF_STEPS, _FLOPS_OF_FACTOR = 120, 10
RECORDS_BY_AUTO = 26
"""Records outside of the largest party, for each direction, from which steps are taken without being asked for."""


def tolerance_of(plan: SessionPlan) -> float:
    """The residual, relative to s_1, that is asked for."""
    return TOLERANCES[plan.digits]


def word_step(plan: SessionPlan) -> int:
    """A last digit of an image counts 2^-step of its unit."""
    return SHORT_STEP - round(math.log2(tolerance_of(plan) / TOLERANCE))


def direction_bits(plan: SessionPlan) -> int:
    """Bits of each product that are opened: the last five are filled at random."""
    return word_step(plan) - _FILLED


def by_share(plan: SessionPlan) -> bool:
    """Whether components are found until they hold a share of the variance: how many is not known before."""
    return plan.scheme is Scheme.STEPS and bool(plan.components_by)


def components_in_words(plan: SessionPlan) -> str:
    """How many singular vectors the users get, of how many."""
    r, most = plan.planned_rank, min(plan.m, plan.n)
    if by_share(plan):
        return f"as many components as hold {plan.components_by} of the variance, at most {r} of {most}"
    return f"{r} of {most} components"


def first_width(plan: SessionPlan) -> int:
    """Directions of the first block. From fewer than r + 8 copies of a value may be missed, and are searched for."""
    r, start = plan.planned_rank, start_width(plan)
    if by_share(plan):
        return min(start, _BY_SHARE)
    return start if r <= _NARROW else min(start, max(_NARROW, -(-r // _OF_COMPONENTS)))


def start_width(plan: SessionPlan) -> int:
    """Random directions that miss no copy of an equal value, in one search or in several."""
    return min(plan.planned_rank + _OVERSAMPLED, plan.m)


def later_width(plan: SessionPlan) -> int:
    """Directions of every later block at most."""
    return min(plan.planned_rank, first_width(plan))


def answer_width(plan: SessionPlan) -> int:
    """Components in one message of an answer, and in the sums that certify it."""
    return later_width(plan) if by_share(plan) else plan.planned_rank


def blocks_of_answer(plan: SessionPlan, rank: int) -> int:
    """How many such messages carry this number of components."""
    return max(1, -(-rank // answer_width(plan)))


def spare(plan: SessionPlan) -> int:
    """Directions of searches after the first, which are in the reservoir too."""
    return later_width(plan) * (-(-start_width(plan) // first_width(plan)) - 1)


def left_over(plan: SessionPlan) -> int:
    """Directions of the reservoir that were not multiplied, at most."""
    return start_width(plan) + first_width(plan)


def rounds_of_basis(plan: SessionPlan) -> tuple[int, int]:
    """The round after which the basis is full, and how many rounds a restart goes back; (0, 0) where all fit.

    A restart keeps half, and at least the wanted vectors with all that is in the reservoir.
    """
    first, later, r = first_width(plan), later_width(plan), plan.planned_rank
    least = left_over(plan) + 2 * later
    most = plan.memory // (8 * (3 * plan.m + max(plan.counts)))
    widest = max(least, min(most, max(_WIDEST, _TIMES * r)))
    if most_directions(plan) <= widest:
        return 0, 0
    full = (widest - first) // later
    kept = -(-(max(left_over(plan), widest // 2) - first) // later)
    return full, max(1, full - kept)


def reach(plan: SessionPlan, step: int) -> int:
    """Columns that a block of this step has products with, itself included, at most."""
    first, later = first_width(plan), later_width(plan)
    full, back = rounds_of_basis(plan)
    if full and step > full:
        step = full - back + 1 + (step - 1 - full) % back
    return first + later * step


def restarts_after(plan: SessionPlan, step: int) -> bool:
    """Whether the basis is full after this step."""
    full, back = rounds_of_basis(plan)
    return full > 0 and step >= full and (step - full) % back == 0


def kept_by_restart(plan: SessionPlan) -> int:
    """Vectors that a restart keeps at most."""
    full, back = rounds_of_basis(plan)
    return first_width(plan) + later_width(plan) * (full - back)


def widest_basis(plan: SessionPlan) -> int:
    """Directions that are held at a time, at most."""
    full, _ = rounds_of_basis(plan)
    return reach(plan, full) if full else most_directions(plan)


def most_directions(plan: SessionPlan) -> int:
    """Directions that users open in all, at most; a session that needs more ends without a result."""
    if by_share(plan):
        return directions_for_share(plan.m, plan.counts)
    return directions_for(plan.planned_rank, plan.m)


def directions_for_share(m: int, counts: Sequence[int]) -> int:
    """The same where a share of the variance is asked for: as many as no owner is asked about, whatever the columns."""
    outside = sum(counts) - max(counts)
    return min(m, max(1, outside // RECORDS_A_DIRECTION), _BY_SHARE * (1 + MOST_STEPS))


def components_for_share(m: int, counts: Sequence[int]) -> int:
    """Components that a share of the variance may take, at most: half of the directions; a tenth is usual."""
    return min(m, sum(counts), max(1, directions_for_share(m, counts) // 2), _MOST_BY_SHARE)


def directions_for(r: int, m: int) -> int:
    """The same for r components of m features."""
    return min(_A_COMPONENT * r + _MORE, m)


def components_within(directions: float, m: int) -> int:
    """The most components of m features for which at most this number of directions may be opened."""
    return m if directions >= m else max(0, int(directions - _MORE) // _A_COMPONENT)


def fewer_in_words(directions: float, m: int) -> str:
    """What is asked for instead where no more directions than these are fine."""
    most = components_within(directions, m)
    return f"up to {most} components are fine" if most else "no number of components is fine with so few"


RECORDS_A_DIRECTION = 8
"""Records outside of the largest other party for each direction that may be opened, of columns with few values."""

DIRECTIONS_A_RECORD = 0.5
"""Directions for each record outside of the largest party, up to which no consent to all of a Gram matrix is needed."""


def fine_in_words(plan: SessionPlan) -> str:
    """How many components stay below what rules ask about, of measurements and of columns with few values."""
    outside, rows = plan.n - max(plan.counts), plan.split is Split.HORIZONTAL
    of, limits = "records" if rows else "columns", (DIRECTIONS_A_RECORD * outside, outside / RECORDS_A_DIRECTION)
    most, few = (components_within(limit, plan.m) for limit in limits)
    if by_share(plan):
        fine = most_directions(plan)
        return f"any share: {fine} directions are fine with {outside:,} {of} outside of the largest party"
    return (
        f"{most} with {outside:,} {of} outside of the largest party; {few} where columns have few values, as genotypes"
    )


def quicker(r: int, m: int, n: int) -> bool:
    """Whether steps are the quicker way to r components of m features, n records at the largest party.

    A law of public shapes. Flops that steps may take, with factors above a bulk, against those of exact Gram matrices
    and of a factorisation; measured on one core from 400 to 2,000 features.
    """
    return m > _FEW_FEATURES and _FLOPS_OF_STEPS * r * n * m < n * m**2 + _FLOPS_OF_FACTOR * m**3


def pays(r: int, m: int, counts: Sequence[int]) -> bool:
    """Whether steps are the quicker way to r components of m features, and open little of many records.

    Enough records are then outside of the largest party that columns of one and a half bits, as genotypes, hold more
    than is opened: by ``auto`` no owner is asked more than for a Gram matrix that the CSP opens.
    """
    n, outside = max(counts), sum(counts) - max(counts)
    return quicker(r, m, n) and outside >= RECORDS_BY_AUTO * directions_for(r, m)


def most_steps(plan: SessionPlan) -> int:
    """Steps after the first, at most: each opens a direction."""
    return min(MOST_STEPS, most_directions(plan) - first_width(plan))


def expected_in_words(plan: SessionPlan) -> str:
    """How many steps and directions there will be: the data decides it."""
    least, usual = _SEEN_OF_FEW if plan.planned_rank <= _FEW else _SEEN
    most, wide = 1 + most_steps(plan), most_directions(plan)
    if by_share(plan):
        return f"as many as the share takes, at most {most}, and at most {wide} directions"
    if most <= least:
        return f"at most {most}, with {wide} directions"
    return f"{least} to {min(usual, most)} where the spectrum falls, at most {most}, and at most {wide} directions"


def means_in_a_unit(plan: SessionPlan) -> bool:
    """Whether means go as words of 128 bits in the unit of the joint norm: by steps, where columns are not scaled."""
    return plan.scheme is Scheme.STEPS and plan.centre and not plan.unit_variance


def most_products(plan: SessionPlan) -> int:
    """Numbers that users open of products with the joint Gram matrix, at most."""
    return plan.m * most_directions(plan)


def memory_of_steps(plan: SessionPlan) -> int:
    """Bytes of the directions that are held at a time, their images, the reservoir, and a user's own columns."""
    return 8 * (3 * plan.m + max(plan.counts)) * widest_basis(plan)


def expect_memory(plan: SessionPlan) -> None:
    """Refuse a plan whose budget does not hold a basis that can be restarted."""
    needed = memory_of_steps(plan)
    if needed > plan.memory:
        raise StorageError(
            f"{widest_basis(plan)} directions of {plan.m} features take {byte_size(needed)}, and the memory budget "
            f"is {byte_size(plan.memory)}",
            f"allow at least {needed} bytes of memory, or ask for fewer components",
        )
