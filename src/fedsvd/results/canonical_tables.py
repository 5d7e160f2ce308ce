"""Canonical correlations among results: the correlations with their tests for all, weights and loadings for each.

All parties have the common variables (``left_vectors``), the singular values, the correlations and the tests. A party
alone has the weights, loadings and scores of its own columns. Tests need all correlations of two parties: where fewer
were asked for, or there are more parties, there is no table of them, and a fact says why.
"""

from typing import Any

import numpy as np

from fedsvd.results.folder import Table
from fedsvd.results.outputs import Values
from fedsvd.results.result import PartyResult
from fedsvd.roles.user.cca import CCAResult
from fedsvd.statistics.cca import WilksTest, correlations, wilks
from fedsvd.statistics.undefined import NO_FREEDOM, Undefined
from fedsvd.types import Float

OWN_ARRAYS = ("weights", "canonical_loadings", "column_means", "variates")
"""Names of arrays that each party has of its own columns."""
_TESTED = ("wilks", "f", "df1", "df2", "f_p", "chi2", "chi2_p")


def pair_of(computed: CCAResult, k: int) -> tuple[int, int] | None:
    """The ranks of both tables; None where there are more than two."""
    return (computed.own_rank, computed.ranks - computed.own_rank) if k == 2 else None


def correlations_of(computed: CCAResult, k: int) -> Float:
    """Of two parties the canonical correlations; of more the mean squared correlation of each with the common one."""
    pair = pair_of(computed, k)
    if pair is None:
        return np.square(computed.sigma) / k
    count = min(*pair, len(computed.sigma))
    return correlations(computed.sigma, (count, count))


def tests_of(computed: CCAResult, k: int, rows: int) -> tuple[WilksTest, ...] | Undefined:
    """Wilks' tests of all correlations, or why they do not exist."""
    pair = pair_of(computed, k)
    if pair is None:
        return Undefined("Wilks' test is of two tables")
    if len(computed.sigma) < min(pair):
        return Undefined(f"Wilks' test needs all {min(pair)} correlations, {len(computed.sigma)} were asked for")
    return wilks(correlations_of(computed, k), rows, *pair)


def tests_of_result(result: PartyResult) -> tuple[WilksTest, ...]:
    """The tests of a result, as computed or as read back; a number that is missing there is not defined."""
    if "wilks" in result.objects:
        return tuple(result.objects["wilks"])
    rows = zip(*(result.facts["wilks"][name] for name in _TESTED), strict=True)
    found = []
    for first, cells in enumerate(rows):
        values: list[Any] = [NO_FREEDOM if cell is None else cell for cell in cells]
        found.append(WilksTest(first, **dict(zip(_TESTED, values, strict=True))))
    return tuple(found)


def canonical(to: PartyResult, computed: CCAResult, tables: bool) -> Values:
    """What a CCA gives: to all what is common, to its reader weights, loadings and scores of its own columns."""
    plan, found = to.plan, correlations_of(computed, to.plan.k)
    arrays = {
        "left_vectors": computed.U,
        "correlations": found,
        "singular_values": computed.sigma,
        **dict(
            zip(OWN_ARRAYS, (computed.weights, computed.loadings, computed.column_means, computed.scores), strict=True)
        ),
    }
    name = "correlation" if plan.k == 2 else "mean_squared_correlation"
    shown = Table("correlations", {"component": np.arange(1, len(found) + 1), name: found})
    facts: dict[str, Any] = {"ranks": computed.ranks, "own_rank": computed.own_rank}
    tests = tests_of(computed, plan.k, plan.m)
    if isinstance(tests, Undefined):
        return Values(arrays, {**facts, "no_tests": tests.reason}, (shown,))
    facts["wilks"] = {name: [_plain(getattr(test, name)) for test in tests] for name in _TESTED}
    tested = Table("wilks", {"first": [test.first + 1 for test in tests], **facts["wilks"]})
    return Values(arrays, facts, (shown, tested) if tables else (), {"wilks": tests})


def _plain(value: float | Undefined) -> float | None:
    return None if isinstance(value, Undefined) or not np.isfinite(value) else float(value)
