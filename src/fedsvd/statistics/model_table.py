"""The table of a generalised linear model as plain columns and values, for data frames and files, and the model again.

Columns are ``term, coef, se, z, p, low, high``, with ``class`` first where a model has one equation for each class, and
with ``t`` for ``z`` where a scale is estimated (gaussian, gamma): tests are then those of Student's t, as R's are. Of a
mixed model ``df`` has their degrees of freedom. Counts that vary more than their family says have ``quasi_se, quasi_p``
too, by quasi-likelihood; where errors are robust ``naive_se`` are those that the model itself says. A value that is not
defined is NaN in a column and None among the values, where ``not_defined`` has the reason.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedsvd.errors import ShapeError
from fedsvd.statistics.cox_table import CoxInference
from fedsvd.statistics.distributions import wald
from fedsvd.statistics.families import family_named
from fedsvd.statistics.glm import GLMInference
from fedsvd.statistics.hazard_bins import BinsInference
from fedsvd.statistics.mixed_table import MixedInference
from fedsvd.statistics.multinomial import MultinomialInference
from fedsvd.statistics.negative_binomial import NegativeBinomialInference
from fedsvd.statistics.ordinal import OrdinalInference
from fedsvd.statistics.robust import NONROBUST, Errors
from fedsvd.statistics.table import terms
from fedsvd.statistics.undefined import Number, Numbers, Undefined, is_array
from fedsvd.types import Float

GLModel = GLMInference | MultinomialInference
KINDS: Mapping[str, type[GLMInference]] = {
    "cox": CoxInference,
    "cox-bins": BinsInference,
    "ordinal": OrdinalInference,
    "negative-binomial": NegativeBinomialInference,
    "mixed": MixedInference,
}
"""Models of a kind of their own, by the name of their family."""

_COUNTS = ("n", "rank", "iterations")
_NUMBERS = ("log_likelihood", "aic", "bic")
_GLM_COUNTS = ("df_residual", "df_null", "halvings")
_GLM_NUMBERS = ("scale",)
_KNOWN = ("deviance", "null_deviance", "alpha", "level")


def columns(model: GLModel, features: Sequence[str], classes: Sequence[str] = ()) -> dict[str, list[Any]]:
    """One row for each coefficient, an intercept first; the classes but the first one after the other."""
    w = np.atleast_2d(model.coefficients)
    names = model.terms(features) if isinstance(model, GLMInference) else terms(features, model.intercept)
    if w.shape[1] != len(names):
        raise ShapeError(f"{w.shape[1]} coefficients need as many names, got {len(names)} with the intercept")

    def flat(values: Numbers) -> list[float]:
        return [float(x) for x in np.ravel(values)] if is_array(values) else [math.nan] * w.size

    low = model.intervals[..., 0] if is_array(model.intervals) else model.intervals
    high = model.intervals[..., 1] if is_array(model.intervals) else model.intervals
    numbers = (model.coefficients, model.standard_errors, model.z, model.p, low, high)
    found: dict[str, list[Any]] = {"term": names * len(w)}
    heads = ("coef", "se", "z" if model.freedom is None else "t", "p", "low", "high")
    found |= {name: flat(values) for name, values in zip(heads, numbers, strict=True)}
    if model.naive is not None:
        found["naive_se"] = flat(np.sqrt(np.diag(model.naive)) if is_array(model.naive) else model.naive)
    if not isinstance(model.freedom, int | None):  # each coefficient has its own
        found = {key: found[key] for key in ("term", "coef", "se")} | {"df": flat(model.freedom)} | found
    if isinstance(model, GLMInference):
        tests = model.quasi() if model.overdispersed else None
        return found if tests is None else found | {"quasi_se": flat(tests.errors), "quasi_p": flat(tests.p)}
    return {"class": [name for name in classes[1:] for _ in names]} | found


def at_level(model: GLModel, level: float) -> GLModel:
    """The same model with confidence intervals of another level."""
    if level == model.level:
        return model
    errors = np.ravel(model.standard_errors) if is_array(model.standard_errors) else model.standard_errors
    intervals = wald(np.ravel(model.coefficients), errors, level, model.freedom).intervals
    if is_array(intervals):
        intervals = intervals.reshape(*model.coefficients.shape, 2)
    return replace(model, intervals=intervals, level=level)


def values(model: GLModel) -> dict[str, Any]:
    """All that is said of the model as one: for JSON."""
    own = isinstance(model, GLMInference)
    numbers = {name: getattr(model, name) for name in (*_NUMBERS, *(_GLM_NUMBERS if own else ()))}
    arrays = {"standard_errors": model.standard_errors, "z": model.z, "covariance": model.covariance}
    reasons = {name: part.reason for name, part in (numbers | arrays).items() if isinstance(part, Undefined)}
    said: dict[str, Any] = {name: getattr(model, name) for name in (*_COUNTS, *_KNOWN, *(_GLM_COUNTS if own else ()))}
    if model.errors.robust:
        said |= {"kind": model.errors.kind, "clusters": model.errors.clusters}
    said |= {name: _finite(number) for name, number in numbers.items()} | {
        "null_deviance": _finite(model.null_deviance)
    }
    if isinstance(model, GLMInference):
        said |= model.more()
        said |= {"family": model.family.name, "link": model.family.link_name, "pearson": model.pearson}
        said |= {"weight": model.weight} | ({} if model.dispersion is None else {"dispersion": model.dispersion})
    else:
        said |= {"family": "multinomial", "link": "logit", "class_counts": [float(x) for x in model.counts]}
    return said | {"aliased": list(model.aliased), "not_defined": reasons}


def model_from(
    said: Mapping[str, Any],
    w: Float,
    intercept: bool,
    covariance: Float | None,
    solution: Float | None = None,
    naive: Float | None = None,
) -> GLModel:
    """The model that ``values`` describes: w is (q,), or (classes - 1, q) of a multinomial model.

    ``solution`` are the coefficients of least norm, where some of w are aliased; ``naive`` is the model's own
    covariance, where errors are robust.
    """
    reasons = said["not_defined"]

    def number(name: str) -> Number:
        return Undefined(reasons[name]) if name in reasons else float(said[name])

    matrix: Numbers = Undefined(reasons["covariance"]) if covariance is None else covariance
    errors: Numbers = np.sqrt(np.diag(matrix)) if is_array(matrix) else matrix
    family = None if said["family"] == "multinomial" else family_named(said["family"], said["link"])
    kind = KINDS.get(said["family"], GLMInference)
    tests = wald(np.ravel(w), errors, said["level"], None if family is None else kind.freedom_from(said))

    def shaped(part: Numbers, *more: int) -> Numbers:
        return part.reshape(*w.shape, *more) if is_array(part) else part

    common: dict[str, Any] = {name: said[name] for name in (*_COUNTS, *_KNOWN)}
    common |= {name: number(name) for name in _NUMBERS}
    if said["null_deviance"] is None:
        common["null_deviance"] = math.nan
    common |= {"coefficients": w, "intercept": intercept, "covariance": matrix}
    common |= {"solution": w if solution is None else solution, "aliased": tuple(said.get("aliased", ()))}
    common |= {"standard_errors": shaped(tests.errors), "z": shaped(tests.statistic), "p": shaped(tests.p)}
    common |= {"intervals": shaped(tests.intervals, 2)}
    common |= {"errors": Errors(said.get("kind", NONROBUST), said.get("clusters", 0)), "naive": naive}
    if family is None:
        return MultinomialInference(counts=np.array(said["class_counts"]), **common)
    more = {name: said[name] for name in _GLM_COUNTS} | {"weight": said.get("weight", 0.0)}
    common |= {"family": family, "scale": number("scale"), "pearson": said["pearson"], **more}
    return kind(**common, **kind.own_fields(said))


def _finite(value: Number) -> float | None:
    return None if isinstance(value, Undefined) or not math.isfinite(value) else float(value)
