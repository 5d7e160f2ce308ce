"""The regression table among results: ``coefficients.csv`` with standard errors and tests, and the models read back.

Where a plan releases inference, the table of coefficients has one row for each term, an intercept first, under the
columns ``term, coef, se, t, p, low, high``; what is said of the model as one stands among the facts, under
``inference`` and the name of the target.
"""

from typing import Any

import numpy as np

from fedsvd.results.folder import Table
from fedsvd.results.result import PartyResult
from fedsvd.roles.user.prediction import RegressionResult
from fedsvd.statistics.inference import LinearInference, Totals, infer_block
from fedsvd.statistics.table import columns, model_from, terms, values
from fedsvd.statistics.undefined import is_array
from fedsvd.types import Float

ARRAYS = ("covariance", "vif")
"""Names of arrays and tables that inference adds: of the coefficients (targets, q, q), and of the features."""
_OF_COEFFICIENTS = ("condition", "level", "not_defined")


def with_inference(to: PartyResult, computed: RegressionResult) -> PartyResult:
    """The result with its tables of coefficients, covariance and variance inflation, and the facts of each model."""
    models = computed.inference
    features = to.feature_names(computed.coefficients.shape[1])
    to = to.adding({"coefficients": computed.coefficients}, _coefficients(to, models, list(features)))
    to = to.adding(facts={"inference": {name: values(model) for name, model in zip(to.targets, models, strict=True)}})
    names = terms(list(features), models[0].intercept)
    matrices = [model.covariance for model in models if is_array(model.covariance)]
    if len(matrices) == len(models):
        to = to.adding({"covariance": np.stack(matrices)}, _covariance(to, names, matrices))
    if is_array(models[0].vif):
        to = to.adding({"vif": models[0].vif}, Table("vif", {"feature": features, "vif": models[0].vif}))
    return to


def with_fit(to: PartyResult, rank: int, y: Float, fitted: Float) -> PartyResult:
    """What the label holder of split columns knows of the model as one, from its own labels and the fitted values."""
    plan = to.plan
    if plan.alpha > 0.0 or plan.published:
        return to
    about = np.mean(y, axis=0) if plan.centre else 0.0
    residual, total, explained = (np.sum(np.square(part), axis=0) for part in (y - fitted, y - about, fitted - about))
    said = {}
    for k, name in enumerate(to.targets):
        sums = Totals(plan.m, float(residual[k]), float(total[k]), float(explained[k]))
        # Without columns of its own the table is empty; what is said of the model needs the sums and the rank alone.
        empty, ones = np.zeros((plan.n, 0)), np.ones(plan.n)
        model = values(infer_block(ones, empty, np.zeros(plan.n), sums, rank=rank, intercept=plan.centre))
        said[name] = {key: value for key, value in model.items() if key not in _OF_COEFFICIENTS}
    return to.adding(facts={"fit": said})


def models_of(result: PartyResult) -> tuple[LinearInference, ...]:
    """The models of a result, as written or as read back; empty where it has no inference."""
    said = result.facts.get("inference")
    if said is None:
        return ()
    coefficients, intercept = result.arrays["coefficients"], result.plan.centre
    if intercept:
        coefficients = np.column_stack((result.arrays["intercept"], coefficients))
    covariance, vif = result.arrays.get("covariance"), result.arrays.get("vif")
    return tuple(
        model_from(said[name], coefficients[k], intercept, None if covariance is None else covariance[k], vif)
        for k, name in enumerate(result.targets)
    )


def _coefficients(to: PartyResult, models: tuple[LinearInference, ...], features: list[str]) -> Table:
    """One table below the other where there are several targets, with their names."""
    each = [columns(model, features) for model in models]
    joined: dict[str, Any] = {name: [cell for own in each for cell in own[name]] for name in each[0]}
    if len(models) > 1:
        joined = {"target": [name for name, own in zip(to.targets, each, strict=True) for _ in own["term"]]} | joined
    return Table("coefficients", joined)


def _covariance(to: PartyResult, names: list[str], matrices: list[Any]) -> Table:
    index: dict[str, Any] = {"term": names * len(matrices)}
    if len(matrices) > 1:
        index = {"target": [name for name in to.targets for _ in names]} | index
    stacked = np.concatenate(matrices)
    taken = set(index)
    return Table(
        "covariance", index | {f"{name}_" if name in taken else name: stacked[:, j] for j, name in enumerate(names)}
    )
