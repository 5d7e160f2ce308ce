"""Ridge regression for a whole path of penalties from one SVD, and the choice among them.

    X = U diag(s) V^T (centred, times the square root of the weights),    w(alpha) = V (s U^T y / (s^2 + alpha))

Generalised cross-validation needs s, U^T y and two sums of squares, on both splits. Exact leave-one-out needs each
row's own leverage and residual: ``leave_one_out_rows`` is a party's part from its own rows (split rows), and the parts
are added. scikit-learn's ``RidgeCV`` without ``cv`` is the latter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.types import Float

_STEPS = 3


@dataclass(frozen=True, repr=False)
class RidgePath:
    """What all penalties share: the spectrum and the projected targets."""

    values: Float  # (k,) singular values
    projected: Float  # (k, targets): U^T y
    outside: Float  # (targets,): ||y - U U^T y||^2, what no penalty reaches
    n: int
    intercept: bool

    def shrinkage(self, alphas: Float) -> Float:
        """``s^2 / (s^2 + alpha)``, (alphas, k); 0 where both are 0."""
        squares = np.square(self.values)
        total = squares + np.asarray(alphas)[:, None]
        kept: Float = np.divide(squares, total, out=np.zeros_like(total), where=total > 0.0)
        return kept

    def freedom(self, alphas: Float) -> Float:
        """The effective degrees of freedom of each penalty, with the intercept."""
        freedom: Float = self.shrinkage(alphas).sum(axis=1) + int(self.intercept)
        return freedom

    def residual(self, alphas: Float) -> Float:
        """The sum of squared residuals, (alphas, targets)."""
        left = np.square(1.0 - self.shrinkage(alphas))
        squares: Float = left @ np.square(self.projected) + self.outside
        return squares


@dataclass(frozen=True, repr=False)
class Choice:
    """The curve of an error over the penalties, and where it is least."""

    alphas: Float
    errors: Float  # (alphas,), the mean over targets
    best: int
    method: str  # "gcv" or "loo"

    @property
    def alpha(self) -> float:
        """The penalty that is chosen."""
        return float(self.alphas[self.best])


def penalties(alphas: Sequence[float] | Float) -> Float:
    """The path as an array; every penalty must be above 0."""
    path = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    if path.ndim != 1 or path.size == 0 or not np.all(np.isfinite(path)) or not np.all(path > 0.0):
        raise ConfigError("a path of penalties is one or more numbers above 0", "np.logspace(-3, 3, 13) is usual")
    return path


def coefficients(R: Float, powers: Float, alphas: Sequence[float] | Float, features: int) -> Float:
    """``w(alpha)``, (alphas, features, targets), from a factor R of ``[X y]`` whose columns are multiplied by powers.

    Not from the SVD that the errors come from: columns in units of 1e-3 and of 1e3 meet in one singular vector, and
    small coefficients would have the digits of large ones. Scaled, with the penalty as rows of its own, they are as
    exact as those of a single ridge; steps from the residual leave each its own digits, also where the penalty of a
    column in a small unit outweighs all rows.
    """
    f, found = features, []
    for alpha in penalties(alphas):
        rows = np.zeros((f, R.shape[1]))
        rows[:, :f] = np.diag(np.sqrt(alpha) * powers[:f])
        both: Float = np.asarray(np.linalg.qr(np.concatenate((R, rows)), mode="r"))
        first: Float = np.asarray(np.linalg.solve(both[:f, :f], both[:f, f:]), dtype=np.float64)
        w = _stepped(R, both[:f, :f], (alpha * powers[:f] ** 2)[:, None], first)
        found.append(w * powers[:f, None] / powers[f:])
    return np.stack(found)


def _stepped(R: Float, factor: Float, ridge: Float, w: Float) -> Float:
    """w after steps from the residual of its normal equations, as long as they make it smaller."""
    f = len(factor)
    X, Y = R[:, :f], R[:, f:]
    residual = X.T @ (Y - X @ w) - ridge * w
    for _ in range(_STEPS):
        other: Float = w + np.linalg.solve(factor, np.linalg.solve(factor.T, residual))
        left = X.T @ (Y - X @ other) - ridge * other
        if not np.linalg.norm(left) < np.linalg.norm(residual):
            break
        w, residual = other, left
    return w


def generalised(path: RidgePath, alphas: Sequence[float] | Float) -> Choice:
    """Generalised cross-validation: ``n RSS / (n - df)^2`` of each penalty."""
    grid = penalties(alphas)
    left = path.n - path.freedom(grid)
    if not np.all(left > 0.0):
        raise ConfigError("a penalty leaves no degrees of freedom", "choose larger penalties")
    errors = path.n * path.residual(grid).mean(axis=1) / np.square(left)
    return _chosen(grid, errors, "gcv")


def leave_one_out_rows(
    X: Float,
    y: Float,
    mean: Float,
    y_mean: Float,
    Vt: Float,
    path: RidgePath,
    alphas: Sequence[float] | Float,
    *,
    weights: Float | None = None,
    weight_sum: float | None = None,
) -> Float:
    """A party's sum of squared leave-one-out errors, (alphas, targets), from its own rows X, (n_i, features).

    mean and y_mean are the joint (weighted) means, zeros without an intercept; Vt, (k, features), the joint right
    singular vectors. Errors are weighted as the rows are.
    """
    grid = penalties(alphas)
    y = y.reshape(X.shape[0], -1)
    if Vt.shape != (path.values.shape[0], X.shape[1]) or y.shape[1] != path.projected.shape[1]:
        raise ShapeError(f"rows of {X.shape[1]} features and {y.shape[1]} targets do not fit the joint result")
    prior = np.ones(X.shape[0]) if weights is None else weights
    joint = float(path.n) if weight_sum is None else weight_sum
    Z = (X - mean) @ Vt.T
    squares, centred = np.square(Z), y - y_mean
    total = np.square(path.values) + grid[:, None]
    sums = np.empty((grid.shape[0], y.shape[1]))
    for a in range(grid.shape[0]):
        leverage = prior * (squares @ (1.0 / total[a]) + (1.0 / joint if path.intercept else 0.0))
        fitted = Z @ ((path.values / total[a])[:, None] * path.projected)
        errors = (centred - fitted) / (1.0 - leverage)[:, None]
        sums[a] = prior @ np.square(errors)
    return sums


def left_out(path: RidgePath, alphas: Sequence[float] | Float, sums: Float) -> Choice:
    """The choice by leave-one-out, from the sum over parties of ``leave_one_out_rows``."""
    grid = penalties(alphas)
    return _chosen(grid, sums.mean(axis=1) / path.n, "loo")


def _chosen(grid: Float, errors: Float, method: str) -> Choice:
    return Choice(grid, errors, int(np.argmin(errors)), method)
