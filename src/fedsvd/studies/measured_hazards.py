"""What single records have in the sums of a model of times to an event, before anything is sent.

A risk set weighs records by their hazards, so that a record with an extreme column has a larger part in the information
than in the table. It is measured on the way of a fit of own records alone, which is where the home tests of a session
allow a joint fit to come (``roles/user/records.py``).
"""

import numpy as np
from numpy.typing import NDArray

from fedsvd.policy.own_rows import Grid
from fedsvd.protocol.families import Outcome
from fedsvd.protocol.hazards import HazardsPlan, baseline_times, bins_of
from fedsvd.protocol.plan import SessionPlan
from fedsvd.roles.user.cox import cohort
from fedsvd.statistics.fives import few_cells, in_cells
from fedsvd.statistics.newton_requests import Point
from fedsvd.statistics.records import largest_share
from fedsvd.studies.parties import PartyData
from fedsvd.types import Float

Persons = NDArray[np.intp] | None


def bins_of_departures(plan: SessionPlan, party: PartyData, least: int, of_person: Persons = None) -> tuple[Grid, ...]:
    """Bins of a baseline of all parties, and in how many of them few own records, or persons, left or had the event.

    Where a person has several rows, of starts and stops, its part of the sums changes with the end of each.
    """
    about, labels, edges = HazardsPlan.of(plan), party.labels, bins_of(plan)
    if labels is not None and edges is not None:
        time, event = labels[:, 0], labels[:, 1]
        cells = np.stack([_in_cells(time, edges, of, of_person) for of in (event > 0.0, event == 0.0, event >= 0.0)])
        few = few_cells(np.cumsum(cells, axis=1), least)
        what, fix = (
            "time bins of events, departures and ends of follow-up",
            'take fewer times, or leave baseline = "bins" out',
        )
        return (Grid(what, few, cells.size, fix),)
    if about is None or labels is None or not baseline_times(plan):
        return ()
    left = np.cumsum(in_cells(labels[:, 0], about.times, of_person))
    return (Grid("time bins of departures", few_cells(left, least), len(about.times)),)


def _in_cells(time: Float, edges: Float, some: NDArray[np.bool_], of_person: Persons) -> Float:
    return in_cells(time[some], edges, None if of_person is None else of_person[some])


def largest_hazard(plan: SessionPlan, party: PartyData, of_person: Persons = None) -> tuple[float, int]:
    """The largest part of a record, or person, and the column in which a record is furthest from the others; 0 of other
    models."""
    about, labels = plan.glm, party.labels
    if about is None or about.facts.outcome is not Outcome.TIMES or labels is None:
        return 0.0, 0
    if not np.isin(labels[:, about.facts.counted_at], (0.0, 1.0)).all() or not labels[:, about.facts.counted_at].any():
        return 0.0, 0  # which the model itself refuses, or sums nothing of
    X = party.table.rows(0, party.table.shape[0])
    own, found = cohort(about, X, labels), 0.0
    own.of_person = of_person
    spread = own.spread(Point(np.zeros(own.p), np.zeros(own.p), information=False))
    scale = np.where(spread > 0.0, spread, 1.0)
    for beta in own.on_the_way():
        at = Point(beta, np.zeros(own.p), information=True)
        information = own.part(at).information
        assert information is not None
        found = max(found, largest_share(own, at, information, scale))
    return found, int(np.argmax(np.abs((X - X.mean(axis=0)) / scale).max(axis=0)))
