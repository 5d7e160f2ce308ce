"""The regression table among results: ``coefficients.csv`` with standard errors and tests, and the models read back.

Where a plan releases inference, the table of coefficients has one row for each term, an intercept first, under the
columns ``term, coef, se, t, p, low, high``; what is said of the model as one stands among the facts, under
``inference`` and the name of the target.
"""

from typing import Any, Protocol

import numpy as np

from fedsvd.data.source import MatrixSource
from fedsvd.results.folder import Table
from fedsvd.results.outputs import Values
from fedsvd.results.result import PartyResult
from fedsvd.roles.user.prediction import ChosenRidge, RegressionResult
from fedsvd.statistics.diagnostics import own_rows
from fedsvd.statistics.inference import LinearInference, Totals, infer_block
from fedsvd.statistics.table import columns, model_from, terms, values
from fedsvd.statistics.undefined import is_array, is_number
from fedsvd.types import Float

_PANEL_BYTES = 1 << 26
_OF_COEFFICIENTS = ("condition", "level", "kind", "distribution", "not_defined")


class OwnRows(Protocol):
    """A party's own table, labels and weights."""

    @property
    def table(self) -> MatrixSource: ...
    @property
    def labels(self) -> Float | None: ...
    @property
    def row_weights(self) -> Float | None: ...


def regression(to: PartyResult, computed: RegressionResult, tables: bool) -> Values:
    """What a linear regression gives."""
    features = to.feature_names(computed.coefficients.shape[1])
    found = Values(
        {"intercept": computed.intercept, "coefficients": computed.coefficients},
        {"constant_columns": [features[j] for j in computed.constant]},
        objects={"inference": computed.inference},
    )
    if computed.path is not None:
        found |= _path(to, computed.path, computed.coefficients, tables)
    return found | _inference(to, computed, tables) if computed.inference else found


def _inference(to: PartyResult, computed: RegressionResult, tables: bool) -> Values:
    """Covariance, variance inflation and what is said of each model: (targets, q, q), (features,); the coefficients of
    the table (targets, q) where some are aliased."""
    models, arrays = computed.inference, {}
    facts = {"inference": {name: values(model) for name, model in zip(to.targets, models, strict=True)}}
    features = list(to.feature_names(computed.coefficients.shape[1]))
    names, matrices = terms(features, models[0].intercept), [m.covariance for m in models if is_array(m.covariance)]
    shown = [_coefficients(to, models, features)] if tables else []
    if len(matrices) == len(models):
        arrays["covariance"] = np.stack(matrices)
        shown += [_covariance(to, names, matrices)] if tables else []
    if models[0].aliased:
        arrays["estimates"] = np.stack([model.coefficients for model in models])
    if is_array(models[0].vif):
        arrays["vif"] = models[0].vif
    return Values(arrays, facts, tuple(shown))


def _path(to: PartyResult, path: ChosenRidge, chosen: Float, tables: bool) -> Values:
    """The error of every penalty, and where the party has them the coefficients of each (alphas, targets, features).

    ``chosen`` are the coefficients of the chosen one, (targets, features).
    """
    coefficients = np.moveaxis(path.coefficients, 2, 1)
    errors = [None if np.isnan(error) else float(error) for error in path.errors]
    facts: dict[str, Any] = {"alpha": path.alpha, "chosen_by": path.method, "errors": errors}
    facts["alphas"] = [float(alpha) for alpha in path.alphas]
    if path.within is not None:
        facts |= {"within": [float(number) for number in path.within], "uncertain": path.uncertain(chosen)}
    arrays = {"ridge_errors": path.errors} | ({"ridge_path": coefficients} if len(coefficients) else {})
    return Values(arrays, {"ridge": facts}, (_path_table(to, path, coefficients),) if tables else ())


def _path_table(to: PartyResult, path: ChosenRidge, coefficients: Float) -> Table:
    features = list(to.feature_names(coefficients.shape[2]))
    table: dict[str, Any] = {"alpha": path.alphas, "error": path.errors, "chosen": path.alphas == path.alpha}
    for k, target in enumerate(to.targets if len(coefficients) else ()):
        several = f"{target} " if len(to.targets) > 1 else ""
        table |= {f"{several}{name}": coefficients[:, k, j] for j, name in enumerate(features)}
    return Table("ridge_path", table)


def diagnostics(computed: RegressionResult, data: OwnRows) -> Values:
    """The leverage of a party's own rows and their residuals in units of their deviation: at home, for it alone."""
    models = computed.inference
    if (
        data.labels is None
        or not models
        or not all(is_array(model.root) and is_number(model.sigma) for model in models)
    ):
        return Values()
    height = max(1, _PANEL_BYTES // (8 * data.table.shape[1]))
    leverage: list[Float] = []
    standardised: list[Float] = []
    start = 0
    for panel in data.table.panels(0, height):
        rows = slice(start, start + len(panel))
        weights = None if data.row_weights is None else data.row_weights[rows]
        found = [own_rows(model, panel, data.labels[rows, k], weights=weights) for k, model in enumerate(models)]
        each = [one.standardised for one in found if is_array(one.standardised)]
        if len(each) < len(found) or not is_array(found[0].leverage):
            return Values()
        leverage.append(found[0].leverage)
        standardised.append(np.stack(each, axis=1))
        start = rows.stop
    arrays = {"leverage": np.concatenate(leverage), "standardised_residuals": np.concatenate(standardised)}
    return Values(arrays)


def fit(to: PartyResult, computed: RegressionResult, y: Float, fitted: Float) -> Values:
    """What the label holder of split columns knows of the model as one, from its own labels and the fitted values."""
    plan, rank = to.plan, computed.rank
    if plan.alpha > 0.0 or plan.alphas:
        return Values()
    about = np.mean(y, axis=0) if plan.centre else 0.0
    residual, total, explained = (np.sum(np.square(part), axis=0) for part in (y - fitted, y - about, fitted - about))
    said = {}
    for k, name in enumerate(to.targets):
        sums = Totals(plan.m, float(residual[k]), float(total[k]), float(explained[k]))
        # Without columns of its own the table is empty; what is said of the model needs the sums and the rank alone.
        empty, ones = np.zeros((plan.n, 0)), np.ones(plan.n)
        model = values(infer_block(ones, empty, np.zeros(plan.n), sums, rank=rank, intercept=plan.centre))
        said[name] = {key: value for key, value in model.items() if key not in _OF_COEFFICIENTS}
    return Values(facts={"fit": said})


def models_of(result: PartyResult) -> tuple[LinearInference, ...]:
    """The models of a result, as written or as read back; empty where it has no inference."""
    if "inference" in result.objects:
        return tuple(result.objects["inference"])
    said = result.facts.get("inference")
    if said is None:
        return ()
    coefficients, intercept = result.arrays["coefficients"], result.plan.centre
    if intercept:
        coefficients = np.column_stack((result.arrays["intercept"], coefficients))
    coefficients = result.arrays.get("estimates", coefficients)
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
