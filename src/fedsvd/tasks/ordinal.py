"""Ordinal regression: effects and thresholds of classes in an order, by the steps of a model by few digits."""

from fedsvd.protocol.tasks import Task
from fedsvd.tasks.glm import ERRORS, equations, model, own_rows, steps

OUTPUTS = (*equations(), *ERRORS, *own_rows("roc", "calibration"))
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
