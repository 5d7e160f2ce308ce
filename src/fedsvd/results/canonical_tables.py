"""Canonical correlations among results: the correlations with their tests for all, weights and loadings for each.

All parties have the common variables (``left_vectors``), the singular values, the correlations and the tests. A party
alone has the weights, loadings and scores of its own columns. Tests need all correlations of two parties: where fewer
were asked for, or there are more parties, there is no table of them, and a fact says why.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.results.folder import Table
from fedsvd.results.result import PartyResult
from fedsvd.roles.user.cca import CCAResult
from fedsvd.statistics.cca import WilksTest, correlations, wilks
from fedsvd.statistics.undefined import NO_FREEDOM, Undefined
from fedsvd.types import Float

SHARED = ("correlations", "wilks")
"""Names of arrays and tables that all parties have."""
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
    """Wilks' tests of all correlations, or why there are none."""
    pair = pair_of(computed, k)
    if pair is None:
        return Undefined("Wilks' test is of two tables")
    if len(computed.sigma) < min(pair):
        return Undefined(f"Wilks' test needs all {min(pair)} correlations, {len(computed.sigma)} were asked for")
    return wilks(correlations_of(computed, k), rows, *pair)


def tests_from(said: Mapping[str, Sequence[float | None]]) -> tuple[WilksTest, ...]:
    """The tests that a result's facts have; a number that is missing there is not defined."""
    rows = zip(*(said[name] for name in _TESTED), strict=True)
    found = []
    for first, cells in enumerate(rows):
        values: list[Any] = [NO_FREEDOM if cell is None else cell for cell in cells]
        found.append(WilksTest(first, **dict(zip(_TESTED, values, strict=True))))
    return tuple(found)


def with_correlations(to: PartyResult, computed: CCAResult) -> PartyResult:
    """The result with what all parties have, but for the common variables."""
    plan = to.plan
    found = correlations_of(computed, plan.k)
    name = "correlation" if plan.k == 2 else "mean_squared_correlation"
    table = Table("correlations", {"component": np.arange(1, len(found) + 1), name: found})
    to = to.adding({"correlations": found, "singular_values": computed.sigma}, table, {"ranks": computed.ranks})
    tests = tests_of(computed, plan.k, plan.m)
    if isinstance(tests, Undefined):
        return to.adding(facts={"no_tests": tests.reason})
    cells = {name: [_plain(getattr(test, name)) for test in tests] for name in _TESTED}
    return to.adding(
        table=Table("wilks", {"first": [test.first + 1 for test in tests], **cells}), facts={"wilks": cells}
    )


def with_own_columns(to: PartyResult, computed: CCAResult, ids: NDArray[Any] | None) -> PartyResult:
    """The result with weights, loadings and scores of the reader's own columns."""
    features = to.feature_names(len(computed.weights))
    for name, own in (("weights", computed.weights), ("canonical_loadings", computed.loadings)):
        to = to.adding({name: own}, Table(name, {"feature": features, **_numbered(own)}))
    index, label = (np.arange(len(computed.scores)), "row") if ids is None else (ids, "id")
    to = to.adding({"column_means": computed.column_means}, facts={"own_rank": computed.own_rank})
    return to.adding({"variates": computed.scores}, Table("variates", {label: index, **_numbered(computed.scores)}))


def _numbered(columns: Float) -> dict[str, Any]:
    return {f"component_{j + 1}": column for j, column in enumerate(columns.T)}


def _plain(value: float | Undefined) -> float | None:
    return None if isinstance(value, Undefined) or not np.isfinite(value) else float(value)
