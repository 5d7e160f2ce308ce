"""Linear mixed models: the steps of a model by few digits, with the slopes of a restricted likelihood before scores."""

from fedsvd.errors import ConfigError
from fedsvd.protocol.families import variances
from fedsvd.protocol.outputs import RECORD, To, array, hidden
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import PlannedStep, What, digits, maybe, sized
from fedsvd.protocol.tasks import Item, Task
from fedsvd.tasks.glm import COVARIANCE, equations, model, newton_steps, own_rows

GRAM_BITS, SLOPE_BITS, DEVIANCE_BITS, ENDS = 46, 16, 48, 4
"""Of the Gram matrix of a restricted likelihood, of its slopes, of the deviance at the end; and how many sums there are
with that."""

OUTPUTS = (
    *equations(attribute="intercept_"),
    COVARIANCE,
    *own_rows("residuals", "qq"),
    array(
        "random_effects",
        RECORD,
        "effect",
        to=To.OWN,
        attribute="random_effects_",
        says="The predicted random effects of each own row's group.",
        draws=("caterpillar",),
    ),
    hidden("random_errors", RECORD, "effect", to=To.OWN, attribute="random_errors_"),
)
"""What a mixed model gives; of own rows fitted values with random effects, and what is left."""


def steps(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Every step of a mixed model."""
    about = plan.glm
    if about is None:
        raise ConfigError("a plan without a model has no evaluations", "plan it again")
    p, v = 1 + plan.m, variances(about)
    triangle = p * (p + 1) // 2
    slopes = digits("slopes", v * triangle, SLOPE_BITS, What.INFORMATION)
    ends = sized("end", ENDS, DEVIANCE_BITS, What.DEVIANCE)
    degrees = digits("degrees", v * p, about.degree_bits, What.INFORMATION)
    if not about.reml:
        return newton_steps(plan, about, ending=(*ends, degrees))
    gram = digits("tilt", triangle, GRAM_BITS, What.INFORMATION)
    before = maybe("a short step", gram, maybe("the first of them", slopes))
    # A fit may end where the first of them were opened: no two sums of one evaluation have a name in common.
    last = digits("last slopes", v * triangle, about.degree_bits, What.INFORMATION)
    return newton_steps(plan, about, before, ending=(*ends, last, degrees))


TASK = model(
    Task.MIXED,
    steps,
    OUTPUTS,
    released=(Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE),
    on_request=(),
    centred=True,
    first_lines=(
        ('subject = "patient"', "persons or clinics that have random effects; each lies in one party"),
        ('# slope = "year"', "with a random slope too; it stays a feature"),
        ('# criterion = "ml"', "reml where left out"),
    ),
)
