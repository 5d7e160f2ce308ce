"""Prediction on split columns: scores of new records, which the label holder alone opens."""

from fedsvd.protocol.outputs import COMPONENT, FEATURE, RECORD, TARGET, To, array, fact
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import PlannedStep, What, bound, total
from fedsvd.protocol.tasks import Answer, Item, Split, Task
from fedsvd.tasks.declared import Declared

OUTPUTS = (
    array("predictions", RECORD, TARGET, to=To.HOLDER),
    fact("score", to=To.HOLDER),
)
"""What a prediction gives."""
NEW_ROWS = (
    array("predictions", RECORD, TARGET),
    array("scores", RECORD, COMPONENT),
    array("coordinates", FEATURE, COMPONENT),
    fact("score"),
    fact("own_rows"),
)
"""What a result says of new data, to the caller who brought it: nothing is sent."""


def scores_of(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Every step of a prediction; the last ones of a regression that releases its score."""
    return bound("score bound"), total("scores", plan.m * plan.targets, What.SCORES, to=plan.label_user)


TASK = Declared(
    Task.PREDICT, Answer.SCORES, (Split.VERTICAL,), released=(Item.SCORE,), steps=scores_of, outputs=OUTPUTS
)
