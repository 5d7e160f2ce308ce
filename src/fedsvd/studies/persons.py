"""Which person each row of a party is of: what rules before a study, and tests in it, count.

A person is what the dictionary's id names, or else the job's, or else the subject of a mixed model. Clusters of errors
are not persons: they may be clinics. Where each person has one row there is nothing to say, and rows are counted.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.prepare.job_made import persons
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split
from fedsvd.studies.parties import PartyData


def persons_of(party: PartyData, plan: SessionPlan | None = None) -> NDArray[np.intp] | None:
    """Which person each row is of, by the dictionary's id or the job's, or else by the groups that have random effects;
    None where each person has one row."""
    found = persons(party.table)
    if found is not None:
        return found
    groups = None if plan is None else groups_of(party, plan)
    for ids in (party.ids, groups):
        if ids is not None:
            ids, found = np.unique(ids, return_inverse=True)
            if len(ids) < len(found):
                return found
    return None


def persons_in_session(party: PartyData, plan: SessionPlan) -> NDArray[np.intp] | None:
    """The same for the tests that a party makes at home while a model is fitted; None of other studies."""
    return persons_of(party, plan) if plan.glm is not None and plan.split is Split.HORIZONTAL else None


def groups_of(party: PartyData, plan: SessionPlan) -> NDArray[Any] | None:
    """The group of each row, where groups have random effects."""
    place = None if plan.glm is None else plan.glm.column(plan.glm.facts.grouped)
    return None if place is None or party.labels is None else party.labels[:, place]


def counted(codes: NDArray[np.intp], of_person: NDArray[np.intp] | None) -> NDArray[np.int64]:
    """How many rows, or persons, have each code that occurs."""
    if of_person is not None:
        codes = np.unique(np.column_stack((codes, of_person)), axis=0)[:, 0]
    return np.unique(codes, return_counts=True)[1]


def first_of_persons(places: NDArray[np.intp], of_person: NDArray[np.intp] | None, last: int) -> NDArray[np.intp]:
    """The first place of each person's rows, ``last`` where it has none."""
    if of_person is None:
        return places
    found = np.full(1 + int(of_person.max(initial=-1)), last)
    np.minimum.at(found, of_person, places)
    return found


def how_many(rows: NDArray[np.bool_], of_person: NDArray[np.intp] | None) -> int:
    """How many rows, or persons, these are."""
    return int(rows.sum()) if of_person is None else len(np.unique(of_person[rows]))
