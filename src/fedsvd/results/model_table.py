"""A generalised linear model among results: its table of coefficients, a party's own rows, and the models read back.

``coefficients.csv`` has one row for each term under ``term, coef, se, z, p, low, high``, the classes one after the
other where there are several. What is said of each model as one stands among the facts, under ``models``. A party's own
result has the fitted values of its own rows, and how well they fit: no other party has these.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from fedsvd.data.source import MatrixSource
from fedsvd.protocol.families import Outcome
from fedsvd.protocol.outputs import CLASS
from fedsvd.protocol.quality import ROC_COLUMNS
from fedsvd.results.folder import Table
from fedsvd.results.hazard_tables import beyond_fit
from fedsvd.results.outputs import Values
from fedsvd.results.result import PartyResult
from fedsvd.roles.user.cox import cohort
from fedsvd.roles.user.glm import GLMResult
from fedsvd.roles.user.hazard_bins import records
from fedsvd.roles.user.mixed import predicted
from fedsvd.roles.user.models import split_labels
from fedsvd.statistics.cox import deviance_residuals
from fedsvd.statistics.glm import GLMInference
from fedsvd.statistics.hazard_bins import BinsInference
from fedsvd.statistics.mixed_table import MixedInference
from fedsvd.statistics.model_table import GLModel, columns, model_from, values
from fedsvd.statistics.multinomial import MultinomialInference
from fedsvd.statistics.newton_requests import Point
from fedsvd.statistics.ranking import area_under, brier
from fedsvd.statistics.summary import Summary, glm_summary, multinomial_summary
from fedsvd.statistics.undefined import is_array
from fedsvd.types import Float


def model(to: PartyResult, computed: GLMResult, tables: bool) -> Values:
    """What all users share of a model; contrasts are of a multinomial one, and estimates are the coefficients of the
    table where some are aliased (NaN)."""
    models = named(computed.models, classes_of(to), to.facts.get("columns") or {})
    arrays = {"coefficients": computed.coefficients, "intercept": computed.intercept, **computed.own}
    facts = {"models": [values(model) for model in models], "classes": classes_of(to)}
    arrays |= beyond_fit(to, dict(computed.own))
    if computed.quality is not None:
        facts["quality"] = computed.quality.record()
    if computed.roc is not None:
        arrays["roc"], facts["roc_curve"] = np.column_stack(computed.roc.columns()), computed.roc.record()
        arrays |= {f"roc {name}": column for name, column in zip(ROC_COLUMNS, computed.roc.columns(), strict=True)}
    if isinstance(models[0], MultinomialInference):
        arrays["contrasts"] = models[0].solution
    of_columns = computed.coefficients.shape[1] + int(to.plan.centre)
    if any(model.aliased or model.coefficients.shape[-1] > of_columns for model in models):
        arrays["estimates"] = np.stack([model.coefficients for model in models])
    matrices = [model.covariance for model in models if is_array(model.covariance)]
    if len(matrices) == len(models):
        arrays["covariance"] = np.stack(matrices)
    naive = [model.naive for model in models if model.naive is not None and is_array(model.naive)]
    if len(naive) == len(models):
        arrays["naive_covariance"] = np.stack(naive)
    features = list(to.feature_names(computed.coefficients.shape[1]))
    shown = _tables(models, features, classes_of(to), matrices) if tables else ()
    return Values(arrays, facts, tuple(shown), {"models": models})


def named(models: Sequence[GLModel], classes: Sequence[str], columns: Mapping[str, Any]) -> tuple[GLModel, ...]:
    """The models, with the names of classes, and of columns next to the target, where they say them."""
    of = tuple(model.of_classes(classes) if isinstance(model, GLMInference) else model for model in models)
    return with_columns(of, columns)


def with_columns(models: Sequence[GLModel], columns: Mapping[str, Any]) -> tuple[GLModel, ...]:
    return tuple(model.of_columns(columns) if isinstance(model, GLMInference) else model for model in models)


def _tables(
    models: Sequence[GLModel], features: list[str], classes: list[str], matrices: Sequence[Float]
) -> Iterator[Table]:
    """The coefficients of every model, and their covariances where all models have them."""
    found: dict[str, list[Any]] = {}
    for k, model in enumerate(models):
        own = columns(model, features, classes)
        if len(models) > 1:
            own = {"class": [classes[k]] * len(own["term"])} | own
        found = {name: found.get(name, []) + cells for name, cells in own.items()}
    yield Table("coefficients", found)
    if len(matrices) < len(models):
        return
    names = [f"{a}:{b}" for a, b in zip(found.get("class", ()), found["term"], strict=False)] or found["term"]
    stacked = np.concatenate(matrices)
    width = stacked.shape[1]
    table: dict[str, Any] = {"term": names[: len(stacked)]}
    table |= {f"{name}_" if name == "term" else name: stacked[:, j] for j, name in enumerate(names[:width])}
    yield Table("covariance", table)


def effect_tables(to: PartyResult, model: GLMInference | MultinomialInference) -> Iterator[Table]:
    """The same of one model whose only feature is a treatment."""
    return _tables((model,), terms_of(to), [], [model.covariance] if is_array(model.covariance) else [])


def terms_of(result: PartyResult) -> list[str]:
    """The names of a model's features: columns of the table; of a weighted effect the treatment."""
    about = result.plan.glm
    if about is not None and about.facts.weighs:
        return [str(result.facts.get("columns", {}).get("treatment", "treatment"))]
    return list(result.feature_names(result.plan.m))


def classes_of(result: PartyResult) -> list[str]:
    """The names of the classes: those of the study, else numbers; empty where the target is no class."""
    about = result.plan.glm
    if about is None or not about.classes:
        return []
    return list(result.facts.get("classes") or [str(k) for k in range(about.classes)])


def models_of(result: PartyResult) -> tuple[GLModel, ...]:
    """The models of a result, as written or as read back."""
    if "models" in result.objects:
        return tuple(result.objects["models"])
    said: Sequence[Mapping[str, Any]] = result.facts.get("models", ())
    intercept = bool(said[0].get("intercept", result.plan.centre)) if said else result.plan.centre
    if "contrasts" in result.arrays:
        w = [result.arrays["contrasts"]]
    else:
        W = result.arrays["coefficients"]
        w = [*(np.column_stack((result.arrays["intercept"], W)) if intercept else W)]
    covariance, shown = result.arrays.get("covariance"), result.arrays.get("estimates", w)
    naive = result.arrays.get("naive_covariance")
    return tuple(
        model_from(
            about,
            shown[k],
            intercept,
            None if covariance is None else covariance[k],
            w[k] if np.shape(w[k]) == np.shape(shown[k]) else shown[k],
            None if naive is None else naive[k],
        )
        for k, about in enumerate(said)
    )


def summaries(result: PartyResult) -> list[tuple[str, Summary]]:
    """The table of each model, and what it predicts."""
    if not result.facts.get("models"):
        return []
    names, target, classes = terms_of(result), result.targets[0], classes_of(result)
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


def own_fit(to: PartyResult, models: Sequence[GLModel], eta: Float, labels: Float | None) -> Values:
    """Fitted values, residuals and quality of a party's own rows."""
    fitted, residuals, said = own_rows(to, models, eta, labels)
    found = Values({"fitted": fitted}, labels={CLASS: predicted_columns(to, fitted)})
    return found if residuals is None else found | Values({"residuals": residuals}, {"own_rows": said})


def martingale(to: PartyResult, models: Sequence[GLModel], table: MatrixSource, eta: Float, labels: Float) -> Values:
    """Of own records of a Cox model: the hazard relative to a record of zeros, martingale residuals and dfbeta."""
    about = to.plan.glm
    assert about is not None
    if isinstance(models[0], BinsInference):
        return _in_bins(to, models[0], table, eta, labels)
    own = cohort(about, table.rows(0, table.shape[0]), labels)
    facts = {"rows": len(labels), "events": int(labels[:, 1].sum())}
    left = own.martingale(models[0].solution)
    arrays = {"fitted": own_rows(to, models, eta, None)[0], "residuals": left[:, None]}
    arrays["deviance_residuals"] = deviance_residuals(left, labels[:, 1])[:, None]
    covariance = models[0].model_covariance if isinstance(models[0], GLMInference) else models[0].covariance
    if is_array(covariance):  # R's dfbeta: by how much a coefficient would change without a record, nearly
        zero = np.zeros(own.p)
        arrays["dfbeta"] = own.scores(Point(models[0].solution, zero, information=False)).rows @ covariance
    return Values(arrays, {"own_rows": facts}, labels={CLASS: to.targets})


def _in_bins(to: PartyResult, model: BinsInference, table: MatrixSource, eta: Float, labels: Float) -> Values:
    """The same by the baseline of all parties."""
    about, edges = to.plan.glm, np.array(model.edges)
    assert about is not None
    own = records(about, table.rows(0, table.shape[0]), labels, edges)
    seen = (labels[:, 1] > 0.0) & (labels[:, 0] <= edges[-1])
    left = own.martingale(np.diff(model.hazard[:, 3], prepend=0.0), eta[:, 0])
    arrays = {"fitted": np.exp(eta), "residuals": left[:, None]}
    arrays["deviance_residuals"] = deviance_residuals(left, seen.astype(np.float64))[:, None]
    facts = {"rows": len(labels), "events": int(np.count_nonzero(seen))}
    return Values(arrays, {"own_rows": facts}, labels={CLASS: to.targets})


def with_random_effects(to: PartyResult, table: MatrixSource, model: GLModel, labels: Float) -> Values:
    """Of own rows of a mixed model: the random effects of their groups, fitted values with them, and what is left."""
    about = to.plan.glm
    assert about is not None
    assert isinstance(model, MixedInference)
    effects, errors, fitted = predicted(about, model, table.rows(0, table.shape[0]), labels)
    left = (labels[:, 0] - fitted)[:, None]
    facts = {"own_rows": _fit(False, labels[:, :1], fitted[:, None], None)}
    arrays = {"fitted": fitted[:, None], "residuals": left, "random_effects": effects, "random_errors": errors}
    named = model.of_columns(to.facts.get("columns") or {})
    return Values(arrays, facts, labels={CLASS: to.targets, "effect": named.random_names})


def predicted_columns(result: PartyResult, fitted: Float) -> Sequence[str]:
    """The names of fitted columns, (n, models): the target's, or those of its classes."""
    return result.targets if fitted.shape[1] == 1 else classes_of(result)


def own_rows(
    to: PartyResult, models: Sequence[GLModel], eta: Float, labels: Float | None
) -> tuple[Float, Float | None, dict[str, Any]]:
    """Fitted values of rows with this linear predictor (n, models), residuals, and how well they fit.

    Residuals of a Cox model need the rows' own risk sets, and are ``martingale``'s.
    """
    about = to.plan.glm
    assert about is not None
    model = models[0]
    fitted: Float = model.expected(eta) if isinstance(model, GLMInference) else special.softmax(eta, axis=1)
    if labels is None or about.facts.outcome is Outcome.TIMES:
        return fitted, None, {}
    y, _, weights = split_labels(about, labels)
    observed = np.eye(about.classes)[y.astype(np.int64)] if fitted.shape[1] > 1 else y[:, None]
    return fitted, observed - fitted, _fit(about.facts.outcome is Outcome.CLASSES, observed, fitted, weights)


def _fit(of_classes: bool, observed: Float, fitted: Float, weights: Float | None) -> dict[str, Any]:
    said: dict[str, Any] = {"rows": len(observed)}
    if of_classes:
        whole = bool(np.all((observed == 0.0) | (observed == 1.0)))
        areas = [area_under(observed[:, k], fitted[:, k]) if whole else None for k in range(fitted.shape[1])]
        return said | {"auc": areas, "brier": brier(observed, fitted, weights)}
    return said | {"mean_squared_error": float(np.mean(np.square(observed - fitted)))}
