"""Rows in the coordinates of principal components: whitening, missing features, outliers, component regression.

    scores T = (X - mean) V,    variances s^2 / (n - 1)

Hotelling's T2 is the distance of a row from the mean within the components, Q what they leave of it. Both have limits
that a row of the same normal population exceeds with probability ``1 - level``.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from fedsvd.errors import ConfigError, DataError, ShapeError
from fedsvd.statistics.distributions import beta_quantile, f_quantile
from fedsvd.statistics.inference import LinearInference, Totals, infer_block
from fedsvd.statistics.undefined import NO_FREEDOM, Number, Undefined
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class Components:
    """The principal components of n joint rows: Vt, (k, features), singular values, (k,), and the mean."""

    Vt: Float
    values: Float
    mean: Float
    n: int

    def __post_init__(self) -> None:
        if self.Vt.shape != (self.values.shape[0], self.mean.shape[0]):
            raise ShapeError(f"{self.Vt.shape} do not fit {self.values.shape[0]} values, {self.mean.shape[0]} features")

    def __repr__(self) -> str:
        return f"Components(k={self.values.shape[0]}, features={self.mean.shape[0]}, n={self.n})"

    @property
    def variances(self) -> Float:
        """The variance of the scores of each component."""
        return np.square(self.values) / (self.n - 1)

    def loadings(self) -> Float:
        """The covariances of features with the standardised components, (features, k)."""
        return self.Vt.T * np.sqrt(self.variances)

    def scores(self, X: Float, whiten: bool = False) -> Float:
        """Rows as scores, (rows, k); whitened they have variance 1 in the joint data."""
        T: Float = (X - self.mean) @ self.Vt.T
        return T / np.sqrt(self.variances) if whiten else T

    def rows(self, scores: Float, whiten: bool = False) -> Float:
        """The rows that scores stand for, (rows, features)."""
        T = scores * np.sqrt(self.variances) if whiten else scores
        X: Float = T @ self.Vt + self.mean
        return X

    def scores_of_incomplete(self, X: Float) -> Float:
        """Scores of rows with missing features (NaN): least squares on the features that are there."""
        T = np.empty((X.shape[0], self.values.shape[0]))
        present = ~np.isnan(X)
        patterns, place = np.unique(present, axis=0, return_inverse=True)
        for number, there in enumerate(patterns):
            chosen = place.reshape(-1) == number
            V = self.Vt[:, there].T
            if np.linalg.matrix_rank(V) < V.shape[1]:
                raise DataError(
                    f"{int(np.sum(chosen))} rows have {int(np.sum(there))} features, "
                    f"which do not determine {V.shape[1]} scores",
                    "project on fewer components, or leave these rows out",
                )
            T[chosen] = np.linalg.lstsq(V, (X[chosen][:, there] - self.mean[there]).T)[0].T
        return T


LEFT_OUT = Undefined("the singular values that the components leave out are not released")


@dataclass(frozen=True, repr=False)
class Outliers:
    """T2 and Q of rows, and their limits."""

    t2: Float
    q: Float
    t2_limit: Number
    q_limit: Number
    level: float


def standardised(X: Float, mean: Float, scales: Float | None) -> Float:
    """Rows about the mean, each feature over its scale; a feature whose scale is 0 does not vary, and is 0."""
    centred: Float = X - mean
    if scales is None:
        return centred
    return np.divide(centred, scales, out=np.zeros_like(centred), where=scales > 0.0)


def outliers(
    components: Components, X: Float, others: Float | None, *, level: float = 0.95, training: bool = True
) -> Outliers:
    """T2 and Q of own rows; ``others`` are the singular values that the components leave out, None if not known.

    ``training`` says whether the rows are among those the components were found from.
    """
    if not 0.0 < level < 1.0:
        raise ConfigError(f"a level is between 0 and 1, got {level}", "0.95 is usual")
    T = components.scores(X)
    left = X - components.rows(T)
    t2 = np.sum(np.square(T) / components.variances, axis=1)
    k = components.values.shape[0]
    return Outliers(
        t2, np.einsum("ij,ij->i", left, left), t2_limit(k, components.n, level, training),
        LEFT_OUT if others is None else q_limit(np.square(others) / (components.n - 1), level), level,
    )  # fmt: skip


def t2_limit(k: int, n: int, level: float, training: bool) -> Number:
    """The limit of T2 for k components of n rows: a beta law for these rows, an F law for new ones."""
    if n - k <= 1:
        return NO_FREEDOM
    if training:
        return (n - 1) ** 2 / n * beta_quantile(level, k / 2.0, (n - k - 1) / 2.0)
    return k * (n * n - 1.0) / (n * (n - k)) * f_quantile(level, k, n - k)


def q_limit(variances: Float, level: float) -> Number:
    """Jackson and Mudholkar's limit of Q, from the variances of the components that were left out."""
    first, second, third = (float(np.sum(variances**power)) for power in (1, 2, 3))
    if not first > 0.0:
        return Undefined("the components explain all variance, so nothing is left")
    h = 1.0 - 2.0 * first * third / (3.0 * second**2)
    reach = float(ndtri(level)) * math.sqrt(2.0 * second) * abs(h) / first
    inner = 1.0 + math.copysign(reach, h) + second * h * (h - 1.0) / first**2
    return first * inner ** (1.0 / h) if inner > 0.0 and h != 0.0 else Undefined("the limit of Q does not exist here")


@dataclass(frozen=True, repr=False)
class ComponentRegression:
    """Principal component regression: the table of the components, and coefficients of the features."""

    table: LinearInference  # of the scores
    coefficients: Float  # (features,)
    intercept: float


def component_regression(
    components: Components,
    projected: Float,
    y_mean: float,
    total: float,
    *,
    residual: float | None = None,
    level: float = 0.95,
) -> ComponentRegression:
    """From ``projected = U^T (y - mean)``, (k,), and ``total``, the squared norm of the centred target.

    Scores are orthogonal, so that each coefficient is its own quotient. ``U^T y`` is ``scores^T y / values``, a sum
    over own rows. The sum of squared residuals is the difference of both unless it is given, which a fit that explains
    nearly everything needs.
    """
    explained = float(projected @ projected)
    left = max(0.0, total - explained) if residual is None else residual
    sums = Totals(components.n, left, total, explained)
    k = components.values.shape[0]
    table = infer_block(
        components.values, np.eye(k), projected, sums, rank=k, y_mean=y_mean, projected_mean=np.zeros(k), level=level
    )
    w = components.Vt.T @ table.coefficients[1:]
    return ComponentRegression(table, w, y_mean - float(components.mean @ w))
