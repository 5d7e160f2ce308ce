"""Cox regression stratified by site: the steps of a model by few digits, with times and risk sets at home."""

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
    array("covariance", CLASS, TERM, TERM),
    NAIVE,
    array("fitted", RECORD, CLASS, to=To.OWN),
    array("residuals", RECORD, CLASS, to=To.OWN),
    array("deviance_residuals", RECORD, CLASS, to=To.OWN, draws=("residuals",)),
    hidden("baseline", "event time", "number", to=To.OWN),
    fact("own_rows", to=To.OWN),
)
"""What a Cox model gives: log hazard ratios; of own records the relative hazard and the martingale residual."""

TASK = Declared(
    Task.COX,
    Answer.GRAM,
    (Split.HORIZONTAL,),
    released=(Item.COEFFICIENTS, Item.INFERENCE),
    on_request=(Item.ROBUST,),
    labels={Split.HORIZONTAL: Labels.APART},
    c=224,
    held=3,  # its rows in the order of their times, and their weighted and cumulative sums
    opened_by_users=Why.ITERATIONS,
    steps=steps,
    outputs=OUTPUTS,
    first_label="time",
    first_lines=(
        ('event = "event"', "1 where the event was seen at that time, 0 where follow-up ended"),
        ('# entry = "entry"', "the time from which a record was observed"),
        ('# strata = "clinic"', "compare records of one site and one clinic"),
        ('# ties = "breslow"', "efron where left out"),
    ),
)
