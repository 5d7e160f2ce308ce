"""Canonical correlations: an SVD of orthonormal bases of the parties' columns."""

from fedsvd.protocol.outputs import COMPONENT, FEATURE, RECORD, To, array, column, fact, hidden
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import PlannedStep, What
from fedsvd.protocol.tasks import Answer, Item, Own, Split, Task
from fedsvd.tasks.declared import Declared
from fedsvd.tasks.factors import factorised

OUTPUTS = (
    array("left_vectors", RECORD, COMPONENT, attribute="U_", padded=True, draws=("scores",)),
    hidden("singular_values", COMPONENT, attribute="singular_values_", padded=True),
    column(
        "correlations",
        COMPONENT,
        "correlations",
        "correlation",
        attribute="correlations_",
        draws=("correlations",),
    ),
    fact("ranks"),
    fact("wilks", table="wilks"),
    fact("no_tests"),
    array("weights", FEATURE, COMPONENT, to=To.OWN),
    array("canonical_loadings", FEATURE, COMPONENT, to=To.OWN, draws=("canonical_loadings",)),
    hidden("column_means", FEATURE, to=To.OWN, attribute="mean_"),
    array("variates", RECORD, COMPONENT, to=To.OWN),
    fact("own_rank", to=To.OWN),
)
"""What a CCA gives: common variables and their correlations to all, and to each party what is of its own columns."""


def steps(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Every step of a CCA."""
    return factorised(plan, What.CANONICAL)


TASK = Declared(
    Task.CCA,
    Answer.FACTORS,
    (Split.VERTICAL,),
    released=(Item.COMPONENTS, Item.SPECTRUM, Item.OWN_PART),
    own=Own.VARIATES,
    c=96,
    held=6,  # the data, centred, its basis and LAPACK's copy of it, and what is shared
    steps=steps,
    outputs=OUTPUTS,
)
