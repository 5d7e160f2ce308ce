"""Principal component analysis: means first, then the opening of ``factors.py``."""

from fedsvd.protocol.outputs import COMPONENT, FEATURE, MEASURE, RECORD, To, array, fact
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import PlannedStep, What, total
from fedsvd.protocol.tasks import PERMUTED_TABLES, Answer, Item, Own, Split, Task
from fedsvd.tasks.components import COMPONENTS
from fedsvd.tasks.declared import Declared
from fedsvd.tasks.factors import components_found

OUTPUTS = (
    array("components", COMPONENT, FEATURE, attribute="components_", padded=True, draws=("loadings", "features")),
    *COMPONENTS,
    array("scores", RECORD, COMPONENT, to=To.OWN, draws=("scores", "biplot")),
    array("outliers", RECORD, MEASURE, to=To.OWN, draws=("outliers",)),
    fact("outliers", to=To.OWN),
    fact("found"),
)
"""What a PCA gives: scores, and how far out a row lies, are of a party's own rows."""


def steps(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Every step of a PCA."""
    found = components_found(plan)
    if plan.permutes:
        return (*found, total("permuted", PERMUTED_TABLES * plan.m * (plan.m + 1) // 2, What.PERMUTED))
    return found


TASK = Declared(
    Task.PCA,
    Answer.FACTORS,
    (Split.HORIZONTAL,),
    released=(Item.COMPONENTS, Item.MEAN, Item.OWN_PART),
    on_request=(Item.SPECTRUM,),
    own=Own.SCORES,
    centred=True,
    c=80,
    by_steps=True,
    steps=steps,
    outputs=OUTPUTS,
    first_lines=(
        ('release = ["components", "mean", "spectrum"]', 'leave "spectrum" out to show others less'),
        ("# unit_variance = true", "scale every column first"),
    ),
)
