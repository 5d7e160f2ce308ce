"""The ROC curve, calibration and Hosmer-Lemeshow test of all parties, from counts on a grid of the linear predictor.

Each party counts its own cases and controls at or below public edges, in fives (``fives.py``) unless exact counts are
agreed on. What follows from the totals is here. Two errors are known beforehand and printed: rounding, ``most_off``
records for each count, and the width of a bin, inside which the order of records is unknown.

The grid follows from two opened sums, of the linear predictor and of its squares: 64 edges, an eighth of a standard
deviation apart, around the mean. A fixed grid would be too coarse for a rare outcome, and useless for links other than
the logit.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from fedsvd.statistics.families import Family
from fedsvd.statistics.fives import SCORE_EDGES, deviation, most_off
from fedsvd.types import Float

GROUPS = 10
"""Of the calibration and of the test: tenths of the records by predicted probability."""

_STEPS = 8.0  # to a standard deviation
_PLACES = 8.0  # a step is a multiple of an eighth of its power of two, so that a person can read the edges
_NARROWEST = 2.0**-40  # of a step: a model that predicts one number has a grid too
_Z = float(special.ndtri(0.975))


def grid(total: float, squares: float, n: int, thresholds: tuple[float, ...], family: Family) -> Float:
    """The edges, rising: those around the mean of the linear predictor, and the thresholds on its scale."""
    mean = total / n
    spread = math.sqrt(max(squares / n - mean * mean, 0.0))
    fraction, power = math.frexp(max(spread / _STEPS, _NARROWEST))
    step = math.ldexp(round(fraction * _PLACES) / _PLACES, power)
    regular = step * (round(mean / step) + np.arange(SCORE_EDGES) - (SCORE_EDGES - 1) / 2.0)
    return np.sort(np.concatenate((regular, [family.link(each) for each in thresholds])))


def own_counts(outcome: Float, eta: Float, edges: Float) -> Float:
    """How many own cases, then controls, are at or below each edge; each time all of them at the end."""
    found = [np.searchsorted(np.sort(eta[outcome == label]), edges, side="right") for label in (1.0, 0.0)]
    sizes = [np.count_nonzero(outcome == label) for label in (1.0, 0.0)]
    return np.concatenate([[*below, size] for below, size in zip(found, sizes, strict=True)]).astype(np.float64)


def predicted(edges: Float, family: Family) -> tuple[Float, Float]:
    """The probability at each edge, and its mean in each cell, where records lie evenly (Simpson's rule).

    The first and the last cell have no end; they are taken to be as wide as the median one.
    """
    width = float(np.median(np.diff(edges)))
    ends = np.concatenate(([edges[0] - width], edges, [edges[-1] + width]))
    middle = (ends[1:] + ends[:-1]) / 2.0

    def share(eta: Float) -> Float:
        return family.evaluate(eta, np.zeros_like(eta)).mu

    return share(edges), (share(ends[:-1]) + 4.0 * share(middle) + share(ends[1:])) / 6.0


@dataclass(frozen=True)
class Threshold:
    """How well a rule does that calls records above a probability cases, with intervals of 95 % (Wilson's)."""

    threshold: float
    sensitivity: float
    sensitivity_low: float
    sensitivity_high: float
    specificity: float
    specificity_low: float
    specificity_high: float
    positive: float  # the share of cases above the threshold
    negative: float  # the share of controls at or below it


@dataclass(frozen=True)
class HosmerLemeshow:
    """The test that predicted and found numbers of cases agree in groups of records."""

    statistic: float
    df: int
    p: float
    groups: int


@dataclass(frozen=True)
class Group:
    """Records of similar probability: how probable a case was, how often there was one, and among how many."""

    predicted: float
    found: float
    cases: float
    records: float
    most_off: float  # of ``found``, by rounding
    deviation: float = 0.0  # the standard deviation of that error


@dataclass(frozen=True, repr=False)
class PooledROC:
    """Joint counts of cases and controls on a grid of the linear predictor, and what follows from them.

    Attributes
    ----------
    edges : ndarray of shape (n_edges,)
        On the scale of the linear predictor.
    probabilities : ndarray of shape (n_edges,)
        The same as probabilities.
    cells : ndarray of shape (n_edges + 1,)
        The mean probability between two edges.
    cases, controls : ndarray of shape (n_edges + 1,)
        How many are at or below each edge; the last number is all of them.
    thresholds : tuple of float
        Probabilities among the edges at which sensitivity and specificity are asked for.
    least : int
        What counts are multiples of; 1 where they are exact.
    parties : int
    """

    edges: Float
    probabilities: Float
    cells: Float
    cases: Float
    controls: Float
    thresholds: tuple[float, ...] = ()
    least: int = 1
    parties: int = 1

    def __repr__(self) -> str:
        return f"PooledROC(area={self.area}, edges={len(self.edges)}, least={self.least})"

    @classmethod
    def of(
        cls, counts: Float, edges: Float, family: Family, thresholds: tuple[float, ...], least: int, parties: int
    ) -> "PooledROC":
        """From what all parties added up, in the order of ``own_counts``."""
        at, cells = predicted(edges, family)
        cases, controls = counts.reshape(2, -1)
        return cls(edges, at, cells, cases, controls, thresholds, least, parties)

    # --- the curve ----------------------------------------------------------------------------------------------------

    @property
    def sensitivity(self) -> Float:
        """The share of cases above each edge; 0 at the last one."""
        found: Float = 1.0 - self.cases / self.cases[-1]
        return found

    @property
    def specificity(self) -> Float:
        """The share of controls at or below each edge; 1 at the last one."""
        found: Float = self.controls / self.controls[-1]
        return found

    @property
    def both(self) -> bool:
        """Whether there are cases and controls: without one of them, nothing can be compared."""
        return bool(self.cases[-1] > 0.0 and self.controls[-1] > 0.0)

    @cached_property
    def _placed(self) -> tuple[Float, Float, Float, Float]:
        """Cases and controls of each cell; the share of controls below a case of it, and of cases above a control."""
        cases, controls = np.diff(self.cases, prepend=0.0), np.diff(self.controls, prepend=0.0)
        below = (self.controls - controls / 2.0) / self.controls[-1]
        above = 1.0 - (self.cases - cases / 2.0) / self.cases[-1]
        return cases, controls, below, above

    @property
    def area(self) -> float | None:
        """Under the curve: how often a case is above a control; in one cell they count a half."""
        if not self.both:
            return None
        cases, _, below, _ = self._placed
        return float(cases @ below / self.cases[-1])

    @property
    def area_error(self) -> float | None:
        """DeLong's, of placements in cells."""
        if not self.both or min(self.cases[-1], self.controls[-1]) < 2.0:
            return None
        cases, controls, below, above = self._placed
        parts = ((cases, below, self.cases[-1]), (controls, above, self.controls[-1]))
        return math.sqrt(sum(_variance(count, place) / size for count, place, size in parts))

    @property
    def most_off(self) -> int:
        """Records that each count is off by at most."""
        return most_off(self.least, self.parties)

    @property
    def area_off(self) -> float | None:
        """By how much rounding moves the area, at most: what it moves rates across and up, added."""
        if not self.both:
            return None
        return min(1.0, sum(self.rates_off))

    @property
    def rates_off(self) -> tuple[float, float]:
        """By how much rounding moves a share of all cases, and of all controls, at most."""
        return _rate_off(float(self.cases[-1]), self.most_off), _rate_off(float(self.controls[-1]), self.most_off)

    @property
    def area_in_cells(self) -> float | None:
        """By how much the unknown order inside cells moves the area, at most (of counts as they are)."""
        if not self.both:
            return None
        cases, controls, _, _ = self._placed
        return float(cases @ controls / (2.0 * self.cases[-1] * self.controls[-1]))

    # --- at thresholds ------------------------------------------------------------------------------------------------

    @property
    def at_thresholds(self) -> tuple[Threshold, ...]:
        """Sensitivity and specificity where they are asked for; none without cases or controls."""
        return tuple(self._at(each) for each in self.thresholds) if self.both else ()

    def _at(self, threshold: float) -> Threshold:
        place = int(np.argmin(np.abs(self.probabilities - threshold)))
        above, below = self.cases[-1] - self.cases[place], self.controls[place]
        called, left = above + self.controls[-1] - below, self.cases[place] + below
        return Threshold(
            threshold,
            *_wilson(above, self.cases[-1]),
            *_wilson(below, self.controls[-1]),
            float(above / called) if called else math.nan,
            float(below / left) if left else math.nan,
        )

    # --- calibration --------------------------------------------------------------------------------------------------

    def _groups(self, groups: int) -> list[tuple[float, float, float, int]]:
        """Cases, records, expected cases and rounded ends of groups of about as many records each."""
        records = self.cases + self.controls
        asked = records[-1] * np.arange(1, groups) / groups
        ends = {int(np.argmin(np.abs(records - each))) for each in asked} | {len(records) - 1}
        cells, found, start = np.diff(records, prepend=0.0), [], -1
        for end in sorted(ends):
            own = slice(start + 1, end + 1)
            count = float(cells[own].sum())
            if count > 0.0:
                cases = float(self.cases[end] - (self.cases[start] if start >= 0 else 0.0))
                found.append((cases, count, float(cells[own] @ self.cells[own]), 1 if start < 0 else 2))
                start = end
        return found

    def calibration(self, groups: int = GROUPS) -> tuple[Group, ...]:
        """Predicted and found shares of cases in groups of records."""
        found, rounding = [], deviation(self.least, self.parties)
        for cases, count, expected, ends in self._groups(groups):
            share, most = cases / count, min(1.0, _rate_off(count, ends * self.most_off))
            spread = rounding * math.sqrt(ends * (share * share + (1.0 - share) ** 2)) / count
            found.append(Group(expected / count, share, cases, count, most, spread))
        return tuple(found)

    def hosmer_lemeshow(self, groups: int = GROUPS) -> HosmerLemeshow | None:
        """Hosmer and Lemeshow's test; None where fewer than three groups are left.

        The covariance of rounded counts is added to the variances of the groups, so that the test keeps its level in
        fives: two groups that meet at an edge share its error, with opposite signs.
        """
        found = self._groups(groups)
        if len(found) < 3:
            return None
        cases, count, expected, ends = np.array(found).T
        share = expected / count
        rounding = deviation(self.least, self.parties) ** 2
        own = expected * (1.0 - share) + ends * rounding * (np.square(share) + np.square(1.0 - share))
        shared = -rounding * (share[1:] * share[:-1] + (1.0 - share[1:]) * (1.0 - share[:-1]))
        covariance = np.diag(own) + np.diag(shared, 1) + np.diag(shared, -1)
        left = cases - expected
        statistic = float(left @ np.linalg.solve(covariance, left))
        df = len(found) - 2
        return HosmerLemeshow(statistic, df, float(special.chdtrc(df, statistic)), len(found))

    # --- as it is stored ----------------------------------------------------------------------------------------------

    def columns(self) -> tuple[Float, ...]:
        """One row for each edge, and one beyond the last: edge, probability, mean of the cell, cases, controls."""
        edges, at = np.append(self.edges, np.inf), np.append(self.probabilities, 1.0)
        return edges, at, self.cells, self.cases, self.controls

    def record(self) -> dict[str, Any]:
        """What is said of the curve, as JSON has it."""
        test = self.hosmer_lemeshow() if self.both else None
        return {
            "least_count": self.least,
            "parties": self.parties,
            "most_off": self.most_off,
            "area": self.area,
            "area_error": self.area_error,
            "area_off": self.area_off,
            "area_in_cells": self.area_in_cells,
            "hosmer_lemeshow": None if test is None else asdict(test),
            "thresholds": [_finite(asdict(each)) for each in self.at_thresholds],
            "asked": list(self.thresholds),
        }

    @classmethod
    def read(cls, columns: Float, about: Mapping[str, Any]) -> "PooledROC":
        """The inverse of ``columns``, with what ``record`` says of rounding and thresholds."""
        edges, at, cells, cases, controls = columns.T
        more = tuple(about["asked"]), about["least_count"], about["parties"]
        return cls(edges[:-1], at[:-1], cells, cases, controls, *more)


def _finite(record: dict[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in record.items()}


def _variance(count: Float, place: Float) -> float:
    """Of placements that ``count`` records share."""
    total = float(count.sum())
    mean = float(count @ place) / total
    return float(count @ np.square(place - mean)) / (total - 1.0)


def _rate_off(total: float, off: float) -> float:
    """By how much a share of this total is off where both of its counts are off by ``off`` at most."""
    return math.inf if off >= total else 2.0 * off / (total - off)


def _wilson(found: float, of: float) -> tuple[float, float, float]:
    """A share, and Wilson's interval of it."""
    share, square = found / of, _Z * _Z
    middle = (share + square / (2.0 * of)) / (1.0 + square / of)
    half = _Z / (1.0 + square / of) * math.sqrt(share * (1.0 - share) / of + square / (4.0 * of * of))
    return float(share), float(max(0.0, middle - half)), float(min(1.0, middle + half))
