"""Site effects by sums: centring and scaling over all sites or within each, and covariates partialled out.

Deviations are summed around joint means that were agreed before (two sums), not as differences of squares, so that no
digits are lost. Covariates are removed as Frisch, Waugh and Lovell do it, from the joint Gram matrix of the centred
covariates: the residuals of a regression with an intercept, for split rows. A table comes without gaps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource, as_run
from fedsvd.errors import ConfigError, DataError
from fedsvd.prepare.columns import listed
from fedsvd.prepare.derived import Derived, names_of, positions, row_panels
from fedsvd.prepare.missing import totals
from fedsvd.types import Float, expect_shape

_EPS = float(np.finfo(np.float64).eps)


class Over(StrEnum):
    """Over what a mean or a deviation is taken."""

    JOINT = "joint"
    SITE = "site"
    NONE = "none"


def squares(source: MatrixSource, means: Float) -> Float:
    """One pass: the sum of squared deviations from ``means``, column by column; for a secure sum."""
    expect_shape("the means", means, source.shape[1])
    total = np.zeros(source.shape[1])
    for _, panel in row_panels(source):
        total += ((panel - means) ** 2).sum(axis=0)
    return total


def deviations(sums: Float, rows: float, means: Float, ddof: int = 0) -> Float:
    """Standard deviations from sums of squares; 1 for a column that does not vary, as scikit-learn scales it.

    Nor does one vary whose deviation is within rounding of its mean: scaled by it, rounding would be a column.
    """
    expect_shape("the sums of squares", sums, len(means))
    if rows <= ddof:
        raise DataError(f"{rows:.0f} rows are too few for a deviation", "give more rows")
    found = np.sqrt(np.maximum(sums, 0.0) / (rows - ddof))
    return np.where(found > rows * _EPS * np.abs(means), found, 1.0)


@dataclass(frozen=True)
class Moments:
    """Means and deviations of the columns, over all sites or over one."""

    means: Float
    deviations: Float


def own_moments(source: MatrixSource, ddof: int = 0) -> Moments:
    """Those of one site: nothing is sent. The mean of a column that does not vary is its entry, to the last digit."""
    own, first = totals(source), source.raw(slice(0, 1), slice(0, source.shape[1]))
    constant = np.all([(panel == first).all(axis=0) for _, panel in row_panels(source)], axis=0)
    means = np.where(constant, first[0], own.means(names_of(source)))
    return Moments(means, deviations(squares(source, means), own.rows, means, ddof))


def chosen_moments(source: MatrixSource, centre: Over, scale: Over, joint: Moments | None, ddof: int = 0) -> Moments:
    """What is subtracted from and divided by: means and deviations of all sites, of this one, or none."""
    own = own_moments(source, ddof) if Over.SITE in (centre, scale) else None
    if joint is None and Over.JOINT in (centre, scale):
        raise ConfigError("joint means or deviations are asked for, and none were agreed", "sum them first")
    of = {Over.SITE: own, Over.JOINT: joint, Over.NONE: None}
    from_means, from_deviations = of[centre], of[scale]
    shift = np.zeros(source.shape[1]) if from_means is None else from_means.means
    factor = np.ones(source.shape[1]) if from_deviations is None else from_deviations.deviations
    return Moments(shift, factor)


class Standardised(Derived):
    """``(x - shift) / factor``, column by column."""

    def __init__(self, base: MatrixSource, shift: Float, factor: Float) -> None:
        super().__init__(base, names_of(base))
        self._shift, self._factor = shift, factor

    def _cells(self, rows: Index, columns: Index) -> Float:
        return (self._base.raw(rows, columns) - self._shift[columns]) / self._factor[columns]

    def _place(self, row: int, column: int) -> str:
        return self._base._place(row, column)


@dataclass(frozen=True)
class CovariateSums:
    """What a party adds to the sum for partialling out: centred covariates with themselves and with the columns."""

    ztz: Float  # (covariates, covariates)
    ztx: Float  # (covariates, columns)

    def vector(self) -> Float:
        """What goes into a secure sum."""
        return np.concatenate((self.ztz.ravel(), self.ztx.ravel()))

    @classmethod
    def of_vector(cls, vector: Float, covariates: int, columns: int) -> "CovariateSums":
        """The inverse of ``vector``."""
        expect_shape("the sums of covariates", vector, covariates * (covariates + columns))
        ztz = vector[: covariates**2].reshape(covariates, covariates)
        return cls((ztz + ztz.T) / 2, vector[covariates**2 :].reshape(covariates, columns))

    def coefficients(self, names: Sequence[str]) -> Float:
        """B of the regression of the columns on the covariates, shape (covariates, columns)."""
        size = np.sqrt(np.diag(self.ztz))
        if not (size > 0).all():
            constant = [name for name, one in zip(names, size.tolist(), strict=True) if not one > 0]
            raise DataError(f"covariate {listed(constant)} is the same in every row", "leave it out")
        # Scaled to unit deviations: what is left of the condition is the correlation of the covariates.
        C = self.ztz / np.outer(size, size)
        if np.linalg.cond(C) > 1 / np.sqrt(np.finfo(np.float64).eps):
            raise DataError("the covariates are linearly dependent, or nearly so", "leave one of them out")
        solved: Float = np.linalg.solve(C, self.ztx / size[:, None]) / size[:, None]
        return solved


def covariate_sums(source: MatrixSource, covariates: Sequence[str], means: Float) -> CovariateSums:
    """One pass over a table with its covariates among its columns; ``means`` are the joint means of all of them."""
    z, x = split_covariates(source, covariates)
    ztz, ztx = np.zeros((z.size, z.size)), np.zeros((z.size, x.size))
    for _, panel in row_panels(source):
        centred = panel - means
        ztz += centred[:, z].T @ centred[:, z]
        ztx += centred[:, z].T @ centred[:, x]
    return CovariateSums(ztz, ztx)


class Residuals(Derived):
    """The columns other than the covariates, less what these say of them; their mean is zero over all sites."""

    def __init__(self, base: MatrixSource, covariates: Sequence[str], means: Float, B: Float) -> None:
        self._z, self._x = split_covariates(base, covariates)
        names = names_of(base)
        super().__init__(base, [names[j] for j in self._x.tolist()])
        expect_shape("the coefficients of the covariates", B, self._z.size, self._x.size)
        self._means, self._B = means, B

    def _cells(self, rows: Index, columns: Index) -> Float:
        wanted = positions(columns, self.shape[1])
        read = self._x[wanted]
        Z = self._base.raw(rows, as_run(self._z)) - self._means[self._z]
        X = self._base.raw(rows, as_run(read)) - self._means[read]
        found: Float = X - Z @ self._B[:, wanted]
        return found

    def _place(self, row: int, column: int) -> str:
        return self._base._place(row, int(self._x[column]))


def split_covariates(source: MatrixSource, covariates: Sequence[str]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    names = names_of(source)
    unknown = [name for name in covariates if name not in names]
    if unknown or not covariates:
        fault = f"the table has no covariate {listed(unknown)}" if unknown else "no covariate is named"
        raise ConfigError(fault, "name columns of numbers that every party has")
    z = np.array([names.index(name) for name in covariates], dtype=np.intp)
    x = np.array([j for j in range(len(names)) if j not in set(z.tolist())], dtype=np.intp)
    if not x.size:
        raise ConfigError("every column is a covariate", "name fewer covariates")
    return z, x
