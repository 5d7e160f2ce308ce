"""Drawings of components: spectrum, loadings, maps of features and of records, biplot, correlations, outliers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.protocol.tasks import Own
from fedsvd.results.drawings.picture import (
    USUAL,
    Bars,
    Dots,
    Effect,
    Heat,
    Line,
    Mark,
    Named,
    Picture,
    Plane,
    Rows,
    Wish,
    points,
    whose,
)
from fedsvd.results.report import svg
from fedsvd.results.report.sections import grid
from fedsvd.results.result import PartyResult
from fedsvd.types import Float

SHOWN = 60  # components of a spectrum
_ROWS = 30  # of the numbers below a drawing
_LOADINGS, _BARS = 3, 12  # components, and features of each
_CANONICAL = 2
_NAMED_POINTS = 12
_LOW = 240.0
_COLOURS = 6
_GROUPS = 10  # beyond, numbers are a scale of colours


def shares(result: PartyResult) -> tuple[Float, bool]:
    """Each component's share of the energy, and whether that is of all there is."""
    ratio, sigma = result.arrays.get("explained_variance_ratio"), result.arrays["singular_values"]
    if ratio is not None:
        return ratio, True
    total = float(np.sum(sigma**2)) or 1.0
    return sigma**2 / total, len(sigma) == min(result.plan.m, result.plan.n)


def scree(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """Each component's variance or singular value; where a rule chose, those it left out are hollow, under its line."""
    sigma = result.arrays["singular_values"]
    values, what = sigma, "singular value"
    if "explained_variance" in result.arrays:
        values, what = result.arrays["explained_variance"], "explained variance"
    choice, threshold = result.facts.get("choice"), result.arrays.get("spectrum_threshold")
    if threshold is not None and what == "explained variance":
        threshold = threshold**2 / max(result.plan.n - 1, 1)
    ratio, _ = shares(result)
    rows = [
        (j + 1, f"{s:.6g}", f"{100 * share:.3f} %", f"{100 * total:.3f} %")
        for j, (s, share, total) in enumerate(zip(sigma, ratio, np.cumsum(ratio), strict=True))
    ][:_ROWS]
    table = grid(f"The first {len(rows)} components", ("component", "singular value", "share", "added up"), rows)
    drawn = values[:SHOWN]
    title = f"{what.capitalize()} of the first {len(drawn)} components"
    body = _counted(drawn, what, None if choice is None else choice["count"], threshold)
    yield Picture("scree", title, f"Scree: {what} of each component.", body, table)


def _counted(values: Float, what: str, solid: int | None = None, threshold: Float | None = None) -> Plane:
    top = float(max(values.max(initial=0.0), 1e-300 if threshold is None else threshold[:SHOWN].max(initial=1e-300)))
    marks: tuple[Mark, ...] = (Bars(values, solid),)
    if threshold is not None:
        levels = threshold[: len(values)]
        marks = (*marks, Line(points(np.arange(1.0, len(levels) + 1), levels), series=2))
    across = (0.4, len(values) + 0.6)
    return Plane("component", what, marks, across, (0.0, top * 1.05), counted=True, height=_LOW)


def cumulative(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """How much the first components hold together, 0 to 1."""
    ratio, of_all = shares(result)
    what = "share of the variance" if result.plan.centre else "share of the sum of squares"
    of = "of the full table" if of_all else "among the components that were computed"
    added = np.cumsum(ratio)[:SHOWN]
    says = tuple(f"{j + 1}: {100 * value:.4g} %" for j, value in enumerate(added))
    line = Line(points(np.arange(1.0, len(added) + 1), added), marked=True, says=says)
    body = Plane("components", what, (line,), (0.4, len(added) + 0.6), (0.0, 1.0), counted=True, height=_LOW)
    title = f"{what.capitalize()} of the first {len(added)} components, added up"
    yield Picture("cumulative", title, f"Cumulative {what} {of}.", body)


def loading_scale(result: PartyResult) -> tuple[float, float]:
    """The one scale of all bars of loadings."""
    first = result.arrays["components"][:_LOADINGS]
    return svg.covering(min(0.0, float(first.min(initial=0.0))), max(0.0, float(first.max(initial=0.0))))


def loadings(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """The features that weigh most in each of the first components."""
    own, span = result.arrays["components"], loading_scale(result)
    names = result.feature_names(own.shape[1])
    rows = [tuple(_largest(row, names, _BARS)) for row in own[:_LOADINGS]]
    among = tuple(each for row in rows for each in row)
    for j, row in enumerate(rows):
        title = f"Loadings of component {j + 1}"
        shown = f"{len(row)} largest of {len(names)}" if len(row) < len(names) else "all, largest first"
        caption = f"{title}: {shown}; scale {span[0]:g} to {span[1]:g}."
        yield Picture("loadings", title, caption, Rows(row, span=span, among=among), of=str(j + 1))


def _largest(values: Float, names: Sequence[str], count: int) -> Iterator[Effect]:
    for i in np.argsort(-np.abs(values), kind="stable")[:count].tolist():
        value = float(values[i])
        yield Effect(names[i], value, value, value, f"{names[i]}: {value:.6g}")


def weights(result: PartyResult, count: int) -> Float:
    """Singular values as weights where the reader has them."""
    sigma = result.arrays.get("singular_values")
    return np.ones(count) if sigma is None or len(sigma) < count else np.asarray(sigma[:count], dtype=np.float64)


def features(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """Features by their loadings on two components, the farthest ones named and listed."""
    own = result.arrays["components"]
    if len(own) < 2:
        return
    by, names = weights(result, 2), result.feature_names(own.shape[1])
    places = (own[:2] * by[:, None]).T
    unit = "loading" if (by == 1.0).all() else "loading × singular value"
    far = _farthest(places)
    axes = (f"component 1: {unit}", f"component 2: {unit}")
    marks = (Dots(places), Named(places[far], tuple(names[j] for j in far)))
    rows = [(names[j], f"{places[j, 0]:.6g}", f"{places[j, 1]:.6g}") for j in far]
    table = grid(f"The {len(far)} features farthest from zero", ("feature", *axes), rows)
    caption = (
        f"Map of the features, one point each; in orange the {len(far)} farthest from zero. A name that would cover "
        "another is left out: the numbers have all of them."
    )
    yield Picture("features", "Map of the features", caption, Plane(*axes, marks, zero=True), table)


def _farthest(places: Float) -> list[int]:
    found: list[int] = np.argsort(-np.linalg.norm(places, axis=1), kind="stable")[:_NAMED_POINTS].tolist()
    return found


def samples_of(result: PartyResult) -> tuple[str, str]:
    """The array that has a row for each record, and what it is."""
    name = "scores" if "scores" in result.arrays else "left_vectors"
    if result.plan.own is Own.VARIATES:
        return name, "Common variables"
    return name, {"scores": "Scores", "left_vectors": "Left singular vectors"}[name]


def scores(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """Records in two components. Their names may be those of people: they are not drawn."""
    name, what = samples_of(result)
    values, of = result.arrays[name], whose(result, name)
    if values.shape[1] < 2:
        return
    first, second = _pair(wish, values.shape[1])
    places, words = values[:, [first - 1, second - 1]], (f"component {first}", f"component {second}")
    marks = tuple(_coloured(places, wish.colour))
    caption = f"{what} of {of} in the components {first} and {second}."
    yield Picture("scores", f"{what}: {of}", caption, Plane(*words, marks, zero=True))


def _pair(wish: Wish, count: int) -> tuple[int, int]:
    first, second = wish.components
    if not (1 <= first <= count and 1 <= second <= count and first != second):
        raise ConfigError(f"components is {wish.components}", f"two different numbers between 1 and {count}")
    return first, second


def _coloured(places: Float, colour: tuple[object, ...]) -> Iterator[Dots]:
    """One group of points for each value that colours them; many numbers are a scale."""
    if not colour:
        yield Dots(places)
        return
    if len(colour) != len(places):
        raise ConfigError(f"colour has {len(colour)} values", f"one for each of the {len(places)} records drawn")
    kinds = list(dict.fromkeys(colour))
    if len(kinds) > _GROUPS:
        try:
            yield Dots(places, values=np.asarray(colour, dtype=np.float64))
        except (TypeError, ValueError):
            raise ConfigError(f"colour has {len(kinds)} different words", f"{_GROUPS} at most, or numbers") from None
        return
    for number, kind in enumerate(sorted(kinds, key=str)):
        chosen = np.array([each == kind for each in colour])
        yield Dots(places[chosen], 1 + number % _COLOURS, str(kind))


def biplot(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """Records and features in one plane: scores, and loadings as arrows of the scores' length."""
    name, what = samples_of(result)
    values, own = result.arrays[name], result.arrays["components"]
    if min(values.shape[1], len(own)) < 2:
        return
    first, second = _pair(wish, min(values.shape[1], len(own)))
    places, arrows = values[:, [first - 1, second - 1]], own[[first - 1, second - 1]].T
    names, far = result.feature_names(own.shape[1]), _farthest(arrows)
    longest = float(np.max(np.linalg.norm(arrows, axis=1), initial=0.0)) or 1.0
    factor = 0.9 * float(np.max(np.abs(places), initial=0.0)) / longest or 1.0
    marks: tuple[Mark, ...] = (
        *_coloured(places, wish.colour),
        Named(arrows[far] * factor, tuple(names[j] for j in far), arrows=True),
    )
    title = f"Biplot: {what.lower()} of {whose(result, name)}, and features"
    caption = f"{title}. An arrow is a loading times {factor:.4g}; the {len(far)} longest are drawn."
    rows = [(names[j], f"{arrows[j, 0]:.6g}", f"{arrows[j, 1]:.6g}") for j in far]
    words = (f"component {first}", f"component {second}")
    yield Picture(
        "biplot", title, caption, Plane(*words, marks, zero=True), grid("Loadings", ("feature", *words), rows)
    )


def outliers(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """T2 and Q of records, with dashed limits; those beyond one are orange. Without Q where nothing is left of rows."""
    values, said = result.arrays["outliers"], result.facts["outliers"]
    own = result.arrays.get("components")
    if own is not None and own.shape[0] == own.shape[1]:
        yield _within(values[:, 0], said, whose(result, "outliers"))
        return
    limits = (said["t2_limit"], said["q_limit"])
    ends = [float(max(values[:, axis].max(initial=0.0), limits[axis] or 0.0, 1e-300)) * 1.05 for axis in (0, 1)]
    marks: list[Mark] = []
    if limits[0] is not None:
        marks.append(Line(points([limits[0]] * 2, [0.0, ends[1]]), dashed=True))
    if limits[1] is not None:
        marks.append(Line(points([0.0, ends[0]], [limits[1]] * 2), dashed=True))
    beyond = np.zeros(len(values), dtype=bool)
    for axis, limit in enumerate(limits):
        beyond |= values[:, axis] > (np.inf if limit is None else limit)
    marks += [Dots(values[chosen], series) for chosen, series in ((~beyond, 1), (beyond, 2)) if chosen.any()]
    words, level = ("T²: within the components", "Q: outside of them"), f"{100 * said['level']:g} %"
    far = np.argsort(-values[:, 0], kind="stable")[:_ROWS].tolist()
    rows = [(j, f"{values[j, 0]:.6g}", f"{values[j, 1]:.6g}") for j in far]
    table = grid(f"The {len(far)} rows of largest T², by their places in your table", ("row", "T²", "Q"), rows)
    caption = (
        f"T² and Q of own records; dashed lines are {level} limits, rows beyond one are orange. No other party has "
        "these numbers."
    )
    body = Plane(*words, tuple(marks), (0.0, ends[0]), (0.0, ends[1]))
    yield Picture("outliers", f"T² and Q: {whose(result, 'outliers')}", caption, body, table)


def _within(t2: Float, said: Mapping[str, Any], owner: str) -> Picture:
    """T2 of records in their order; what all components leave of a record is rounding, and no Q."""
    limit, places = said["t2_limit"], np.arange(len(t2), dtype=np.float64)
    far = t2 > (np.inf if limit is None else limit)
    spots = np.column_stack((places, t2))
    marks: list[Mark] = [Dots(spots[chosen], series) for chosen, series in ((~far, 1), (far, 2)) if chosen.any()]
    if limit is not None:
        marks.insert(0, Line(points([0.0, max(len(t2) - 1.0, 1.0)], [limit] * 2), dashed=True))
    first = np.argsort(-t2, kind="stable")[:_ROWS].tolist()
    rows = [(j, f"{t2[j]:.6g}") for j in first]
    table = grid(f"The {len(first)} rows of largest T², by their places in your table", ("row", "T²"), rows)
    caption = (
        f"T² of own records, in the order of the table; the dashed line is the {100 * said['level']:g} % limit, rows "
        "beyond it are orange. All components are here, so nothing of a row is outside of them. No other party has "
        "these numbers."
    )
    end = float(max(t2.max(initial=0.0), limit or 0.0, 1e-300)) * 1.05
    body = Plane("row", "T²: within the components", tuple(marks), None, (0.0, end))
    return Picture("outliers", f"T²: {owner}", caption, body, table)


def correlations(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """Canonical correlations; of principal components those of the features, where all components are here."""
    if "correlations" in result.arrays:
        yield from _canonical(result)
    elif (matrix := _of_features(result)) is not None:
        names = tuple(result.feature_names(len(matrix)))
        caption = "Correlations of the features over the records of all parties, from all components and variances."
        yield Picture("correlations", "Correlations of the features", caption, Heat(matrix, names))


def _of_features(result: PartyResult) -> Float | None:
    """The joint correlations, which all components with their variances determine; None where some are missing."""
    own, variance = result.arrays.get("components"), result.arrays.get("explained_variance")
    plan = result.plan
    if own is None or variance is None or not plan.centre or len(own) < min(plan.m, plan.n - 1, result.rank):
        return None
    total, kept = result.facts.get("total_energy", 0.0) / max(plan.n - 1, 1), variance[: len(own)]
    if own.shape[1] > SHOWN or float(kept.sum()) < total * (1.0 - 1e-9):
        return None
    covariance = (own.T * kept) @ own
    deviation = np.sqrt(np.diag(covariance))
    known = deviation > 0.0
    by = np.where(known, deviation, 1.0)
    found: Float = np.where(known[:, None] & known[None, :], covariance / np.outer(by, by), np.nan)
    return found


def _canonical(result: PartyResult) -> Iterator[Picture]:
    found = result.arrays["correlations"]
    two = result.plan.k == 2
    what = "canonical correlation" if two else "mean squared correlation with the common variable"
    rows = [(j + 1, f"{value:.6g}") for j, value in enumerate(found.tolist())][:_ROWS]
    table = grid(f"The first {len(rows)} variables", ("variable", what), rows)
    drawn = found[:SHOWN]
    title = f"{what.capitalize()} of the first {len(drawn)} components"
    yield Picture("correlations", title, f"The {what} of each variable.", _counted(drawn, what), table)


def canonical_loadings(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """Correlations of own columns with own canonical scores."""
    values = result.arrays["canonical_loadings"]
    names = result.feature_names(len(values))
    for j in range(min(_CANONICAL, values.shape[1])):
        title = f"Loadings of canonical variable {j + 1}"
        caption = f"{title}: correlations of your own columns with your own scores, largest first."
        effects = tuple(_largest(values[:, j], names, _BARS))
        yield Picture("canonical_loadings", title, caption, Rows(effects, span=(-1.0, 1.0)), of=str(j + 1))
