"""The steps and the outputs of a plan by its task: one file a task declares them, and here is who declares which.

Steps are a function of the plan's public numbers; ``studies`` asks for them once, when a plan is made, and everything
else reads ``plan.steps``. Outputs are a list, which a result carries (``PartyResult.outputs``). A declaration imports
``protocol`` alone.
"""

from collections.abc import Callable
from dataclasses import replace

from fedsvd.errors import ConfigError
from fedsvd.protocol.outputs import COMPONENT, FEATURE, RECORD, TARGET, Output, To, array, fact, hidden
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import PlannedStep
from fedsvd.protocol.tasks import SUMS_ALONE, Task
from fedsvd.tasks import components, factors, models, pairs, regression

Declaration = Callable[[SessionPlan], tuple[PlannedStep, ...]]

DECLARED: dict[Task, Declaration] = {
    Task.SVD: factors.steps,
    Task.LSA: factors.steps,
    Task.CCA: factors.canonical,
    Task.PCA: components.pca,
    Task.PCR: components.pcr,
    Task.LR: regression.steps,
    Task.GLM: models.steps,
    Task.PREDICT: regression.prediction,
    Task.MATCH: pairs.steps,
}

_EVERY = (
    hidden("row_ids", RECORD, to=To.OWN),
    fact("preparation"),
    fact("matching", to=To.OWN),
    fact("prepared", to=To.OWN),
    fact("recipe", to=To.OWN),
    fact("look_at", to=To.OWN),
)
"""What any study may give: ids of a party's rows, how records were matched, how tables were prepared."""
NEW_ROWS = (
    array("predictions", RECORD, TARGET),
    array("scores", RECORD, COMPONENT),
    array("coordinates", FEATURE, COMPONENT),
    fact("score"),
    fact("own_rows"),
)
"""What a result says of new data, to the caller who brought it: nothing is sent."""
OUTPUTS: dict[Task, tuple[Output, ...]] = {
    Task.SVD: factors.FACTOR_OUTPUTS,
    Task.LSA: factors.FACTOR_OUTPUTS,
    Task.CCA: factors.CANONICAL_OUTPUTS,
    Task.PCA: components.PCA_OUTPUTS,
    Task.PCR: components.PCR_OUTPUTS,
    Task.LR: regression.OUTPUTS,
    Task.GLM: models.OUTPUTS,
    Task.PREDICT: regression.PREDICTED_OUTPUTS,
    Task.PREPARE: (),
    Task.MATCH: (),
    Task.FOREIGN: (),  # its plan has them
}


def outputs_of(task: Task) -> tuple[Output, ...]:
    """Every output of a task."""
    return OUTPUTS[task] + _EVERY


def with_steps(plan: SessionPlan) -> SessionPlan:
    """The plan with its steps; those of a preparation, and of a foreign task, are there already."""
    if plan.task in SUMS_ALONE:
        if (plan.foreign is None) == (plan.task is Task.FOREIGN):
            raise ConfigError("a plan of another task than its declaration", "plan it again")
        if not plan.steps:
            raise ConfigError("nothing of this preparation takes a sum", "prepare the tables at home")
        return plan
    return replace(plan, steps=DECLARED[plan.task](plan))
