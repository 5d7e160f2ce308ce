"""Survival curves from counts on a grid of times: Kaplan-Meier, Nelson-Aalen, Greenwood, medians, restricted means.

Cumulative events E and departures L at each edge, and how many there are, are all that is needed. A bin's hazard is
``d / (n - c / 2)``: half of those whose follow-up ended in it were at risk (actuarial). At the edges that is within
.001 to .005 of the curve on exact times; whole-bin risk sets are .005 to .026 off. Counts in fives may have more events
than departures in a bin; the difference counts as no censoring.

Intervals of S are those of ``log S`` or of ``log(-log S)``, as R's ``conf.type`` has them. The interval of a median is
Brookmeyer and Crowley's: the times at which the interval of S holds one half.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsvd.statistics.fives import cumulative
from fedsvd.types import Float

_HALF = 1e-9  # a curve that is at one half for a while has its median in the middle, as R finds it


@dataclass(frozen=True, repr=False)
class Curve:
    """One group's curve at the edges of a grid; errors are those of R's ``survfit``: of the cumulative hazard."""

    time: Float
    at_risk: Float  # at the beginning of each bin
    events: Float
    censored: Float
    survival: Float
    error: Float  # of log S, by Greenwood
    low: Float
    high: Float
    hazard: Float  # cumulative, by Nelson and Aalen
    hazard_error: Float
    records: float

    def median(self) -> tuple[float, float, float]:
        """The time at which half are left, and its interval; NaN where the curve does not come to it."""
        return tuple(_reaches(self.time, S, self.survival) for S in (self.survival, self.low, self.high))  # type: ignore[return-value]

    def restricted_mean(self, until: float) -> tuple[float, float]:
        """The area below the curve up to a time, straight between edges as hazards of bins are, and its error."""
        time = np.concatenate(([0.0], self.time))
        curve = np.concatenate(([1.0], self.survival))
        last = float(np.interp(until, time, curve))
        inside = time < until
        time, curve = np.append(time[inside], until), np.append(curve[inside], last)
        areas = np.diff(time) * (curve[1:] + curve[:-1]) / 2.0
        left = np.cumsum(areas[::-1])[::-1] - areas / 2.0  # beyond the middle of each bin, where its events are
        with np.errstate(invalid="ignore"):  # where all have left, nothing is below the curve
            steps = np.diff(np.square(np.concatenate(([0.0], self.error))))[: len(left)]
        return float(areas.sum()), math.sqrt(float(np.sum(np.square(left) * np.nan_to_num(steps, posinf=0.0))))


def staircases(time: Float, event: Float, edges: Float, causes: int = 1) -> Float:
    """Own cumulative events, those of each cause where there are several, departures and records, as they are summed.

    An event is the number of its cause from 1. Who is censored at an edge was at risk up to it, as where follow-up ends
    for all at the last one: such a departure counts in the next bin.
    """
    events = [cumulative(time[event == cause], edges) for cause in range(1, causes + 1)]
    ended = np.searchsorted(np.sort(time[event == 0.0]), edges, side="left")
    return np.concatenate((*events, np.sum(events, axis=0) + ended, [float(len(time))]))


def curves(totals: Float, edges: Float, interval: str, level: float) -> tuple[Curve, ...]:
    """A curve for each row of joint ``staircases``."""
    D = len(edges)
    return tuple(_curve(row[:D], row[D : 2 * D], float(row[-1]), edges, interval, level) for row in totals)


def _curve(E: Float, L: Float, n: float, edges: Float, interval: str, level: float) -> Curve:
    events, gone = np.diff(E, prepend=0.0), np.diff(L, prepend=0.0)
    censored = np.maximum(gone - events, 0.0)
    at_risk = np.maximum(n - np.concatenate(([0.0], L[:-1])), 0.0)
    exposed = np.maximum(at_risk - censored / 2.0, events)
    some = exposed > 0.0
    h = np.divide(events, exposed, out=np.zeros(len(edges)), where=some)
    survival = np.cumprod(1.0 - h).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        greenwood = np.where(events > 0.0, events / (exposed * (exposed - events)), 0.0)
        error = np.sqrt(np.cumsum(greenwood))
        chaz_error = np.sqrt(np.cumsum(np.where(some, events / np.square(exposed), 0.0)))
    low, high = intervals(survival, error, interval, level)
    return Curve(edges, at_risk, events, censored, survival, error, low, high, np.cumsum(h), chaz_error, n)


def intervals(survival: Float, error: Float, interval: str, level: float) -> tuple[Float, Float]:
    """The interval of each point of a curve; NaN where R has NA: at 1 and at 0 on the scale of log(-log S)."""
    from fedsvd.statistics.distributions import normal_reach  # SciPy: plans, and --help, need none

    reach = normal_reach(level)
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log(survival)
        match interval:
            case "log-log":
                spread = reach * error / log
                centre = np.log(-log)
                low, high = np.exp(-np.exp(centre - spread)), np.exp(-np.exp(centre + spread))
                inside = (survival > 0.0) & (survival < 1.0)
                low, high = np.where(inside, low, np.nan), np.where(inside, high, np.nan)
                low, high = np.where(survival == 1.0, 1.0, low), np.where(survival == 1.0, 1.0, high)
            case "log":
                low, high = survival * np.exp(-reach * error), np.minimum(survival * np.exp(reach * error), 1.0)
                low, high = np.where(survival > 0.0, low, np.nan), np.where(survival > 0.0, high, np.nan)
            case _:
                low = np.maximum(survival - reach * error * survival, 0.0)
                high = np.minimum(survival + reach * error * survival, 1.0)
    return low, high


def _reaches(time: Float, curve: Float, survival: Float) -> float:
    """The first time at which a curve is at or below one half, among those at which the estimate steps."""
    with np.errstate(invalid="ignore"):
        below = np.flatnonzero(curve <= 0.5 + _HALF)
    if not len(below):
        return math.nan
    first = int(below[0])
    level = np.flatnonzero(survival < survival[first] - _HALF)
    if curve is survival and abs(curve[first] - 0.5) <= _HALF and len(level):
        return float(time[first] + time[level[0]]) / 2.0
    return float(time[first])
