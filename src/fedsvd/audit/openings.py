"""The audit of openings: what one party would read of an owner's own records from sums that studies open.

Each attack is played on the table, and its result compared with the true records; next to it stands what the owner's
rules say of the studies that it takes, by calling these rules. Counts and names of rules are said, never values.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any

from fedsvd.audit.openings_directions import directions
from fedsvd.audit.openings_patterns import logistic, robust
from fedsvd.audit.openings_sums import cuts, dropped, rosters, singled
from fedsvd.audit.openings_table import OpenedTable, Played, opened_table
from fedsvd.audit.openings_times import departures, moved_edges, three_groups
from fedsvd.data.source import MatrixSource
from fedsvd.policy.rules import Policy

NOT_PLAYED = (
    "formulas that no grammar holds",
    "imputation, CCA and fitted values on split columns",
    "scans of many exact sums",
    "lies of a party, and versions of a table",
)
"""Attacks that are known and left out here; the threat model has each with the rule against it."""


@dataclass(frozen=True, repr=False)
class OpeningsAudit:
    """What came of all attacks."""

    table: OpenedTable
    played: tuple[Played, ...]
    seconds: float

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "records": len(self.table.y),
            "columns": len(self.table.names),
            "left_out": list(self.table.left_out),
            "attacks": [each.record() for each in self.played],
            "not_played": list(NOT_PLAYED),
            "seconds": self.seconds,
        }


def audit_openings(
    source: MatrixSource, label: str, policy: Policy, seed: int = 0, event: str | None = None
) -> OpeningsAudit:
    """Play every attack on this table under this policy; with ``event`` the label is a time, at which records left."""
    started = monotonic()
    table = opened_table(source, label, seed)
    played = (
        *logistic(table, policy, seed),
        *robust(table, policy),
        singled(table, policy),
        dropped(table, policy, seed),
        rosters(table, policy),
        cuts(table),
        directions(table, policy),
        *(_of_times(table, policy, event) if event is not None else ()),
    )
    return OpeningsAudit(table, played, monotonic() - started)


def _of_times(table: OpenedTable, policy: Policy, event: str) -> Iterator[Played]:
    yield moved_edges(table, policy, event)
    yield from three_groups(table, policy, event)
    yield from departures(table, policy, event)
