"""The covariance matrix of columns whose rows are split: means, and the joint Gram matrix about them."""

from fedsvd.protocol.outputs import FEATURE, array, column
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.reasons import Why
from fedsvd.protocol.steps import PlannedStep, What, bound, total, triangle, wide
from fedsvd.protocol.tasks import Answer, Item, Split, Task
from fedsvd.tasks.declared import Declared

OUTPUTS = (
    column("mean", FEATURE, "mean", "mean", attribute="location_"),
    array("covariance", FEATURE, FEATURE, attribute="covariance_", says="The covariance of each two columns"),
)
"""What it gives, the same to all parties."""


def steps(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Every step of it."""
    return (
        wide("mean", plan.m, What.MEAN),
        bound("bound"),
        total("norm", 1, What.NORM),
        triangle("gram", plan.M),
    )


TASK = Declared(
    Task.COV,
    Answer.GRAM,
    (Split.HORIZONTAL,),
    released=(Item.MEAN,),
    centred=True,
    c=104,
    opened_by_users=Why.FROM_GRAM,
    steps=steps,
    outputs=OUTPUTS,
)
