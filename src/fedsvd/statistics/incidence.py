"""Cumulative incidence of competing causes from counts on a grid of times (Aalen and Johansen).

In a bin with ``n - c / 2`` exposed a cause has the hazard ``d_k / (n - c / 2)``, of the same exposed as all events have
(``life_table.py``); the incidence of a cause is the sum over bins of its hazard times the share that came to the bin.
Incidences and survival add up to 1. Hazards of a bin are shares of a multinomial, and bins are independent: errors are
those of Aalen, by the derivatives of an incidence with respect to the hazards of every bin.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsvd.statistics.life_table import Curve, curves, intervals
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class Incidence:
    """One cause of one group at the edges of a grid."""

    events: Float  # of this cause
    share: Float  # that had it up to each edge
    error: Float
    low: Float
    high: Float


@dataclass(frozen=True, repr=False)
class Group:
    """One group: survival without any event, and the incidence of each cause."""

    curve: Curve
    causes: tuple[Incidence, ...]


def groups_of(totals: Float, edges: Float, causes: int, interval: str, level: float) -> tuple[Group, ...]:
    """Each row of joint counts: cumulative events of each cause, departures, records."""
    D = len(edges)
    found = []
    for row in totals:
        each = row[: causes * D].reshape(causes, D)
        (curve,) = curves(np.concatenate((each.sum(axis=0), row[causes * D :]))[None], edges, interval, level)
        found.append(Group(curve, tuple(_incidences(curve, each, interval, level)) if causes > 1 else ()))
    return tuple(found)


def _incidences(curve: Curve, cumulative: Float, interval: str, level: float) -> Sequence[Incidence]:
    events = np.diff(cumulative, axis=1, prepend=0.0)
    exposed = np.maximum(curve.at_risk - curve.censored / 2.0, curve.events)
    h = np.divide(events, exposed, out=np.zeros_like(events), where=exposed > 0.0)
    before = np.concatenate(([1.0], curve.survival[:-1]))
    shares = np.cumsum(before * h, axis=1)
    found = []
    for cause, share in enumerate(shares):
        error = np.array([_error(t, cause, share, h, before, exposed) for t in range(len(share))])
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = intervals(share, np.where(share > 0.0, error / share, 0.0), interval, level)
        low, high = (np.where(share > 0.0, each, 0.0) for each in (low, high))
        found.append(Incidence(events[cause], share, error, low, high))
    return found


def _error(t: int, cause: int, share: Float, h: Float, before: Float, exposed: Float) -> float:
    """Of the incidence at edge t; a bin in which all left adds its multinomial part alone."""
    later = share[t] - share[: t + 1]
    left = 1.0 - h[:, : t + 1].sum(axis=0)
    slope = np.where(left > 0.0, -later / np.where(left > 0.0, left, 1.0), 0.0)
    slopes = np.tile(slope, (len(h), 1))
    slopes[cause] += before[: t + 1]
    spread = (np.square(slopes) * h[:, : t + 1]).sum(axis=0) - np.square((slopes * h[:, : t + 1]).sum(axis=0))
    some = exposed[: t + 1] > 0.0
    return math.sqrt(float(np.sum(np.where(some, spread / np.where(some, exposed[: t + 1], 1.0), 0.0))))
