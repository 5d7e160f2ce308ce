"""The attack on directions that a study by steps opens: records of small whole numbers, by lattice reduction.

Played on a few of the owner's records as the only others of a study, which is where it works: each further record is
one more unknown weight. What stands next to it is what the rules say of that very study, and of one with all records.
"""

import numpy as np

from fedsvd.audit.attacks.directions import candidates, lattice_of_records
from fedsvd.audit.openings_table import OpenedTable, Played, Stop, Verdict, at_home, not_played
from fedsvd.policy.own_rows import MOST_VALUES
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import Float, SessionId

DIRECTIONS = "directions of a study by steps, and lattice reduction"
_RECORDS, _COLUMNS, _FEWEST_COLUMNS, _TAKEN = 7, 18, 14, 4
_LARGEST = 9.0  # of a value: larger ones need a deeper reduction than is played


def directions(table: OpenedTable, policy: Policy) -> Played:
    """Seven records of up to eighteen columns of few small whole numbers, from four directions."""
    few = [j for j, column in enumerate(table.X.T) if _small(column)][:_COLUMNS]
    if len(few) < _FEWEST_COLUMNS:
        return not_played(DIRECTIONS, f"fewer than {_FEWEST_COLUMNS} columns have few small whole numbers")
    rows = slice(len(table.X) - _RECORDS, len(table.X))
    records = table.X[rows][:, few]
    counts = (len(table.X) - _RECORDS, _RECORDS)
    study = Study(Task.SVD, Split.HORIZONTAL, scheme="steps", components=2)
    plan = plan_study(study, len(few), counts, SessionId("00" * 16)).plan
    K = np.linalg.qr(np.random.default_rng(0).normal(size=(len(few), _TAKEN)))[0]
    basis = lattice_of_records(records.T @ (records @ K), _RECORDS)
    found = candidates(basis, table.X[:, few].min(axis=0), table.X[:, few].max(axis=0))
    read = sum(tuple(record) in found for record in records.astype(int).tolist())
    note = f"of {len(few)} columns, among {len(found)} candidates; {_of_all(table, few, policy)}"
    verdict = at_home(plan, table.party(rows, few), policy)
    return Played(DIRECTIONS, 1, read, len(records), "records", verdict, note=note)


def _of_all(table: OpenedTable, few: list[int], policy: Policy) -> str:
    """What the same rules say where three parties share all records, in words."""
    parts = table.dealt(3)
    counts = tuple(part.stop - part.start for part in parts)
    study = Study(Task.SVD, Split.HORIZONTAL, scheme="steps", components=2)
    verdict: Verdict = at_home(
        plan_study(study, len(few), counts, SessionId("00" * 16)).plan, table.party(parts[1], few), policy
    )
    by = f" ({', '.join(verdict.rules)})" if verdict.rules else ""
    said = {Stop.NOT: "fine"}.get(verdict.stop, str(verdict.stop))
    return f"with all {len(table.X):,} records at three parties: {said}{by}"


def _small(column: Float) -> bool:
    whole = bool((column == np.round(column)).all() and np.abs(column).max() <= _LARGEST)
    return whole and len(np.unique(column)) <= MOST_VALUES
