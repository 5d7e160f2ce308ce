"""Table 1: counts of levels that pass at every party, sums of few digits, and counts on public grids."""

from fedsvd.errors import ConfigError
from fedsvd.protocol.outputs import fact
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.reasons import Why
from fedsvd.protocol.steps import PlannedStep, StepKind, What, digits, fives, flags
from fedsvd.protocol.tasks import Answer, Split, Task
from fedsvd.tasks.declared import Declared

OUTPUTS = (
    fact("described", table="table_1", draws=("love", "histogram")),
    fact("tests", table="tests"),
    fact("histograms", table="histograms"),
)
"""What a description gives: all of it to all parties, in three tables."""


def steps(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Every step of a description."""
    about = plan.table
    if about is None:
        raise ConfigError("a plan without columns to describe", "plan it again")
    groups, numbers = len(about.groups), len(about.numbers)
    found = _pooling("groups", groups, groups, plan.k) if about.by else []
    if about.categories:
        found += _pooling("levels", about.cells, sum(len(each.levels) for each in about.categories), plan.k)
    counted = groups * (1 + numbers) + about.cells + int(about.correlations)
    found.append(PlannedStep("counts", StepKind.WHOLE, counted, what=What.TABLE))
    if not numbers:
        return tuple(found)
    found.append(digits("moments", 2 * numbers * groups, about.bits(plan.n) or 1, What.MOMENTS))
    if about.quantiles:
        found.append(fives("grid", about.grid, about.multiple))
    if about.by:
        found.append(digits("ranks", about.rank_numbers, about.rank_bits, What.RANKS))
    if about.correlations:
        products = numbers + numbers * (numbers + 1) // 2
        found.append(digits("products", products, about.product_bits, What.INFORMATION))
    return tuple(found)


def _pooling(of: str, counted: int, pools: int, parties: int) -> list[PlannedStep]:
    """Which levels are too rare to be counted by themselves, and how many more they are joined with.

    Two parties add up no counts: each judges its own.
    """
    counts = PlannedStep(f"joint counts of {of}", StepKind.WHOLE, counted, what=What.CAPPED)
    rare, pooled = flags(f"rare {of}", counted, What.CAPPED), flags(f"pools of {of}", pools, What.CAPPED)
    return [counts, rare, pooled] if parties > 2 else [rare, pooled]


TASK = Declared(
    Task.DESCRIBE,
    Answer.SUMS,
    (Split.HORIZONTAL,),
    opened_by_users=Why.PREPARATION,
    steps=steps,
    outputs=OUTPUTS,
    by_dictionary=True,
    first_lines=(
        ('# by = "treatment"', "the category whose levels are the columns of the table"),
        ('# nonnormal = ["stay"]', "numbers that are shown by median and quartiles"),
        ('# counts = "exact"', "fives where left out: own counts are rounded at home"),
    ),
)
