"""What a plan of survival curves says: its grid, its groups, how counts are opened, and which test is made.

A party's table has the columns time, event (1 where one was seen, or the number of its cause from 1) and, where there
are groups, the number of its group from 0. The options of the task are in the plan as texts; here they are read, so
that steps and scripts read them alike.
"""

import json
from dataclasses import dataclass

import numpy as np

from fedsvd.protocol.model import WITHIN_BITS, Digits
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Counts, RankTest
from fedsvd.statistics.log_rank import numbers
from fedsvd.types import Float

LIFE_TABLE, TEST = "life table", "comparison"

STRATA, STATE = "strata", "state"
CURVE_COLUMNS = ("time", "n.risk", "n.event", "n.censor", "estimate", "std.error", "conf.high", "conf.low", "cumhaz")
GROUP_COLUMNS = ("records", "events", "median", "conf.low", "conf.high", "rmean", "std.error")
"""Of the tables: the group and the cause of a row, its numbers at each time, its numbers for each curve."""


@dataclass(frozen=True, repr=False)
class CurvesPlan:
    """Of survival curves."""

    edges: Float
    groups: tuple[str, ...]  # none where all records are one
    causes: tuple[str, ...]  # of events; none where there is one
    counts: Counts
    test: RankTest
    interval: str
    level: float
    until: float  # of the restricted mean
    least: int  # what counts are multiples of; 1 where they are exact
    bits: int  # of each total of the test

    @classmethod
    def of(cls, plan: SessionPlan) -> "CurvesPlan":
        edges = np.array(json.loads(str(plan.option("times"))), dtype=np.float64)
        groups, causes = (tuple(json.loads(str(plan.option(key)))) for key in ("groups", "causes"))
        test = RankTest(str(plan.option("test"))) if len(groups) > 1 else RankTest.NONE
        until = float(plan.option("until")) or float(edges[-1])
        counts = Counts(str(plan.option("counts")))
        least = 1 if counts is Counts.EXACT else int(plan.option("least_count"))
        bits = WITHIN_BITS[Digits.MORE if plan.digits in (Digits.MORE, Digits.ALL) else Digits.TABLE]
        interval = str(plan.option("conf_type"))
        return cls(edges, groups, causes, counts, test, interval, float(plan.option("level")), until, least, bits)

    @property
    def curves(self) -> int:
        """One for each group, or one."""
        return max(1, len(self.groups))

    @property
    def numbers(self) -> int:
        """Counts that are summed: events of each cause and departures at each edge, and records, of each curve."""
        return self.curves * ((self.kinds + 1) * len(self.edges) + 1)

    @property
    def kinds(self) -> int:
        """Causes of events, or one."""
        return max(1, len(self.causes))

    @property
    def test_numbers(self) -> int:
        """Totals of the comparison of groups; 0 without a comparison."""
        return 0 if self.test is RankTest.NONE else numbers(len(self.groups))
