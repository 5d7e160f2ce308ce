"""Regression on principal components: from the joint Gram matrix of features and labels, or by steps."""

from fedsvd.protocol.outputs import COMPONENT, FEATURE, RECORD, TARGET, TERM, To, array, column, fact, hidden
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.reasons import Why
from fedsvd.protocol.steps import PlannedStep, What, bound, from_user_1, total, triangle, wide
from fedsvd.protocol.sums import LABEL_MEAN, LEFT, PROJECTED
from fedsvd.protocol.tasks import Answer, Item, Labels, Scheme, Split, Task
from fedsvd.tasks.components import COMPONENTS
from fedsvd.tasks.declared import Declared
from fedsvd.tasks.factors import components_found

OUTPUTS = (
    array("components", COMPONENT, FEATURE, attribute="components_", draws=("loadings", "features")),
    *COMPONENTS,
    array("component_coefficients", TARGET, TERM),
    hidden("component_covariance", TARGET, TERM, TERM),
    fact("components"),
    array("coefficients", TARGET, FEATURE, attribute="coef_", draws=("coefficients",)),
    column("intercept", TARGET, "intercept", "intercept", attribute="intercept_"),
    array("fitted", RECORD, TARGET, to=To.OWN),
    array("residuals", RECORD, TARGET, to=To.OWN, draws=("residuals", "qq")),
    fact("score", to=To.OWN),
    fact("found"),
)
"""What a regression on components gives."""


def steps(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Every step of a regression on components."""
    if plan.scheme is Scheme.STEPS:
        # Of labels what they have in common with the components is added up, and what these leave of them.
        of_labels = wide(PROJECTED, plan.planned_rank * plan.targets, What.COMPONENTS)
        ends = wide(LABEL_MEAN, plan.targets, What.LABELS), of_labels, wide(LEFT, plan.targets, What.LABELS)
        return (*components_found(plan), *ends)
    found = [wide("mean", plan.M, What.MEAN)] if plan.centre else []
    found += [
        bound("bound"),
        wide("energy", plan.M, What.ENERGY),
        total("norm", 1, What.NORM),
        triangle("gram", plan.M),
    ]
    return (*found, from_user_1("answer", 8 * (plan.m + 1) * plan.planned_rank, what=What.COMPONENTS))


TASK = Declared(
    Task.PCR,
    Answer.GRAM,
    (Split.HORIZONTAL,),
    released=(Item.COMPONENTS, Item.SPECTRUM, Item.MEAN, Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE),
    labels={Split.HORIZONTAL: Labels.JOINED},
    centred=True,
    c=104,
    opened_by_users=Why.FROM_GRAM,
    by_steps=True,
    steps=steps,
    outputs=OUTPUTS,
)
