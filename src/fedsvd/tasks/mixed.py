"""Linear mixed models: the steps of a model by few digits, with the slopes of a restricted likelihood before scores."""

from fedsvd.errors import ConfigError
from fedsvd.protocol.families import variances
from fedsvd.protocol.outputs import CLASS, FEATURE, RECORD, TERM, To, array, fact, hidden
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.reasons import Why
from fedsvd.protocol.steps import PlannedStep, What, digits, maybe, sizes
from fedsvd.protocol.tasks import Answer, Item, Labels, Split, Task
from fedsvd.tasks.declared import Declared
from fedsvd.tasks.glm import newton_steps

TILT_BITS, SECOND_BITS, DEVIANCE_BITS, CURVE_BITS = 38, 20, 48, 12
"""Of the slopes of a restricted likelihood, of what degrees of freedom need, and of the deviance at the end."""

OUTPUTS = (
    array("coefficients", CLASS, FEATURE, attribute="coef_", draws=("forest",)),
    hidden("intercept", CLASS, attribute="intercept_"),
    fact("models"),
    fact("classes"),
    fact("columns"),
    array("covariance", CLASS, TERM, TERM),
    array("fitted", RECORD, CLASS, to=To.OWN),
    array("residuals", RECORD, CLASS, to=To.OWN, draws=("residuals", "qq")),
    array("random_effects", RECORD, "effect", to=To.OWN, says="The predicted random effects of each own row's group."),
    fact("own_rows", to=To.OWN),
)
"""What a mixed model gives; of own rows fitted values with random effects, and what is left."""


def steps(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Every step of a mixed model."""
    about = plan.glm
    if about is None:
        raise ConfigError("a plan without a model has no evaluations", "plan it again")
    v = variances(about)
    triangle = (1 + plan.m) * (2 + plan.m) // 2
    slopes, second = (1 + v) * triangle, (v * (v + 1) // 2) * triangle
    ending = sizes("end sizes", 2), digits("end", 2, DEVIANCE_BITS, What.DEVIANCE)
    if not about.reml:
        last = sizes("slopes sizes", slopes), digits("slopes", slopes, SECOND_BITS, What.INFORMATION)
        return newton_steps(plan, about, ending=(*ending, *last))
    before = (
        maybe("the first slopes", sizes("tilt sizes", slopes)),
        maybe("a short step", digits("tilt", slopes, TILT_BITS, What.INFORMATION)),
        maybe("the first of them", sizes("curve sizes", second), digits("curve", second, CURVE_BITS, What.INFORMATION)),
    )
    last = sizes("second sizes", second), digits("second", second, SECOND_BITS, What.INFORMATION)
    return newton_steps(plan, about, *before, ending=(*ending, *last))


TASK = Declared(
    Task.MIXED,
    Answer.GRAM,
    (Split.HORIZONTAL,),
    released=(Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE),
    labels={Split.HORIZONTAL: Labels.APART},
    centred=True,
    c=224,
    held=3,  # its rows in the order of their groups, with products inside them
    opened_by_users=Why.ITERATIONS,
    steps=steps,
    outputs=OUTPUTS,
    first_lines=(
        ('subject = "patient"', "persons or clinics that have random effects; each lies in one party"),
        ('# slope = "year"', "with a random slope too; it stays a feature"),
        ('# criterion = "ml"', "reml where left out"),
    ),
)
