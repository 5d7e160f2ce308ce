"""A description (Table 1) judged at home, before anything is sent: cells that few own records tell apart.

Which levels pass is decided in the session, by joint counts. What only the party itself can see is judged here, over
all cells that were ever opened of this table: of two cells, one inside the other, the difference is 0 or at least
``least_count`` own persons, and no combination of counts isolates a record (leverage in the cells' indicators). Both
are needed: ages cut at 60, 65 and 70 pass the second with differences of one to four. Cells with fewer own records than
that are left out of both: they are opened only if there are enough elsewhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.policy.opened_columns import NOWHERE, OpenedColumns
from fedsvd.policy.own_rows import Grid, Leverage, OwnRows
from fedsvd.policy.rules import Policy
from fedsvd.prepare.described_columns import DescribedColumns
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.table import EXACT, TablePlan
from fedsvd.statistics.fives import few_cells, in_cells
from fedsvd.statistics.leverage import leverages
from fedsvd.studies.parties import PartyData
from fedsvd.studies.persons import how_many, persons_of
from fedsvd.types import Float

_MOST_CELLS = 4000
_ROWS = 1 << 15

Flags = NDArray[np.bool_]
Sets = Sequence[tuple[str, Flags]]
"""Records of each name."""


@dataclass(frozen=True, repr=False)
class _Cell:
    """Records with one level of a column, in one group or in all."""

    study: str
    column: str
    level: str
    group: str
    rows: Flags
    is_group: bool = False  # all records of a group

    @property
    def called(self) -> str:
        inside = f" in {self.group}" if self.group else ""
        return f"{self.column} = {self.level}{inside}"


def measured_table(plan: SessionPlan, party: PartyData, policy: Policy, persons: NDArray[np.intp] | None) -> OwnRows:
    """What is judged of a party's own records where they are described."""
    about = plan.table
    assert about is not None
    table = _Table(party, about)
    own = OwnRows(records=party.table.shape[0] if persons is None else 1 + int(persons.max(initial=-1)))
    found = _judged([*table.cells("")], policy, persons)
    groups = tuple(table.sizes(persons).tolist()) if about.by and about.numbers else ()
    more: dict[str, Any] = {"gapped": table.gapped(policy, persons), "groups": groups, "visits": persons is not None}
    if about.counts == EXACT and about.quantiles:
        more["grids"] = tuple(table.grids(policy, persons))
    if about.correlations:
        more["columns"] = 1 + len(about.numbers)
        rows, there = table.complete_numbers()
        whose = None if persons is None else persons[there]
        if len(rows) and rows.shape[1]:
            more["design"] = Leverage(float(leverages(lambda: [rows], whose).values.max()), "numbers of the table")
    return replace(own, **found, **more)


def cells_together(
    plan: SessionPlan, party: PartyData, opened: OpenedColumns, record: NDArray[np.intp], policy: Policy
) -> OwnRows:
    """The same for cells of this description and of earlier ones together."""
    about = plan.table
    earlier = [each for each in opened.studies.values() if each.by != NOWHERE or each.described]
    if about is None or not earlier:
        return OwnRows()
    known = record >= 0
    cells = [*_Table(party, about).cells("this study")]
    for number, study in enumerate(earlier):
        stored = np.full((len(record), len(study.features)), np.nan)
        stored[known] = opened.values[np.ix_(record[known], np.array(study.features, np.intp))]
        by = study.features.index(study.by) if study.by in study.features else NOWHERE
        names = [opened.names[place] for place in study.features]
        cells += _stored_cells(f"study {number}", names, stored, by, set(study.features) & opened.few, study.features)
    return replace(OwnRows(), **_judged(cells, policy, persons_of(party, plan)))


class _Table(DescribedColumns):
    """A party's own columns, as they are judged."""

    def __init__(self, party: PartyData, about: TablePlan) -> None:
        super().__init__(party.table.T, about)
        self._n = party.table.shape[0]

    def sizes(self, persons: NDArray[np.intp] | None) -> NDArray[np.int64]:
        return np.array([how_many(self.group == g, persons) for g in range(len(self.about.groups))])

    def cells(self, study: str) -> Iterator[_Cell]:
        """Every level, in all groups and in each."""
        about = self.about
        groups = [(name, self.group == g) for g, name in enumerate(about.groups)] if about.by else []
        for place, variable in enumerate(about.variables):
            if variable.levels:
                values, missing = self.values(place)
                there = ~missing & (self.group >= 0)
                levels = [(level, there & (values == code)) for code, level in enumerate(variable.levels)]
                yield from _cells_of(study, variable.name, levels, groups, place == about.place)

    def gapped(self, policy: Policy, persons: NDArray[np.intp] | None) -> tuple[str, ...]:
        """Columns that one to four own records of a group miss: how many do is opened."""
        if not self.about.gaps:
            return ()
        found = []
        for place, variable in enumerate(self.about.variables):
            missing = self.values(place)[1]
            sizes = [how_many(missing & (self.group == g), persons) for g in range(len(self.about.groups))]
            if place != self.about.place and any(0 < size < policy.least_count for size in sizes):
                found.append(variable.name)
        return tuple(found)

    def grids(self, policy: Policy, persons: NDArray[np.intp] | None) -> Iterator[Grid]:
        about = self.about
        for place, variable in enumerate(about.variables):
            if variable.levels:
                continue
            values, missing = self.values(place)
            there = [~missing & (self.group == g) for g in range(len(about.groups))]
            whose = [None if persons is None else persons[some] for some in there]
            edges = np.asarray(variable.edges)
            cells = np.array([in_cells(values[some], edges, who) for some, who in zip(there, whose, strict=True)])
            few = few_cells(np.cumsum(cells, axis=1), policy.least_count)
            yield Grid(f"cells of the grid of {variable.name!r}", few, cells.size)

    def complete_numbers(self) -> tuple[Float, Flags]:
        """A constant and the numbers of records that miss none, as their products are summed; and which these are."""
        columns, there = [np.ones(self._n)], self.group >= 0
        for place, variable in enumerate(self.about.variables):
            if variable.is_number:
                values, missing = self.values(place)
                columns.append((values - variable.middle) / variable.reach)
                there &= ~missing
        return np.column_stack(columns)[there], there


def _cells_of(study: str, column: str, levels: Sets, groups: Sets, is_group: bool) -> Iterator[_Cell]:
    """Every level of a column, in all groups and in each."""
    for level, rows in levels:
        yield _Cell(study, column, level, "", rows, is_group)
        if not is_group:
            yield from (_Cell(study, column, level, group, rows & inside) for group, inside in groups)


def _stored_cells(
    study: str, names: list[str], values: Float, by: int, few: set[int], places: tuple[int, ...]
) -> Iterator[_Cell]:
    """Cells of an earlier description, from the columns that are remembered of it."""
    groups = [] if by == NOWHERE else [(str(g), values[:, by] == g) for g in np.unique(values[:, by]) if np.isfinite(g)]
    for column, (name, place) in enumerate(zip(names, places, strict=True)):
        if place not in few:
            continue
        known = [level for level in np.unique(values[:, column]) if np.isfinite(level)]
        levels = [(f"{level:g}", values[:, column] == level) for level in known]
        yield from _cells_of(study, name, levels, groups, column == by)


# --- both tests -------------------------------------------------------------------------------------------------------


def _judged(cells: list[_Cell], policy: Policy, persons: NDArray[np.intp] | None) -> dict[str, Any]:
    least = policy.least_count
    large = [cell for cell in cells if how_many(cell.rows, persons) >= least][:_MOST_CELLS]
    if not large:
        return {}
    Z = np.column_stack([cell.rows for cell in large])
    if persons is not None:  # a person is in a cell with any row
        held = np.zeros((1 + int(persons.max()), Z.shape[1]), np.bool_)
        np.logical_or.at(held, persons, Z)
        Z = held
    common = _common(Z)
    found: dict[str, Any] = {}
    alike = _nested(large, common, least)
    if alike is not None:
        found["alike"] = alike
    value, place = _largest_leverage(Z, common)
    if value > policy.most_leverage:
        found["codes"] = Leverage(value, f"counts of {large[place].column!r}")
    return found


def _common(Z: Flags) -> Float:
    """Records that every two cells have in common."""
    total = np.zeros((Z.shape[1], Z.shape[1]))
    for start in range(0, len(Z), _ROWS):
        part = Z[start : start + _ROWS].astype(np.float32)
        total += part.T @ part
    return total


def _nested(cells: list[_Cell], common: Float, least: int) -> tuple[str, str] | None:
    """Two cells, one inside the other, that one to four records tell apart; levels of one column are never."""
    sizes = np.diag(common)
    more = sizes[None, :] - sizes[:, None]
    inside = (common == sizes[:, None]) & (more > 0) & (more < least)
    for a, b in np.argwhere(inside).tolist():
        one, other = cells[a], cells[b]
        # What is left of a level, or of a group, has cells of its own in the other groups, or of the other levels.
        of_itself = one.column == other.column or one.is_group or other.is_group
        if one.study != other.study or not of_itself:
            return one.called, other.called
    return None


def _largest_leverage(Z: Flags, common: Float) -> tuple[float, int]:
    """The largest leverage of a record among indicators of the cells, and the smallest of the cells that it is in."""
    values, vectors = np.linalg.eigh(common)
    kept = values > values[-1] * len(values) * 1e-12
    root = (vectors[:, kept] / np.sqrt(values[kept])).astype(np.float32)
    best, where = 0.0, 0
    for start in range(0, len(Z), _ROWS):
        part = np.square(Z[start : start + _ROWS].astype(np.float32) @ root).sum(axis=1)
        if part.size and float(part.max()) > best:
            best, where = float(part.max()), start + int(np.argmax(part))
    held = np.flatnonzero(Z[where])
    return best, int(held[np.argmin(np.diag(common)[held])]) if held.size else 0
