"""Attacks on counts over time: who left between two times, from survival curves that a study opens, or two studies.

The curious party takes its own counts off those of all. Where one record of the others is between two times, it knows
when that record left and why; counts in fives are opened to it as each party rounded them. With two studies it chooses
the times: of bins that hold many records one edge is moved, and the difference of both counts is who left between. With
three it chooses groups too: a up to a time, b and both together up to a later one, of which no two show anyone.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.audit.openings_table import OpenedTable, Played, Stop, Verdict, at_home, gravest, mildest
from fedsvd.data.arrays import ArraySource
from fedsvd.errors import ConfigError
from fedsvd.policy.opened_columns import OpenedColumns
from fedsvd.policy.own_rows import MOST_VALUES
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Counts, Split, Task
from fedsvd.statistics.fives import LEAST_COUNT, even_edges, fives
from fedsvd.statistics.life_table import staircases
from fedsvd.studies.opened_before import Before, study_columns
from fedsvd.studies.parties import PartyData
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import Float, SessionId

Flags = NDArray[np.bool_]

_SESSION = SessionId("00" * 16)
_SAID = {Counts.EXACT: "as they are", Counts.FIVES: "in fives"}


def departures(table: OpenedTable, policy: Policy, event: str) -> Iterator[Played]:
    """Counts of events and departures on an even grid of times, as they are and in fives."""
    cohort = _Cohort.of(table, event)
    edges = np.array(even_edges(float(table.y.max())))
    for counts, said in _SAID.items():
        read = sum(_alone(cohort.others, cohort.steps(edges, counts), edges))
        verdict = cohort.judged(edges, policy, counts)[0]
        name = f"counts of departures between {len(edges)} times, {said}: who left between two"
        yield Played(name, 1, read, len(cohort.others), "records", verdict)


def moved_edges(table: OpenedTable, policy: Policy, event: str) -> Played:
    """Two studies of exact counts up to quarters of follow-up, the second with one of these times a little later."""
    cohort = _Cohort.of(table, event)
    name = "counts of departures of two studies, one time moved: who left between"
    own = np.quantile(table.y[cohort.parts[0]], (0.25, 0.5, 0.75), method="lower")
    quarters = np.unique([_just_after(table.y, each) for each in own])
    first, opened = cohort.judged(quarters, policy)
    before, read, verdicts = cohort.left_by(quarters), 0, []
    for place in range(len(quarters)):
        next_to_leave = cohort.others[cohort.others[:, 0] > quarters[place], 0].min(initial=np.inf)
        moved = quarters.copy()
        moved[place] = _just_after(table.y, float(next_to_leave))
        if not (np.diff(moved) > 0.0).all() or (cohort.left_by(moved) - before)[place] != 1.0:
            continue
        read += 1
        verdicts.append(gravest((first, cohort.judged(moved, policy, opened=opened)[0])))
    verdict = mildest(verdicts) if verdicts else Verdict(Stop.NOT_JUDGED)
    return Played(name, 2, read, len(cohort.others), "records", verdict)


def three_groups(table: OpenedTable, policy: Policy, event: str) -> Iterator[Played]:
    """Three studies of exact counts: by one level or not, then by another one and by both with one time moved."""
    cohort = _Cohort.of(table, event)
    for name, column in zip(table.names, table.X.T, strict=True):
        levels, sizes = np.unique(column, return_counts=True)
        if name == event or not 3 <= len(levels) <= MOST_VALUES:
            continue
        a, b = (column == level for level in levels[np.argsort(-sizes, kind="stable")[:2]])
        yield _three(cohort, name, (a, b, a | b), policy)


def _three(cohort: "_Cohort", name: str, groups: tuple[Flags, Flags, Flags], policy: Policy) -> Played:
    a, b, both = groups
    time = cohort.rows[:, 0]
    quarters = np.unique([_just_after(time, each) for each in np.quantile(time[a], (0.25, 0.5, 0.75), method="lower")])
    first, opened = cohort.judged(quarters, policy, group=a)
    start, read, verdicts = cohort.parts[1].start, 0, []
    for place in range(len(quarters)):
        later = time[start:][a[start:] & (time[start:] > quarters[place])]
        moved = quarters.copy()
        moved[place] = _just_after(time, float(later.min(initial=np.inf)))
        if not (np.diff(moved) > 0.0).all() or not np.isfinite(moved).all():
            continue
        between = cohort.left_by(moved, group=both) - cohort.left_by(moved, group=b) - cohort.left_by(quarters, group=a)
        if between[place] != 1.0:
            continue
        read += 1
        second, after = cohort.judged(moved, policy, opened=opened, group=b)
        third, _ = cohort.judged(moved, policy, opened=after, group=both)
        verdicts.append(gravest((first, second, third)))
    said = f"counts of departures of three studies, by levels of {name!r}, one time moved: who of a level left between"
    verdict = mildest(verdicts) if verdicts else Verdict(Stop.NOT_JUDGED)
    return Played(said, 3, read, len(cohort.others), "records", verdict)


def _just_after(time: Float, moment: float) -> float:
    """A time after this one and before the next at which a record leaves."""
    later = time[time > moment]
    return (moment + float(later.min())) / 2.0 if len(later) else moment + 1.0


@dataclass(frozen=True, repr=False)
class _Cohort:
    """Times and events of an owner's records, dealt to three parties."""

    rows: Float  # time, event
    parts: list[slice]
    event: str

    @classmethod
    def of(cls, table: OpenedTable, event: str) -> "_Cohort":
        if event not in table.names:
            raise ConfigError(
                f"the table has no column of numbers {event!r} without gaps", "name the column of events with --event"
            )
        seen = table.X[:, table.names.index(event)]
        if not np.isin(seen, (0.0, 1.0)).all():
            raise ConfigError(f"{event!r} has values that are neither 0 nor 1", "code it: 1 where the event was seen")
        return cls(np.column_stack((table.y, seen)), table.dealt(3), event)

    @property
    def others(self) -> Float:
        return self.rows[self.parts[1].start :]

    def left_by(self, edges: Float, counts: Counts = Counts.EXACT, group: Flags | None = None) -> Float:
        """How many of the others left up to each time: all counts, as they are opened, less the first party's."""
        taken = np.ones(len(self.rows), np.bool_) if group is None else group
        parts = [self.rows[part][taken[part]] for part in self.parts]
        own = [_counted(rows[:, 0], rows[:, 1], edges, counts) for rows in parts]
        found: Float = (sum(own) - own[0])[1]
        return found

    def steps(self, edges: Float, counts: Counts) -> Float:
        return np.diff(self.left_by(edges, counts), prepend=0.0)

    def judged(
        self,
        edges: Float,
        policy: Policy,
        counts: Counts = Counts.EXACT,
        opened: Sequence[OpenedColumns] = (),
        group: Flags | None = None,
    ) -> tuple[Verdict, tuple[OpenedColumns, ...]]:
        """What the other parties' rules say of such a study after what was ``opened``, and what they remember of it."""
        asked = {"times": json.dumps(edges.tolist()), "counts": str(counts), "test": "none"}
        names, every = ["time", self.event], self.rows
        if group is not None:
            asked["groups"], names = '["no", "yes"]', [*names, "group"]
            every = np.column_stack((every, group))
        study = Study(Task.SURVIVAL, Split.HORIZONTAL, options=tuple(asked.items()))
        plan = plan_study(study, len(names), tuple(part.stop - part.start for part in self.parts), _SESSION).plan
        verdicts, stored = [], []
        for place, part in enumerate(self.parts[1:]):
            party, rows = (
                PartyData(ArraySource(every[part], names)),
                np.arange(part.stop - part.start),
            )
            memory = opened[place] if opened else OpenedColumns().after(len(rows))
            verdicts.append(at_home(plan, party, policy, before=Before(memory, rows)))
            opens = study_columns(plan, party)
            stored.append(memory if opens is None else memory.with_study(str(len(memory.studies)), opens, rows))
        return gravest(verdicts), tuple(stored)


def _counted(time: Float, event: Float, edges: Float, counts: Counts) -> Float:
    """Own cumulative events, and departures, as they are sent."""
    found = staircases(time, event, edges)[:-1].reshape(2, -1)
    return found if counts is Counts.EXACT else fives(found, LEAST_COUNT)


def _alone(left: Float, steps: Float, edges: Float) -> Iterator[bool]:
    """Of each bin in which the counts say that one of the others left: whether one did."""
    ends = np.searchsorted(edges, left[:, 0], side="left") + ((left[:, 1] == 0.0) & np.isin(left[:, 0], edges))
    for place in np.flatnonzero(steps == 1.0):
        yield int(np.count_nonzero(ends == place)) == 1
