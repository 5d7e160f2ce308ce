"""The least memory with which a plan of the sum family runs: what its Gram matrices take at the peak of any role.

It follows from the same account of arrays as the estimate that is shown (``exact.py``, ``sum.py``, ``provider.py``), so
that the two cannot differ. Panels of the data follow the budget, so the least budget is the one that its own panels do
not exceed. What does not grow with the square of the common side comes with the interpreter and is not counted.
"""

from dataclasses import replace
from functools import cache

from fedsvd.compress.reduce import PANELS
from fedsvd.cost.provider import provider_steps
from fedsvd.cost.traffic import Expected, full_rank
from fedsvd.cost.user import user_steps
from fedsvd.protocol.plan import SessionPlan
from fedsvd.types import SessionId

_LONG = 2048  # rows from which on terms of lower order are small beside squares
_COLUMNS = 64  # of the data at once, to begin with
_ROUNDS = 64


def sum_floor(plan: SessionPlan) -> int:
    """Bytes that the role which needs most cannot do without, from the shapes of a plan of the sum family."""
    return _floor(replace(plan, session=SessionId("00" * 16), memory=1, reason="", identities=(), prekeys=()))


@cache
def _floor(plan: SessionPlan) -> int:
    times = max(1, _LONG // plan.M)
    large = replace(
        plan,
        m=times * plan.m,
        counts=tuple(times * n_i for n_i in plan.counts),
        targets=times * plan.targets,
        components=None if plan.components is None else times * plan.components,
        memory=PANELS * 8 * times * plan.M * _COLUMNS,
    )
    for _ in range(_ROUNDS):  # each time the part of a budget that panels take is added to it
        needed = _most_alive(large)
        if needed <= 1.001 * large.memory:
            break
        large = replace(large, memory=needed)
    return -(-large.memory // times**2)


def _most_alive(plan: SessionPlan) -> int:
    expected = Expected(full_rank(plan), True, in_memory=False)
    # User 1 leads; of the others the one with most columns has the widest share.
    users = {0, max(range(plan.k), key=plan.counts.__getitem__), plan.k - 1}
    steps = [step for i in users for step in user_steps(plan, i, expected)] + provider_steps(plan, expected)
    return max(step.alive for step in steps)
