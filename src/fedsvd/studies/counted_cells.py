"""What a description (Table 1) counts of a party's records: levels and grids of its columns, of an earlier one too."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.policy.opened_columns import NOWHERE, CountedAt, Opened, OpenedColumns
from fedsvd.protocol.table import TablePlan
from fedsvd.statistics.isolated import Counted
from fedsvd.studies.parties import PartyData
from fedsvd.studies.persons import first_of_persons
from fedsvd.types import Float

Places = NDArray[np.intp]
SIZES = -2  # of groups, and of no column
_MOST_CELLS = 3e7  # records times columns of levels that are judged at once


def grids_of(about: TablePlan) -> tuple[CountedAt | None, ...]:
    """Of each variable of a description the grid of its counts; None of a category, and where none are opened."""
    return tuple(
        CountedAt(tuple(each.edges.tolist()), closed=True, least=about.multiple)
        if each.is_number and about.quantiles
        else None
        for each in about.variables
    )


@dataclass(frozen=True, repr=False)
class Described:
    """One description: its columns with NaN where nothing is counted, their grids, and where each is stored."""

    values: Float
    names: tuple[str, ...]
    grids: tuple[CountedAt | None, ...]
    levels: tuple[bool, ...]
    by: int
    places: tuple[int, ...]

    @classmethod
    def of_plan(cls, about: TablePlan, party: PartyData, more: int, places: Places) -> "Described":
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
    def remembered(cls, stored: OpenedColumns, study: Opened, everyone: Places) -> "Described":
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
        for j in range(len(self.levels)):
            if j != self.by and only in (NOWHERE, j):
                yield from self._cells(j, group, groups, whose)

    def cuts(self, rows: Float, whose: Places | None) -> Iterator[Counted]:
        """Exact counts of levels in each group, of columns that are intervals of a number."""
        group, groups = self.group()
        for j in self._following(rows):
            yield from self._cells(j, group, groups, whose)

    def counted_of(self, rows: Float, whose: Places | None) -> Iterator[Counted]:
        """Counts of groups, levels and grids that follow from time, event and group; of any other groups the sums."""
        group, groups = self.group()
        if self.by != NOWHERE and not follows(self.values[:, self.by], rows):
            group, groups = np.where(group < groups, 0, 1), 1
        levels = self._following(rows)
        grids = [j for j, at in enumerate(self.grids) if at is not None and follows(self.values[:, j], rows)]
        if groups > 1 or levels or grids:
            yield from _partition(group, groups, whose)
        for j in levels:
            yield from self._cells(j, group, groups, whose)
        for j in grids:
            yield from self.counted_grid(j, whose, (group, groups))

    def _following(self, rows: Float) -> list[int]:
        return [j for j, of in enumerate(self.levels) if of and j != self.by and follows(self.values[:, j], rows)]

    def _cells(self, j: int, group: Places, groups: int, whose: Places | None) -> Iterator[Counted]:
        column = self.values[:, j]
        codes, levels = _coded(column) if self.levels[j] else (np.where(np.isnan(column), 1, 0), 1)
        cells = np.where((codes < levels) & (group < groups), codes * groups + group, levels * groups)
        yield from _partition(cells, levels * groups, whose)

    def counted_grid(
        self, j: int, whose: Places | None, grouped: tuple[Places, int] | None = None
    ) -> Iterator[Counted]:
        """Of a number what is counted up to each edge of its grid: in each group, and of all records."""
        at = self.grids[j]
        assert at is not None
        group, groups = grouped or self.group()
        edges, column = len(at.edges), self.values[:, j]
        first = np.searchsorted(at.edges, column, side="left")  # NaN is beyond the last edge
        inside = [group == g for g in range(groups)]
        for some in (*inside, *([group < groups] if groups > 1 else [])):
            yield Counted(first_of_persons(np.where(some, first, edges), whose, edges), edges, at.least)


def follows(column: Float, rows: Float) -> bool:
    """Whether the values of a column are intervals of the first of some numbers, in each combination of the others."""
    there = np.isfinite(rows).all(axis=1) & np.isfinite(column)
    if not there.any():
        return False
    values, number, *others = column[there], *rows[there].T
    keys = np.column_stack((values, *others))

    def runs(*order: Float) -> int:
        found = keys[np.lexsort(order)]
        return 1 + int((found[1:] != found[:-1]).any(axis=1).sum())

    return runs(values, number, *others) == runs(values, *others)


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


Grids = list[tuple[Described, int]]


def numbers(now: Described | None, earlier: list[Described]) -> Iterator[tuple[str, Grids, Grids]]:
    """Each number with its grids of this study and of earlier ones; those of earlier ones alone too."""
    seen: dict[tuple[int, str], tuple[str, Grids, Grids]] = {}
    for each in (*([] if now is None else [now]), *earlier):
        for i, grid in enumerate(each.grids):
            if grid is not None:
                key = (each.places[i], each.names[i] if each.places[i] == NOWHERE else "")
                _, ours, theirs = seen.setdefault(key, (each.names[i], [], []))
                (ours if each is now else theirs).append((each, i))
    yield from seen.values()


def too_wide(tables: Sequence[Described]) -> bool:
    """Whether all levels of these tables are too many to be judged at once."""
    return sum(len(each.values) * (sum(each.levels) + 1) for each in tables) > _MOST_CELLS


def exact_tables(
    tables: list[Described], curves: list[Counted], rows: Float, whose: Places | None
) -> Iterator[list[Counted]]:
    """Exact counts of earlier tables, next to exact ones over time: all levels, then each grid with them."""
    if not tables:
        return
    if too_wide(tables):  # those that follow from time, event and group
        levels = [one for each in tables for one in each.counted_of(rows, whose) if one.least == 1]
    else:
        levels = [one for each in tables for one in each.counted_levels(whose)]
    yield [*curves, *levels]
    for _, _, grids in numbers(None, tables):
        if counted := [one for each, i in grids if each.exact(i) for one in each.counted_grid(i, whose)]:
            yield [*curves, *levels, *counted]
