"""What came out of a study, drawn: the spectrum, and for each task what people look at first.

Drawings are those that the task declares (``drawings``); here they become sections with their words and tables. Only
what the reader holds is drawn. Thousands of samples are thinned to a couple of thousand points, which captions say.
"""

from collections.abc import Iterator

import numpy as np

from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.results.drawings.components import loading_scale, samples_of, shares, weights
from fedsvd.results.report import components, model, regression
from fedsvd.results.report.balanced import balance_sections
from fedsvd.results.report.declared import declared_outputs
from fedsvd.results.report.described import described
from fedsvd.results.report.figures import figures
from fedsvd.results.report.sections import Section, grid
from fedsvd.results.report.survival import survival_sections
from fedsvd.results.result import PartyResult

_NEIGHBOURS, _HEAVIEST = 5, 12


def findings(result: PartyResult) -> Iterator[Section]:
    """The sections on results, as far as this reader holds any."""
    yield from declared_outputs(result)
    yield from survival_sections(result)
    yield from described(result)
    if result.facts.get("models"):
        yield model.model_section(result)
    yield from balance_sections(result)
    if result.plan.targets and result.plan.glm is None and result.arrays.keys() & {"coefficients", "intercept"}:
        yield _regression(result)
    if "singular_values" in result.arrays and any(output.table == "spectrum" for output in result.outputs):
        yield _spectrum(result)
    yield from components.canonical(result)
    if "components" in result.arrays:
        yield _features(result)
    if "components" in result.arrays and result.plan.task is Task.LSA:
        yield _neighbours(result)
    if result.arrays.keys() & {"scores", "left_vectors"}:
        yield _samples(result)
    yield from components.outliers(result)


def _spectrum(result: PartyResult) -> Section:
    sigma = result.arrays["singular_values"]
    ratio, of_all = shares(result)
    what = "variance" if result.plan.centre else "sum of squares"
    of = "of the full table" if of_all else "among the components that were computed"
    first = 100 * float(ratio[0]) if len(ratio) else 0.0
    words = (
        f"Of the {what} {of}, the first component holds {first:.1f} %, "
        f"all {len(sigma)} together {100 * ratio.sum():.1f} %.",
        *components.rule_in_words(result),
    )
    return Section("spectrum", "Spectrum", words, figures(result, "scree", "cumulative"))


def _features(result: PartyResult) -> Section:
    """Loadings: which features make each component; and the map of features."""
    names = result.feature_names(result.arrays["components"].shape[1])
    whose = "of your own columns" if result.plan.split is Split.VERTICAL else "that all parties share"
    words: tuple[str, ...] = (f"Components {whose}: {len(names)} features.", _loadings_in_words(result))
    if "singular_values" not in result.arrays:
        words += ("How much of the variance each holds is not known: the study released no singular values.",)
    return Section("components", "Loadings", words, figures(result, "loadings", "features"))


def _loadings_in_words(result: PartyResult) -> str:
    """What the numbers and the scale of the loadings are."""
    total, (low, high) = "add up to 1", loading_scale(result)
    if result.plan.split is Split.VERTICAL:
        total = "add up to 1 over the columns of all parties, so to less over yours"
    return (
        f"A loading is the weight of a feature in a component: between -1 and 1, and the squares of one component's "
        f"loadings {total}. All bars have one scale, {low:g} to {high:g}: blue and to the right where the feature "
        "rises with the component, orange and to the left where it falls. Which of the two directions of a component "
        "counts as rising is a convention."
    )


def _neighbours(result: PartyResult) -> Section:
    """For the heaviest features the ones that point the same way."""
    own = result.arrays["components"]
    names = result.feature_names(own.shape[1])
    points = (own * weights(result, len(own))[:, None]).T
    lengths = np.linalg.norm(points, axis=1)
    heavy = np.argsort(-lengths, kind="stable")[:_HEAVIEST]
    directions = points / np.where(lengths > 0, lengths, 1.0)[:, None]
    rows = []
    for j in heavy.tolist():
        cosines = directions @ directions[j]
        cosines[j] = -2.0
        near = np.argsort(-cosines, kind="stable")[: min(_NEIGHBOURS, len(names) - 1)]
        rows.append((names[j], ", ".join(f"{names[i]} ({cosines[i]:.2f})" for i in near.tolist())))
    table = grid("By cosine in the latent space", ("feature", "nearest"), rows)
    return Section("neighbours", "Nearest neighbours", ("The heaviest features, and what lies nearest.",), (), (table,))


def _samples(result: PartyResult) -> Section:
    """Scores, or left vectors, of the rows that the reader holds."""
    name, words = samples_of(result)
    values = result.arrays[name]
    if values.shape[1] < 2:
        return Section("samples", words, (f"{len(values)} rows with one component each: no map to draw.",))
    return Section("samples", words, (f"{len(values)} rows.",), figures(result, "scores", "biplot"))


def _regression(result: PartyResult) -> Section:
    words = [*regression.joint_in_words(result)]
    for target, fit in (result.facts.get("score") or {}).items():
        r2 = "not defined (the labels do not vary)" if fit["r2"] is None else f"{fit['r2']:.6g}"
        on = "all rows" if result.plan.split is Split.VERTICAL else "your own rows"
        words.append(f"{target}: R² {r2}, mean squared error {fit['mse']:.6g}, on {on}.")
    words += regression.fit_in_words(result)
    intercept = result.arrays.get("intercept")
    if intercept is not None and not result.facts.get("inference"):  # else it stands in the table
        pairs = list(zip(result.targets, intercept.tolist(), strict=False))
        words.append("Intercept: " + ", ".join(f"{target} {value:.6g}" for target, value in pairs) + ".")
    found = figures(result, "forest") or figures(result, "coefficients")
    if not found and "coefficients" not in result.arrays and result.plan.releases(Item.COEFFICIENTS):
        words.append("Each party alone holds the coefficients of its own columns.")
    found += figures(result, "ridge", "residuals", "qq", "caterpillar", "leverage")
    words += [*regression.ridge_in_words(result), *regression.notes(result)]
    grids = (*regression.tables(result), *components.regression_tables(result))
    return Section("regression", "Regression", tuple(words), found, grids[1:], first=grids[:1])
