"""The regression table and the forest plot of a report, where the plan released inference."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from fedsvd.results.regression_table import models_of
from fedsvd.results.report import charts
from fedsvd.results.report.sections import Figure, Grid, grid
from fedsvd.results.result import PartyResult
from fedsvd.statistics.inference import LinearInference
from fedsvd.statistics.summary import Summary, linear_summary
from fedsvd.statistics.undefined import is_array, is_number

_TERMS = 200  # of the table; the file has all
_DRAWN = 30


def forest_plots(result: PartyResult) -> Iterator[Figure]:
    """One forest plot to each target whose intervals are defined."""
    names = _names(result)
    for target, model in zip(result.targets, models_of(result), strict=False):
        effects = _effects(model, names)
        if effects:
            yield _forest(target, model, effects)


def tables(result: PartyResult) -> Iterator[Grid]:
    """For each target its coefficients with their statistics, and what is said of the model as one."""
    names = _names(result)
    for target, model in zip(result.targets, models_of(result), strict=False):
        summary = linear_summary(model, names, target)
        yield _coefficients(target, model, summary)
        yield grid(f"The model of {target}", ("what", "value"), summary.facts)


def _names(result: PartyResult) -> list[str]:
    """Of the features in this result; of split columns a party has its own, and what is shared has none."""
    coefficients = result.arrays.get("coefficients")
    return [] if coefficients is None else list(result.feature_names(coefficients.shape[1]))


def fit_in_words(result: PartyResult) -> list[str]:
    """What the label holder of split columns knows of the model as one."""
    names = {
        "sigma": "sigma",
        "adjusted_r2": "adjusted R²",
        "f": "F",
        "f_p": "p of F",
        "log_likelihood": "log-likelihood",
    }
    names |= {"aic": "AIC", "bic": "BIC"}
    found = []
    for target, said in (result.facts.get("fit") or {}).items():
        numbers = ", ".join(f"{name} {said[key]:.6g}" for key, name in names.items() if said[key] is not None)
        found.append(f"{target}, the model as one: {said['df_residual']} degrees of freedom, {numbers}.")
    return found


def notes(result: PartyResult) -> list[str]:
    """Whose clusters there are, and why a statistic is missing, a sentence each."""
    names = _names(result)
    clusters = {model.clusters for model in models_of(result)} - {0}
    found = [
        f"Clusters are each party's own: {count} clusters. A name at two parties is two of them." for count in clusters
    ]
    found += [
        f"Not defined for {target}: {note}."
        for target, model in zip(result.targets, models_of(result), strict=False)
        for note in linear_summary(model, names, target).notes
    ]
    return found


def _coefficients(target: str, model: LinearInference, summary: Summary) -> Grid:
    cells = summary.rows()
    header = ["term", *summary.cells]
    if is_array(model.vif):
        vif = [*(["-"] if model.intercept else []), *(f"{value:.4g}" for value in model.vif)]
        header, cells = [*header, "VIF"], [[*row, cell] for row, cell in zip(cells, vif, strict=True)]
    title = f"Coefficients of {target}"
    if len(cells) > _TERMS:
        title += f": the first {_TERMS} of {len(cells)} terms, coefficients.csv has all"
    return grid(title, header, cells[:_TERMS])


def _effects(model: LinearInference, names: Sequence[str]) -> list[charts.Effect]:
    """Each feature's coefficient and interval times the deviation of that feature, largest first.

    Features have different units; the change of the target over one deviation of a feature can be compared. The
    deviation follows from the table: ``se^2 = sigma^2 VIF / (sum of squares)``.
    """
    if not (is_array(model.standard_errors) and is_array(model.intervals) and is_array(model.vif)):
        return []
    if not is_number(model.sigma) or model.n < 2 or not np.all(model.standard_errors > 0.0):
        return []
    first = int(model.intercept)
    errors = model.standard_errors[first:]
    deviation = model.sigma / errors * np.sqrt(model.vif / (model.n - first))
    found = []
    for j, name in enumerate(names):
        w, (low, high), d = model.coefficients[first + j], model.intervals[first + j], deviation[j]
        says = f"{name}: {w:.6g} ({low:.6g} to {high:.6g}), times {d:.6g}"
        found.append(charts.Effect(name, float(w * d), float(low * d), float(high * d), says))
    usable = [each for each in found if all(map(math.isfinite, (each.value, each.low, each.high)))]
    return sorted(usable, key=lambda each: -abs(each.value))


def _forest(target: str, model: LinearInference, effects: Sequence[charts.Effect]) -> Figure:
    shown = effects[:_DRAWN]
    title = f"Effects on {target}"
    which = f"the {len(shown)} largest of {len(effects)}" if len(shown) < len(effects) else "all, largest first"
    caption = (
        f"{title}, {which}: by how much {target} changes where the feature rises by one of its standard deviations and "
        f"all others stay the same, with {100 * model.level:g} % confidence intervals. An interval that meets the "
        "dashed line does not exclude that there is no effect. The table has the coefficients in their own units."
    )
    rows = [(e.name, f"{e.value:.6g}", f"{e.low:.6g}", f"{e.high:.6g}") for e in shown]
    numbers = grid(f"{title}, per standard deviation", ("feature", "effect", "low", "high"), rows)
    return Figure(charts.forest(shown, title), caption, numbers)
