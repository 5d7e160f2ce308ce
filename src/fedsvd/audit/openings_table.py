"""An owner's table as the attacks on openings take it, and what they say: records dealt to parties, rows of an answer.

The first of the parties is the curious one: it knows its own records, and reads what it can of the others'. All of them
are played by the owner's own records, in an order that a seed decides.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.arrays import ArraySource
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError
from fedsvd.policy.rules import Finding, Policy, findings
from fedsvd.prepare.derived import names_of
from fedsvd.protocol.plan import SessionPlan
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.parties import PartyData
from fedsvd.types import Float

MOST_RECORDS, MOST_COLUMNS = 6_000, 40
FEWEST_RECORDS = 24
_SAME = 1e-6  # of a column's largest value: a number that was read is the true one


class Stop(StrEnum):
    """What an owner's rules do about an attack, the gravest first."""

    REFUSED = "refused"
    ASKS = "asks"
    LEFT_OUT = "records left out"
    NOT = "not stopped"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Verdict:
    """What the rules say of the studies that an attack takes, with the sentence that ``job approve`` prints."""

    stop: Stop
    rules: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Played:
    """One attack: how much of the others' data was read, exactly, and what stops it; never a value."""

    attack: str
    studies: int  # that it takes, of attacks on single records for each of them
    read: int
    of: int
    unit: str
    verdict: Verdict
    by_chance: int | None = None  # right without the attack, by the best guess
    note: str = ""

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "share": self.read / self.of if self.of else 0.0}


def not_played(attack: str, why: str) -> Played:
    """An attack that this table gives no occasion to."""
    return Played(attack, 0, 0, 0, "records", Verdict(Stop.NOT_JUDGED), note=why)


def judged(found: Iterable[Finding]) -> Verdict:
    """The verdict of some findings of one study."""
    grave = [each for each in found if each.below or each.asks]
    if not grave:
        return Verdict(Stop.NOT)
    first = next((each for each in grave if each.below), grave[0])
    stop = Stop.REFUSED if first.below else Stop.ASKS
    same = [each for each in grave if each.below == first.below]
    return Verdict(stop, tuple(dict.fromkeys(each.rule for each in same)), first.text)


def gravest(verdicts: Iterable[Verdict]) -> Verdict:
    """Of studies that an attack needs all of."""
    return min(verdicts, key=lambda each: list(Stop).index(each.stop), default=Verdict(Stop.NOT))


def mildest(verdicts: Iterable[Verdict]) -> Verdict:
    """Of studies any of which is enough."""
    return max(verdicts, key=lambda each: list(Stop).index(each.stop), default=Verdict(Stop.NOT))


def at_home(plan: SessionPlan, party: PartyData, policy: Policy, **more: Any) -> Verdict:
    """What ``job approve`` says of a study at one party: of the plan, and of the party's own records."""
    return judged(dict.fromkeys((*findings(plan, policy), *home_findings(plan, party, policy, **more))))


@dataclass(frozen=True, repr=False)
class OpenedTable:
    """Columns of numbers without gaps, the label, and which records miss an entry of the other columns."""

    names: tuple[str, ...]
    X: Float
    gaps: dict[str, NDArray[np.bool_]]
    label: str
    y: Float
    left_out: tuple[str, ...]  # columns of text, constant ones, and those beyond the most that are taken

    def dealt(self, parties: int) -> list[slice]:
        """Which records each party has; the first is the curious one."""
        edges = np.linspace(0, len(self.X), parties + 1).astype(int).tolist()
        return [slice(first, last) for first, last in pairwise(edges)]

    def party(self, rows: slice, columns: Sequence[int]) -> PartyData:
        """What a party of these records brings to a study of these columns and the label."""
        table = ArraySource(self.X[rows][:, list(columns)], [self.names[j] for j in columns])
        return PartyData(table, labels=self.y[rows][:, None])

    @property
    def rows(self) -> Float:
        """A constant, all columns and the label: what Gram matrices are of."""
        return np.column_stack((np.ones(len(self.X)), self.X, self.y))

    def same(self, found: Float, record: int) -> bool:
        """Whether a row that was read is this record's."""
        scale = np.abs(self.rows).max(axis=0) + 1.0
        return bool((np.abs(found - self.rows[record]) <= _SAME * scale).all())


def opened_table(source: MatrixSource, label: str, seed: int) -> OpenedTable:
    """A table read for the attacks: at most 6,000 records and 40 columns of it."""
    names = names_of(source)
    if label not in names or label in source.text_names:
        raise ConfigError(f"the table has no column of numbers {label!r}", "name the outcome with --label")
    order = np.random.default_rng(seed).permutation(source.shape[0])[:MOST_RECORDS]
    cells: dict[str, Float] = {}
    for place, name in enumerate(names):
        if name not in source.text_names:
            cells[name] = source.raw(slice(0, source.shape[0]), slice(place, place + 1))[order, 0].astype(np.float64)
    y = cells.pop(label)
    kept = ~np.isnan(y)
    cells, y = {name: column[kept] for name, column in cells.items()}, y[kept]
    gaps = {name: np.isnan(column) for name, column in cells.items() if np.isnan(column).any()}
    whole = [name for name, column in cells.items() if name not in gaps and len(np.unique(column)) > 1]
    taken = whole[:MOST_COLUMNS]
    if len(y) < FEWEST_RECORDS or not taken:
        fault = f"{len(y)} records with a label, {len(taken)} columns of numbers without gaps"
        raise ConfigError(fault, f"an audit of openings needs {FEWEST_RECORDS} records and one such column")
    left_out = tuple(name for name in names if name not in {*taken, *gaps, label})
    return OpenedTable(tuple(taken), np.column_stack([cells[name] for name in taken]), gaps, label, y, left_out)
