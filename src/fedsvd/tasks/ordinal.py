"""Ordinal regression: effects and thresholds of classes in an order, by the steps of a model by few digits."""

from fedsvd.protocol.outputs import CLASS, FEATURE, RECORD, TERM, To, array, fact, hidden
from fedsvd.protocol.tasks import Task
from fedsvd.tasks.glm import NAIVE, model, steps

OUTPUTS = (
    array("coefficients", CLASS, FEATURE, attribute="coef_", draws=("forest",)),
    hidden("intercept", CLASS),
    fact("models"),
    fact("classes"),
    fact("columns"),
    hidden("estimates", CLASS, TERM),
    array("covariance", CLASS, TERM, TERM),
    NAIVE,
    array("fitted", RECORD, CLASS, to=To.OWN),
    array("residuals", RECORD, CLASS, to=To.OWN, draws=("roc", "calibration")),
    fact("own_rows", to=To.OWN),
)
"""What an ordinal model gives: effects; thresholds are further terms. Of own records the probability of each class."""

TASK = model(
    Task.ORDINAL,
    steps,
    OUTPUTS,
    first_lines=(
        ('classes = ["low", "medium", "high"]', "of the label, from the lowest to the highest"),
        ('# link = "probit"', "or cloglog; logit where left out"),
    ),
)
