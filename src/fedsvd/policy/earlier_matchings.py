"""Whom a party matched its records with before, and how large the sets were: on its own disk alone.

A party that brings guessed ids to a matching learns which of them are real. Its set is as large as the plan says, and a
set that is much larger than in every earlier matching is what a list of guesses looks like (``rules.growth_findings``).
So every matching that begins is written down here first, whether it ends well or not: its plan, who took part, how many
records each brought; and, when it has ended, how many were common. No id is.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from fedsvd.policy.earlier_rules import growth_findings
from fedsvd.policy.rules import Finding, Policy
from fedsvd.protocol.plan import SessionPlan
from fedsvd.storage import private
from fedsvd.storage.journal import Journal

_FILE = "matchings.jsonl"


class EarlierMatchings:
    """The matchings of one party, in a private folder."""

    def __init__(self, folder: Path) -> None:
        self._journal = Journal(private.private_folder(folder) / _FILE)

    def sizes(self) -> dict[str, list[int]]:
        """The sizes of every party's set in all matchings so far, by the party's name."""
        found: dict[str, list[int]] = {}
        for record in self._journal.records():
            for party, size in record.get("sizes", {}).items():
                found.setdefault(party, []).append(int(size))
        return found

    def findings(self, me: str, sizes: Mapping[str, int], policy: Policy) -> tuple[Finding, ...]:
        """What earlier matchings forbid of one with sets of these sizes; ``me`` is this party, whose set is its own."""
        others = {party: size for party, size in sizes.items() if party != me}
        return growth_findings(others, self.sizes(), policy)

    def begin(self, run: str, plan: SessionPlan, names: tuple[str, ...]) -> None:
        """A matching begins: from now on it is an earlier one."""
        sizes = dict(zip(names, plan.counts, strict=True))
        when = datetime.now(UTC).isoformat(timespec="seconds")
        asked = {"align": str(plan.align), "plan": plan.digest, "sizes": sizes, "least_overlap": plan.least_overlap}
        self._journal.append({"event": "matching", "run": run, "when": when, **asked})

    def end(self, run: str, common: int) -> None:
        """A matching ended with this number of common records."""
        when = datetime.now(UTC).isoformat(timespec="seconds")
        self._journal.append({"event": "matched", "run": run, "when": when, "common": common})
