"""Survival curves at a user: own counts, rounded at home where the plan says so, and own comparisons of groups.

Times, risk sets and the order of records stay here. What all users open is one sum of counts on the plan's grid and one
of what each of them found when it compared its own records.
"""

from dataclasses import dataclass

import numpy as np

from fedsvd.errors import DataError
from fedsvd.protocol.counted import LIFE_TABLE, TEST, CurvesPlan
from fedsvd.roles.user.digits import DigitSums
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.sums import sum_of_fives
from fedsvd.roles.user.work import Work
from fedsvd.statistics.cox import expect_times
from fedsvd.statistics.life_table import staircases
from fedsvd.statistics.log_rank import GroupTest, joined, own_part
from fedsvd.types import Float

_NOISE = 8.0  # units of a total for each user: rounding and noise of variances that are zero


@dataclass(frozen=True, repr=False)
class SurvivalResult:
    """What every user holds: joint counts, (curves, 2 D + 1), and the comparison of groups where there is one."""

    counts: Float
    test: GroupTest | None
    bits: float = 0.0
    rank: int = 0
    residual: float = 0.0

    def __repr__(self) -> str:
        return f"SurvivalResult(counts={self.counts.shape})"


def script(work: Work) -> Script:
    """Count, compare, open."""
    about = CurvesPlan.of(work.plan)
    rows: Float = yield Local("reading", lambda: np.concatenate([panel.T for _, panel in work.panels("reading")]))
    time, event, group = yield Local("counting", lambda: _checked(about, rows))
    own = yield Local("counting", lambda: own_counts(about, time, event, group))
    total = yield from sum_of_fives(work.plan, LIFE_TABLE, own, about.least)
    counts = total.reshape(about.curves, -1)
    if not about.test_numbers:
        return SurvivalResult(counts, None)
    sums, groups = DigitSums(work), len(about.groups)
    first = (event == 1.0).astype(np.float64)  # of causes that compete, the first
    part = yield Local("comparing", lambda: own_part(time, first, group, groups, about.test))
    found, units = yield from sums.sized(TEST, part, about.bits)
    least = _NOISE * work.plan.k * float(units[groups - 1 :].max())
    return SurvivalResult(counts, joined(found, groups, about.test, least), sums.bits)


def own_counts(about: CurvesPlan, time: Float, event: Float, group: Float) -> Float:
    """Own staircases of all curves, one after the other."""
    chosen = [group == code for code in range(about.curves)]
    return np.concatenate([staircases(time[some], event[some], about.edges, about.kinds) for some in chosen])


def expect_causes(event: Float, kinds: int) -> None:
    """Raise ``DataError`` unless events are 0 or the number of a cause."""
    if not np.isin(event, np.arange(kinds + 1)).all():
        raise DataError("an event is neither 0 nor one of the causes", "name every cause, and code the rest as 0")


def _checked(about: CurvesPlan, rows: Float) -> tuple[Float, Float, Float]:
    time, event = rows[:, 0], rows[:, 1]
    if about.causes:
        expect_causes(event, about.kinds)
    else:
        expect_times(time, event, None)
    group = rows[:, 2] if about.groups else np.zeros(len(time))
    if not np.isin(group, np.arange(about.curves)).all():
        raise DataError(
            "a record is in none of the study's groups", "name all groups (groups), or leave these rows out"
        )
    return time, event, group
