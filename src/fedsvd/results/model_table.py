"""A generalised linear model among results: its table of coefficients, a party's own rows, and the models read back.

``coefficients.csv`` has one row for each term under ``term, coef, se, z, p, low, high``, the classes one after the
other where there are several. What is said of each model as one stands among the facts, under ``models``. A party's own
result has the fitted values of its own rows, and how well they fit: no other party has these.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from fedsvd.protocol.tasks import Family
from fedsvd.results.folder import Table
from fedsvd.results.result import PartyResult
from fedsvd.roles.user.glm import GLMResult
from fedsvd.roles.user.models import split_labels
from fedsvd.statistics.families import family_named
from fedsvd.statistics.model_table import GLModel, columns, model_from, values
from fedsvd.statistics.multinomial import MultinomialInference
from fedsvd.statistics.ranking import area_under, brier
from fedsvd.statistics.summary import Summary, glm_summary, multinomial_summary
from fedsvd.statistics.undefined import is_array
from fedsvd.types import Float

ARRAYS = ("contrasts", "covariance")
"""Arrays of a model that all users share, beyond coefficients and intercept; contrasts are of a multinomial model."""
FACTS = ("models", "classes", "columns")


def with_model(to: PartyResult, computed: GLMResult) -> PartyResult:
    """The result with what all users share of a model."""
    models, features = computed.models, list(to.feature_names(computed.coefficients.shape[1]))
    classes = classes_of(to)
    to = to.adding({"coefficients": computed.coefficients, "intercept": computed.intercept})
    to = to.adding(facts={"models": [values(model) for model in models], "classes": classes})
    found: dict[str, list[Any]] = {}
    for k, model in enumerate(models):
        own = columns(model, features, classes)
        if len(models) > 1:
            own = {"class": [classes[k]] * len(own["term"])} | own
        found = {name: found.get(name, []) + cells for name, cells in own.items()}
    to = to.adding(table=Table("coefficients", found))
    if isinstance(models[0], MultinomialInference):
        to = to.adding({"contrasts": models[0].coefficients})
    matrices = [model.covariance for model in models if is_array(model.covariance)]
    if len(matrices) < len(models):
        return to
    names = [f"{a}:{b}" for a, b in zip(found.get("class", ()), found["term"], strict=False)] or found["term"]
    stacked = np.concatenate(matrices)
    width = stacked.shape[1]
    table: dict[str, Any] = {"term": names[: len(stacked)]}
    table |= {f"{name}_" if name == "term" else name: stacked[:, j] for j, name in enumerate(names[:width])}
    return to.adding({"covariance": np.stack(matrices)}, Table("covariance", table))


def classes_of(result: PartyResult) -> list[str]:
    """The names of the classes: those of the study, else numbers; empty where the target is no class."""
    about = result.plan.glm
    if about is None or not about.classes:
        return []
    return list(result.facts.get("classes") or [str(k) for k in range(about.classes)])


def models_of(result: PartyResult) -> tuple[GLModel, ...]:
    """The models of a result, as written or as read back."""
    said: Sequence[Mapping[str, Any]] = result.facts.get("models", ())
    intercept = result.plan.centre
    if "contrasts" in result.arrays:
        w = [result.arrays["contrasts"]]
    else:
        W = result.arrays["coefficients"]
        w = [*(np.column_stack((result.arrays["intercept"], W)) if intercept else W)]
    covariance = result.arrays.get("covariance")
    return tuple(
        model_from(about, w[k], intercept, None if covariance is None else covariance[k])
        for k, about in enumerate(said)
    )


def summaries(result: PartyResult) -> list[tuple[str, Summary]]:
    """The table of each model, and what it predicts."""
    if not result.facts.get("models"):
        return []
    names, target, classes = list(result.feature_names(result.plan.m)), result.targets[0], classes_of(result)
    models, found = models_of(result), []
    for k, model in enumerate(models):
        if isinstance(model, MultinomialInference):
            found.append((target, multinomial_summary(model, names, classes, target)))
        else:
            what = f"{target} = {classes[k]}" if len(models) > 1 else outcome(target, classes)
            found.append((what, glm_summary(model, names, what)))
    return found


def outcome(target: str, classes: Sequence[str]) -> str:
    """What a model of one target predicts: the second of two classes, or the target itself."""
    return f"{target} = {classes[1]}" if len(classes) == 2 else target


def own_rows(to: PartyResult, eta: Float, labels: Float | None) -> tuple[Float, Float | None, dict[str, Any]]:
    """Fitted values of rows with this linear predictor (n, models), residuals, and how well they fit."""
    about = to.plan.glm
    assert about is not None
    if about.family is Family.MULTINOMIAL:
        fitted: Float = special.softmax(eta, axis=1)
    else:
        family = family_named(str(about.family), about.link)
        fitted = family.evaluate(eta, np.ones_like(eta)).mu
    if labels is None:
        return fitted, None, {}
    y, _, weights = split_labels(about, labels)
    observed = np.eye(about.classes)[y.astype(np.int64)] if fitted.shape[1] > 1 else y[:, None]
    return fitted, observed - fitted, _fit(about.family, observed, fitted, weights)


def _fit(family: Family, observed: Float, fitted: Float, weights: Float | None) -> dict[str, Any]:
    said: dict[str, Any] = {"rows": len(observed)}
    if family in (Family.BINOMIAL, Family.MULTINOMIAL):
        whole = bool(np.all((observed == 0.0) | (observed == 1.0)))
        areas = [area_under(observed[:, k], fitted[:, k]) if whole else None for k in range(fitted.shape[1])]
        return said | {"auc": areas, "brier": brier(observed, fitted, weights)}
    return said | {"mean_squared_error": float(np.mean(np.square(observed - fitted)))}
