"""What came out of a study, drawn: the spectrum, and for each task what people look at first.

Only arrays that the reader holds are asked for; a picture whose array is not there is not drawn. Thousands of samples
are thinned to a couple of thousand points, and the caption says so.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from fedsvd.protocol.tasks import Item, Own, Split, Task
from fedsvd.results.report import charts, components, model, regression, ridge, svg
from fedsvd.results.report.declared import declared_outputs
from fedsvd.results.report.sections import Figure, Section, grid
from fedsvd.results.result import PartyResult
from fedsvd.types import Float

_NAMED_POINTS = 12
_NEIGHBOURS = 5
_LOADINGS, _BARS = 3, 12  # components, and features of each
_ROWS = 30


def findings(result: PartyResult) -> Iterator[Section]:
    """The sections on results, as far as this reader holds any."""
    yield from declared_outputs(result)
    if not result.of_a_role and any(output.table == "spectrum" for output in result.outputs):
        yield _spectrum(result)
    yield from components.canonical(result)
    if "components" in result.arrays:
        yield _features(result)
    if "components" in result.arrays and result.plan.task is Task.LSA:
        yield _neighbours(result)
    samples = next((name for name in ("scores", "left_vectors") if name in result.arrays), None)
    if samples is not None:
        yield _samples(result, samples)
    yield from components.outliers(result)
    if result.plan.targets and result.plan.glm is None and result.arrays.keys() & {"coefficients", "intercept"}:
        yield _regression(result)
    if result.facts.get("models"):
        yield model.model_section(result)


def _spectrum(result: PartyResult) -> Section:
    sigma = result.arrays.get("singular_values")
    if sigma is None:
        return Section("spectrum", "Spectrum", ("The plan of this study does not release the singular values.",))
    ratio, of_all = _shares(result, sigma)
    if "explained_variance" in result.arrays:
        values, what = result.arrays["explained_variance"], "explained variance"
    else:
        values, what = sigma, "singular value"
    rows = [
        (j + 1, f"{s:.6g}", f"{100 * share:.3f} %", f"{100 * total:.3f} %")
        for j, (s, share, total) in enumerate(zip(sigma, ratio, np.cumsum(ratio), strict=True))
    ][:_ROWS]
    table = grid(f"The first {len(rows)} components", ("component", "singular value", "share", "added up"), rows)
    share = "share of the variance" if result.plan.centre else "share of the sum of squares"
    of = "of the full table" if of_all else "among the components that were computed"
    first = 100 * float(ratio[0]) if len(ratio) else 0.0
    return Section(
        "spectrum",
        "Spectrum",
        (
            f"Of the {share.removeprefix('share of the ')} {of}, the first component holds {first:.1f} %, "
            f"all {len(sigma)} together {100 * ratio.sum():.1f} %.",
            *components.rule_in_words(result),
        ),
        (
            Figure(components.scree(result, values, what), f"Scree: {what} of each component.", table),
            Figure(charts.cumulative(ratio, share), f"Cumulative {share} {of}."),
        ),
    )


def _shares(result: PartyResult, sigma: Float) -> tuple[Float, bool]:
    """Each component's share of the energy, and whether that is of all there is."""
    ratio = result.arrays.get("explained_variance_ratio")
    if ratio is not None:
        return ratio, True
    total = float(np.sum(sigma**2)) or 1.0
    return sigma**2 / total, len(sigma) == min(result.plan.m, result.plan.n)


def _features(result: PartyResult) -> Section:
    """Loadings: which features make each component; and for LSA and SVD the map of features."""
    own = result.arrays["components"]
    names = result.feature_names(own.shape[1])
    first = own[:_LOADINGS]
    orders = [np.argsort(-np.abs(row), kind="stable")[:_BARS] for row in first]
    low, high = svg.covering(min(0.0, float(first.min())), max(0.0, float(first.max())))
    rows = [[(names[i], float(first[j][i])) for i in order] for j, order in enumerate(orders)]
    figures = []
    for j, row in enumerate(rows):
        title = f"Loadings of component {j + 1}"
        picture = charts.bars(row, title, (low, high), [one for each in rows for one in each])
        shown = f"{len(row)} largest of {len(names)}" if len(row) < len(names) else "all, largest first"
        figures.append(Figure(picture, f"{title}: {shown}; scale {low:g} to {high:g}."))
    if len(own) > 1:
        figures.append(_feature_map(result, names))
    whose = "of your own columns" if result.plan.split is Split.VERTICAL else "that all parties share"
    words = (f"Components {whose}: {len(names)} features.", _loadings_in_words(result, low, high))
    return Section("components", "Loadings", words, tuple(figures))


def _loadings_in_words(result: PartyResult, low: float, high: float) -> str:
    """What the numbers and the scale of the loadings are."""
    total = "add up to 1"
    if result.plan.split is Split.VERTICAL:
        total = "add up to 1 over the columns of all parties, so to less over yours"
    return (
        f"A loading is the weight of a feature in a component: between -1 and 1, and the squares of one component's "
        f"loadings {total}. All bars have one scale, {low:g} to {high:g}: blue and to the right where the feature "
        "rises with the component, orange and to the left where it falls. Which of the two directions of a component "
        "counts as rising is a convention."
    )


def _feature_map(result: PartyResult, names: Sequence[str]) -> Figure:
    """Features by their loadings on two components, the farthest ones named and listed."""
    weights = _weights(result, 2)
    points = (result.arrays["components"][:2] * weights[:, None]).T
    unit = "loading" if (weights == 1.0).all() else "loading × singular value"
    far = np.argsort(-np.linalg.norm(points, axis=1), kind="stable")[:_NAMED_POINTS].tolist()
    axes = (f"component 1: {unit}", f"component 2: {unit}")
    picture = charts.scatter(points, names, far, "Map of the features", axes)
    rows = [(names[j], f"{points[j, 0]:.6g}", f"{points[j, 1]:.6g}") for j in far]
    table = grid(f"The {len(far)} features farthest from zero", ("feature", *axes), rows)
    caption = (
        f"Map of the features, one point each{charts.thinned_in_words(len(points))}; in orange the {len(far)} farthest "
        "from zero. A name that would cover another is left out: the numbers have all of them."
    )
    return Figure(picture, caption, table)


def _weights(result: PartyResult, count: int) -> Float:
    """Singular values as weights where the reader has them."""
    sigma = result.arrays.get("singular_values")
    return np.ones(count) if sigma is None or len(sigma) < count else np.asarray(sigma[:count], dtype=np.float64)


def _neighbours(result: PartyResult) -> Section:
    """For the heaviest features the ones that point the same way."""
    own = result.arrays["components"]
    names = result.feature_names(own.shape[1])
    points = (own * _weights(result, len(own))[:, None]).T
    lengths = np.linalg.norm(points, axis=1)
    heavy = np.argsort(-lengths, kind="stable")[:_NAMED_POINTS]
    directions = points / np.where(lengths > 0, lengths, 1.0)[:, None]
    rows = []
    for j in heavy.tolist():
        cosines = directions @ directions[j]
        cosines[j] = -2.0
        near = np.argsort(-cosines, kind="stable")[: min(_NEIGHBOURS, len(names) - 1)]
        rows.append((names[j], ", ".join(f"{names[i]} ({cosines[i]:.2f})" for i in near.tolist())))
    table = grid("By cosine in the latent space", ("feature", "nearest"), rows)
    return Section("neighbours", "Nearest neighbours", ("The heaviest features, and what lies nearest.",), (), (table,))


def _samples(result: PartyResult, name: str) -> Section:
    """Scores, or left vectors, of the rows that the reader holds."""
    values = result.arrays[name]
    words = {"scores": "Scores", "left_vectors": "Left singular vectors"}[name]
    if result.plan.own is Own.VARIATES:
        words = "Common variables"
    whose = "of your own rows" if result.plan.split is Split.HORIZONTAL else "of the rows that all parties share"
    if values.shape[1] < 2:
        return Section("samples", words, (f"{len(values)} rows with one component each: no map to draw.",))
    # Names of rows may be those of people: they are not drawn.
    picture = charts.scatter(values[:, :2], [], [], words, ("component 1", "component 2"))
    caption = f"{words} {whose} in the first two components{charts.thinned_in_words(len(values))}."
    return Section("samples", words, (f"{len(values)} rows.",), (Figure(picture, caption),))


def _regression(result: PartyResult) -> Section:
    words, figures = [], []
    for target, fit in (result.facts.get("score") or {}).items():
        r2 = "not defined (the labels do not vary)" if fit["r2"] is None else f"{fit['r2']:.6g}"
        on = "all rows" if result.plan.split is Split.VERTICAL else "your own rows"
        words.append(f"{target}: R² {r2}, mean squared error {fit['mse']:.6g}, on {on}.")
    words += regression.fit_in_words(result)
    intercept = result.arrays.get("intercept")
    if intercept is not None:
        pairs = list(zip(result.targets, intercept.tolist(), strict=False))
        words.append("Intercept: " + ", ".join(f"{target} {value:.6g}" for target, value in pairs) + ".")
    coefficients = result.arrays.get("coefficients")
    forests = list(regression.forest_plots(result))
    if forests:
        figures += forests
    elif coefficients is not None:
        names = result.feature_names(coefficients.shape[1])
        for target, w in zip(result.targets, coefficients, strict=False):
            order = np.argsort(-np.abs(w), kind="stable")[:_ROWS]
            title = f"Coefficients of {target}"
            caption = (
                f"{title}, largest first: by how much {target} rises where the feature is one larger and all others "
                "are the same. Orange bars are negative."
            )
            figures.append(Figure(charts.bars([(names[i], float(w[i])) for i in order], title), caption))
    elif result.plan.releases(Item.COEFFICIENTS):
        words.append("Each party alone holds the coefficients of its own columns.")
    figures += [*ridge.figures(result), *_residuals(result), *_leverage(result)]
    words += [*ridge.words(result), *regression.notes(result)]
    grids = (*regression.tables(result), *components.regression_tables(result))
    return Section("regression", "Regression", tuple(words), tuple(figures), grids)


def _residuals(result: PartyResult) -> list[Figure]:
    fitted, residuals = result.arrays.get("fitted"), result.arrays.get("residuals")
    if fitted is None or residuals is None:
        return []
    drawn = []
    for j, target in enumerate(result.targets):
        points = np.column_stack([fitted[:, j], residuals[:, j]])
        title = f"Residuals of {target}"
        picture = charts.scatter(points, [], [], title, ("fitted", "label minus fitted"))
        drawn.append(Figure(picture, f"{title} against the fitted values{charts.thinned_in_words(len(points))}."))
    return drawn


def _leverage(result: PartyResult) -> list[Figure]:
    """How much each own row pulls the joint fit towards itself, against how far it lies from it."""
    leverage, standardised = result.arrays.get("leverage"), result.arrays.get("standardised_residuals")
    if leverage is None or standardised is None:
        return []
    drawn = []
    for j, target in enumerate(result.targets):
        points = np.column_stack([leverage, standardised[:, j]])
        title = f"Leverage of your own rows, {target}"
        picture = charts.scatter(points, [], [], title, ("leverage", "residual in standard deviations"))
        caption = (
            f"{title}{charts.thinned_in_words(len(points))}: rows far to the right decide the joint fit the most; one "
            "that also lies beyond 3 deviations is worth a look. Only you hold these numbers."
        )
        drawn.append(Figure(picture, caption))
    return drawn
