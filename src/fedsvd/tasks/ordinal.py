"""Ordinal regression: effects and thresholds of classes in an order, by the steps of a model by few digits."""

from fedsvd.protocol.outputs import CLASS, FEATURE, RECORD, TERM, To, array, fact, hidden
from fedsvd.protocol.reasons import Why
from fedsvd.protocol.tasks import Answer, Item, Labels, Split, Task
from fedsvd.tasks.declared import Declared
from fedsvd.tasks.glm import NAIVE, steps

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

TASK = Declared(
    Task.ORDINAL,
    Answer.GRAM,
    (Split.HORIZONTAL,),
    released=(Item.COEFFICIENTS, Item.INFERENCE),
    on_request=(Item.ROBUST,),
    labels={Split.HORIZONTAL: Labels.APART},
    c=224,
    held=3,  # its rows, less their means, and those times the weights of records
    opened_by_users=Why.ITERATIONS,
    steps=steps,
    outputs=OUTPUTS,
    first_lines=(
        ('classes = ["low", "medium", "high"]', "of the label, from the lowest to the highest"),
        ('# link = "probit"', "or cloglog; logit where left out"),
    ),
)
