"""Public numbers of the family ``steps``: how wide its blocks are, how many directions and steps there may be.

All follow from the plan, so that lengths of sums and messages depend on no data: a block that needs fewer columns is
filled up with zeros. What the data decides is how many steps are played, and how often a block is orthogonalised.
"""

from collections.abc import Sequence

from fedsvd.errors import StorageError
from fedsvd.linalg.golub_kahan import PASSES
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import SHORT_STEP
from fedsvd.protocol.tasks import Scheme
from fedsvd.types import byte_size

MOST_STEPS = 200
"""Steps after the first, at most."""

DIRECTION_BITS = SHORT_STEP - 5
"""Bits of each product that are opened: the last five are filled at random."""

STEPS = "step"
"""The repetition of a plan by steps."""

CHECKPOINT, HELD = "checkpoint", "held"
"""User 1's digests of what an earlier session found, and which of them a user does not have."""

CHECKPOINT_BYTES = 8 + 2 * 32
"""How many steps it had, and digests after the last two of them."""

AT_FIRST = "a search that starts"
"""Why the first block is played: nothing is there to go on from."""

CROSS = ("cross", "cross again", "third cross", "fourth cross")
ROOT = ("root", "root again", "third root", "fourth root")
"""Products of a block with itself and with earlier ones, and what user 1 makes of them: pass after pass."""

assert len(CROSS) == len(ROOT) == PASSES

USUAL_PASSES = 2
ILL = ("an ill-conditioned block", "a very ill-conditioned block")
"""Passes of every block, and why a third and a fourth one are played where they are needed."""

_OVERSAMPLED = 8
_A_COMPONENT, _MORE = 60, 64  # directions for each component, and in any case
_FEW_FEATURES = 512
_FEW, _SEEN_OF_FEW, _SEEN = 2, (8, 62), (7, 70)  # components; steps that were seen with them, and with more
_FLOPS_OF_STEPS, _FLOPS_OF_FACTOR = 240, 10
RECORDS_BY_AUTO = 26
"""Records outside of the largest party, for each direction, from which steps are taken without being asked for."""


def first_width(plan: SessionPlan) -> int:
    """Directions of the first block: no copy of an equal value is missed from r of them or more."""
    return min(plan.planned_rank + _OVERSAMPLED, plan.m)


def later_width(plan: SessionPlan) -> int:
    """Directions of every later block at most."""
    return min(plan.planned_rank, plan.m)


def most_directions(plan: SessionPlan) -> int:
    """Directions that users open in all, at most; a session that needs more ends without a result."""
    return directions_for(plan.planned_rank, plan.m)


def directions_for(r: int, m: int) -> int:
    """The same for r components of m features."""
    return min(_A_COMPONENT * r + _MORE, m)


def pays(r: int, m: int, counts: Sequence[int]) -> bool:
    """Whether steps are the quicker way to r components of m features, and open little of many records.

    A law of public shapes. Flops that steps may take, with a spectrum that falls slowly, against those of exact Gram
    matrices and of a factorisation; measured on one core from 600 to 2,000 features. There are then so many records
    outside of the largest party that columns of one and a half bits, as genotypes, hold more than is opened: by
    ``auto`` no owner is asked more than for a Gram matrix that the CSP opens.
    """
    n, outside = max(counts), sum(counts) - max(counts)
    quicker = m > _FEW_FEATURES and _FLOPS_OF_STEPS * r * n * m < n * m**2 + _FLOPS_OF_FACTOR * m**3
    return quicker and outside >= RECORDS_BY_AUTO * directions_for(r, m)


def most_steps(plan: SessionPlan) -> int:
    """Steps after the first, at most: each opens a direction."""
    return min(MOST_STEPS, most_directions(plan) - first_width(plan))


def expected_in_words(plan: SessionPlan) -> str:
    """How many steps and directions there will be: the data decides it."""
    least, usual = _SEEN_OF_FEW if plan.planned_rank <= _FEW else _SEEN
    most, wide = 1 + most_steps(plan), most_directions(plan)
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
    """Bytes of the directions, their images, the reservoir, and a user's own columns."""
    return 8 * (3 * plan.m + max(plan.counts)) * most_directions(plan)


def expect_memory(plan: SessionPlan) -> None:
    """Refuse a plan whose budget does not hold all directions."""
    needed = memory_of_steps(plan)
    if needed > plan.memory:
        raise StorageError(
            f"{most_directions(plan)} directions of {plan.m} features take {byte_size(needed)}, and the memory budget "
            f"is {byte_size(plan.memory)}",
            f"allow at least {needed} bytes of memory, or ask for fewer components",
        )
