"""A generalised linear model in a report: ratios as journals print them, the drawings, and the table in full."""

from collections.abc import Iterator, Mapping
from typing import Any

from fedsvd.results.drawings.models import ratios_of
from fedsvd.results.drawings.ranking import off_in_words, pooled, test_in_words, thresholds
from fedsvd.results.hazard_tables import tables_beyond_fit
from fedsvd.results.model_table import models_of, summaries
from fedsvd.results.report.figures import figures
from fedsvd.results.report.regression import own_clusters
from fedsvd.results.report.sections import Grid, Section, facts_of, grid
from fedsvd.results.result import PartyResult
from fedsvd.statistics.glm import GLMInference
from fedsvd.statistics.pooled_roc import PooledROC
from fedsvd.statistics.summary import ratio_of

_TERMS = 200  # of the table; the file has all


def model_section(result: PartyResult) -> Section:
    """What came out of a generalised linear model, as far as this reader holds it."""
    about = result.plan.glm
    of_rows = () if about is None else about.facts.draws
    notes = dict.fromkeys(note for _, summary in summaries(result) for note in summary.notes)
    clusters = {model.errors.clusters for model in models_of(result)} - {0}
    ratios, tables = tuple(_ratios(result)), tuple(_tables(result))
    return Section(
        str(result.task),
        result.task.heading,
        (*_in_words(result), *map(own_clusters, clusters), *(f"Not defined: {note}." for note in notes)),
        figures(result, "forest", *of_rows),
        tables if ratios else tables[1:],
        first=ratios or tables[:1],
    )


def _in_words(result: PartyResult) -> Iterator[str]:
    for model, (name, _) in zip(models_of(result), summaries(result), strict=True):
        yield model.in_words(name)
    if (of_all := result.facts.get("quality")) is not None:
        yield quality_in_words(of_all)
    joint = pooled(result)
    if joint is not None:
        yield roc_in_words(joint)
    own = result.facts.get("own_rows")
    if own:
        areas = ", ".join("not defined" if area is None else f"{area:.4f}" for area in own.get("auc", ()))
        quality = f"area under the ROC curve {areas}, Brier score {own['brier']:.4f}" if areas else ""
        quality = quality or _squared_or_events(own)
        yield f"On your own {own['rows']} rows, on which the model was fitted too: {quality}."


def quality_in_words(said: Mapping[str, float | None]) -> str:
    """How well the model ranks and predicts the records of all parties."""
    brier = f"Brier score {said['brier']:.4f}"
    if said["auc"] is None:
        return f"Over all parties: {brier}; no party has five cases and five controls, so there are no pairs to rank."
    error = 1.959964 * float(said["auc_error"] or 0.0)
    low, high = max(0.0, said["auc"] - error), min(1.0, said["auc"] + error)
    return (
        f"Over all parties, on the rows of the fit: area under the ROC curve {said['auc']:.4f} ({low:.4f} to "
        f"{high:.4f}), by {said['pairs']:.0f} pairs of a case and a control within sites; {brier}."
    )


def roc_in_words(joint: PooledROC) -> str:
    """What follows from the counts of all parties."""
    if not joint.both:
        return f"Counts in multiples of {joint.least} have no cases, or no controls: there is no joint ROC curve."
    test = joint.hosmer_lemeshow()
    error = "" if joint.area_error is None else f", standard error {joint.area_error:.4f}"
    tested = "" if test is None else f" {test_in_words(test, joint.least)}"
    found = f"All parties' records together: area under the ROC curve {joint.area:.4f}{error}."
    return f"{found} {off_in_words(joint)}{tested}"


def _squared_or_events(own: Mapping[str, Any]) -> str:
    return f"{own['events']} events" if "events" in own else f"mean squared error {own['mean_squared_error']:.6g}"


def _ratios(result: PartyResult) -> Iterator[Grid]:
    """Odds ratios and their like with intervals and p-values, where the link has such."""
    for model, (what, summary) in zip(models_of(result), summaries(result), strict=True):
        ratio = ratio_of(model)
        if ratio:
            title, cells = ratios_of(ratio, what), summary.printed()
            header = ("term", f"{ratio} ({100 * model.level:g} % interval)", "p")
            yield grid(title + _cut(len(cells)), header, cells[:_TERMS])


def printed_ratios(result: PartyResult) -> Iterator[Grid]:
    """The same of models whose coefficients are printed with their ratios."""
    models = models_of(result) if result.plan.glm is not None else ()
    if any(isinstance(model, GLMInference) and model.prints_ratios for model in models):
        yield from _ratios(result)


def _tables(result: PartyResult) -> Iterator[Grid]:
    for what, summary in summaries(result):
        cells = summary.rows()
        yield grid(f"Coefficients of {what}{_cut(len(cells))}", ("term", *summary.cells), cells[:_TERMS])
        yield facts_of(f"The model of {what}", summary.facts)
    yield from thresholds(result)
    yield from tables_beyond_fit(result)


def _cut(count: int) -> str:
    return f": the first {_TERMS} of {count} terms, coefficients.csv has all" if count > _TERMS else ""
