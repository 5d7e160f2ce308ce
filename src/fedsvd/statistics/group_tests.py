"""Tests and standardised differences between groups, from sums: means and variances, counts, ranks within sites.

Everything here is a function of numbers that parties have opened, but for ``weighted_ranks``, which is what one
party makes of its own. Ranks compare records, so they are of one party's alone: rank sums are added up with weights
``1 / (n_i + 1)`` (van Elteren's test of two groups, Kruskal and Wallis' of more, within sites); with one site this is
``wilcox.test(exact = FALSE, correct = FALSE)`` and ``kruskal.test`` of R.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from fedsvd.statistics.distributions import chi2_tail, f_tail, normal_reach, t_two_sided
from fedsvd.statistics.log_rank import standardised
from fedsvd.types import Float

FEW_EXPECTED = 5.0
"""Expected counts below which a chi-squared test is marked, and Fisher's is taken for 2 x 2 cells."""


@dataclass(frozen=True)
class Test:
    """One test: its name as tables print it, statistic, degrees of freedom (of the numerator first), p-value."""

    name: str
    statistic: float
    freedom: tuple[float, ...]
    p: float

    def record(self) -> dict[str, object]:
        """As JSON has it."""
        return {"name": self.name, "statistic": self.statistic, "freedom": list(self.freedom), "p": self.p}


# --- numbers ----------------------------------------------------------------------------------------------------------


def pooled_t(n: Float, mean: Float, variance: Float) -> Test | None:
    """Student's t for two groups of equal variance; None where a variance is 0 or missing."""
    freedom = float(n.sum() - 2)
    spread = float(((n - 1) * variance).sum() / freedom)
    return _t("Student's t-test", mean, spread * float((1 / n).sum()), freedom)


def welch_t(n: Float, mean: Float, variance: Float) -> Test | None:
    """Welch's t for two groups."""
    of_means = variance / n
    total = float(of_means.sum())
    if not total > 0.0:
        return None
    freedom = total**2 / float((of_means**2 / (n - 1)).sum())
    return _t("Welch's t-test", mean, total, freedom)


def _t(name: str, mean: Float, squared_error: float, freedom: float) -> Test | None:
    if not squared_error > 0.0 or not freedom > 0.0:
        return None
    t = float(mean[0] - mean[1]) / math.sqrt(squared_error)
    return Test(name, t, (freedom,), float(t_two_sided(t, freedom)))


def anova(n: Float, mean: Float, variance: Float) -> Test | None:
    """One-way analysis of variance."""
    groups, total = len(n), float(n.sum())
    grand = float(n @ mean) / total
    within, freedom = float(((n - 1) * variance).sum()), total - groups
    if not within > 0.0 or not freedom > 0.0:
        return None
    f = float(n @ np.square(mean - grand)) / (groups - 1) / (within / freedom)
    return Test("One-way ANOVA", f, (groups - 1.0, freedom), f_tail(f, groups - 1.0, freedom))


def welch_anova(n: Float, mean: Float, variance: Float) -> Test | None:
    """Welch's analysis of variance, R's ``oneway.test``."""
    if not (variance > 0.0).all():
        return None
    groups, weight = len(n), n / variance
    total = float(weight.sum())
    grand = float(weight @ mean) / total
    spread = float((np.square(1 - weight / total) / (n - 1)).sum()) / (groups**2 - 1)
    f = float(weight @ np.square(mean - grand)) / ((groups - 1) * (1 + 2 * (groups - 2) * spread))
    freedom = 1.0 / (3.0 * spread)
    return Test("Welch's ANOVA", f, (groups - 1.0, freedom), f_tail(f, groups - 1.0, freedom))


def number_smd(mean: Float, variance: Float) -> float:
    """The difference of two means over the root of the mean of both variances; NaN where neither varies."""
    spread = float(variance.mean())
    return float(mean[1] - mean[0]) / math.sqrt(spread) if spread > 0.0 else math.nan


# --- counts -----------------------------------------------------------------------------------------------------------


def expected_counts(counts: Float) -> Float:
    """Of independent rows and columns with these margins."""
    found: Float = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    return found


def chi_squared(counts: Float, continuity: bool = True) -> Test | None:
    """Pearson's test of counts, (levels, groups); with Yates' correction for 2 x 2, as R and SciPy have it.

    Levels and groups that no one has are left out; None where fewer than two of either remain.
    """
    counts = _with_records(counts)
    if min(counts.shape) < 2:
        return None
    expected = expected_counts(counts)
    off = np.abs(counts - expected)
    corrected = continuity and counts.shape == (2, 2)
    if corrected:
        off = off - min(0.5, float(off.min()))
    statistic = float((off**2 / expected).sum())
    freedom = float((counts.shape[0] - 1) * (counts.shape[1] - 1))
    name = "Chi-squared (continuity correction)" if corrected else "Chi-squared"
    return Test(name, statistic, (freedom,), chi2_tail(statistic, freedom))


def fisher(counts: Float) -> Test | None:
    """Fisher's exact test of 2 x 2 counts, two-sided: all tables that are no likelier than this one."""
    counts = _with_records(counts)
    if counts.shape != (2, 2):
        return None
    first, second = counts.sum(axis=0)
    row = float(counts[0].sum())
    a = np.arange(max(0.0, row - second), min(row, first) + 1)
    log = _log_choose(first, a) + _log_choose(second, row - a)
    shares = np.exp(log - special.logsumexp(log))
    own = shares[int(counts[0, 0] - a[0])]
    p = float(shares[shares <= own * (1 + 1e-7)].sum())  # as R counts ties of tables
    odds = counts[0, 0] * counts[1, 1] / (counts[0, 1] * counts[1, 0]) if counts[0, 1] * counts[1, 0] else math.inf
    return Test("Fisher's exact", float(odds), (), min(p, 1.0))


def _log_choose(n: float, k: Float) -> Float:
    found: Float = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return found


def _with_records(counts: Float) -> Float:
    counts = counts[counts.sum(axis=1) > 0]
    return counts[:, counts.sum(axis=0) > 0]


def few_expected(counts: Float) -> bool:
    """Whether a cell is expected to have fewer than five records."""
    counts = _with_records(counts)
    return min(counts.shape) >= 2 and bool(expected_counts(counts).min() < FEW_EXPECTED)


def category_smd(counts: Float) -> float:
    """Mahalanobis' distance of two groups' shares of levels, (levels, 2), the first level left out (Yang, Dalton)."""
    counts = counts[counts.sum(axis=1) > 0]
    if len(counts) < 2 or not (counts.sum(axis=0) > 0).all():
        return math.nan
    shares = (counts / counts.sum(axis=0))[1:]
    spread = sum(np.diag(p) - np.outer(p, p) for p in shares.T) / 2
    apart = shares[:, 1] - shares[:, 0]
    try:
        return math.sqrt(max(float(apart @ np.linalg.solve(spread, apart)), 0.0))
    except np.linalg.LinAlgError:
        return math.nan


# --- ranks ------------------------------------------------------------------------------------------------------------


def weighted_ranks(sizes: Float, ranks: Float, tied: float) -> tuple[Float, Float]:
    """One party's rank sums less what is expected of them, (G - 1,), and their covariance, weighted 1 / (n + 1).

    ``tied`` is 1 less what ties take off the variance of ranks.
    """
    n, free = float(sizes.sum()), len(sizes) - 1
    if n < 2:
        return np.zeros(free), np.zeros((free, free))
    weight = 1.0 / (n + 1)
    sums = ranks - sizes * (n + 1) / 2
    covariance = (n + 1) / 12 * tied * (n * np.diag(sizes) - np.outer(sizes, sizes))
    return (weight * sums)[:-1], (weight**2 * covariance)[:-1, :-1]


def rank_test(sums: Float, covariance: Float, least: float) -> Test | None:
    """From all parties' parts: van Elteren's test for two groups, Kruskal and Wallis' within sites for more.

    Groups without a value, and those of sites that have no other, are compared with none: their variances are below
    ``least``, and degrees of freedom are those of the others.
    """
    statistic, freedom = standardised(sums, covariance, least)
    if not freedom:
        return None
    name = "Mann-Whitney within sites" if len(sums) == 1 else "Kruskal-Wallis within sites"
    return Test(name, statistic, (float(freedom),), chi2_tail(statistic, float(freedom)))


def correlation_interval(r: Float, n: float, level: float = 0.95) -> tuple[Float, Float]:
    """Fisher's interval of correlations among n records; NaN with fewer than four."""
    if n <= 3:
        return np.full_like(r, np.nan), np.full_like(r, np.nan)
    with np.errstate(divide="ignore"):
        z = np.arctanh(r)
    reach = normal_reach(level) / math.sqrt(n - 3)
    return np.tanh(z - reach), np.tanh(z + reach)
