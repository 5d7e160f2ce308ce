"""What a party may look at of its own rows once a model is fitted: residuals, leverage, ROC and calibration.

Nothing here is summed or sent. Leverage and Cook's distance use the joint model, so that they say how much a row of
one party moves the result of all.
"""

from dataclasses import dataclass

import numpy as np

from fedsvd.errors import DataError, ShapeError
from fedsvd.statistics.families import Family
from fedsvd.statistics.inference import LinearInference
from fedsvd.statistics.undefined import EXACT_FIT, Numbers, Undefined, is_array
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class RowDiagnostics:
    """Of own rows; with weights, residuals and leverage are those of the weighted rows."""

    fitted: Float
    residuals: Float
    leverage: Numbers
    standardised: Numbers  # residuals in units of their own standard deviation
    cooks: Numbers  # how far the coefficients move without the row


@dataclass(frozen=True, repr=False)
class Roc:
    """The curve from (0, 0) to (1, 1): a point for each threshold, in falling order, and the area below it."""

    false_positive: Float
    true_positive: Float
    thresholds: Float
    area: float


@dataclass(frozen=True, repr=False)
class Calibration:
    """Of groups of own rows in the order of their predictions: mean prediction, share of outcomes, rows."""

    predicted: Float
    observed: Float
    counts: Float


def own_rows(model: LinearInference, X: Float, y: Float, *, weights: Float | None = None) -> RowDiagnostics:
    """The diagnostics of rows that the joint model was fitted to; X is without the intercept."""
    rows = np.concatenate((np.ones((X.shape[0], 1)), X), axis=1) if model.intercept else X
    q = model.coefficients.shape[0]
    if rows.shape[1] != q:
        raise ShapeError(f"rows have {rows.shape[1]} columns with the intercept, {q} needed")
    root = np.ones(X.shape[0]) if weights is None else np.sqrt(weights)
    fitted = rows @ model.coefficients
    residuals = root * (y - fitted)
    if not is_array(model.root) or isinstance(model.sigma, Undefined):
        reason = next(part for part in (model.root, model.sigma) if isinstance(part, Undefined))
        return RowDiagnostics(fitted, residuals, reason, reason, reason)
    Z = (rows * root[:, None]) @ model.root
    leverage = np.einsum("ij,ij->i", Z, Z)
    if model.sigma == 0.0:
        return RowDiagnostics(fitted, residuals, leverage, EXACT_FIT, EXACT_FIT)
    standardised = residuals / (model.sigma * np.sqrt(1.0 - leverage))
    return RowDiagnostics(
        fitted, residuals, leverage, standardised, np.square(standardised) / q * leverage / (1.0 - leverage)
    )


def deviance_residuals(family: Family, eta: Float, y: Float, *, weights: Float | None = None) -> Float:
    """The signed roots of the deviances of own rows at linear predictors eta."""
    local = family.evaluate(eta, y)
    prior = np.ones_like(eta) if weights is None else weights
    residuals: Float = np.sign(y - local.mu) * np.sqrt(np.maximum(0.0, prior * local.deviance))
    return residuals


def pearson_residuals(family: Family, eta: Float, y: Float, *, weights: Float | None = None) -> Float:
    """The residuals of own rows in units of the standard deviation that the family gives them."""
    local = family.evaluate(eta, y)
    prior = np.ones_like(eta) if weights is None else weights
    residuals: Float = np.sqrt(prior / local.variance) * (y - local.mu)
    return residuals


def roc(y: Float, score: Float, *, weights: Float | None = None) -> Roc:
    """The curve of own rows; y is 0 or 1, a higher score speaks for 1."""
    if y.shape != score.shape or not np.all((y == 0.0) | (y == 1.0)) or not 0.0 < y.mean() < 1.0:
        raise DataError("a ROC curve needs rows of both outcomes, 0 and 1, and a score for each")
    prior = np.ones_like(score) if weights is None else weights
    order = np.argsort(-score, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    hits = np.cumsum(prior[order] * y[order])[ends]
    alarms = np.cumsum(prior[order] * (1.0 - y[order]))[ends]
    true, false = np.append(0.0, hits / hits[-1]), np.append(0.0, alarms / alarms[-1])
    return Roc(false, true, np.append(np.inf, score[order][ends]), float(np.trapezoid(true, false)))


def calibration(y: Float, predicted: Float, groups: int = 10) -> Calibration:
    """Own rows in groups of about equal size; equal predictions stay together."""
    if y.shape != predicted.shape or y.size == 0 or groups < 1:
        raise DataError("calibration needs an outcome for each prediction and at least one group")
    edges = np.quantile(predicted, np.linspace(0.0, 1.0, groups + 1))
    place = np.searchsorted(edges[1:-1], predicted)
    counts = np.bincount(place, minlength=groups).astype(np.float64)
    there = counts > 0.0
    means = np.bincount(place, weights=predicted, minlength=groups)[there] / counts[there]
    shares = np.bincount(place, weights=y, minlength=groups)[there] / counts[there]
    return Calibration(means, shares, counts[there])
