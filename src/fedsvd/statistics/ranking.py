"""How well probabilities rank and predict outcomes: the ROC curve, its area, calibration, Brier's score."""

import numpy as np

from fedsvd.types import Float


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
    # Not scipy.stats, which takes a third of a second to import: equal scores share the mean of their ranks.
    _, place, counts = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[place]
    return float((np.sum(ranks[outcome == 1.0]) - cases * (cases + 1.0) / 2.0) / (cases * controls))


def brier(outcomes: Float, shares: Float, weights: Float | None = None) -> float:
    """The mean squared distance of the probabilities, (n, classes), from what came to be."""
    squares = np.sum(np.square(outcomes - shares), axis=1)
    return float(np.average(squares, weights=weights))


def calibration(outcome: Float, share: Float, groups: int) -> list[tuple[float, float, int]]:
    """Of groups of rows in the order of their probability: its mean, the share of cases, and how many rows."""
    parts = np.array_split(np.argsort(share, kind="stable"), min(groups, len(share)))
    return [(float(share[part].mean()), float(outcome[part].mean()), len(part)) for part in parts]
