"""What a plan of a Cox model says of sums after its fit: how effects change with time, and a common baseline hazard.

Both are off unless a study asks for them. The clock of the first is centred at its mean, which is opened before; times
of the plan, between which events and time at risk of the second are counted, are public.
"""

import json
from dataclasses import dataclass

import numpy as np

from fedsvd.protocol.families import Outcome
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Baseline, Clock
from fedsvd.types import Float

SCHOENFELD, SCHOENFELD_BITS, SIZES = "schoenfeld", 18, 3
"""The sum of scores and information by a clock, in the coordinates of the model's root; sizes of its three parts."""

CLOCK, CLOCK_BITS = "schoenfeld clock", 12
"""The sum that the mean of the clock follows from: without it rounding would be large against what is left."""

ZPH_COLUMNS, HAZARD_COLUMNS = ("term", "chisq", "df", "p"), ("time", "n.event", "exposure", "cumhaz")
"""Of the tables of both."""

HAZARD, EVENTS, EXPOSURE, EXPOSURE_BITS = "hazard", "baseline events", "baseline exposure", 12
"""A common baseline, and its sums: events up to each time in multiples, time at risk between times by hazards."""


@dataclass(frozen=True, repr=False)
class HazardsPlan:
    """Of one Cox model."""

    clock: Clock
    baseline: Baseline
    times: Float
    least: int  # what counts of events are multiples of

    @classmethod
    def of(cls, plan: SessionPlan) -> "HazardsPlan | None":
        """None of any other model, and of one that asks for neither."""
        if plan.glm is None or plan.glm.facts.outcome is not Outcome.TIMES or not plan.options:
            return None
        clock, baseline = Clock(str(plan.option("schoenfeld"))), Baseline(str(plan.option("baseline")))
        if clock is Clock.NONE and baseline is Baseline.SITE:
            return None
        times = np.array(json.loads(str(plan.option("times"))), dtype=np.float64)
        return cls(clock, baseline, times, int(plan.option("least_count")))


def schoenfeld_numbers(plan: SessionPlan) -> int:
    """Of a score and the triangles of two matrices; 0 without a clock."""
    about, p = HazardsPlan.of(plan), plan.m
    return 0 if about is None or about.clock is Clock.NONE else p + p * (p + 1)


def bins_of(plan: SessionPlan) -> Float | None:
    """The ends of the bins of a model with one baseline of all parties; None of any other."""
    about = HazardsPlan.of(plan)
    return None if about is None or about.baseline is not Baseline.BINS else about.times


def baseline_times(plan: SessionPlan) -> int:
    """At how many times a common baseline is opened; 0 where each party has its own alone."""
    about = HazardsPlan.of(plan)
    return len(about.times) if about is not None and about.baseline is Baseline.COMMON else 0
