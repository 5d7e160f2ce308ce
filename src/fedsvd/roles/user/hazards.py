"""After the fit of a Cox model: how effects change with time, and a baseline hazard of all users together.

A user's part of the first is what its own records say by a clock, of the second its own events and time at risk between
the plan's times. No time of a record is in either; what they open is declared, and the second asks every owner.
"""

from dataclasses import dataclass

import numpy as np

from fedsvd.protocol.hazards import (
    CLOCK,
    CLOCK_BITS,
    EVENTS,
    EXPOSURE,
    EXPOSURE_BITS,
    HAZARD,
    SCHOENFELD,
    SCHOENFELD_BITS,
    HazardsPlan,
    baseline_times,
    schoenfeld_numbers,
)
from fedsvd.roles.user.digits import DigitSums
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.sums import from_upper_triangle, sum_of_fives, upper_triangle
from fedsvd.roles.user.work import Work
from fedsvd.statistics.cox import Cohort
from fedsvd.statistics.cox_table import CoxInference
from fedsvd.statistics.fives import cumulative
from fedsvd.statistics.newton import power
from fedsvd.statistics.piecewise import hazards
from fedsvd.statistics.schoenfeld import clock, joined, own_part
from fedsvd.statistics.undefined import is_array
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class OwnTimes:
    """A user's own records of a Cox model, and when they came, left and had their events."""

    cohort: Cohort
    time: Float
    event: Float
    entry: Float | None


def after_fit(work: Work, sums: DigitSums, own: OwnTimes, model: CoxInference) -> Script:
    """What the plan asks for beyond the fit, the same at all users, under declared names."""
    about, found = HazardsPlan.of(work.plan), dict[str, Float]()
    if about is not None and schoenfeld_numbers(work.plan):
        found[SCHOENFELD] = yield from _by_clock(work, sums, own, about, model)
    if about is not None and baseline_times(work.plan):
        found[HAZARD] = yield from _common(work, sums, own, about, model.solution)
    return found


def _by_clock(work: Work, sums: DigitSums, own: OwnTimes, about: HazardsPlan, model: CoxInference) -> Script:
    """The score of effects that change with time, and its variance: (p, 1 + p)."""
    covariance = model.model_covariance
    assert is_array(covariance)
    p, root = work.plan.m, np.asarray(np.linalg.cholesky(covariance), np.float64)
    g = clock(about.clock, own.time, own.event, own.entry)
    first: Float = yield Local("evaluate", lambda: own_part(own.cohort, model.solution, root, g)[1].trace().reshape(1))
    total, _ = yield from sums.sized(CLOCK, first, CLOCK_BITS, power(work.plan.k))
    mean = float(total[0]) / p

    def parts() -> tuple[Float, Float, Float]:
        score, between, later = own_part(own.cohort, model.solution, root, lambda u: g(u) - mean)
        return score, upper_triangle(between, p), upper_triangle(later, p)

    mine: tuple[Float, Float, Float] = yield Local("evaluate", parts)
    runs = [len(part) for part in mine]
    total, _ = yield from sums.sized(SCHOENFELD, np.concatenate(mine), SCHOENFELD_BITS, power(work.plan.k), runs)
    between, later = (from_upper_triangle(each, p) for each in np.split(total[p:], 2))
    found = joined(total[:p], between, later, root)
    return np.column_stack((found.score, found.variance))


def _common(work: Work, sums: DigitSums, own: OwnTimes, about: HazardsPlan, w: Float) -> Script:
    """Of each time: itself, events and exposure since the one before, the cumulative hazard of a record of zeros."""
    counts: Float = yield Local("evaluate", lambda: cumulative(own.time[own.event > 0.0], about.times))
    events = yield from sum_of_fives(work.plan, EVENTS, counts, about.least)
    exposed: Float = yield Local("evaluate", lambda: own.cohort.exposure(w, about.times))
    total, _ = yield from sums.sized(EXPOSURE, exposed, EXPOSURE_BITS, power(work.plan.k))
    return hazards(about.times, np.diff(events, prepend=0.0), total)
