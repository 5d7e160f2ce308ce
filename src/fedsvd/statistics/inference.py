"""Inference of linear regression: all that a regression table prints, from a factor of ``[1 X Y]`` or from a spectrum.

    R^T R = [1 X Y]^T W [1 X Y]        split rows: one factor of the joint Gram matrix    -> ``infer``
    X = U S V^T, U^T y                 split columns: each party has its own rows of V    -> ``infer_block``

Weights W are inverse variances (statsmodels' WLS, R's ``weights``): n stays the number of rows, and the log-likelihood
needs the sum of their logarithms. An offset is subtracted from the targets before the factor is made. What is not
defined for a model (a penalty, no degrees of freedom left) is an ``Undefined`` with the reason. Where rank is lost the
table is R's: columns are taken in their order, one that depends on those before it is *aliased* (``Triangle.aliased``)
and has NaN in its row, and all else is that of the model without it.

``predict``: predicted means of rows with confidence intervals of the means and prediction intervals of new values.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from fedsvd.errors import ShapeError
from fedsvd.statistics.aliased import not_of, without_aliased
from fedsvd.statistics.distributions import around, expect_level, f_tail, normal_reach, t_reach, wald
from fedsvd.statistics.triangle import triangle
from fedsvd.statistics.undefined import (
    EXACT_FIT,
    NO_FEATURES,
    NO_FREEDOM,
    NO_VARIATION,
    PENALISED,
    RANK_LOST,
    Number,
    Numbers,
    Undefined,
    is_array,
    is_number,
)
from fedsvd.types import Float


@dataclass(frozen=True)
class Totals:
    """Sums of squares of one target; with an intercept the total is around the (weighted) mean."""

    n: int
    residual: float
    total: float
    explained: float
    log_weights: float = 0.0


@dataclass(frozen=True, repr=False)
class LinearInference:
    """The statistics of one target; arrays are in the order of the coefficients, an intercept first."""

    coefficients: Float  # NaN where aliased
    intercept: bool
    standard_errors: Numbers
    t: Numbers
    p: Numbers
    intervals: Numbers  # (q, 2)
    covariance: Numbers  # (q, q)
    vif: Numbers  # (features,), without the intercept
    n: int
    rank: int
    df_residual: int
    df_model: int
    sums: Totals
    sigma: Number
    r2: Number
    adjusted_r2: Number
    f: Number
    f_p: Number
    log_likelihood: Number
    aic: Number
    bic: Number
    condition: float
    level: float
    root: Numbers  # (q, any): root root^T is the inverse Gram matrix, which prediction and robust errors need
    distribution: str = "t"  # or "normal": what t, p and intervals are taken from
    kind: str = "nonrobust"
    clusters: int = 0  # of all parties, each its own, where errors are robust to them
    aliased: tuple[int, ...] = ()  # coefficients of columns that depend on those before them: not defined, as in R

    @property
    def solution(self) -> Float:
        """Coefficients that fit the rows: those of aliased columns are 0."""
        return np.where(np.isnan(self.coefficients), 0.0, self.coefficients)

    def __repr__(self) -> str:
        return f"LinearInference(coefficients={self.coefficients.shape[0]}, n={self.n}, rank={self.rank})"


def infer(
    R: Float,
    n: int,
    *,
    targets: int = 1,
    intercept: bool = True,
    alpha: float = 0.0,
    log_weights: float = 0.0,
    level: float = 0.95,
) -> tuple[LinearInference, ...]:
    """One table for each target, from R with columns 1 (with an intercept), features, targets, of n rows.

    ``alpha`` is a ridge penalty, which leaves the intercept alone.
    """
    expect_level(level)
    first = int(intercept)
    q = R.shape[1] - targets
    plain = triangle(R, targets, n)
    fitted = plain
    if alpha > 0.0:
        fitted = triangle(R, targets, n, math.sqrt(alpha) * np.eye(q)[first:])
    w = fitted.solve(free=first)
    inverse: Numbers = PENALISED if alpha > 0.0 else plain.inverse() if plain.full else RANK_LOST
    aliased: tuple[int, ...] = ()
    if not plain.full and alpha == 0.0:
        aliased, w, inverse = without_aliased(plain, n, w)
    vif = _variance_inflation(plain.A[first:, first:]) if plain.full else RANK_LOST
    misfit = plain.A @ (plain.scale[:, None] * w) - plain.B
    residual = plain.residual_squares() + (np.einsum("ij,ij->j", misfit, misfit) if alpha > 0.0 else 0.0)
    kept, rest = plain.B[first:], plain.residual_squares()
    explained = np.einsum("ij,ij->j", kept, kept)
    total = explained + rest
    rank = plain.rank
    if not plain.full:
        # The part of B that the lost directions do not reach belongs to the residuals.
        U, _, _ = np.linalg.svd(plain.A)
        lost = U[:, rank:].T @ plain.B
        unreached = np.einsum("ij,ij->j", lost, lost)
        residual, explained = residual + unreached, explained - unreached
    return tuple(
        table_from(
            w[:, k],
            inverse,
            Totals(n, float(residual[k]), float(total[k]), float(explained[k]), log_weights),
            intercept=intercept,
            rank=rank,
            vif=vif,
            condition=plain.condition(),
            level=level,
            penalised=alpha > 0.0,
            aliased=aliased,
        )
        for k in range(targets)
    )


def infer_block(
    values: Float,
    Vt_i: Float,
    Uty: Float,
    sums: Totals,
    *,
    rank: int,
    intercept: bool = True,
    y_mean: float = 0.0,
    projected_mean: Float | None = None,
    level: float = 0.95,
) -> LinearInference:
    """The table of a party's own features on split columns, from the SVD ``X = U diag(values) V^T`` of centred columns.

    Vt_i, (k, n_i), are the party's columns of V^T, Uty the k products U^T y, rank the number of singular values that
    are not rounding, n_features of them or fewer. The intercept is a row of the table where ``projected_mean``, the sum
    over parties of ``Vt_i @ mean_i``, is given. The condition is that of the centred columns.
    """
    expect_level(level)
    if not values.shape == Uty.shape == (Vt_i.shape[0],):
        raise ShapeError(f"{values.shape} singular values, {Vt_i.shape[0]} rows of Vt and {Uty.shape} products differ")
    k = min(rank, values.shape[0])
    root = Vt_i[:k].T / values[:k]
    w = root @ Uty[:k]
    norms = np.einsum("ki,ki->i", Vt_i * values[:, None], Vt_i * values[:, None])
    inverse: Numbers = root if k == values.shape[0] else RANK_LOST
    vif: Numbers = norms * np.einsum("ij,ij->i", root, root) if is_array(inverse) else RANK_LOST
    if intercept and projected_mean is not None:
        along = projected_mean[:k] / values[:k]
        w = np.concatenate(([y_mean - float(along @ Uty[:k])], w))
        if is_array(inverse):
            top = np.concatenate(([1.0 / math.sqrt(sums.n)], -along))
            inverse = np.concatenate((top[None, :], np.pad(root, ((0, 0), (1, 0)))))
    condition = float(values[0] / values[-1]) if k == values.shape[0] and values[-1] > 0.0 else float("inf")
    return table_from(
        w,
        inverse,
        sums,
        intercept=intercept,
        rank=k + int(intercept),
        vif=vif,
        condition=condition,
        level=level,
        penalised=False,
    )


def with_coefficients(model: LinearInference, w: Float, root: Float, residual: float) -> LinearInference:
    """The table of the same rows where coefficients, residuals and inverse Gram matrix are known to more digits."""
    total = model.sums.total
    explained = total - residual if residual < 0.5 * total else model.sums.explained
    sums = replace(model.sums, residual=residual, explained=explained)
    about = {"rank": model.rank, "vif": model.vif, "condition": model.condition, "level": model.level}
    return table_from(w, root, sums, intercept=model.intercept, penalised=False, **about)  # type: ignore[arg-type]


def table_from(
    w: Float,
    inverse: Numbers,
    sums: Totals,
    *,
    intercept: bool,
    rank: int,
    vif: Numbers,
    condition: float,
    level: float,
    penalised: bool,
    aliased: tuple[int, ...] = (),
) -> LinearInference:
    """The table of coefficients; ``inverse`` is a root of the inverse Gram matrix, with rows of 0 where aliased."""
    n, freedom, model = sums.n, sums.n - rank, rank - int(intercept)
    sigma: Number = PENALISED if penalised else NO_FREEDOM if freedom <= 0 else math.sqrt(sums.residual / freedom)
    errors: Numbers
    covariance: Numbers
    if isinstance(inverse, Undefined) or isinstance(sigma, Undefined):
        errors = covariance = inverse if isinstance(inverse, Undefined) else NO_FREEDOM
    else:
        errors = not_of(sigma * np.sqrt(np.einsum("ij,ij->i", inverse, inverse)), aliased)
        covariance = not_of(sigma**2 * (inverse @ inverse.T), aliased)
    w = not_of(w, aliased)
    tests = wald(w, errors, level, freedom)
    r2: Number = NO_VARIATION if sums.total <= 0.0 else 1.0 - sums.residual / sums.total
    adjusted: Number = PENALISED if penalised else NO_FREEDOM if freedom <= 0 else r2
    if not penalised and freedom > 0 and is_number(r2):
        adjusted = 1.0 - (n - int(intercept)) / freedom * (1.0 - r2)
    f, f_p = _f(sums, model, freedom, penalised)
    likelihood: Number = EXACT_FIT
    aic: Number = PENALISED
    bic: Number = PENALISED
    if sums.residual > 0.0 and n > 0:
        likelihood = -n / 2.0 * (math.log(2.0 * math.pi * sums.residual / n) + 1.0) + sums.log_weights / 2.0
        if not penalised:
            aic, bic = -2.0 * likelihood + 2.0 * rank, -2.0 * likelihood + math.log(n) * rank
    elif not penalised:
        aic = bic = EXACT_FIT
    return LinearInference(
        coefficients=w,
        intercept=intercept,
        standard_errors=tests.errors,
        t=tests.statistic,
        p=tests.p,
        intervals=tests.intervals,
        covariance=covariance,
        vif=vif,
        n=n,
        rank=rank,
        df_residual=freedom,
        df_model=model,
        sums=sums,
        sigma=sigma,
        r2=r2,
        adjusted_r2=adjusted,
        f=f,
        f_p=f_p,
        log_likelihood=likelihood,
        aic=aic,
        bic=bic,
        condition=condition,
        level=level,
        root=inverse,
        aliased=aliased,
    )


def _f(sums: Totals, model: int, freedom: int, penalised: bool) -> tuple[Number, Number]:
    """F of all features together, and its p."""
    for absent, reason in (
        (penalised, PENALISED),
        (model <= 0, NO_FEATURES),
        (freedom <= 0, NO_FREEDOM),
        (sums.residual <= 0.0, EXACT_FIT),
    ):
        if absent:
            return reason, reason
    f = (sums.explained / model) / (sums.residual / freedom)
    return f, f_tail(f, model, freedom)


def _variance_inflation(A: Float) -> Numbers:
    """How much the other features inflate the variance of each coefficient, from a triangle of centred columns."""
    if A.shape[0] == 0:
        return NO_FEATURES
    inverse = np.linalg.inv(A)
    inflation: Float = np.einsum("ij,ij->j", A, A) * np.einsum("ij,ij->i", inverse, inverse)
    return inflation


@dataclass(frozen=True, repr=False)
class Prediction:
    """Of n rows; ``prediction`` is where a new value of the target would lie, ``confidence`` its expectation."""

    mean: Float
    standard_errors: Numbers
    confidence: Numbers  # (rows, 2)
    prediction: Numbers  # (rows, 2)
    level: float


def predict(
    model: LinearInference, X: Float, *, weights: Float | None = None, level: float | None = None
) -> Prediction:
    """Means of the rows of X, (rows, features), with intervals; weights are those the new values would have."""
    level = model.level if level is None else level
    expect_level(level)
    rows = np.concatenate((np.ones((X.shape[0], 1)), X), axis=1) if model.intercept else np.asarray(X)
    if rows.shape[1] != model.coefficients.shape[0]:
        raise ShapeError(f"rows have {rows.shape[1]} columns with the intercept, {model.coefficients.shape[0]} needed")
    mean: Float = rows @ model.solution
    if not (is_array(model.root) and is_array(model.covariance) and is_number(model.sigma)):
        reason = next(part for part in (model.covariance, model.sigma, model.root) if isinstance(part, Undefined))
        return Prediction(mean, reason, reason, reason, level)
    if model.kind == "nonrobust":
        Z = rows @ model.root
        variance = model.sigma**2 * np.einsum("ij,ij->i", Z, Z)
    else:
        covariance = np.where(np.isnan(model.covariance), 0.0, model.covariance) if model.aliased else model.covariance
        variance = np.einsum("ij,jk,ik->i", rows, covariance, rows)
    noise = model.sigma**2 / (np.ones(X.shape[0]) if weights is None else weights)
    reach = t_reach(level, model.df_residual) if model.distribution == "t" else normal_reach(level)
    return Prediction(
        mean,
        np.sqrt(variance),
        around(mean, reach * np.sqrt(variance)),
        around(mean, reach * np.sqrt(variance + noise)),
        level,
    )
