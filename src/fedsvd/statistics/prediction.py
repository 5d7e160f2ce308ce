"""Predicted means of rows with confidence intervals of the means and prediction intervals of new values."""

from dataclasses import dataclass

import numpy as np

from fedsvd.errors import ShapeError
from fedsvd.statistics.distributions import normal_reach, t_reach
from fedsvd.statistics.inference import LinearInference
from fedsvd.statistics.undefined import Numbers, Undefined, is_array, is_number
from fedsvd.statistics.wald import around, expect_level
from fedsvd.types import Float


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
    mean: Float = rows @ model.coefficients
    if not (is_array(model.root) and is_array(model.covariance) and is_number(model.sigma)):
        reason = next(part for part in (model.covariance, model.sigma, model.root) if isinstance(part, Undefined))
        return Prediction(mean, reason, reason, reason, level)
    if model.kind == "nonrobust":
        Z = rows @ model.root
        variance = model.sigma**2 * np.einsum("ij,ij->i", Z, Z)
    else:
        variance = np.einsum("ij,jk,ik->i", rows, model.covariance, rows)
    noise = model.sigma**2 / (np.ones(X.shape[0]) if weights is None else weights)
    reach = t_reach(level, model.df_residual) if model.distribution == "t" else normal_reach(level)
    return Prediction(
        mean,
        np.sqrt(variance),
        around(mean, reach * np.sqrt(variance)),
        around(mean, reach * np.sqrt(variance + noise)),
        level,
    )
