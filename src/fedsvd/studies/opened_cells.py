"""Counts of a description (Table 1) next to those of it and of earlier studies: which few records they tell apart.

No cell of a table by one arm or not, and of two more by another arm or not, holds few; together they may give two
people of an arm between two ages. Counts in fives of four groups, next to that of all records, may leave one number. So
a party remembers on which grids its numbers were counted (``policy/opened_columns.py``), and asks its owner where all
counts give a set of few records (``statistics/isolated.py``). Each number is judged with all levels and exact counts
over time, counts in fives with the sizes of groups and with levels that are intervals of the same number.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedsvd.policy.opened_columns import NOWHERE, OpenedColumns
from fedsvd.policy.own_rows import Grid
from fedsvd.policy.rules import Policy
from fedsvd.protocol.plan import SessionPlan
from fedsvd.statistics.isolated import Counted, isolated
from fedsvd.studies.counted_cells import SIZES, Described, Grids, numbers, too_wide
from fedsvd.studies.opened_times import CountedTimes, counts, earlier_curves
from fedsvd.studies.parties import PartyData
from fedsvd.studies.persons import persons_of

Places = NDArray[np.intp]
Flags = NDArray[np.bool_]
_TOGETHER = "users can compute how many, from counts next to each other"
_TABLE, _CURVES = "an earlier table", "survival curves of an earlier study"
_TOTAL, _ITSELF = "the total of all groups", "other counts of the table"
_FIX = {
    _TABLE: "take the groups and the grids of the earlier table",
    _CURVES: "leave those columns out of one of them, or count to other times",
    _TOTAL: "leave quantiles out (quantiles = false)",
    _ITSELF: "leave quantiles out (quantiles = false)",
}


def tables_together(
    plan: SessionPlan, party: PartyData, before: OpenedColumns | None, record: Places, policy: Policy
) -> tuple[Grid, ...]:
    """Cells of this description that few own records tell apart, by all that it and earlier studies count."""
    about = plan.table
    assert about is not None
    studies = [] if before is None else [each for each in before.studies.values() if each.described or each.grid]
    stored = before if before is not None and studies else OpenedColumns()
    rest = np.setdiff1d(np.arange(len(stored.values)), record[record >= 0]) if studies else np.empty(0, np.intp)
    whose = persons_of(party, plan)
    if whose is not None:  # records that this study does not take are counted one by one
        whose = np.concatenate((whose, 1 + whose.max(initial=-1) + np.arange(len(rest))))
    now = Described.of_plan(about, party, len(rest), stored.places(party.table.rows(0, len(record)), record))
    everyone = np.concatenate((record, rest))
    earlier = [Described.remembered(stored, each, everyone) for each in studies if each.described]
    judged = _Judged(now, earlier, [*earlier_curves(stored, everyone)], whose, plan.k == 2)
    known = np.zeros(1 + int(whose.max(initial=-1)) if whose is not None else len(now.values), np.bool_)
    found = []
    for name, next_to, others, counted in judged.together():
        few = isolated(others, counted, policy.least_count) & ~known
        known |= few
        if few.any():
            cells = f"records of {name!r}" if name else "records"
            found.append(Grid(f"{cells} next to {next_to}", int(few.sum()), len(few), _FIX[next_to], _TOGETHER))
    return tuple(found)


Together = tuple[str, str, list[Counted], list[Counted]]
"""A number's name or none, what its counts are next to, what earlier studies counted, what this one counts."""


class _Judged:
    """A description, and what earlier studies of its records counted."""

    def __init__(
        self, now: Described, earlier: list[Described], curves: list[CountedTimes], whose: Places | None, two: bool
    ) -> None:
        self._now, self._earlier, self._curves, self._whose, self._two = now, earlier, curves, whose, two
        self._next_to = _CURVES if curves and not earlier else _TABLE
        self._exact = [one for each in curves if each.exact for one in counts(each, whose)]
        self._wide = too_wide([*earlier, now])

    def together(self) -> Iterator[Together]:
        """What is judged together."""
        yield from self._levels()
        for name, ours, theirs in numbers(self._now, self._earlier):
            yield from self._number(name, ours, theirs)
        if self._two and not all(each.exact for each in self._curves):
            yield from self._over_time()

    def _levels(self) -> Iterator[Together]:
        now, earlier, whose = self._now, self._earlier, self._whose
        if not earlier and not self._exact:
            return
        if not self._wide:
            before, counted = (
                [one for each in some for one in each.counted_levels(whose)] for some in (earlier, [now])
            )
            yield "", self._next_to, [*self._exact, *before], counted
            return
        for j in np.flatnonzero(now.levels).tolist():  # too many at once: each column with the same of earlier studies
            again = [(each, i) for each in earlier for i, place in enumerate(each.places) if place == now.places[j]]
            before = [one for each, i in again for one in each.counted_levels(whose, i)]
            yield now.names[j], self._next_to, [*self._exact, *before], [*now.counted_levels(whose, j)]

    def _number(self, name: str, ours: Grids, theirs: Grids) -> Iterator[Together]:
        now, earlier, whose = self._now, self._earlier, self._whose
        exact = [each.exact(i) for each, i in (*ours, *theirs)]
        only = SIZES if self._wide else NOWHERE
        level, level_before = (
            [one for each in some for one in each.counted_levels(whose, only)] for some in ([now], earlier)
        )
        grid, grid_before = (
            [one for each, i in some if each.exact(i) for one in each.counted_grid(i, whose)] for some in (ours, theirs)
        )
        if (grid or grid_before) and (earlier or self._exact):
            yield name, self._next_to, [*self._exact, *level_before, *grid_before], [*level, *grid]
        if grid:  # each alone has its own rules
            yield name, _ITSELF, level, grid
        if not all(exact) and (self._two or any(exact)):  # of more parties no one sees what one of them rounded
            table, place = (*ours, *theirs)[0]
            column = table.values[:, [place]]
            cuts, cuts_before = (
                [one for each in some for one in each.cuts(column, whose)] for some in ([now], earlier)
            )
            before, counted = (
                [one for each, i in some for one in (*each.counted_levels(whose, i), *each.counted_grid(i, whose))]
                for some in (theirs, ours)
            )
            next_to = _TABLE if earlier else _ITSELF if cuts else _TOTAL
            yield name, next_to, [*before, *cuts_before], [*counted, *cuts]

    def _over_time(self) -> Iterator[Together]:
        """Counts in fives over time with those of tables that follow from time, event and group."""
        for curves in self._curves:
            ours = [*self._now.counted_of(curves.rows, self._whose)]
            if ours:
                theirs = [one for each in self._earlier for one in each.counted_of(curves.rows, self._whose)]
                every = [one for each in self._curves for one in counts(each, self._whose)]
                yield "", _CURVES, [*every, *theirs], ours
