"""The release guard between studies: what earlier studies of a party's records, and who takes part, forbid.

Two studies that differ by one record give that record away. Where rows are split a party leaves records out itself, so
that this does not happen (``row_sets.py``); what it cannot mend is a finding here. What it remembers for this is in
``table_memory.py`` and is never sent. Rosters are in ``rosters.py``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from fedsvd.policy.learned import full_outputs
from fedsvd.policy.rosters import Roster
from fedsvd.policy.rules import Finding, Policy
from fedsvd.protocol.plan import SessionPlan

BY_COLUMNS = "columns "
"""How ``Asked.chooser`` begins where a job's own columns choose rows."""


def growth_findings(
    sizes: Mapping[str, int], earlier: Mapping[str, Sequence[int]], policy: Policy
) -> tuple[Finding, ...]:
    """Whether the set of another party is much larger than in every earlier matching with it: a sign of guessed ids."""
    found = []
    for party, size in sizes.items():
        before = max(earlier.get(party, ()), default=0)
        if policy.set_growth and before and size > policy.set_growth * before:
            found.append(
                Finding(
                    "set size",
                    f"party {party} brings {size} records to match, and brought {before} at most in earlier matchings; "
                    f"{policy.set_growth} times as many are allowed: a set of guessed ids looks like that",
                )
            )
    return tuple(found)


@dataclass(frozen=True)
class Asked:
    """What a party remembers of a study, besides its rows: by it later ones are compared with this one."""

    run: str
    roster: Roster  # who took part, by organisation
    job: str = ""  # digest of the job as its researcher signed it
    chooser: str = ""  # what chooses rows: a view of the dictionary, or columns of the job; empty for all rows
    filled: Mapping[str, str] = field(default_factory=dict)  # with what gaps of few records are, by column
    completed: str = ""  # whose patterns of gaps choose what low-rank imputation completes; empty for none
    weights: str = ""  # the column of weights
    columns: tuple[str, ...] = ()  # where columns are split: those that were brought

    def record(self) -> dict[str, Any]:
        """As a line of the memory."""
        return {**asdict(self), "roster": sorted(self.roster), "columns": list(self.columns)}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Asked":
        """The inverse of ``record``."""
        known = {each.name: record[each.name] for each in fields(cls) if each.name in record}
        lists = {"roster": frozenset(record.get("roster", ())), "columns": tuple(record.get("columns", ()))}
        return cls(**{**known, **lists})


@dataclass(frozen=True)
class OwnRows:
    """What a party's own table says of a study next to earlier ones."""

    smallest: int = 0  # records in the smallest part that it would tell from others, where that is too few
    corrected: frozenset[str] = frozenset()  # columns with corrections that are used
    weighted_apart: int = 0  # records whose weights differ from an earlier study's, where they are few
    unlike: int = 0  # remembered tables of the same columns, with other records and no ids


def record_findings(asked: Asked, earlier: Sequence[Asked], rows: OwnRows, policy: Policy) -> Iterator[Finding]:
    """What a party's own records forbid, given earlier studies of them, or ask their owner."""
    least, difference = policy.least_count, "the others can compute it from the difference of both results"
    if rows.smallest:
        text = f"{rows.smallest} of your records came or went since an earlier study, {least} are asked for"
        yield Finding("re-run", f"{text}: {difference}")
    if rows.weighted_apart:
        text = f"{rows.weighted_apart} of your records have other weights than in an earlier study, {least} are needed"
        yield Finding("re-run", f"{text}: {difference}")
    if any(each.filled.get(name, how) != how for each in earlier for name, how in asked.filled.items()):
        text = f"gaps of fewer than {least} of your records are filled otherwise than in an earlier study"
        yield Finding("re-run", f"{text}: {difference}")
    if asked.completed and any(each.completed not in ("", asked.completed) for each in earlier):
        text = (
            "gaps in the columns of this study choose which records its low-rank imputation completes together, and an "
            "earlier one of this table had other columns: both together tell records apart"
        )
        yield Finding("rows", text, below=False, asks=True)
    few = min((apart for each in earlier if (apart := _columns_apart(asked, each, rows.corrected))), default=0)
    if asked.columns and 0 < few < least:
        text = f"{few} of your columns changed since an earlier study, {least} are asked for"
        yield Finding("re-run", f"{text}: {difference}")
    if asked.chooser.startswith(BY_COLUMNS) and any(each.chooser != asked.chooser for each in earlier):
        text = (
            "gaps in the columns of this study choose its rows, and an earlier study of this table had others: several "
            "such studies together tell records apart. A view of a dictionary has one set of rows"
        )
        yield Finding("rows", text, below=False, asks=True)
    if rows.unlike:
        text = (
            f"all columns of this data have other values than {rows.unlike} earlier version(s) with the same names. "
            "Approve only if these are other records: the same records in other units, less one, give that one away"
        )
        yield Finding("other records", text, below=False, asks=True)


def _columns_apart(asked: Asked, other: Asked, corrected: frozenset[str]) -> int:
    """Columns that one study has and the other has not, or with other values; 0 where the other was of no columns."""
    if not asked.columns or not other.columns:
        return 0
    return len(set(asked.columns) ^ set(other.columns)) + len(corrected & set(asked.columns) & set(other.columns))


def organisation_findings(plan: SessionPlan, organisations: int, policy: Policy) -> tuple[Finding, ...]:
    """Whether there are enough parties when those of one organisation count once: they may pool what they hold."""
    fewest = 2 if policy.consent_to_two else policy.parties_for_full
    if not full_outputs(plan) or organisations >= min(fewest, plan.k):
        return ()
    text = (
        f"the {plan.k} parties belong to {organisations} organisation(s), {fewest} are asked for where U and S go out"
    )
    return (Finding("parties", text),)
