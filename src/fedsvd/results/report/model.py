"""A generalised linear model in a report: its table, a forest plot, and for classes ROC and calibration of own rows."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from fedsvd.results.model_table import classes_of, models_of, outcome, summaries
from fedsvd.results.report import charts, svg
from fedsvd.results.report.sections import Figure, Grid, Section, grid
from fedsvd.results.result import PartyResult
from fedsvd.statistics.glm import GLMInference
from fedsvd.statistics.model_table import GLModel
from fedsvd.statistics.ranking import area_under, calibration, roc
from fedsvd.statistics.undefined import is_array
from fedsvd.types import Float

_TERMS = 200  # of the table; the file has all
_DRAWN = 30
_GROUPS = 10
_RATIOS = {
    ("binomial", "logit"): "odds ratio",
    ("multinomial", "logit"): "odds ratio",
    ("poisson", "log"): "rate ratio",
}
_RATIOS |= {("gamma", "log"): "ratio of means"}
_SIDE = 300.0


def model_section(result: PartyResult) -> Section:
    """What came out of a generalised linear model, as far as this reader holds it."""
    words, figures, grids = [*_in_words(result)], [*_forests(result)], [*_tables(result)]
    if "fitted" in result.arrays and "residuals" in result.arrays:
        figures += [*_own_curves(result)]
    notes = dict.fromkeys(note for _, summary in summaries(result) for note in summary.notes)
    return Section(
        "glm",
        "Generalised linear model",
        (*words, *(f"Not defined: {note}." for note in notes)),
        tuple(figures),
        tuple(grids),
    )


def _in_words(result: PartyResult) -> Iterator[str]:
    for model, (name, _) in zip(models_of(result), summaries(result), strict=True):
        share = 1.0 - model.deviance / model.null_deviance if model.null_deviance > 0.0 else 0.0
        yield (
            f"{name}: {model.iterations} iterations, deviance {model.deviance:.6g} of {model.null_deviance:.6g} "
            f"without features ({100 * share:.1f} % explained), {model.n} rows."
        )
    own = result.facts.get("own_rows")
    if own:
        areas = ", ".join("not defined" if area is None else f"{area:.4f}" for area in own.get("auc", ()))
        quality = f"area under the ROC curve {areas}, Brier score {own['brier']:.4f}" if areas else ""
        quality = quality or f"mean squared error {own['mean_squared_error']:.6g}"
        yield f"On your own {own['rows']} rows, on which the model was fitted too: {quality}."


def _tables(result: PartyResult) -> Iterator[Grid]:
    for model, (what, summary) in zip(models_of(result), summaries(result), strict=True):
        header, cells = ["term", *summary.cells], summary.rows()
        ratio = _ratio(model)
        if ratio and is_array(model.intervals):
            low, high = (np.ravel(model.intervals[..., side]) for side in (0, 1))
            more = [
                [_power(w), f"{_power(a)} to {_power(b)}"]
                for w, a, b in zip(np.ravel(model.coefficients), low, high, strict=True)
            ]
            header += [ratio, f"{100 * model.level:g} % interval"]
            cells = [[*row, *own] for row, own in zip(cells, more, strict=True)]
        title = f"Coefficients of {what}"
        if len(cells) > _TERMS:
            title += f": the first {_TERMS} of {len(cells)} terms, coefficients.csv has all"
        yield grid(title, header, cells[:_TERMS])
        yield grid(f"The model of {what}", ("what", "value"), summary.facts)


def _power(value: float) -> str:
    return f"{math.exp(value):.4g}" if value < 700.0 else "beyond 1e304"


def _ratio(model: GLModel) -> str:
    family = ("multinomial", "logit")
    if isinstance(model, GLMInference):
        family = model.family.name, model.family.link_name
    return _RATIOS.get(family, "")


# --- forest plots -----------------------------------------------------------------------------------------------------


def _forests(result: PartyResult) -> Iterator[Figure]:
    names = list(result.feature_names(result.plan.m))
    for model, (what, summary) in zip(models_of(result), summaries(result), strict=True):
        effects = _effects(model, list(summary.names), names)
        if effects:
            yield _forest(what, model, effects)


def _effects(model: GLModel, terms: Sequence[str], names: Sequence[str]) -> list[charts.Effect]:
    """Each coefficient but the intercepts with its interval, times the weighted deviation of its feature."""
    if not (is_array(model.intervals) and is_array(model.covariance)) or not model.intercept:
        return []
    W, intervals = np.atleast_2d(model.coefficients), np.atleast_2d(model.intervals).reshape(-1, 2)
    deviation = _deviations(model)
    if deviation is None:
        return []
    found, q = [], W.shape[1]
    for k in range(W.shape[0]):
        for j in range(len(names)):
            place, d = k * q + j + 1, deviation[j]
            w, (low, high) = float(W[k, j + 1]), intervals[place]
            says = f"{terms[place]}: {w:.6g} ({low:.6g} to {high:.6g}), times {d:.6g}"
            found.append(charts.Effect(terms[place], w * d, float(low) * d, float(high) * d, says))
    usable = [each for each in found if all(map(math.isfinite, (each.value, each.low, each.high)))]
    return sorted(usable, key=lambda each: -abs(each.value))


def _deviations(model: GLModel) -> Float | None:
    """Standard deviations of the features over the rows in their last weights, which the covariance determines.

    Its inverse is the weighted Gram matrix of a constant and the features; a multinomial model's has such blocks.
    """
    assert is_array(model.covariance)
    q = model.coefficients.shape[-1]
    try:
        gram = np.linalg.inv(model.covariance)[:q, :q]
    except np.linalg.LinAlgError:
        return None
    if not gram[0, 0] > 0.0:
        return None
    variance = np.diag(gram)[1:] / gram[0, 0] - np.square(gram[0, 1:] / gram[0, 0])
    deviations: Float = np.sqrt(np.maximum(variance, 0.0))
    return deviations


def _forest(what: str, model: GLModel, effects: Sequence[charts.Effect]) -> Figure:
    shown, title = effects[:_DRAWN], f"Effects on {what}"
    which = f"the {len(shown)} largest of {len(effects)}" if len(shown) < len(effects) else "all, largest first"
    by = {"odds ratio": "the log-odds", "rate ratio": "the logarithm of the rate", "ratio of means": "the log-mean"}
    caption = (
        f"{title}, {which}: by how much {by.get(_ratio(model), 'the linear predictor')} changes where the feature "
        "rises by one of its standard deviations, over rows as the model weights them, and all others stay the same, "
        f"with {100 * model.level:g} % confidence intervals. An interval that meets the dashed line does not exclude "
        "that there is no effect. The table has the coefficients in their own units."
    )
    rows = [(e.name, f"{e.value:.6g}", f"{e.low:.6g}", f"{e.high:.6g}") for e in shown]
    numbers = grid(f"{title}, per standard deviation", ("term", "effect", "low", "high"), rows)
    return Figure(charts.forest(shown, title), caption, numbers)


# --- own rows ---------------------------------------------------------------------------------------------------------


def _own_curves(result: PartyResult) -> Iterator[Figure]:
    """ROC and calibration of the reader's own rows, for each class, or for the second of two."""
    if result.plan.glm is None or result.plan.glm.family not in ("binomial", "multinomial"):
        return
    fitted, residuals = result.arrays["fitted"], result.arrays["residuals"]
    observed = np.rint(fitted + residuals)
    if not np.allclose(observed, fitted + residuals):
        return  # shares of trials
    classes = classes_of(result)
    names = [outcome(result.targets[0], classes)]
    if fitted.shape[1] > 1:
        names = [f"{result.targets[0]} = {name}" for name in classes]
    for k, name in enumerate(names):
        area = area_under(observed[:, k], fitted[:, k])
        if area is not None:
            yield _roc_curve(name, observed[:, k], fitted[:, k], area)
            yield _calibration_curve(name, observed[:, k], fitted[:, k])


def _plane(words: tuple[str, str]) -> svg.Axes:
    return svg.axes((0.0, 1.0), (0.0, 1.0), _SIDE, words[0], words[1])


def _roc_curve(name: str, observed: Float, share: Float, area: float) -> Figure:
    title = f"ROC curve of {name}"
    plane = _plane(("false positive rate", "true positive rate"))
    false, true = roc(observed, share)
    step = max(1, -(-len(false) // charts.MOST_POINTS))
    chosen = [*range(0, len(false) - 1, step), len(false) - 1]
    points = [(plane.x(float(false[j])), plane.y(float(true[j]))) for j in chosen]
    parts = [*plane.parts, svg.line(plane.x(0), plane.y(0), plane.x(1), plane.y(1), "zero")]
    drawing = svg.drawing(title, svg.WIDTH, _SIDE, [*parts, svg.polyline(points, "stroke s1")])
    caption = (
        f"{title}, of your own {len(observed)} rows: the area under it is {area:.4f}. The dashed line is chance. The "
        "model was fitted on these rows too, so new rows will do somewhat worse."
    )
    return Figure(drawing, caption)


def _calibration_curve(name: str, observed: Float, share: Float) -> Figure:
    title = f"Calibration of {name}"
    groups = calibration(observed, share, _GROUPS)
    plane = _plane(("predicted probability", "share of rows"))
    points = [(plane.x(predicted), plane.y(found)) for predicted, found, _ in groups]
    marks = [
        svg.dot(x, y, "s1", f"{count} rows: predicted {predicted:.4g}, found {found:.4g}")
        for (x, y), (predicted, found, count) in zip(points, groups, strict=True)
    ]
    parts = [*plane.parts, svg.line(plane.x(0), plane.y(0), plane.x(1), plane.y(1), "zero")]
    drawing = svg.drawing(title, svg.WIDTH, _SIDE, [*parts, svg.polyline(points, "stroke s1"), *marks])
    rows = [(f"{predicted:.4f}", f"{found:.4f}", count) for predicted, found, count in groups]
    numbers = grid(title, ("predicted", "found", "rows"), rows)
    caption = (
        f"{title}, of your own rows in {len(groups)} groups of about equal size, by predicted probability: on the "
        "dashed line, what was predicted is what was found."
    )
    return Figure(drawing, caption, numbers)
