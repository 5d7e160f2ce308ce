"""Survival curves: own cumulative counts on a public grid of times, and a comparison of groups within sites."""

from fedsvd.errors import ConfigError
from fedsvd.protocol.counted import CURVE_COLUMNS, GROUP_COLUMNS, LIFE_TABLE, STATE, STRATA, TEST, CurvesPlan
from fedsvd.protocol.outputs import Kind, column, fact, hidden
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.reasons import Why
from fedsvd.protocol.steps import PlannedStep, What, fives, sized
from fedsvd.protocol.tasks import Answer, Split, Task
from fedsvd.statistics.fives import expect_grid
from fedsvd.tasks.declared import Declared

CURVE, GROUP = "row", "number"
OUTPUTS = (
    hidden("counts", "group", "count", draws=("survival",)),
    *(column(f"curve {name}", CURVE, "curves", name, kind=Kind.COLUMN) for name in (*CURVE_COLUMNS, STRATA, STATE)),
    *(column(f"group {name}", GROUP, "groups", name, kind=Kind.COLUMN) for name in (STRATA, *GROUP_COLUMNS)),
    fact("test"),
    fact("groups"),
    fact("causes"),
    fact("rounded"),
)
"""What survival curves give: joint counts, the table of curves with the columns of R's ``tidy(survfit)``, medians."""


def steps(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """The counts of all curves at once, and the totals of the comparison."""
    about = CurvesPlan.of(plan)
    expect_grid(about.edges)
    if len(about.groups) == 1:
        raise ConfigError("one group cannot be compared", "name two groups or more, or leave group and groups out")
    if len(about.causes) == 1:
        raise ConfigError("one cause competes with no other", "name two causes or more, or leave causes out")
    if not 0.0 < about.until <= about.edges[-1]:
        raise ConfigError("the restricted mean ends beyond the last of the times", "until is a time of the grid")
    counted = fives(LIFE_TABLE, about.numbers, about.least)
    if not about.test_numbers:
        return (counted,)
    return counted, *sized(TEST, about.test_numbers, about.bits, What.WITHIN)


TASK = Declared(
    Task.SURVIVAL,
    Answer.SUMS,
    (Split.HORIZONTAL,),
    held=3,
    opened_by_users=Why.COUNTED,
    steps=steps,
    outputs=OUTPUTS,
    first_label="time",
    first_lines=(
        ('event = "event"', "1 where the event was seen at that time, 0 where follow-up ended"),
        ("times = [90, 180, 365, 730]", "at which counts are opened; a dictionary may have them"),
        ('# group = "treatment"', "a curve for each of these groups"),
        ('# groups = ["control", "treated"]', "the values of that column"),
        ('# counts = "exact"', "fives where left out: own counts are rounded at home"),
    ),
)
