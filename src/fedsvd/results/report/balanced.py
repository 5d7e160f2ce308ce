"""A propensity study in a report: who is compared, how alike weights make the groups, and the model of the score."""

from collections.abc import Iterator

import numpy as np

from fedsvd.results.propensity_table import balance
from fedsvd.results.report.figures import figures
from fedsvd.results.report.sections import Section, columns_grid
from fedsvd.results.result import PartyResult

_WHOSE = {
    "overlap": "those who might have been treated or not (overlap weights)",
    "ATE": "all records (ATE)",
    "ATT": "the treated (ATT)",
}
_TERMS = 200


def balance_sections(result: PartyResult) -> Iterator[Section]:
    """The balance of the covariates, and the coefficients of the score, where the reader holds them."""
    if "balance" not in result.facts:
        return
    found = balance(result)
    (n0, n1), (e0, e1) = found.sizes
    worst = float(np.nanmax(np.abs(found.differences[1]), initial=0.0))
    words: tuple[str, ...] = (
        f"The effect is that of {_WHOSE[found.estimand]}. {n1:.0f} treated records and {n0:.0f} others are worth "
        f"{e1:.1f} and {e0:.1f} with their weights (effective sizes). The largest difference after weighting is "
        f"{worst:.3f}.",
        "Scores and weights of records stay with their party. Standard errors take the scores as known, which is "
        "conservative for ATE. No weighting balances what was not measured.",
    )
    if own := result.facts.get("own_weights"):
        left_out = f"{own['left_out']} are left out by trimming"
        words = (*words, f"Of your own {own['rows']} rows {own['treated']} were treated; {left_out}.")
    table = columns_grid("Balance, as cobalt names it", found.columns(), ".4g", most=_TERMS)
    scores = result.facts["propensity_model"]
    columns = {"term": scores["terms"], "coefficient": scores["coefficients"]}
    model = columns_grid("The score: log-odds of having been treated", columns, ".6g", most=_TERMS)
    yield Section("balance", "Balance of covariates", words, figures(result, "love"), (table, model))
