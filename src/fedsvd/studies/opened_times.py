"""Exact counts over time of a study next to those of earlier ones: who left between a time of each.

One study counts who left up to 12 months, another one up to 12.25: no bin of either holds few records, and the
difference of both counts is who left between. So a party remembers at which times its records were counted
(``policy/opened_columns.py``) and compares the records that are counted: of two sets, one inside the other, the
difference is none or at least the least count. Multiples of it, rounded at home, have no such difference.
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
from fedsvd.protocol.openings import opened
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import What
from fedsvd.protocol.tasks import Counts, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.persons import persons_of
from fedsvd.types import Float

Places = NDArray[np.intp]
Persons = Places | None
_EARLIER = "take the times of the earlier study"


@dataclass(frozen=True, repr=False)
class CountedTimes:
    """Rows of time, event and, where there are some, groups, and the times up to which they are counted."""

    rows: Float
    at: CountedAt


def counted_times(plan: SessionPlan, party: PartyData) -> CountedTimes | None:
    """What a study counts of a party's records over time, where counts are opened as they are; else None."""
    if plan.task is Task.SURVIVAL and What.CELLS in opened(plan):
        curves = CurvesPlan.of(plan)
        if curves.counts is not Counts.EXACT:
            return None
        columns = 3 if curves.groups else 2
        rows = party.table.rows(0, party.table.shape[0])[:, :columns]
        return CountedTimes(rows, CountedAt(tuple(curves.edges.tolist()), closed=False))
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
    earlier = [(each.counted, each.grid) for each in before.studies.values() if each.grid is not None]
    if now is None or not earlier:
        return ()
    rest = np.setdiff1d(np.arange(len(before.values)), record[record >= 0])
    everyone = np.concatenate((record, rest))
    here = np.vstack((now.rows, np.full((len(rest), now.rows.shape[1]), np.nan)))
    of_person = persons_of(party, plan)
    if of_person is not None:  # records that this study does not take are counted one by one
        of_person = np.concatenate((of_person, 1 + of_person.max(initial=-1) + np.arange(len(rest))))
    apart = np.zeros(len(now.at.edges), np.bool_)
    for places, grid in earlier:
        there = np.full((len(everyone), len(places)), np.nan)
        known = everyone >= 0
        there[known] = before.values[np.ix_(everyone[known], np.array(places, np.intp))]
        theirs = [*_counts(there, grid, of_person)]
        for kind, ours in _counts(here, now.at, of_person):
            for _, other in (each for each in theirs if each[0] == kind):
                apart |= _few_apart(ours, len(now.at.edges), other, len(grid.edges), policy.least_count)
    return (Grid("times next to those of an earlier study", int(apart.sum()), len(apart), _EARLIER),)


def _counts(rows: Float, at: CountedAt, of_person: Persons) -> Iterator[tuple[str, Places]]:
    """Of events, ends of follow-up and all who left, in each group and in all: the first time that counts a record.

    Where a person has several rows, the first of them that is counted.
    """
    time, event, edges = rows[:, 0], rows[:, 1], np.array(at.edges)
    first = np.searchsorted(edges, time, side="left")
    first = first if at.closed else np.where(event == 0.0, np.searchsorted(edges, time, side="right"), first)
    kinds = {"events": event > 0.0, "ends": event == 0.0, "left": np.isfinite(event)}
    causes = np.unique(event[event > 0.0])
    kinds |= {f"cause {cause:g}": event == cause for cause in causes if len(causes) > 1}
    codes = [] if rows.shape[1] < 3 else np.unique(rows[np.isfinite(rows[:, 2]), 2]).tolist()
    for kind, some in kinds.items():
        for inside in (some, *(some & (rows[:, 2] == code) for code in codes)):
            places = np.where(inside, first, len(edges))
            if of_person is not None:
                persons = np.full(1 + int(of_person.max(initial=-1)), len(edges))
                np.minimum.at(persons, of_person, places)
                places = persons
            yield kind, places


def _few_apart(ours: Places, D: int, theirs: Places, E: int, least: int) -> NDArray[np.bool_]:
    """At which of our D times few records tell who is counted from who was at one of their E times.

    A count that both have is judged in each by itself.
    """
    cells = np.bincount(ours * (E + 1) + theirs, minlength=(D + 1) * (E + 1)).reshape(D + 1, E + 1)
    both = cells.cumsum(axis=0).cumsum(axis=1)
    mine, other = both[:D, E][:, None], both[D, :E][None, :]
    smaller, apart = np.minimum(mine, other), np.abs(mine - other)
    nested = both[:D, :E] == smaller
    same = nested & (apart == 0)
    few = nested & (smaller > 0) & (apart > 0) & (apart < least)
    few &= ~same.any(axis=1)[:, None] & ~same.any(axis=0)[None, :]
    return np.asarray(few.any(axis=1))
