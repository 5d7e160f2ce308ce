"""The love plot of a propensity study: differences of covariates between the groups, before and after weighting."""

from collections.abc import Iterator

import numpy as np

from fedsvd.results.drawings.described import BALANCED
from fedsvd.results.drawings.picture import USUAL, Effect, Picture, Rows, Wish
from fedsvd.results.propensity_table import balance
from fedsvd.results.report.sections import grid
from fedsvd.results.result import PartyResult


def love(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """A row for each covariate, the largest difference before weighting first."""
    if "balance" not in result.facts:
        return
    found = balance(result)
    before, after = np.abs(found.differences)
    known = np.flatnonzero(np.isfinite(before) & np.isfinite(after))
    order = known[np.argsort(-before[known], kind="stable")]
    if not len(order):
        return
    words = [f"{found.names[j]}: {before[j]:.3f} before, {after[j]:.3f} after" for j in order]
    effects = tuple(
        Effect(found.names[j], float(after[j]), float(after[j]), float(after[j]), says)
        for j, says in zip(order, words, strict=True)
    )
    caption = (
        "Absolute differences between the treated and all others, before weighting (hollow) and after (filled): of "
        "numbers in standard deviations, of 0/1 columns of their shares. Below the dashed line, "
        f"{BALANCED:g}, is usually taken as balanced."
    )
    rows = [(found.names[j], f"{before[j]:.4f}", f"{after[j]:.4f}") for j in order]
    numbers = grid("Balance of covariates", ("covariate", "before", "after"), rows)
    body = Rows(effects, x_label="absolute difference", dots=True, limit=BALANCED, before=tuple(before[order].tolist()))
    yield Picture("love", "Balance of covariates", caption, body, numbers)
