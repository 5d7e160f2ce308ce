"""Inference from a factor of centred columns and their joint means, as parties that share the rows open it.

    R^T R = [X - m_x, Y - m_y]^T [X - m_x, Y - m_y]

The model is that of ``[1 X]``: only the intercept, its standard error and the condition depend on where the columns
were centred, and they follow from the means. The rank is found on centred columns, so that a column far from zero keeps
all its digits. A ridge stands in R as further rows, which is how a study adds it up; statistics that a penalty leaves
without a meaning are ``PENALISED``.
"""

import math
from dataclasses import replace

import numpy as np
from scipy.linalg import block_diag

from fedsvd.errors import ShapeError
from fedsvd.statistics.aliased import not_of
from fedsvd.statistics.distributions import wald
from fedsvd.statistics.inference import LinearInference, Totals, infer, with_coefficients
from fedsvd.statistics.refine import Refined
from fedsvd.statistics.triangle import largest_value
from fedsvd.statistics.undefined import NO_FREEDOM, NO_VARIATION, PENALISED, Number, is_array, is_number
from fedsvd.types import Float


def infer_centred(
    R: Float,
    n: int,
    w: Float,
    *,
    mean: Float | None,
    rank: int,
    alpha: float = 0.0,
    level: float = 0.95,
    weight: float | None = None,
    log_weights: float = 0.0,
    better: Refined | None = None,
) -> tuple[LinearInference, ...]:
    """One table for each target, from R, (any, features + targets), of n rows, and the coefficients w that were found.

    w, (features, targets), are the coefficients all parties agreed on, and ``rank`` is that of the features they found
    it by. ``mean``, (features + targets,), is None for a model without an intercept. ``alpha`` is the ridge whose rows
    are in R. With weights, ``weight`` and ``log_weights`` are the sums of them and of their logarithms. ``better`` is
    what was refined of a table of full rank.
    """
    features, targets = w.shape
    if R.shape[1] != features + targets:
        raise ShapeError(f"a factor of {R.shape[1]} columns does not fit {features} features and {targets} targets")
    if rank < features and alpha == 0.0:
        R = _cut(R, features, rank)
    count = float(n) if weight is None else weight
    whole = R if mean is None else block_diag(math.sqrt(count), R)
    models = infer(whole, n, targets=targets, intercept=mean is not None, level=level, log_weights=log_weights)
    found = []
    for k, model in enumerate(models):
        here = replace(model, coefficients=model.coefficients[int(mean is not None) :])
        if not model.aliased or alpha > 0.0:
            here = replace(model, coefficients=w[:, k], aliased=())
        if mean is not None:
            here = _moved(here, model, R[:, :features], mean[:features], float(mean[features + k]), count)
        if alpha > 0.0:
            here = _penalised(here, alpha * float(w[:, k] @ w[:, k]))
        elif here.df_residual <= 0:
            here = _saturated(here)
        if better is not None and is_array(here.root) and alpha == 0.0:
            here = with_coefficients(here, better.coefficients[:, k], better.root, float(better.residual[k]))
            here = here if here.df_residual > 0 else _saturated(here)
        tests = wald(here.coefficients, here.standard_errors, level, here.df_residual)
        found.append(replace(here, t=tests.statistic, p=tests.p, intervals=tests.intervals))
    return tuple(found)


def _moved(
    here: LinearInference, model: LinearInference, R_x: Float, mean: Float, target_mean: float, count: float
) -> LinearInference:
    """The table for columns as they are, not about their means: ``intercept = m_y - m_x w``."""
    w = here.coefficients
    here = replace(here, coefficients=np.concatenate(([target_mean - float(mean @ here.solution)], w)))
    if not is_array(model.root):
        return here
    move = np.eye(len(mean) + 1)
    move[0, 1:] = -mean
    root = move @ model.root
    top = math.sqrt(count) * np.concatenate(([1.0], mean))
    rows = np.concatenate((top[None, :], np.pad(R_x, ((0, 0), (1, 0)))))
    condition = math.inf if here.aliased else largest_value(rows) * largest_value(root)
    here = replace(here, root=root, condition=condition)
    if not (is_array(model.covariance) and is_number(model.sigma)):
        return here
    covariance = not_of(model.sigma**2 * (root @ root.T), here.aliased)
    return replace(here, covariance=covariance, standard_errors=np.sqrt(np.diag(covariance)))


def _penalised(model: LinearInference, shrinkage: float) -> LinearInference:
    """What a ridge leaves: the fit and how much of the target it explains; ``shrinkage`` is in the sum of squares."""
    residual = max(0.0, model.sums.residual - shrinkage)
    total = model.sums.total
    r2: Number = NO_VARIATION if total <= 0.0 else 1.0 - residual / total
    return replace(
        model,
        sums=Totals(model.n, residual, total, max(0.0, total - residual), model.sums.log_weights),
        standard_errors=PENALISED,
        covariance=PENALISED,
        vif=PENALISED,
        root=PENALISED,
        sigma=PENALISED,
        r2=r2,
        adjusted_r2=PENALISED,
        f=PENALISED,
        f_p=PENALISED,
        log_likelihood=PENALISED,
        aic=PENALISED,
        bic=PENALISED,
        condition=math.nan,
    )


def _cut(R: Float, features: int, rank: int) -> Float:
    """R with its first columns cut to this rank: what is left of the other directions is rounding."""
    norms = np.linalg.norm(R[:, :features], axis=0)
    # A column of zeros stays one: rounding in its place would be scaled to a column like any other.
    there = np.flatnonzero(norms)
    U, s, Vt = np.linalg.svd(R[:, there] / norms[there], full_matrices=False)
    cut: Float = R.copy()
    cut[:, there] = (U[:, :rank] * s[:rank]) @ Vt[:rank] * norms[there]
    return cut


def _saturated(model: LinearInference) -> LinearInference:
    """Without rows beyond the coefficients, residuals are rounding, and so would be their logarithm."""
    return replace(model, log_likelihood=NO_FREEDOM, aic=NO_FREEDOM, bic=NO_FREEDOM)
