"""Attacks on counts over time: who left between two times, from survival curves that a study opens.

The curious party takes its own counts off those of all. Where one record of the others is between two times, it knows
when that record left and why; counts in fives are opened to it as each party rounded them.
"""

import json
from collections.abc import Iterator

import numpy as np

from fedsvd.audit.openings_table import OpenedTable, Played, at_home, gravest
from fedsvd.data.arrays import ArraySource
from fedsvd.errors import ConfigError
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Counts, Split, Task
from fedsvd.statistics.fives import LEAST_COUNT, even_edges, fives
from fedsvd.statistics.life_table import staircases
from fedsvd.studies.parties import PartyData
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import Float, SessionId

_SESSION = SessionId("00" * 16)
_SAID = {Counts.EXACT: "as they are", Counts.FIVES: "in fives"}


def departures(table: OpenedTable, policy: Policy, event: str) -> Iterator[Played]:
    """Counts of events and departures on an even grid of times, as they are and in fives."""
    if event not in table.names:
        raise ConfigError(
            f"the table has no column of numbers {event!r} without gaps", "name the column of events with --event"
        )
    seen, parts = table.X[:, table.names.index(event)], table.dealt(3)
    if not np.isin(seen, (0.0, 1.0)).all():
        raise ConfigError(f"{event!r} has values that are neither 0 nor 1", "code it: 1 where the event was seen")
    edges = np.array(even_edges(float(table.y.max())))
    for counts, said in _SAID.items():
        own = [_counted(table.y[part], seen[part], edges, counts) for part in parts]
        others = np.diff(sum(own) - own[0], axis=1, prepend=0.0)
        left = np.column_stack((table.y, seen))[parts[1].start :]
        read = sum(_alone(left, others[1], edges))
        asked = {"times": json.dumps(edges.tolist()), "counts": str(counts), "test": "none"}
        study = Study(Task.SURVIVAL, Split.HORIZONTAL, options=tuple(asked.items()))
        plan = plan_study(study, 2, tuple(part.stop - part.start for part in parts), _SESSION).plan
        parties = [PartyData(ArraySource(np.column_stack((table.y, seen))[part], ["time", event])) for part in parts]
        verdict = gravest(at_home(plan, party, policy) for party in parties[1:])
        name = f"counts of departures between {len(edges)} times, {said}: who left between two"
        yield Played(name, 1, read, len(left), "records", verdict)


def _counted(time: Float, event: Float, edges: Float, counts: Counts) -> Float:
    """Own cumulative events, and departures, as they are sent."""
    found = staircases(time, event, edges)[:-1].reshape(2, -1)
    return found if counts is Counts.EXACT else fives(found, LEAST_COUNT)


def _alone(left: Float, steps: Float, edges: Float) -> Iterator[bool]:
    """Of each bin in which the counts say that one of the others left: whether one did."""
    ends = np.searchsorted(edges, left[:, 0], side="left") + ((left[:, 1] == 0.0) & np.isin(left[:, 0], edges))
    for place in np.flatnonzero(steps == 1.0):
        yield int(np.count_nonzero(ends == place)) == 1
