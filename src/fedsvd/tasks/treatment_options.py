"""Options of the effect of a treatment: who was treated, and how records are weighted."""

from functools import partial

from fedsvd.protocol.tasks import Estimand, Task
from fedsvd.tasks.option import Option
from fedsvd.tasks.values import FLAG, named_column, number, word

_weights = partial(Option, tasks=(Task.PROPENSITY,), script=True)

TREATMENT = (
    named_column(
        "treatment",
        "The column of treatments: 1 where a record was treated, 0 where not.",
        (
            "the column that says who was treated (1) and who was not (0); all columns but this, the label and those "
            "next to it are covariates of the propensity score (`propensity`)"
        ),
        unset="needed for `propensity`",
        tasks=(Task.PROPENSITY,),
    ),
    _weights(
        "estimand",
        word(Estimand),
        Estimand.OVERLAP,
        "Whose effect: overlap, ATE (all) or ATT (the treated).",
        (
            'whose effect, by weights of the score e (`propensity`): `"overlap"`, 1 - e of the treated and e of '
            'others, which are bounded; `"ATE"`, 1 / e and 1 / (1 - e); `"ATT"`, 1 and e / (1 - e)'
        ),
    ),
    _weights(
        "stabilised",
        FLAG,
        False,
        "Multiply weights with their group's share.",
        "whether weights are multiplied with the joint share of their group (`propensity`); it matters for Cox models",
    ),
    _weights(
        "trim",
        number(ge=0, lt=0.5),
        0.0,
        "Leave out records whose score is nearer to 0 or 1: 0, 0.01, 0.05 or 0.1.",
        (
            "records whose score is nearer to 0 or 1 have no weight (`propensity`): 0, 0.01, 0.05 or 0.1, so that no "
            "job moves the limit past one person. A party that would leave out 1 to 4 of a group leaves out 5"
        ),
    ),
)
