"""Principal components and canonical correlations in a report: the rule that chose, rows that stand out, correlations.

Rows that stand out are the reader's own; their names may be those of people and are not drawn.
"""

from collections.abc import Iterator
from typing import Any

from fedsvd.protocol.tasks import PERMUTED_TABLES, ComponentRule, share_in
from fedsvd.results.component_tables import component_models
from fedsvd.results.report.figures import figures
from fedsvd.results.report.sections import Grid, Section, facts_of, grid
from fedsvd.results.result import PartyResult
from fedsvd.statistics.summary import linear_summary


def rule_in_words(result: PartyResult) -> list[str]:
    """By which rule how many components were taken."""
    choice = result.facts.get("choice")
    if choice is None:
        return []
    count, share = choice["count"], share_in(choice["rule"])
    taken = f"{count} component{'s' if count > 1 else ''} taken"
    if share is not None:
        return [f"{taken}: the fewest that hold more than {100 * share:g} % of the variance."]
    why = {
        ComponentRule.MLE: "the number under which the data is most likely (Minka).",
        ComponentRule.GAVISH_DONOHO: "those above the optimal hard threshold for singular values (Gavish and Donoho), "
        "the line in the scree plot.",
        ComponentRule.PARALLEL: f"those above the 95 % quantile of {PERMUTED_TABLES} tables whose columns each party "
        "permuted among its own rows (parallel analysis), the line in the scree plot. Differences between the parties' "
        "means are in these tables too.",
    }
    return [f"{taken}: {why[ComponentRule(choice['rule'])]}"]


def outliers(result: PartyResult) -> Iterator[Section]:
    """T2 and Q of own rows, with their limits."""
    values, said = result.arrays.get("outliers"), result.facts.get("outliers")
    if values is None or said is None:
        return
    level = f"{100 * said['level']:g} %"
    words = [
        "T² is how far a row lies from the mean within the components, Q what the components leave of it. A row of the "
        f"same normal population exceeds a limit with a probability of {100 * (1 - said['level']):.3g} %."
    ]
    for name, key in (("T²", "t2"), ("Q", "q")):
        if said[f"{key}_limit"] is None:
            words.append(f"{name} has no limit: {said[f'{key}_limit_why']}.")
        else:
            count = said[f"{key}_beyond"]
            words.append(f"{count} of {len(values)} own rows are beyond the {level} limit of {name}.")
    yield Section("outliers", "Rows that stand out", tuple(words), figures(result, "outliers"))


def regression_tables(result: PartyResult) -> Iterator[Grid]:
    """For each target of a regression on components their table, and what is said of the model as one."""
    if "component_coefficients" not in result.arrays:
        return
    for target, model in zip(result.targets, component_models(result), strict=True):
        names = [f"component {j + 1}" for j in range(len(model.coefficients) - 1)]
        summary = linear_summary(model, names, target)
        yield grid(f"Components as predictors of {target}", ("term", *summary.cells), summary.rows())
        yield facts_of(f"The model of {target}", summary.facts)


def canonical(result: PartyResult) -> Iterator[Section]:
    """Canonical correlations, their tests, and the loadings of the reader's own columns."""
    if "correlations" not in result.arrays:
        return
    words = [
        "Each party made an orthonormal basis of its own centred columns; canonical variables are the directions in "
        "which these tables agree most."
    ]
    if "no_tests" in result.facts:
        words.append(f"No tests: {result.facts['no_tests']}.")
    drawn = figures(result, "correlations", "canonical_loadings")
    grids = tuple(_tests(result.facts["wilks"])) if "wilks" in result.facts else ()
    yield Section("canonical", "Canonical correlations", tuple(words), drawn, grids)


def _tests(said: dict[str, Any]) -> Iterator[Grid]:
    def cell(value: float | None) -> str:
        return "-" if value is None else f"{value:.6g}"

    keys = ("wilks", "f", "df1", "df2", "f_p", "chi2", "chi2_p")
    rows = [(j + 1, *(cell(said[key][j]) for key in keys)) for j in range(len(said["wilks"]))]
    header = ("from", "Wilks' lambda", "F", "df 1", "df 2", "p of F", "chi²", "p of chi²")
    yield grid("Whether this correlation and all smaller ones are zero", header, rows)
