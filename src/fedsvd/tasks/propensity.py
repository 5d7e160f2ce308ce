"""The effect of a treatment by propensity weights: a model of who was treated, the balance, a weighted outcome model.

All of it is one session: weights are made at home from coefficients that all parties have, between two iterations of
models by few digits, and nothing of them is written before the end (ADR 0145).
"""

from dataclasses import replace

from fedsvd.errors import ConfigError
from fedsvd.protocol.model import MORE_BITS
from fedsvd.protocol.outputs import RECORD, To, array, fact
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.propensity import OUTCOME, outcome_plan, treatment_plan
from fedsvd.protocol.steps import PlannedStep, StepKind, What, digits, flags, sized, wide
from fedsvd.protocol.tasks import Robust, Task
from fedsvd.tasks.glm import ERRORS, equations, model, newton_steps

OUTPUTS = (
    *equations("treatment"),
    *ERRORS,
    fact("propensity_model"),
    fact("balance", table="balance", draws=("love",)),
    array("propensity", RECORD, "score, weight", to=To.OWN),
    fact("own_weights", to=To.OWN),
)
"""What a propensity study gives: the effect, as a model of one term; of own records their scores and weights."""


def steps(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Every step: the first model, sums of weights, covariates by group, the second model."""
    if plan.glm is None:
        raise ConfigError("a plan without a model has no evaluations", "plan it again")
    treated, outcome = treatment_plan(plan), outcome_plan(plan)
    assert treated.glm is not None
    assert outcome.glm is not None
    clusters = (wide("clusters", 1, What.COUNT),) if plan.robust == Robust.CLUSTER else ()
    return (
        *newton_steps(treated, treated.glm),
        *sized("weights", 4, MORE_BITS, What.BALANCE),
        flags("numbers", plan.m, What.BALANCE),
        digits("balance", 8 * plan.m, MORE_BITS, What.BALANCE),
        *clusters,
        *map(_of_outcome, newton_steps(outcome, outcome.glm)),
    )


def _of_outcome(step: PlannedStep) -> PlannedStep:
    """A step of the second model, under a name of its own."""
    named = step if step.kind is StepKind.MAYBE else replace(step, name=OUTCOME + step.name)
    return replace(named, body=tuple(map(_of_outcome, step.body)))


TASK = model(
    Task.PROPENSITY,
    steps,
    OUTPUTS,
    centred=True,
    first_lines=(
        ('treatment = "treated"', "1 where a record was treated, 0 where not; all other columns are covariates"),
        ('# family = "binomial"', "of the outcome: gaussian (a difference of means) where left out, or poisson"),
        ('# event = "event"', "the outcome is a time, and the effect a hazard ratio"),
        ('# estimand = "ATE"', "or ATT; overlap where left out, whose weights are bounded"),
    ),
)
