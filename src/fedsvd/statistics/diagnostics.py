"""What a party may look at of its own rows once a model is fitted: residuals, leverage, Cook's distance.

Nothing here is summed or sent. Leverage and Cook's distance use the joint model, so that they say how much a row of
one party moves the result of all.
"""

from dataclasses import dataclass

import numpy as np

from fedsvd.errors import ShapeError
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


def own_rows(model: LinearInference, X: Float, y: Float, *, weights: Float | None = None) -> RowDiagnostics:
    """The diagnostics of rows that the joint model was fitted to; X is without the intercept."""
    rows = np.concatenate((np.ones((X.shape[0], 1)), X), axis=1) if model.intercept else X
    q = model.coefficients.shape[0]
    if rows.shape[1] != q:
        raise ShapeError(f"rows have {rows.shape[1]} columns with the intercept, {q} needed")
    root = np.ones(X.shape[0]) if weights is None else np.sqrt(weights)
    fitted = rows @ model.solution
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
