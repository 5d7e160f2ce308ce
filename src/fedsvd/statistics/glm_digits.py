"""Generalised linear models by sums of few digits: a party's part at a point, and the fit (``newton.py``)."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ShapeError
from fedsvd.statistics.ended import Ended
from fedsvd.statistics.families import Family, expected_curvature
from fedsvd.statistics.glm import expect_variation, inference
from fedsvd.statistics.meats import meat
from fedsvd.statistics.newton import Fitting, Traits, by_size, ending_bits, fitted, opened_moments
from fedsvd.statistics.newton_requests import Columns, Evaluation, Found, Moments, Point, Shape, design
from fedsvd.statistics.robust import Scores
from fedsvd.statistics.undefined import NO_FREEDOM, PENALISED, QUASI, Number, Undefined
from fedsvd.types import Float


def evaluate(
    at: Point,
    family: Family,
    X: Float,
    y: Float,
    *,
    intercept: bool = True,
    offset: Float | None = None,
    weights: Float | None = None,
) -> Evaluation:
    """A party's part of deviance, score and information at a point, from its own rows X without the intercept."""
    family.expect(y)
    n = X.shape[0]
    Z = Columns(at, X[:, :0] if at.constant_only else X, int(intercept or at.constant_only))
    if (weights is not None and weights.shape != (n,)) or y.shape != (n,) or Z.shape[1] != len(at.beta):
        raise ShapeError(f"{n} rows of {Z.shape[1]} columns need as many targets, weights and coefficients")
    eta = Z.times(at.beta) if offset is None else Z.times(at.beta) + offset
    local = family.evaluate(eta, y)
    residual = y - local.mu
    canonical = local.slope is local.variance
    pull = residual if canonical else local.slope / local.variance * residual
    curved = expected_curvature(local) if at.expected else family.curvature(eta, y, local)
    squares, unit = residual * residual / local.variance, local.deviance
    if weights is not None:
        pull, curved, squares, unit = weights * pull, weights * curved, weights * squares, weights * unit
    score, deviance, pearson = Z.turned(pull), float(unit.sum()), float(squares.sum())
    information = Z.squared(curved) if at.information else None
    return Evaluation(deviance, pearson, score, information, curved[:, None])


def scores(
    at: Point,
    family: Family,
    X: Float,
    y: Float,
    *,
    intercept: bool = True,
    offset: Float | None = None,
    weights: Float | None = None,
) -> Scores:
    """The score of each own row at a point; its leverage follows from the expected information."""
    Z = design(at, X, int(intercept))
    local = family.evaluate(Z @ at.beta + (0.0 if offset is None else offset), y)
    prior = 1.0 if weights is None else weights
    pull = prior * (local.slope / local.variance * (y - local.mu))
    return Scores(Z, pull, prior * expected_curvature(local))


def log_likelihood(
    at: Point,
    family: Family,
    X: Float,
    y: Float,
    scale: float,
    *,
    intercept: bool = True,
    offset: Float | None = None,
    weights: Float | None = None,
) -> float:
    """Of a party's own rows at a point."""
    Z = Columns(at, X[:, :0] if at.constant_only else X, int(intercept or at.constant_only))
    eta = Z.times(at.beta) if offset is None else Z.times(at.beta) + offset
    return float(np.sum(family.log_likelihood(y, eta, np.ones(len(y)) if weights is None else weights, scale)))


def moment_of_offset(family: Family, offset: Float) -> Float:
    """What of an offset the null model begins with: its exposure where the link is a logarithm, else itself."""
    return np.exp(offset) if family.link_name == "log" else offset


def null_constant(family: Family, moments: Moments, offset: bool) -> Float:
    """The intercept of the null model, nearly; exactly but for digits where there is no offset."""
    mean = float(moments.targets[0]) / moments.weight
    expect_variation(family, mean)
    if not offset:
        return np.array([family.link(mean)])
    shift = moments.shift / moments.weight
    return np.array([family.link(mean) - (math.log(shift) if family.link_name == "log" else shift)])


def fit_by_digits(family: Family, shape: Shape, *, offset: bool, alpha: float, level: float = 0.95) -> Fitting:
    """The whole fit by sums of few digits (``newton.py``): a ``GLMInference``, and the length of its last step."""
    bits = ending_bits(shape.table)
    moments: Moments = yield from opened_moments(shape)
    constant = null_constant(family, moments, offset)
    if offset:
        null: Found = yield from fitted(replace(shape, constant_only=True), moments, constant)
        constant = null.beta
    begin = shape if alpha == 0.0 else replace(shape, penalty=_ridge(shape, alpha))
    found: Found = yield from fitted(begin, moments, constant)
    summed = yield from meat(found, shape)
    n, freedom = shape.n, shape.n - shape.coefficients
    flat = Point(constant, found.centre, information=False, constant_only=True)
    deviance, pearson = (yield from by_size("end", found.at, shape.users, bits)).tolist()
    null_deviance = float((yield from by_size("null", flat, shape.users, bits))[0])
    pearson = max(pearson, 0.0)  # noise may take the sum of an exact fit just below zero
    scale: Number = 1.0
    if family.dispersion:
        scale = PENALISED if alpha > 0.0 else NO_FREEDOM if freedom <= 0 else pearson / freedom
    likelihood: Number = QUASI if family.quasi else PENALISED
    if not family.quasi and not isinstance(scale, Undefined):
        at = pearson / n if family.name == "gaussian" else scale
        likelihood = float((yield from by_size("likelihood", found.at, shape.users, bits, float(at)))[0])
    ended = Ended(
        uncentred(found.beta, found.centre, shape),
        PENALISED if alpha > 0.0 else uncentred(found.root, found.centre, shape),
        {"deviance": max(deviance, 0.0), "pearson": pearson},
        found.iterations,
        found.halvings,
        meat=summed,
        errors=shape.errors,
    )
    if alpha > 0.0:
        likelihood = PENALISED
    null_deviance = max(null_deviance, 0.0)
    table = inference(family, ended, n, shape.intercept, scale, null_deviance, likelihood, alpha, level, moments.weight)
    return table, found.decrement


def _ridge(shape: Shape, alpha: float) -> Float:
    weights = np.full(shape.width, alpha)
    weights[: shape.first] = 0.0
    return np.diag(weights)


def uncentred(values: Float, centre: Float, shape: Shape) -> Float:
    """Coefficients of centred columns, or rows of them, as those of the columns themselves."""
    if not shape.intercept:
        return values
    moved = values.copy()
    for equation in range(shape.equations):
        own = slice(equation * shape.width + 1, (equation + 1) * shape.width)
        moved[equation * shape.width] -= centre @ values[own]
    return moved


def fit_with_levels(
    shape: Shape,
    moments: Moments,
    start: Float,
    apart: NDArray[np.bool_],
    traits: Traits,
    *,
    alpha: float,
    sign: float,
) -> Fitting:
    """The fit of effects and, after them, of levels that no column has: thresholds of classes, log hazards of bins.

    ``start`` are levels without effects. No record says something of two levels that are ``apart``: these entries are
    not opened. A ridge is of effects alone. Levels are those of columns about their centre; of columns as they are
    they move with the effects, by ``sign``. An ``Ended``, the log-likelihood and the length of the last step.
    """
    m, P = shape.features, shape.features + len(start)
    begin = shape
    if alpha > 0.0:
        begin = replace(shape, penalty=np.diag(np.concatenate((np.full(m, alpha), np.zeros(P - m)))))
    zeros = np.zeros((P, P), bool)
    zeros[m:, m:] = apart
    found: Found = yield from fitted(begin, moments, start, replace(traits, zeros=zeros, curved_zeros=zeros))
    summed = yield from meat(found, shape)
    deviance = float((yield from by_size("end", found.at, shape.users, ending_bits(shape.table)))[0])
    turn = np.eye(P)
    turn[m:, :m] = sign * found.centre
    totals = {"deviance": deviance, "pearson": 0.0}
    root = PENALISED if alpha > 0.0 else turn @ found.root
    ended = Ended(turn @ found.beta, root, totals, found.iterations, found.halvings, meat=summed, errors=shape.errors)
    likelihood: Number = PENALISED if alpha > 0.0 else -0.5 * deviance
    return ended, likelihood, found.decrement
