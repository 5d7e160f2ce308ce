"""Counts of a description (Table 1) next to each other and to those of earlier ones: which few records they tell apart.

No cell of a table by one arm or not, and of two more by another arm or not, holds few; together they may give two
people of an arm between two ages. Counts in fives of four groups, next to that of all records, may leave one number. So
a party remembers on which grids its numbers were counted (``policy/opened_columns.py``), and asks its owner where all
counts give a set of few records (``statistics/isolated.py``). Each number is judged with all levels, and counts in
fives with the sizes of groups.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.policy.opened_columns import NOWHERE, CountedAt, Opened, OpenedColumns
from fedsvd.policy.own_rows import Grid
from fedsvd.policy.rules import Policy
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.table import TablePlan
from fedsvd.statistics.isolated import Counted, isolated
from fedsvd.studies.parties import PartyData
from fedsvd.studies.persons import first_of_persons, persons_of
from fedsvd.types import Float

Places = NDArray[np.intp]
Flags = NDArray[np.bool_]
_TOGETHER = "users can compute how many, from counts next to each other"
_EARLIER, _ALONE = "take the groups and the grids of the earlier table", "leave quantiles out (quantiles = false)"
_SIZES = -2  # of groups, and of no column
_MOST_CELLS = 3e7  # records times columns of levels that are judged at once


def grids_of(about: TablePlan) -> tuple[CountedAt | None, ...]:
    """Of each variable of a description the grid of its counts; None of a category, and where none are opened."""
    return tuple(
        CountedAt(tuple(each.edges.tolist()), closed=True, least=about.multiple)
        if each.is_number and about.quantiles
        else None
        for each in about.variables
    )


def tables_together(
    plan: SessionPlan, party: PartyData, before: OpenedColumns | None, record: Places, policy: Policy
) -> tuple[Grid, ...]:
    """Cells of this description that few own records tell apart, by all that it and earlier ones count."""
    about = plan.table
    assert about is not None
    studies = [] if before is None else [each for each in before.studies.values() if each.described]
    stored = before if before is not None and studies else OpenedColumns()
    rest = np.setdiff1d(np.arange(len(stored.values)), record[record >= 0]) if studies else np.empty(0, np.intp)
    whose = persons_of(party, plan)
    if whose is not None:  # records that this study does not take are counted one by one
        whose = np.concatenate((whose, 1 + whose.max(initial=-1) + np.arange(len(rest))))
    now = _Described.of_plan(about, party, len(rest), stored.places(party.table.rows(0, len(record)), record))
    everyone = np.concatenate((record, rest))
    earlier = [_Described.remembered(stored, each, everyone) for each in studies]
    found = []
    for name, few in _few(now, earlier, whose, policy.least_count, plan.k == 2):
        if few.any():
            cells = f"records of {name!r}" if name else "records"
            text = f"{cells} next to {'an earlier table' if earlier else 'the total of all groups'}"
            found.append(Grid(text, int(few.sum()), len(few), _EARLIER if earlier else _ALONE, _TOGETHER))
    return tuple(found)


@dataclass(frozen=True, repr=False)
class _Described:
    """One description: its columns with NaN where nothing is counted, their grids, and where each is stored."""

    values: Float
    names: tuple[str, ...]
    grids: tuple[CountedAt | None, ...]
    levels: tuple[bool, ...]
    by: int
    places: tuple[int, ...]

    @classmethod
    def of_plan(cls, about: TablePlan, party: PartyData, more: int, places: Places) -> "_Described":
        width = len(about.variables)
        rows = np.array(party.table.rows(0, party.table.shape[0]), dtype=np.float64)
        if about.gaps:
            rows[:, :width][rows[:, width : 2 * width] != 0.0] = np.nan
        values = np.vstack((rows[:, :width], np.full((more, width), np.nan)))
        names = tuple(each.name for each in about.variables)
        levels = tuple(bool(each.levels) for each in about.variables)
        by = about.place if about.by else NOWHERE
        return cls(values, names, grids_of(about), levels, by, tuple(places[:width].tolist()))

    @classmethod
    def remembered(cls, stored: OpenedColumns, study: Opened, everyone: Places) -> "_Described":
        """Versions before grids were remembered wrote none: columns of few values are levels."""
        width = len(study.grids) or len(study.features)
        places, known = np.array(study.features, np.intp), everyone >= 0
        values = np.full((len(everyone), len(places)), np.nan)
        values[known] = stored.values[np.ix_(everyone[known], places)]
        if len(places) == 2 * width:
            values[:, :width][values[:, width:] != 0.0] = np.nan
        kept = study.features[:width]
        by = kept.index(study.by) if study.by in kept else NOWHERE
        levels = tuple(place in stored.few and grid is None for place, grid in zip(kept, study.grids, strict=False))
        levels = levels or tuple(place in stored.few for place in kept)
        names, grids = tuple(stored.names[place] for place in kept), study.grids or (None,) * width
        return cls(values[:, :width], names, grids, levels, by, kept)

    def exact(self, j: int) -> bool:
        at = self.grids[j]
        return at is not None and at.least == 1

    def group(self) -> tuple[Places, int]:
        """Of each record its group and how many there are, which is the place of records without one."""
        if self.by == NOWHERE:  # a record that another study took, and this one did not, has no entry
            there = ~np.isnan(self.values).all(axis=1)
            return np.where(there, 0, 1), 1
        return _coded(self.values[:, self.by])

    def counted_levels(self, whose: Places | None, only: int = NOWHERE) -> Iterator[Counted]:
        """Exact counts: sizes of groups, of each level in each, and of those that have a number."""
        group, groups = self.group()
        yield from _partition(group, groups, whose)
        for j, of_levels in enumerate(self.levels):
            if j == self.by or only not in (NOWHERE, j):
                continue
            codes, levels = _coded(self.values[:, j]) if of_levels else (np.where(np.isnan(self.values[:, j]), 1, 0), 1)
            cells = np.where((codes < levels) & (group < groups), codes * groups + group, levels * groups)
            yield from _partition(cells, levels * groups, whose)

    def counted_grid(self, j: int, whose: Places | None) -> Iterator[Counted]:
        """Of a number what is counted up to each edge of its grid: in each group, and of all records."""
        at = self.grids[j]
        assert at is not None
        group, groups = self.group()
        edges, column = len(at.edges), self.values[:, j]
        first = np.searchsorted(at.edges, column, side="left")  # NaN is beyond the last edge
        inside = [group == g for g in range(groups)]
        for some in (*inside, *([group < groups] if groups > 1 else [])):
            yield Counted(first_of_persons(np.where(some, first, edges), whose, edges), edges, at.least)


def _coded(column: Float) -> tuple[Places, int]:
    there = ~np.isnan(column)
    found = np.unique(column[there])
    return np.where(there, np.searchsorted(found, column), len(found)), max(1, len(found))


def _partition(cells: Places, count: int, whose: Places | None) -> Iterator[Counted]:
    """Sizes of cells; persons with several rows may be in several."""
    if whose is None:
        yield Counted(cells, count)
        return
    for cell in range(count):
        yield Counted(first_of_persons(np.where(cells == cell, 0, 1), whose, 1), 1)


def _few(
    now: _Described, earlier: list[_Described], whose: Places | None, least: int, two: bool
) -> Iterator[tuple[str, Flags]]:
    """Of levels and of each number the records in few that counts give together, and those before it did not."""
    known = np.zeros(1 + int(whose.max(initial=-1)) if whose is not None else len(now.values), np.bool_)
    for name, before, counts in _judged(now, earlier, whose, two):
        few = isolated(before, counts, least) & ~known
        known |= few
        yield name, few


def _judged(
    now: _Described, earlier: list[_Described], whose: Places | None, two: bool
) -> Iterator[tuple[str, list[Counted], list[Counted]]]:
    """What is judged together: its name, what earlier studies counted, what this one counts."""
    wide = len(now.values) * sum(sum(each.levels) + 1 for each in (*earlier, now)) > _MOST_CELLS
    if earlier and not wide:
        before, counts = ([one for each in some for one in each.counted_levels(whose)] for some in (earlier, [now]))
        yield "", before, counts
    elif earlier:  # too many to be judged at once: each column with the same of earlier studies
        for j in np.flatnonzero(now.levels).tolist():
            again = [(each, i) for each in earlier for i, place in enumerate(each.places) if place == now.places[j]]
            before = [one for each, i in again for one in each.counted_levels(whose, i)]
            yield now.names[j], before, [*now.counted_levels(whose, j)]
    for name, ours, theirs in _numbers(now, earlier):
        sides = (([*earlier], theirs), ([now], ours))
        exact = [each.exact(i) for each, i in (*ours, *theirs)]
        if any(exact) and earlier:
            before, counts = (
                [
                    *(one for each in some for one in each.counted_levels(whose, _SIZES if wide else NOWHERE)),
                    *(one for each, i in grids if each.exact(i) for one in each.counted_grid(i, whose)),
                ]
                for some, grids in sides
            )
            yield name, before, counts
        if not all(exact) and (two or any(exact)):  # of more parties no one sees what one of them rounded
            before, counts = (
                [one for each, i in grids for one in (*each.counted_levels(whose, i), *each.counted_grid(i, whose))]
                for _, grids in sides
            )
            yield name, before, counts


_Grids = list[tuple[_Described, int]]


def _numbers(now: _Described, earlier: list[_Described]) -> Iterator[tuple[str, _Grids, _Grids]]:
    """Each number with its grids of this study and of earlier ones; those of earlier ones alone too."""
    seen: dict[tuple[int, str], tuple[str, _Grids, _Grids]] = {}
    for each in (now, *earlier):
        for i, grid in enumerate(each.grids):
            if grid is not None:
                key = (each.places[i], each.names[i] if each.places[i] == NOWHERE else "")
                _, ours, theirs = seen.setdefault(key, (each.names[i], [], []))
                (ours if each is now else theirs).append((each, i))
    yield from seen.values()
