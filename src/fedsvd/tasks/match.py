"""Matching of records: commitments to sets of ids, then one comparison; blinded sets go around the users first."""

from fedsvd.protocol.matching import BLINDED_SETS, PLACES
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import PlannedStep, StepKind, What
from fedsvd.protocol.tasks import Align, Answer, Item, Split, Task
from fedsvd.tasks.declared import Declared


def steps(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Every step of a matching."""
    committed = PlannedStep("commitment", StepKind.FROM_EACH, 32)
    compared = PlannedStep("common records", StepKind.COMPARE, what=What.RECORDS)
    if plan.align is not Align.ECDH:
        return committed, compared
    return committed, PlannedStep(BLINDED_SETS, StepKind.EXCHANGE), compared, PlannedStep(PLACES, StepKind.EXCHANGE)


TASK = Declared(Task.MATCH, Answer.RECORDS, (Split.VERTICAL,), released=(Item.COMMON,), steps=steps)
