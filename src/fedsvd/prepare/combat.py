"""ComBat (Johnson, Li and Rabinovic 2007) by sums: location and scale of every site adjusted, empirical Bayes.

The model of a column is: site effect, plus covariates that are to be preserved, plus noise whose size depends on the
site. Two sums are joint: the Gram matrix of the design with itself and with the columns, then the squared residuals.
Everything after (the effects of one's own site, their priors over the columns, the posterior) a site computes from its
own rows. The result equals ComBat on the joint table; a site is a batch. Rows are split, and nothing is missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource, as_run
from fedsvd.errors import ConfigError, DataError, NotConverged
from fedsvd.prepare.derived import Derived, names_of, positions, row_panels
from fedsvd.prepare.sites import split_covariates
from fedsvd.types import Float, expect_shape

_CONVERGED = 1e-4  # relative, of one iteration of the posterior: as the reference implementations stop
_MOST_ITERATIONS = 10_000
_FEWEST_COLUMNS, _FEWEST_ROWS = 2, 2


@dataclass(frozen=True)
class Design:
    """Where a site stands among all, which columns are covariates to preserve, and the joint means of all columns."""

    site: int
    sites: int
    covariates: tuple[str, ...]
    means: Float
    """Subtracted before anything is summed, which changes nothing but digits."""

    @property
    def size(self) -> int:
        return self.sites + len(self.covariates)


@dataclass(frozen=True)
class DesignSums:
    """What a site adds to the first sum."""

    dtd: Float  # (sites + covariates,) squared
    dtx: Float  # (sites + covariates, columns)

    def vector(self) -> Float:
        """What goes into a secure sum."""
        return np.concatenate((self.dtd.ravel(), self.dtx.ravel()))

    @classmethod
    def of_vector(cls, vector: Float, size: int, columns: int) -> "DesignSums":
        """The inverse of ``vector``."""
        expect_shape("the sums of the design", vector, size * (size + columns))
        dtd = vector[: size * size].reshape(size, size)
        return cls((dtd + dtd.T) / 2, vector[size * size :].reshape(size, columns))


@dataclass(frozen=True)
class Model:
    """The joint model: the grand mean and the effects of sites and covariates, column by column."""

    effects: Float  # (sites + covariates, columns)
    grand_mean: Float  # (columns,)
    rows: float


def design_sums(source: MatrixSource, design: Design) -> DesignSums:
    """First sum, one pass over a table with its covariates among its columns."""
    z, x = _columns(source, design)
    dtd, dtx = np.zeros((design.size, design.size)), np.zeros((design.size, x.size))
    for _, panel in row_panels(source):
        centred = panel - design.means
        D = _design(centred[:, z], design)
        dtd += D.T @ D
        dtx += D.T @ centred[:, x]
    return DesignSums(dtd, dtx)


def fit(joint: DesignSums, sites: int) -> Model:
    """The joint model from the joint first sum."""
    counts = np.rint(np.diag(joint.dtd)[:sites])
    size = np.sqrt(np.diag(joint.dtd))
    if not (size > 0).all() or np.linalg.cond(joint.dtd / np.outer(size, size)) > 1 / np.sqrt(np.finfo(float).eps):
        raise DataError("sites and covariates cannot be separated", "leave out covariates that are fixed by the site")
    scaled = np.linalg.solve(joint.dtd / np.outer(size, size), joint.dtx / size[:, None])
    effects = scaled / size[:, None]
    return Model(effects, (counts / counts.sum()) @ effects[:sites], float(counts.sum()))


def residual_squares(source: MatrixSource, design: Design, model: Model) -> Float:
    """Second sum, one pass: squared residuals of the joint model, column by column."""
    z, x = _columns(source, design)
    total = np.zeros(x.size)
    for _, panel in row_panels(source):
        centred = panel - design.means
        total += ((centred[:, x] - _design(centred[:, z], design) @ model.effects) ** 2).sum(axis=0)
    return total


@dataclass(frozen=True)
class Adjustment:
    """What a site does to its own columns: x -> (x - shift - preserved) / shrink + shift' + preserved."""

    pooled: Float  # deviation of every column over all sites
    gamma: Float  # the site's shift, in pooled deviations
    delta: Float  # the site's variance, relative to the pooled one


def adjustment(
    source: MatrixSource,
    design: Design,
    model: Model,
    joint_squares: Float,
    mean_only: bool = False,
    empirical_bayes: bool = True,
) -> Adjustment:
    """Second and third pass of a site over its own rows, after both sums."""
    z, x = _columns(source, design)
    if source.shape[0] < _FEWEST_ROWS or (empirical_bayes and x.size < _FEWEST_COLUMNS):
        raise DataError("ComBat needs two rows at every site and two columns", "leave it out, or give more data")
    pooled = np.sqrt(joint_squares / model.rows)
    if not (pooled > 0).all():
        raise DataError("a column does not vary within the sites", "leave constant columns out before ComBat")
    n, mean, variance = source.shape[0], np.zeros(x.size), np.zeros(x.size)
    for panel in _standardised(source, z, x, design, model, pooled):
        mean += panel.sum(axis=0) / n
    if mean_only:
        variance = np.ones(x.size)
    else:
        for panel in _standardised(source, z, x, design, model, pooled):
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

    def __init__(self, base: MatrixSource, design: Design, model: Model, found: Adjustment) -> None:
        self._z, self._x = _columns(base, design)
        names = names_of(base)
        super().__init__(base, [names[j] for j in self._x.tolist()])
        self._design, self._model, self._found = design, model, found

    def _cells(self, rows: Index, columns: Index) -> Float:
        wanted = positions(columns, self.shape[1])
        read, means, model, found = self._x[wanted], self._design.means, self._model, self._found
        X = self._base.raw(rows, as_run(read)) - means[read]
        fitted = model.grand_mean[wanted]
        if self._z.size:
            Z = self._base.raw(rows, as_run(self._z)) - means[self._z]
            fitted = fitted + Z @ model.effects[self._design.sites :, wanted]
        standard = (X - fitted) / found.pooled[wanted]
        adjusted = (standard - found.gamma[wanted]) / np.sqrt(found.delta[wanted])
        back: Float = adjusted * found.pooled[wanted] + fitted + means[read]
        return back

    def _place(self, row: int, column: int) -> str:
        return self._base._place(row, int(self._x[column]))


def _posterior(mean: Float, variance: Float, n: int, bar: float, spread: float) -> tuple[Float, Float]:
    """Posterior means of shift and variance under normal and inverse gamma priors fitted over the columns."""
    m, s2 = float(variance.mean()), float(variance.var(ddof=1))
    a, b = (2 * s2 + m**2) / s2, (m * s2 + m**3) / s2
    gamma, delta = mean, variance
    inner = variance * (n - 1)  # squared deviations from the mean; those from another centre follow
    for _ in range(_MOST_ITERATIONS):
        new = (spread * n * mean + delta * bar) / (spread * n + delta)
        squares = inner + n * (mean - new) ** 2
        fresh = (0.5 * squares + b) / (n / 2.0 + a - 1.0)
        change = max(float(np.max(np.abs(new - gamma) / np.abs(gamma))), float(np.max(np.abs(fresh - delta) / delta)))
        gamma, delta = new, fresh
        if change <= _CONVERGED:
            return gamma, delta
    raise NotConverged("the empirical Bayes step of ComBat did not settle", "try it without: empirical_bayes = false")


def _standardised(
    source: MatrixSource, z: NDArray[np.intp], x: NDArray[np.intp], design: Design, model: Model, pooled: Float
) -> Iterator[Float]:
    """Panels of the site's rows, less grand mean and covariates, in pooled deviations."""
    covariate_effects = model.effects[design.sites :]
    for _, panel in row_panels(source):
        centred = panel - design.means
        yield (centred[:, x] - model.grand_mean - centred[:, z] @ covariate_effects) / pooled


def _design(Z: Float, design: Design) -> Float:
    D = np.zeros((len(Z), design.size))
    D[:, design.site] = 1.0
    D[:, design.sites :] = Z
    return D


def _columns(source: MatrixSource, design: Design) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    if not 0 <= design.site < design.sites or design.sites < 2:
        raise ConfigError(f"site {design.site} of {design.sites}", "ComBat needs two sites, counted from 0")
    expect_shape("the joint means", design.means, source.shape[1])
    if not design.covariates:
        return np.zeros(0, np.intp), np.arange(source.shape[1])
    return split_covariates(source, design.covariates)
