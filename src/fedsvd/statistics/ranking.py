"""How well probabilities rank and predict outcomes: the ROC curve, its area, calibration, Brier's score.

Of several parties the area is that of pairs inside each of them (``within``, ``Quality``): a pair of two parties would
compare two single records. Its variance is DeLong's, of each party's own placements.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsvd.types import Float

LEAST = 5
"""Cases and controls of a party, below which it adds no pairs: one case's count is its place among the controls."""


@dataclass(frozen=True)
class Quality:
    """How well a model of two classes ranks and predicts the records of all parties."""

    pairs: float  # of a case and a control of one party
    auc: float | None  # the share of them in their order; None where there are none
    auc_error: float | None
    brier: float

    def record(self) -> dict[str, float | None]:
        """As JSON has it."""
        return {"pairs": self.pairs, "auc": self.auc, "auc_error": self.auc_error, "brier": self.brier}


def within(outcome: Float, score: Float) -> tuple[float, float, float]:
    """Pairs of a case and a control of which the case has the higher score, all pairs, and the variance of the first.

    Equal scores count a half. Nothing where there are fewer than ``LEAST`` of either.
    """
    cases, controls = score[outcome == 1.0], score[outcome == 0.0]
    m, n = len(cases), len(controls)
    if min(m, n) < LEAST:
        return 0.0, 0.0, 0.0
    ranks = _ranks(np.concatenate((cases, controls)))
    of_cases = (ranks[:m] - _ranks(cases)) / n  # the share of controls below each case
    of_controls = 1.0 - (ranks[m:] - _ranks(controls)) / m
    pairs = float(m) * float(n)
    variance = float(np.var(of_cases, ddof=1)) / m + float(np.var(of_controls, ddof=1)) / n
    return float(of_cases.sum()) * n, pairs, variance * pairs * pairs


def quality(totals: Float, n: int) -> Quality:
    """From what all parties added up: the numbers of ``within``, and squared errors; pairs below one are noise."""
    concordant, pairs, variance, squares = totals.tolist()
    score = max(squares, 0.0) / n
    if pairs < 1.0:
        return Quality(0.0, None, None, score)
    return Quality(float(round(pairs)), min(concordant / pairs, 1.0), math.sqrt(max(variance, 0.0)) / pairs, score)


def ranks_of(values: Float) -> tuple[Float, Float]:
    """Ranks from 1, equal values sharing the mean of theirs; and how many records have each value."""
    # Not scipy.stats, which takes a third of a second to import.
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Float = (np.cumsum(counts) - (counts - 1) / 2.0)[place]
    return ranks, counts.astype(np.float64)


def _ranks(values: Float) -> Float:
    return ranks_of(values)[0]


def roc(outcome: Float, score: Float) -> tuple[Float, Float]:
    """False and true positive rates at every threshold, from (0, 0) to (1, 1); both classes must be there."""
    order = np.argsort(-score, kind="stable")
    y, ranked = outcome[order], score[order]
    last = np.append(np.flatnonzero(np.diff(ranked)), len(y) - 1)  # of each group of equal scores
    true, false = np.cumsum(y)[last], np.cumsum(1.0 - y)[last]
    return np.append(0.0, false / false[-1]), np.append(0.0, true / true[-1])


def area_under(outcome: Float, score: Float) -> float | None:
    """The area under the ROC curve: how often a case has a higher score than a control; None where one is missing."""
    cases = float(np.sum(outcome))
    controls = len(outcome) - cases
    if not cases or not controls:
        return None
    ranks = _ranks(score)
    return float((np.sum(ranks[outcome == 1.0]) - cases * (cases + 1.0) / 2.0) / (cases * controls))


def brier(outcomes: Float, shares: Float, weights: Float | None = None) -> float:
    """The mean squared distance of the probabilities, (n, classes), from what came to be."""
    squares = np.sum(np.square(outcomes - shares), axis=1)
    return float(np.average(squares, weights=weights))


def calibration(outcome: Float, share: Float, groups: int) -> list[tuple[float, float, int]]:
    """Of groups of rows in the order of their probability: its mean, the share of cases, and how many rows."""
    parts = np.array_split(np.argsort(share, kind="stable"), min(groups, len(share)))
    return [(float(share[part].mean()), float(outcome[part].mean()), len(part)) for part in parts]
