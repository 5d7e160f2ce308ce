"""Counts over time of a study next to those of earlier ones: who left between a time of each, in which group.

One study counts who left up to 12 months, another one up to 12.25: no bin of either holds few records, and the
difference of both counts is who left between. Three studies by different groups may have it only together, and counts
in fives next to exact ones may leave one number for it. So a party remembers at which times its records were counted
(``policy/opened_columns.py``) and asks its owner where all counts give one of few records (``statistics/isolated.py``).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.policy.opened_columns import CountedAt, OpenedColumns
from fedsvd.policy.own_rows import Grid
from fedsvd.policy.rules import Policy
from fedsvd.protocol.counted import CurvesPlan
from fedsvd.protocol.hazards import bins_of
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Task
from fedsvd.statistics.isolated import Counted, isolated
from fedsvd.studies.counted_cells import Described, exact_tables
from fedsvd.studies.parties import PartyData
from fedsvd.studies.persons import first_of_persons, persons_of
from fedsvd.types import Float

Places = NDArray[np.intp]
Persons = Places | None
_EARLIER, _ALONE = "take the times of the earlier study", "name fewer causes"
_TABLES = "leave those columns out of one of them, or count to other times"
_TOGETHER = "users can compute how many, from counts next to each other"


@dataclass(frozen=True, repr=False)
class CountedTimes:
    """Rows of time, event and, where there are some, groups, and the times up to which they are counted."""

    rows: Float
    at: CountedAt

    @property
    def exact(self) -> bool:
        return self.at.least == 1


def counted_times(plan: SessionPlan, party: PartyData) -> CountedTimes | None:
    """What a study counts of a party's records over time; None of one that does not."""
    if plan.task is Task.SURVIVAL:
        curves = CurvesPlan.of(plan)
        columns = 3 if curves.groups else 2
        rows = party.table.rows(0, party.table.shape[0])[:, :columns]
        return CountedTimes(rows, CountedAt(tuple(curves.edges.tolist()), closed=False, least=curves.least))
    edges = bins_of(plan)
    if edges is None or plan.glm is None or party.labels is None:
        return None
    rows = party.labels[:, [0, plan.glm.facts.counted_at]]
    return CountedTimes(rows, CountedAt(tuple(edges.tolist()), closed=True))


def times_together(
    plan: SessionPlan, party: PartyData, before: OpenedColumns, record: Places, policy: Policy
) -> tuple[Grid, ...]:
    """Counts of this study that few own records tell from one of an earlier study."""
    now = counted_times(plan, party)
    two = plan.k == 2
    if now is None or not (before.studies or (two and not now.exact)):
        return ()
    rest = np.setdiff1d(np.arange(len(before.values)), record[record >= 0])
    everyone = np.concatenate((record, rest))
    here = np.vstack((now.rows, np.full((len(rest), now.rows.shape[1]), np.nan)))
    of_person = persons_of(party, plan)
    if of_person is not None:  # records that this study does not take are counted one by one
        of_person = np.concatenate((of_person, 1 + of_person.max(initial=-1) + np.arange(len(rest))))
    ours, curves = CountedTimes(here, now.at), [*earlier_curves(before, everyone)]
    tables = [Described.remembered(before, each, everyone) for each in before.studies.values() if each.described]
    few = np.zeros(len(first_of_persons(everyone, of_person, 0)), np.bool_)
    for others in _judged(ours, curves, tables, of_person, two):
        few |= isolated(others, [*counts(ours, of_person)], policy.least_count)
    edges = np.array(now.at.edges)
    last = np.minimum(first_of_persons(np.searchsorted(edges, here[:, 0]), of_person, len(edges)), len(edges) - 1)
    times = len(np.unique(last[few]))
    what, fix = ("those of an earlier study", _EARLIER) if curves else ("those of other causes", _ALONE)
    what, fix = ("counts of an earlier table", _TABLES) if tables and not curves else (what, fix)
    return (Grid(f"times next to {what}", times, len(edges), fix, _TOGETHER),)


def earlier_curves(before: OpenedColumns, everyone: Places) -> Iterator[CountedTimes]:
    """What earlier studies counted over time, with NaN in records that they did not take."""
    known = everyone >= 0
    for each in before.studies.values():
        if each.grid is not None:
            there = np.full((len(everyone), len(each.counted)), np.nan)
            there[known] = before.values[np.ix_(everyone[known], np.array(each.counted, np.intp))]
            yield CountedTimes(there, each.grid)


def _judged(
    now: CountedTimes, curves: list[CountedTimes], tables: list[Described], of_person: Persons, two: bool
) -> Iterator[list[Counted]]:
    """What earlier studies counted that is judged with this one's counts.

    Counts in fives with those of tables that follow from time, event and group: any others leave them free.
    """
    every = [one for each in curves for one in counts(each, of_person)]
    beside = [one for each in tables for one in each.counted_of(now.rows, of_person)] if two else []
    if every or beside or (two and not now.exact):
        yield [*every, *beside]
    if now.exact:
        yield from exact_tables(tables, [one for one in every if one.least == 1], now.rows, of_person)


def counts(curves: CountedTimes, of_person: Persons) -> Iterator[Counted]:
    """Of each group the counts that are opened: events of each cause and all who left, up to each time, and records.

    Where a person has several rows, the first of them that is counted.
    """
    rows, at = curves.rows, curves.at
    time, event, edges = rows[:, 0], rows[:, 1], np.array(at.edges)
    D = len(edges)
    first = np.searchsorted(edges, time, side="left")
    first = first if at.closed else np.where(event == 0.0, np.searchsorted(edges, time, side="right"), first)
    taken = np.isfinite(event)
    kinds = [event == cause for cause in np.unique(event[event > 0.0])]
    groups = [taken]
    if rows.shape[1] > 2:  # records without a group are in no count
        groups = [rows[:, 2] == code for code in np.unique(rows[np.isfinite(rows[:, 2]), 2])]
    for group in groups:
        for kind in (*kinds, taken):
            places = first_of_persons(np.where(kind & group, first, D), of_person, D)
            yield Counted(places, D, at.least)
        yield Counted(first_of_persons(np.where(taken & group, 0, 1), of_person, 1), 1, at.least)
