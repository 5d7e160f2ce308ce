"""What a plan says of a propensity study: its two models as plans of their own, how records are weighted, and digits.

The first model is of who was treated, on all columns; the second of the outcome, on the treatment alone, weighted at
home by the first. Both are played in one session: a score or a weight is never written, and one plan has the steps of
both.
"""

from dataclasses import dataclass, replace

from fedsvd.protocol.families import Outcome
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Estimand

OUTCOME = "outcome "
"""With which names of the second model's sums begin."""

TRIMS = (0.0, 0.01, 0.05, 0.1)
"""Scores nearer to 0 or 1 may be left out: constants that no job can move past one person."""


@dataclass(frozen=True)
class PropensityPlan:
    """How records are weighted."""

    estimand: Estimand
    stabilised: bool
    trim: float

    @classmethod
    def of(cls, plan: SessionPlan) -> "PropensityPlan":
        estimand, stabilised = Estimand(str(plan.option("estimand"))), bool(plan.option("stabilised"))
        return cls(estimand, stabilised, float(plan.option("trim")))


def treatment_plan(plan: SessionPlan) -> SessionPlan:
    """The first model as the plan of a study by itself."""
    assert plan.glm is not None
    return replace(plan, glm=plan.glm.stages[0], robust="", targets=1)


def outcome_plan(plan: SessionPlan) -> SessionPlan:
    """The second one, of one feature."""
    assert plan.glm is not None
    effect = plan.glm.stages[1]
    return replace(plan, glm=effect, m=1, centre=effect.facts.outcome is not Outcome.TIMES, targets=effect.labels)


def stage_of(plan: SessionPlan, step: str) -> SessionPlan:
    """The plan of the model that evaluations of this name are of; the plan itself where it has one model."""
    if plan.glm is None or not plan.glm.facts.weighs:
        return plan
    return outcome_plan(plan) if step.startswith(OUTCOME) else treatment_plan(plan)
