"""The log-rank test within sites and its weighted kin: what each party compares among its own records alone.

At each event time of a stratum, of ``n`` at risk ``d`` have the event; group g has ``O_g`` of them and would have
``E_g = d n_g / n``. Totals of ``w (O - E)`` and of its hypergeometric covariance times ``w^2``, over times and sites,
are R's ``survdiff(Surv(time, event) ~ group + strata(site))``. No time leaves a party: records of two are not compared.
"""

from dataclasses import dataclass

import numpy as np

from fedsvd.types import Float


@dataclass(frozen=True)
class GroupTest:
    """Whether groups have the same hazard, within sites."""

    test: str
    statistic: float  # chi-squared; NaN where no time compares two groups
    df: int
    p: float
    difference: tuple[float, ...]  # observed less expected events, of each group


def numbers(groups: int) -> int:
    """Numbers that are summed: differences of all groups but the last, and the upper triangle of their covariance."""
    return (groups - 1) * (groups + 2) // 2


def own_part(time: Float, event: Float, group: Float, groups: int, test: str) -> Float:
    """What a party's own records add to these numbers."""
    order = np.argsort(time, kind="stable")
    time, dies, group = time[order], event[order] > 0.0, group[order]
    at = np.unique(time[dies])
    start = np.searchsorted(time, at, side="left")
    indicator = (group[:, None] == np.arange(groups)).astype(np.float64)
    left = np.concatenate((np.cumsum(indicator[::-1], axis=0)[::-1], np.zeros((1, groups))))
    n_g = left[start]
    dead = np.concatenate((np.zeros((1, groups)), np.cumsum(indicator * dies[:, None], axis=0)))
    d_g = dead[np.searchsorted(time, at, side="right")] - dead[start]
    n, d = n_g.sum(axis=1), d_g.sum(axis=1)
    w = _weights(n, d, test)
    share = n_g / n[:, None]
    difference = (w[:, None] * (d_g - d[:, None] * share)).sum(axis=0)
    scale = np.square(w) * d * (n - d) / np.maximum(n - 1.0, 1.0)
    covariance = np.diag(scale @ share) - share.T @ (scale[:, None] * share)
    kept = groups - 1
    return np.concatenate((difference[:kept], covariance[:kept, :kept][np.triu_indices(kept)]))


def _weights(n: Float, d: Float, test: str) -> Float:
    before = np.concatenate(([1.0], np.cumprod(1.0 - d / n)[:-1])) if len(n) else n
    match test:
        case "gehan":
            return n
        case "tarone-ware":
            return np.sqrt(n)
        case "peto":
            return before
        case "fleming-harrington":
            return before * (1.0 - before)
    return np.ones(len(n))


def joined(totals: Float, groups: int, test: str, least: float) -> GroupTest:
    """The test from joint totals; directions whose variance is below ``least`` have none, as where a group is empty."""
    kept = groups - 1
    difference = totals[:kept]
    V = np.zeros((kept, kept))
    V[np.triu_indices(kept)] = totals[kept:]
    V = V + np.triu(V, 1).T
    statistic, df = standardised(difference, V, least)
    every = (*difference.tolist(), -float(difference.sum()))
    if not df:
        return GroupTest(test, float("nan"), 0, float("nan"), every)
    from fedsvd.statistics.distributions import chi2_tail  # SciPy: plans, and --help, need none

    return GroupTest(test, statistic, df, chi2_tail(statistic, df), every)


def standardised(difference: Float, covariance: Float, least: float) -> tuple[float, int]:
    """The squared length of a difference in its standard deviations, and its degrees of freedom.

    Noise of sums gives directions without variance one of either sign, so what is below ``least`` counts as none.
    """
    values, vectors = np.linalg.eigh(covariance)
    some = values > max(least, 1e-10 * float(values[-1]))
    along = vectors[:, some].T @ difference
    return float(np.sum(np.square(along) / values[some])), int(np.count_nonzero(some))
