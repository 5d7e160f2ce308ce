"""Drawings of regressions: forest plots and coefficients, penalties, and residuals of records."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import special

from fedsvd.errors import ConfigError
from fedsvd.protocol.families import Outcome
from fedsvd.results import model_table, regression_table
from fedsvd.results.drawings.picture import USUAL, Band, Dots, Effect, Line, Picture, Plane, Rows, Wish, points, whose
from fedsvd.results.report.sections import grid
from fedsvd.results.result import PartyResult
from fedsvd.statistics import model_table as glm_columns
from fedsvd.statistics import table as linear_columns
from fedsvd.statistics.inference import LinearInference
from fedsvd.statistics.mixed_table import MixedInference
from fedsvd.statistics.model_table import GLModel
from fedsvd.statistics.summary import linear_summary, printed_ratio, ratio_of
from fedsvd.statistics.undefined import is_array, is_number
from fedsvd.types import Float

_DRAWN = 30
_LOW = 260.0
_LINES = 6
METHODS = {"loo": "each row left out once", "gcv": "generalised cross-validation"}
_BY = {
    "hazard ratio": "the log-hazard",
    "odds ratio": "the log-odds",
    "rate ratio": "the logarithm of the rate",
    "ratio of means": "the log-mean",
}


# --- coefficients -----------------------------------------------------------------------------------------------------


def forest(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """Coefficients with their intervals: ratios in the columns' own units, or changes for one standard deviation."""
    if result.plan.glm is not None:
        names = model_table.terms_of(result)
        for model, (what, summary) in zip(model_table.models_of(result), model_table.summaries(result), strict=True):
            model = model if wish.level is None else glm_columns.at_level(model, wish.level)
            rows = _of_model(model, summary.names, names)
            if result.plan.glm.facts.weighs:  # a treatment has no unit but its own
                rows = [(*row[:4], math.nan) for row in rows]
            yield from _forest(what, model, rows, ratio_of(model), wish)
        return
    coefficients = result.arrays.get("coefficients")
    names = [] if coefficients is None else list(result.feature_names(coefficients.shape[1]))
    for target, linear in zip(result.targets, regression_table.models_of(result), strict=False):
        linear = linear if wish.level is None else linear_columns.at_level(linear, wish.level)
        terms = linear_summary(linear, names, target).names[int(linear.intercept) :] if names else ()
        yield from _forest(target, linear, _of_line(linear, terms), "", wish)


Term = tuple[str, float, float, float, float]
"""Name, coefficient, the ends of its interval, and the deviation of its feature (NaN where it is not known)."""


def _of_model(model: GLModel, terms: Sequence[str], names: Sequence[str]) -> list[Term]:
    """Each coefficient but the intercepts."""
    if not (is_array(model.intervals) and is_array(model.covariance)):
        return []
    W, intervals = np.atleast_2d(model.coefficients), np.asarray(model.intervals).reshape(-1, 2)
    first, q = int(model.intercept), W.shape[1]
    deviation = _deviations(model) if model.intercept else None
    found = []
    for k in range(W.shape[0]):
        for j in range(len(names)):
            place = k * q + j + first
            low, high = map(float, intervals[place])
            found.append(
                (terms[place], float(W[k, j + first]), low, high, math.nan if deviation is None else deviation[j])
            )
    return found


def _deviations(model: GLModel) -> list[float] | None:
    """Standard deviations of the features over the rows in their last weights, which the covariance determines.

    Its inverse is the weighted Gram matrix of a constant and the features; a multinomial model's has such blocks.
    """
    own = model.covariance if model.naive is None else model.naive  # whichever errors are shown
    assert is_array(own)
    q = model.coefficients.shape[-1]
    try:
        gram = np.linalg.inv(own)[:q, :q]
    except np.linalg.LinAlgError:
        return None
    if not gram[0, 0] > 0.0:
        return None
    variance = np.diag(gram)[1:] / gram[0, 0] - np.square(gram[0, 1:] / gram[0, 0])
    return [float(d) for d in np.sqrt(np.maximum(variance, 0.0))]


def _of_line(model: LinearInference, terms: Sequence[str]) -> list[Term]:
    """Each coefficient but the intercept; the deviation follows from ``se^2 = sigma^2 VIF / (sum of squares)``."""
    if not (is_array(model.standard_errors) and is_array(model.intervals)):
        return []
    first = int(model.intercept)
    errors, deviation = model.standard_errors[first:], np.full(len(terms), np.nan)
    if is_array(model.vif) and is_number(model.sigma) and model.n > 1 and np.all(errors > 0.0):
        deviation = model.sigma / errors * np.sqrt(model.vif / (model.n - first))
    return [
        (name, float(model.coefficients[first + j]), *map(float, model.intervals[first + j]), float(deviation[j]))  # type: ignore[misc]
        for j, name in enumerate(terms)
    ]


def _forest(
    what: str, model: GLModel | LinearInference, terms: Sequence[Term], ratio: str, wish: Wish
) -> Iterator[Picture]:
    exponentiate = bool(ratio) if wish.exponentiate is None else wish.exponentiate
    if exponentiate and not ratio:
        raise ConfigError("the exponential of these coefficients is no ratio", "draw it with exponentiate=False")
    known = any(math.isfinite(deviation) for *_, deviation in terms)
    standardised = known and not exponentiate if wish.standardised is None else wish.standardised
    effects = [each for each in (_effect(term, exponentiate, standardised) for term in terms) if each is not None]
    if not effects:
        return
    level, size = f"{100 * model.level:g} % confidence intervals", len(effects)
    if standardised:
        effects.sort(key=lambda each: -abs(math.log(each.value) if exponentiate else each.value))
    shown = effects[:_DRAWN]
    which = "all, largest first" if standardised else "all, as in the table"
    if len(shown) < size:
        which = f"the {len(shown)} largest of {size}" if standardised else f"the first {len(shown)} of {size}"
    unit = "by one of its standard deviations" if standardised else "by one of its own units"
    if exponentiate:
        title = ratios_of(ratio, what)
        of = "" if ratio == "hazard ratio" else f" of {what}"  # what is modelled is the event, not its time
        says = f"the factor on {_FACTORS.get(ratio, 'the mean')}{of} where the feature rises {unit}"
        none = "An interval that meets the dashed line, a ratio of 1, does not exclude that there is no effect."
    else:
        title, weighted = f"Effects on {what}", not isinstance(model, LinearInference)
        by = _BY.get(ratio, "the linear predictor") if weighted else what
        over = ", over rows as the model weights them," if weighted and standardised else ""
        says = f"by how much {by} changes where the feature rises {unit}{over}"
        none = "An interval that meets the dashed line does not exclude that there is no effect."
    table = " The table has the coefficients in their own units." if standardised else ""
    caption = f"{title}, {which}: {says} and all others stay the same, with {level}. {none}{table}"
    rows = [(e.name, f"{e.value:.6g}", f"{e.low:.6g}", f"{e.high:.6g}") for e in shown]
    head = ratio if exponentiate else "effect"
    numbers = grid(f"{title}{', per standard deviation' if standardised else ''}", ("term", head, "low", "high"), rows)
    label = head if not standardised else f"{head} for one standard deviation"
    yield Picture("forest", title, caption, Rows(tuple(shown), True, exponentiate, label), numbers, of=what)


def ratios_of(ratio: str, what: str) -> str:
    """A heading: "Odds ratios of died = yes"; of a Cox model the target is a time, which has no hazard."""
    title = f"{ratio[0].upper()}{ratio[1:]}".replace("atio", "atios")
    return title if ratio == "hazard ratio" else f"{title} of {what}"


_FACTORS = {"hazard ratio": "the hazard", "odds ratio": "the odds", "rate ratio": "the rate"}


def _effect(term: Term, exponentiate: bool, standardised: bool) -> Effect | None:
    name, w, low, high, d = term
    factor = d if standardised else 1.0
    value, below, above = (each * factor for each in (w, low, high))
    if not all(map(math.isfinite, (value, below, above))) or (exponentiate and max(map(abs, (below, above))) > 700.0):
        return None
    says = f"{name}: {w:.6g} ({low:.6g} to {high:.6g})" + (f", times {d:.6g}" if standardised else "")
    if exponentiate:
        value, below, above = map(math.exp, (value, below, above))
        says = f"{name}: {value:.6g} ({below:.6g} to {above:.6g})"
    shown = "" if standardised else f"{value:.3g} ({below:.3g} to {above:.3g})"
    if exponentiate:
        shown = printed_ratio(value, below, above)
    return Effect(name, value, below, above, says, shown)


def coefficients(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """Bars of the coefficients of a linear regression, where there are no intervals to draw."""
    if result.plan.glm is not None or not result.plan.targets:
        return
    values = result.arrays["coefficients"]
    names = result.feature_names(values.shape[1])
    for target, w in zip(result.targets, values, strict=False):
        order = np.argsort(-np.abs(w), kind="stable")[:_DRAWN].tolist()
        effects = tuple(Effect(names[i], w[i], w[i], w[i], f"{names[i]}: {w[i]:.6g}") for i in order)
        title = f"Coefficients of {target}"
        caption = (
            f"{title}, largest first: by how much {target} rises where the feature is one larger and all others "
            "are the same. Orange bars are negative."
        )
        yield Picture("coefficients", title, caption, Rows(effects), of=target)


# --- penalties --------------------------------------------------------------------------------------------------------


def ridge(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """The curve of errors, and for each target the coefficients along the path."""
    said, path = result.facts.get("ridge"), result.arrays.get("ridge_path")
    if said is None or len(said["alphas"]) < 2:
        return
    alphas, order = np.asarray(said["alphas"]), np.argsort(said["alphas"])
    errors = np.array([math.nan if error is None else error for error in said["errors"]])
    powers, chosen = np.log10(alphas[order]), math.log10(said["alpha"])
    if np.isfinite(errors).all():
        rows = [(f"{alphas[i]:.6g}", f"{errors[i]:.6g}") for i in order]
        caption = (
            f"Mean squared error of every penalty, {METHODS[said['chosen_by']]}; {said['alpha']:.6g} is chosen. The "
            "axis counts powers of ten."
        )
        says = tuple(f"alpha {alphas[i]:.6g}: {errors[i]:.6g}" for i in order)
        curve = Line(points(powers, errors[order]), marked=True, says=says)
        at = int(np.argmin(np.abs(powers - chosen)))
        best = Line(points(powers[[at]], errors[order][[at]]), series=2, marked=True, says=(says[at],))
        body = Plane("log10 of alpha", "error", (curve, best), height=_LOW)
        yield Picture(
            "ridge", "Error of every penalty", caption, body, grid("Error of every penalty", ("alpha", "error"), rows)
        )
    if path is not None:
        names = list(result.feature_names(path.shape[2]))
        for k, target in enumerate(result.targets):
            yield _along(target, names, powers, path[order, k, :], chosen)


def _along(target: str, names: Sequence[str], powers: Float, path: Float, chosen: float) -> Picture:
    """Each coefficient as a share of what it is at the least penalty, for the largest ones."""
    start = path[0]
    drawn = [j for j in np.argsort(-np.abs(start), kind="stable").tolist() if start[j] != 0.0][:_LINES]
    shares = path[:, drawn] / start[drawn]
    title = f"Coefficients of {target} along the path"
    ends = points([chosen, chosen], [min(0.0, *shares.ravel()), max(1.0, *shares.ravel())])
    marks = [Line(ends, dashed=True)]
    for number, j in enumerate(drawn):
        says = tuple(f"{names[j]}: {value:.6g}" for value in path[:, j])
        marks.append(Line(points(powers, shares[:, number]), number + 1, marked=True, says=says, label=names[j]))
    caption = (
        f"{title}: what every penalty leaves of the largest {len(drawn)} coefficients, as a share of what they are at "
        "the least one. The dashed line is the chosen penalty."
    )
    rows = [[f"{10.0**power:.6g}", *(f"{path[i, j]:.6g}" for j in drawn)] for i, power in enumerate(powers.tolist())]
    numbers = grid(title, ("alpha", *(names[j] for j in drawn)), rows)
    body = Plane("log10 of alpha", "share that is left", tuple(marks), height=_LOW)
    return Picture("ridge", title, caption, body, numbers, of=target)


# --- records ----------------------------------------------------------------------------------------------------------


def residuals(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """Residuals against fitted values, for each target; of times deviance residuals against the linear predictor."""
    about = result.plan.glm
    if about is not None and about.facts.outcome is Outcome.TIMES:
        yield _deviance_residuals(result)
        return
    of, fitted, left = whose(result, "residuals"), result.arrays["fitted"], result.arrays["residuals"]
    for j, target in enumerate(_targets(result, left)):
        title = f"Residuals of {target}"
        body = Plane("fitted", "label minus fitted", (Dots(points(fitted[:, j], left[:, j])),), zero=True)
        yield Picture("residuals", f"{title}: {of}", f"{title} against the fitted values, of {of}.", body, of=target)


def _deviance_residuals(result: PartyResult) -> Picture:
    """Of a Cox model: how much earlier or later records left than the model of their own site says."""
    (eta,), (left,) = np.log(result.arrays["fitted"]).T, result.arrays["deviance_residuals"].T
    of, title = whose(result, "deviance_residuals"), f"Deviance residuals of {result.targets[0]}"
    body = Plane("linear predictor", "deviance residual", (Dots(points(eta, left)),), zero=True)
    caption = f"{title} against the linear predictor, of {of}: above zero, the event came earlier than was predicted."
    return Picture("residuals", f"{title}: {of}", caption, body, of=result.targets[0])


def _targets(result: PartyResult, values: Float) -> Sequence[str]:
    if result.plan.glm is not None:
        return model_table.predicted_columns(result, values)
    return result.targets


def qq(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """Standardised residuals against the quantiles of a normal law, with the line through their quartiles (R's)."""
    about = result.plan.glm
    if about is not None and about.link != "identity":
        return  # whose residuals do not follow a normal law
    of, values = whose(result, "residuals"), _standardised(result)
    for j, target in enumerate(_targets(result, values)):
        ordered, n = np.sort(values[:, j]), len(values)
        offset = 0.375 if n <= 10 else 0.5
        law = special.ndtri((np.arange(1, n + 1) - offset) / (n + 1 - 2 * offset))
        quartiles, at = np.quantile(ordered, [0.25, 0.75]), special.ndtri([0.25, 0.75])
        slope = float((quartiles[1] - quartiles[0]) / (at[1] - at[0]))
        ends = law[[0, -1]]
        line = Line(points(ends, quartiles[0] + slope * (ends - at[0])), dashed=True)
        title = f"Normal quantiles of the residuals of {target}"
        plane = Plane("quantile of a normal law", "standardised residual", (line, Dots(points(law, ordered))))
        caption = f"{title}, of {of}: on the dashed line, through the quartiles, residuals follow a normal law."
        yield Picture("qq", f"{title}: {of}", caption, plane, of=target)


def caterpillar(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """Predicted random effects of the reader's own groups, from the lowest on, with their intervals."""
    (model,) = model_table.models_of(result)
    assert isinstance(model, MixedInference)
    of, level = whose(result, "random_effects"), 0.95 if wish.level is None else wish.level
    groups = np.unique(np.hstack((result.arrays["random_effects"], result.arrays["random_errors"])), axis=0)
    reach, q = float(special.ndtri(0.5 + level / 2.0)), len(model.random_names)
    for j, name in enumerate(model.random_names):
        effect, error = groups[np.argsort(groups[:, j], kind="stable")][:, [j, q + j]].T
        if not effect.any():
            continue  # a variance of zero: all groups are alike
        place = np.arange(1, len(effect) + 1, dtype=np.float64)
        low, high = (points(place, effect + side * reach * error) for side in (-1.0, 1.0))
        what = "intercepts" if j == 0 else f"slopes of {name}"
        marks = (Band(low, high), Dots(points(place, effect)))
        across = (0.0, len(effect) + 1.0)
        plane = Plane("group, from the lowest on", f"random {what}", marks, across, zero=True)
        caption = f"Predicted random {what} of {len(effect)} groups, of {of}, with intervals of {100 * level:g} %."
        yield Picture("caterpillar", f"Random {what}: {of}", caption, plane, of=name)


def _standardised(result: PartyResult) -> Float:
    """Residuals in their standard deviations: by leverage where it is here, else all by one deviation."""
    known = result.arrays.get("standardised_residuals")
    if known is not None:
        return known
    left = result.arrays["residuals"]
    deviation = np.sqrt(np.mean(np.square(left), axis=0))
    found: Float = left / np.where(deviation > 0.0, deviation, 1.0)
    return found


def leverage(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """How much each own record pulls the joint fit towards itself, against how far it lies from it."""
    pull, standardised = result.arrays["leverage"], result.arrays["standardised_residuals"]
    of = whose(result, "leverage")
    for j, target in enumerate(result.targets):
        title = f"Leverage of your own rows, {target}"
        caption = (
            f"{title}: rows far to the right decide the joint fit the most; one that also lies beyond 3 deviations is "
            "worth a look. Only you hold these numbers."
        )
        dots = Dots(points(pull, standardised[:, j]))
        body = Plane("leverage", "residual in standard deviations", (dots,), zero=True)
        yield Picture("leverage", f"Leverage of {of}, {target}", caption, body, of=target)
