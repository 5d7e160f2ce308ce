"""ComBat (Johnson, Li and Rabinovic 2007) by sums: location and scale of every site adjusted, empirical Bayes.

The model of a column is: site effect, plus covariates that are to be preserved, plus noise whose size depends on the
site. The effects of covariates follow from deviations within the sites, which add up; so do squared residuals; the
joint mean is that of all effects. A site's own effect, its prior over the columns and the posterior it computes from
its own rows: no sum holds the mean of one site. The result equals ComBat on the joint table; a site is a batch. Rows
are split, and nothing is missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource, as_run
from fedsvd.errors import DataError, NotConverged
from fedsvd.prepare.derived import Derived, names_of, positions, row_panels
from fedsvd.prepare.missing import totals
from fedsvd.prepare.sites import CovariateSums, covariate_sums, split_covariates
from fedsvd.types import Float, expect_shape

# Relative, of one iteration of the posterior: as the reference implementations stop, at the same iteration. Where
# covariates are numbers of float32, to which neuroCombat rounds them, all sixteen digits are the same.
_CONVERGED = 1e-4
_MOST_ITERATIONS = 10_000
_FEWEST_COLUMNS, _FEWEST_ROWS = 2, 2


@dataclass(frozen=True)
class Model:
    """The joint model: means of all columns, and the effects of the covariates that are preserved."""

    covariates: tuple[str, ...]
    means: Float  # of all columns, the covariates among them
    effects: Float  # (covariates, columns)
    rows: float


def within_site(source: MatrixSource, covariates: tuple[str, ...]) -> CovariateSums:
    """First sum, two passes, where covariates are preserved: their products about the means of this site alone."""
    return covariate_sums(source, covariates, totals(source).means(names_of(source)))


def fit(joint: CovariateSums | None, covariates: tuple[str, ...], means: Float, rows: float) -> Model:
    """The joint model from the joint first sum; None where no covariate is preserved."""
    if joint is None:
        return Model((), means, np.zeros((0, len(means))), rows)
    try:
        return Model(covariates, means, joint.coefficients(covariates), rows)
    except DataError:
        fix = "leave out covariates that are fixed by the site"
        raise DataError("sites and covariates cannot be separated", fix) from None


def residual_squares(source: MatrixSource, model: Model) -> Float:
    """Second sum, two passes: squared residuals of the joint model about this site's own effect, column by column."""
    z, x = _columns(source, model)
    n, mean, total = source.shape[0], np.zeros(x.size), np.zeros(x.size)
    ones = np.ones(x.size)
    for panel in _standardised(source, z, x, model, ones):
        mean += panel.sum(axis=0) / n
    for panel in _standardised(source, z, x, model, ones):
        total += ((panel - mean) ** 2).sum(axis=0)
    return total


@dataclass(frozen=True)
class Adjustment:
    """What a site does to its own columns: x -> (x - shift - preserved) / shrink + shift' + preserved."""

    pooled: Float  # deviation of every column over all sites
    gamma: Float  # the site's shift, in pooled deviations
    delta: Float  # the site's variance, relative to the pooled one


def adjustment(
    source: MatrixSource,
    model: Model,
    joint_squares: Float,
    mean_only: bool = False,
    empirical_bayes: bool = True,
) -> Adjustment:
    """The last passes of a site over its own rows, after both sums."""
    z, x = _columns(source, model)
    if source.shape[0] < _FEWEST_ROWS or (empirical_bayes and x.size < _FEWEST_COLUMNS):
        raise DataError("ComBat needs two rows at every site and two columns", "leave it out, or give more data")
    if not source.shape[0] < model.rows:
        raise DataError("ComBat needs two sites, and this one has all rows", "leave it out")
    pooled = np.sqrt(joint_squares / model.rows)
    if not (pooled > 0).all():
        raise DataError("a column does not vary within the sites", "leave constant columns out before ComBat")
    n, mean, variance = source.shape[0], np.zeros(x.size), np.zeros(x.size)
    for panel in _standardised(source, z, x, model, pooled):
        mean += panel.sum(axis=0) / n
    if mean_only:
        variance = np.ones(x.size)
    else:
        for panel in _standardised(source, z, x, model, pooled):
            variance += ((panel - mean) ** 2).sum(axis=0) / (n - 1)
        variance[variance == 0] = 1.0
    if not empirical_bayes:
        return Adjustment(pooled, mean, variance)
    bar, spread = float(mean.mean()), float(mean.var(ddof=1))
    if mean_only:
        return Adjustment(pooled, (spread * mean + bar) / (spread + 1.0), variance)
    return Adjustment(pooled, *_posterior(mean, variance, n, bar, spread))


class Harmonised(Derived):
    """The columns other than the covariates, adjusted."""

    def __init__(self, base: MatrixSource, model: Model, found: Adjustment) -> None:
        self._z, self._x = _columns(base, model)
        names = names_of(base)
        super().__init__(base, [names[j] for j in self._x.tolist()])
        expect_shape("the adjustment of the site", found.gamma, self._x.size)
        self._model, self._found = model, found

    def _cells(self, rows: Index, columns: Index) -> Float:
        wanted = positions(columns, self.shape[1])
        read, means, found = self._x[wanted], self._model.means, self._found
        X = self._base.raw(rows, as_run(read)) - means[read]
        fitted: Float | float = 0.0
        if self._z.size:
            Z = self._base.raw(rows, as_run(self._z)) - means[self._z]
            fitted = Z @ self._model.effects[:, wanted]
        standard = (X - fitted) / found.pooled[wanted]
        adjusted = (standard - found.gamma[wanted]) / np.sqrt(found.delta[wanted])
        back: Float = adjusted * found.pooled[wanted] + fitted + means[read]
        return back

    def _place(self, row: int, column: int) -> str:
        return self._base._place(row, int(self._x[column]))


def _posterior(mean: Float, variance: Float, n: int, bar: float, spread: float) -> tuple[Float, Float]:
    """Posterior means of shift and variance under normal and inverse gamma priors fitted over the columns."""
    m, s2 = float(variance.mean()), float(variance.var(ddof=1))
    if s2 == 0.0:  # a prior without spread: every column has the variance of all
        return (spread * n * mean + m * bar) / (spread * n + m), np.full(mean.size, m)
    a, b = (2 * s2 + m**2) / s2, (m * s2 + m**3) / s2
    gamma, delta = mean, variance
    inner = variance * (n - 1)  # squared deviations from the mean; those from another centre follow
    for _ in range(_MOST_ITERATIONS):
        new = (spread * n * mean + delta * bar) / (spread * n + delta)
        squares = inner + n * (mean - new) ** 2
        fresh = (0.5 * squares + b) / (n / 2.0 + a - 1.0)
        # Relative to gamma with its sign, as the reference implementations have it: they stop at the same iteration.
        moved = np.divide(np.abs(new - gamma), gamma, out=np.zeros_like(gamma), where=gamma != 0)
        change = max(float(np.max(moved)), float(np.max(np.abs(fresh - delta) / delta)))
        gamma, delta = new, fresh
        if change <= _CONVERGED:
            return gamma, delta
    raise NotConverged("the empirical Bayes step of ComBat did not settle", "try it without: empirical_bayes = false")


def _standardised(
    source: MatrixSource, z: NDArray[np.intp], x: NDArray[np.intp], model: Model, pooled: Float
) -> Iterator[Float]:
    """Panels of the site's rows, less the joint mean and covariates, in pooled deviations."""
    for _, panel in row_panels(source):
        centred = panel - model.means
        yield (centred[:, x] - centred[:, z] @ model.effects) / pooled


def _columns(source: MatrixSource, model: Model) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    expect_shape("the joint means", model.means, source.shape[1])
    if not model.covariates:
        return np.zeros(0, np.intp), np.arange(source.shape[1])
    return split_covariates(source, model.covariates)
