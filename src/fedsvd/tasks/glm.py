"""Generalised linear models: steps and outputs are in ``models.py``."""

from fedsvd.protocol.reasons import Why
from fedsvd.protocol.tasks import Answer, Item, Labels, Split, Task
from fedsvd.tasks.declared import Declared
from fedsvd.tasks.models import OUTPUTS, steps

TASK = Declared(
    Task.GLM,
    Answer.GRAM,
    (Split.HORIZONTAL,),
    released=(Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE),
    labels={Split.HORIZONTAL: Labels.APART},
    centred=True,
    c=224,
    opened_by_users=Why.ITERATIONS,
    steps=steps,
    outputs=OUTPUTS,
)
