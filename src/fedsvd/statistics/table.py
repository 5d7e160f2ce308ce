"""A regression table as plain columns and values, for data frames and files, and the model they stand for again.

Columns have one name each, whatever the level: ``term, coef, se, t, p, low, high``. A value that is not defined is NaN
in a column and None among the values, where ``not_defined`` has the reason.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedsvd.errors import ShapeError
from fedsvd.statistics.distributions import wald
from fedsvd.statistics.glm import INTERCEPT
from fedsvd.statistics.inference import LinearInference, Totals
from fedsvd.statistics.undefined import OWN_BLOCK, PENALISED, Number, Numbers, Undefined, is_array
from fedsvd.types import Float

COLUMNS = ("term", "coef", "se", "t", "p", "low", "high")
_NUMBERS = ("sigma", "r2", "adjusted_r2", "f", "f_p", "log_likelihood", "aic", "bic")
_ARRAYS = ("standard_errors", "t", "covariance", "vif")
_COUNTS = ("n", "rank", "df_residual", "df_model")


def terms(features: Sequence[str], intercept: bool) -> list[str]:
    """The names of the coefficients, in their order."""
    return [INTERCEPT, *features] if intercept else list(features)


def columns(model: LinearInference, features: Sequence[str]) -> dict[str, list[Any]]:
    """One row for each coefficient, an intercept first."""
    names, count = terms(features, model.intercept), model.coefficients.shape[0]
    if len(names) != count:
        raise ShapeError(f"{count} coefficients need as many names, got {len(names)} with the intercept")
    low = model.intervals[:, 0] if is_array(model.intervals) else model.intervals
    high = model.intervals[:, 1] if is_array(model.intervals) else model.intervals
    numbers = (model.coefficients, model.standard_errors, model.t, model.p, low, high)
    return {"term": names} | {
        name: [float(x) for x in values] if is_array(values) else [math.nan] * count
        for name, values in zip(COLUMNS[1:], numbers, strict=True)
    }


def at_level(model: LinearInference, level: float) -> LinearInference:
    """The same table with confidence intervals of another level."""
    freedom = model.df_residual if model.distribution == "t" else None
    tests = wald(model.coefficients, model.standard_errors, level, freedom)
    return replace(model, intervals=tests.intervals, level=level)


def values(model: LinearInference) -> dict[str, Any]:
    """All that is said of the model as one: for JSON."""
    numbers = {name: getattr(model, name) for name in _NUMBERS}
    reasons = {name: part for name in (*_NUMBERS, *_ARRAYS) if isinstance(part := getattr(model, name), Undefined)}
    sums = model.sums
    return {
        **{name: getattr(model, name) for name in _COUNTS},
        **{name: _finite(number) for name, number in numbers.items()},
        "residual_squares": sums.residual,
        "total_squares": sums.total,
        **({"log_weights": sums.log_weights} if sums.log_weights else {}),
        "condition": _finite(model.condition),
        "level": model.level,
        "kind": model.kind,
        **({"clusters": model.clusters} if model.clusters else {}),
        "distribution": model.distribution,
        "aliased": list(model.aliased),
        "not_defined": {name: part.reason for name, part in reasons.items()},
    }


def model_from(
    said: Mapping[str, Any], w: Float, intercept: bool, covariance: Float | None, vif: Float | None
) -> LinearInference:
    """The model that ``values`` describes, with its coefficients (an intercept first), covariance and VIF.

    Coefficients and covariance of aliased columns are NaN.
    """
    reasons = said["not_defined"]

    def number(name: str) -> Number:
        return Undefined(reasons[name]) if name in reasons else float(said[name])

    def array(name: str, known: Float | None) -> Numbers:
        return Undefined(reasons[name]) if known is None else known

    errors = array("standard_errors", None if covariance is None else np.sqrt(np.diag(covariance)))
    sigma = number("sigma")
    root: Numbers = Undefined(reasons["covariance"]) if covariance is None else np.full_like(covariance, np.nan)
    kind, distribution = said.get("kind", "nonrobust"), said.get("distribution", "t")
    aliased = tuple(said.get("aliased", ()))
    others = np.delete(np.arange(len(w)), aliased)
    if covariance is not None and not np.isfinite(covariance[np.ix_(others, others)]).all():
        root = OWN_BLOCK
    elif covariance is not None and kind == "nonrobust" and isinstance(sigma, float) and sigma > 0.0:
        root = np.zeros_like(covariance)
        root[np.ix_(others, np.arange(len(others)))] = _root(covariance[np.ix_(others, others)]) / sigma
    tests = wald(w, errors, said["level"], said["df_residual"] if distribution == "t" else None)
    residual, total = said["residual_squares"], said["total_squares"]
    penalised = reasons.get("sigma") == PENALISED.reason  # which has no condition; without a penalty None is infinite
    return LinearInference(
        coefficients=w,
        intercept=intercept,
        standard_errors=errors,
        t=tests.statistic,
        p=tests.p,
        intervals=tests.intervals,
        covariance=array("covariance", covariance),
        vif=array("vif", vif),
        sums=Totals(said["n"], residual, total, total - residual, said.get("log_weights", 0.0)),
        sigma=sigma,
        **{name: said[name] for name in _COUNTS},
        **{name: number(name) for name in _NUMBERS[1:]},  # type: ignore[arg-type]
        condition=(math.nan if penalised else math.inf) if said["condition"] is None else said["condition"],
        level=said["level"],
        root=root,
        kind=kind,
        clusters=said.get("clusters", 0),
        distribution=distribution,
        aliased=aliased,
    )


def _root(covariance: Float) -> Float:
    """W with ``W W^T`` the covariance, found of its correlations so that units of measurement do not enter."""
    scale = np.sqrt(np.diag(covariance))
    eigenvalues, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    W: Float = scale[:, None] * vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    return W


def _finite(value: Number) -> float | None:
    return None if isinstance(value, Undefined) or not math.isfinite(value) else float(value)
