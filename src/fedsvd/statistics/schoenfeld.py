"""Whether hazards are proportional: the score test of effects that change with time (Grambsch and Therneau).

To each column x a second one ``x g(t)`` is added, whose effect is zero; the score test of it is R's ``cox.zph``. With
the terms of a partial likelihood (``cox.py``), weights ``w``, events at u and the covariance V(u) of a risk set,

    score          sum of g(u) (x - a1) over events and terms
    information    sum of w g(u) V(u) between x and x g, and of w g(u)^2 V(u) of x g

No constant in g changes the test, because the score of x is zero at the fit. Sums are in the coordinates of the root of
the model, ``A A^T`` the inverse of its information: there units and the condition of the columns do not enter, and the
mean of the trace between x and x g is the mean of g, which is taken off before anything else is summed.

The clock g is the time or its logarithm; or one of a party's own records, which R has over all: 1 less the share that
is left before u ("km"), or the place of u among own event times ("rank").
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsvd.errors import DataError
from fedsvd.statistics.cox import Cohort
from fedsvd.types import Float

GLOBAL = "GLOBAL"


@dataclass(frozen=True)
class Proportional:
    """One test: of a coefficient, of a term, or of all of them."""

    name: str
    chisq: float
    df: int
    p: float


@dataclass(frozen=True, repr=False)
class Schoenfeld:
    """The score of effects that change with time, and its variance next to the effects themselves."""

    score: Float  # (p,)
    variance: Float  # (p, p)

    def tests(self, terms: Mapping[str, Sequence[int]]) -> tuple[Proportional, ...]:
        """Of each term, which is some coefficients, and of all."""
        every = {**terms, GLOBAL: range(len(self.score))}
        return tuple(self._test(name, list(places)) for name, places in every.items())

    def _test(self, name: str, places: list[int]) -> Proportional:
        from fedsvd.statistics.distributions import chi2_tail  # SciPy: plans, and --help, need none

        own = self.score[places]
        found = max(float(own @ np.linalg.solve(self.variance[np.ix_(places, places)], own)), 0.0)
        return Proportional(name, found, len(places), chi2_tail(found, len(places)))


Clock = Callable[[Float], Float]


def clock(kind: str, time: Float, event: Float, entry: Float | None) -> Clock:
    """g, as a function of times; of "km" and "rank" from these own records."""
    match kind:
        case "identity":
            return lambda u: u
        case "log":
            if not (time[event > 0.0] > 0.0).all():
                raise DataError("an event at time 0 or before has no logarithm", 'schoenfeld = "identity", or "km"')
            return np.log
        case "km":
            return _curve(time, event, entry)
        case _:
            return _places(time, event)


def _curve(time: Float, event: Float, entry: Float | None) -> Clock:
    """1 less the share of own records that is left before u."""
    at, dead = np.unique(time[event > 0.0], return_counts=True)
    at_risk = len(time) - np.searchsorted(np.sort(time), at, side="left")
    if entry is not None:
        at_risk = at_risk - (len(entry) - np.searchsorted(np.sort(entry), at, side="left"))
    left = np.concatenate(([1.0], np.cumprod(1.0 - dead / np.maximum(at_risk, dead))))
    return lambda u: 1.0 - left[np.searchsorted(at, u, side="left")]


def _places(time: Float, event: Float) -> Clock:
    """The mean place of u among own event times, between 0 and 1."""
    seen = np.sort(time[event > 0.0])

    def place(u: Float) -> Float:
        mean = (np.searchsorted(seen, u, side="left") + np.searchsorted(seen, u, side="right") + 1.0) / 2.0
        return np.asarray(mean / (len(seen) + 1.0))

    return place


def own_part(own: Cohort, beta: Float, root: Float, g: Clock) -> tuple[Float, Float, Float]:
    """What own records add: the score, and both informations, in the coordinates of the root."""
    score, between, later = own.by_clock(beta, g)
    return root.T @ score, root.T @ between @ root, root.T @ later @ root


def joined(score: Float, between: Float, later: Float, root: Float) -> Schoenfeld:
    """The test from joint sums in these coordinates, where the information of the effects themselves is one."""
    back = np.linalg.inv(root)
    left = later - between @ between
    return Schoenfeld(back.T @ score, back.T @ left @ back)
