"""The memory budget of a plan where a job does not say one: a law of public shapes, the same at every party.

    memory = max(2 GiB, c M^2)        with c bytes by task (its declaration in ``tasks``)

The budget is hashed with the plan, so it may depend on nothing that differs between machines: not on threads, not on
main memory. c covers what the Gram matrices of the sum family take at the peak of any role, with up to 64 threads;
``tests/unit/cost/test_memory_law.py`` compares it with the cost model. A plan is not changed for a machine that
has less; a party of a federation refuses one above the memory its ``site.toml`` states, and does not ask the machine.
"""

from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Check, Item

DEFAULT_MEMORY = 2 << 30
"""Bytes a role may use where a job does not say, and its Gram matrices take no more."""

_VERIFIED = 120  # right singular vectors are compared with each other
_TABLE = 136  # of a regression with standard errors: an inverse and its refinement
_PERMUTED = 280, 88, 24  # twenty Gram matrices at once; or one, and a table with its permuted copy


def memory_of_sums(plan: SessionPlan, c: int) -> int:
    """Bytes that the Gram matrices of this plan take in the sum family; ``c`` is that of its task."""
    square = plan.M**2
    if plan.permutes:
        many, one, table = _PERMUTED
        return max(many * square, one * square + table * plan.m * max(plan.counts))
    if plan.check is not Check.NONE:
        return _VERIFIED * square
    return max(_TABLE if plan.releases(Item.INFERENCE) else 0, c) * square
