"""The plan of the paper's SVD without its first two optimisations, for their ablation (``ablation.py``).

A session's plan has no option for either: what is not optimised is a plan of another class, which answers the few
questions by which roles and cost estimates differ. Its two fields are in its digest, so that no party that runs the
optimised scheme takes a message of this one.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property

from fedsvd.errors import ConfigError
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Task

_UNBOUNDED = 1 << 62


@dataclass(frozen=True)
class UnoptimisedPlan(SessionPlan):
    """The paper's scheme with ``dense_masks``, ``whole_shares``, or both."""

    dense_masks: bool = False  # without the first optimisation: P and Q are one block each, and dealt as matrices
    whole_shares: bool = False  # without the second: all of Y_i is one batch, up to 2^31 - 1 entries

    @property
    def deals_left(self) -> bool:
        return self.dense_masks

    @property
    def batch_memory(self) -> int:
        return _UNBOUNDED if self.whole_shares else super().batch_memory

    @cached_property
    def tall(self) -> bool:
        return not self.whole_shares and super().tall

    @cached_property
    def windows_together(self) -> tuple[range, ...]:
        return (range(len(self.right_windows)),) if self.whole_shares else super().windows_together


def unoptimised(plan: SessionPlan, *, dense_masks: bool = False, whole_shares: bool = False) -> SessionPlan:
    """The same plan without these optimisations; itself where it keeps both."""
    if not (dense_masks or whole_shares):
        return plan
    if not plan.published or plan.task is Task.LR:
        raise ConfigError("the ablation of the paper's optimisations is of its SVD", 'set scheme="paper", task="svd"')
    if dense_masks:
        plan = replace(plan, block=max(plan.m, plan.n) + 1)
    values = {field.name: getattr(plan, field.name) for field in fields(SessionPlan)}
    return UnoptimisedPlan(**values, dense_masks=dense_masks, whole_shares=whole_shares)
