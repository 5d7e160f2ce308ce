"""Generalised linear models: as many evaluations as the data needs, each with totals and mostly a Gram matrix."""

from fedsvd.errors import ConfigError
from fedsvd.protocol.outputs import CLASS, FEATURE, RECORD, TERM, To, array, fact, hidden
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import PlannedStep, What, from_user_1, maybe, repeat, triangle, wide
from fedsvd.protocol.sums import FELL, STEPPED

OUTPUTS = (
    array("coefficients", CLASS, FEATURE, attribute="coef_"),
    hidden("intercept", CLASS, attribute="intercept_"),
    fact("models"),
    fact("classes"),
    fact("columns"),
    hidden("contrasts", CLASS, TERM),
    hidden("estimates", CLASS, TERM),
    array("covariance", CLASS, TERM, TERM),
    array("fitted", RECORD, CLASS, to=To.OWN),
    array("residuals", RECORD, CLASS, to=To.OWN),
    fact("own_rows", to=To.OWN),
)
"""What a generalised linear model gives: one equation, or one for each class."""


def steps(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Every step of a generalised linear model."""
    if plan.glm is None:
        raise ConfigError("a plan without a model has no evaluations")
    evaluation = (
        wide("totals", plan.glm.totals + plan.M, What.DEVIANCE),
        maybe(
            FELL, triangle("gram", plan.M), maybe(STEPPED, from_user_1("answer", 8 * (plan.M + 3), what=What.ITERATES))
        ),
    )
    return (repeat("evaluation", plan.glm.evaluations, *evaluation),)
