"""Which of a party's records a study may take, given those that earlier studies took: classes of records.

A *class* is a set of records that every study so far took or left out together, with values that changed together. Any
linear combination of what studies opened is one of sums over classes. So the rule is: no class is smaller than
``least`` records, but for one that began so. Records come, go and change one at a time; then

- new records wait until there are ``least`` of them, and are a class;
- where a study leaves out some records of a class, further ones of it are left out with them, until both parts are as
  large, or the whole class is;
- corrected records are used as they were until there are ``least`` of a class, and as many without a correction.

Who goes along is drawn once: ``order`` is a number for each record, from the party's own key. Where persons have
several records ``person`` says which one each is of, and persons are counted: five visits of one are one. Arrays in,
arrays out.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Classes = NDArray[np.int64]
Flags = NDArray[np.bool_]
Order = NDArray[np.uint64]
Persons = NDArray[np.intp] | None


class Taken(NamedTuple):
    """The classes as they are after a study, and which of their records it takes."""

    classes: Classes
    taken: Flags


def taken(classes: Classes, wanted: Flags, order: Order, least: int, person: Persons = None) -> Taken:
    """The records of a study that wants these: classes that it wants in part are split, or left out."""
    after, held = classes.copy(), wanted.copy()
    for members in _partly(classes, wanted):
        inside, outside = members[wanted[members]], members[~wanted[members]]
        inside = inside[np.argsort(order[inside], kind="stable")]
        along = _along(inside, outside, least, person)
        if size(inside[along:], person) < least:
            held[inside] = False  # the class is left out whole, and stays one
            continue
        gone = inside[:along]
        held[gone] = False
        after[np.concatenate((outside, gone))] = after.max() + 1
    return Taken(after, held)


def corrected(classes: Classes, changed: Flags, order: Order, least: int, person: Persons = None) -> Taken:
    """The classes after a version in which these records changed, and which corrections are used; the rest waits."""
    after, used = classes.copy(), changed.copy()
    for members in _partly(classes, changed):
        new, same = members[changed[members]], members[~changed[members]]
        new = new[np.argsort(order[new], kind="stable")]
        waiting = _along(new, same, least, person)
        if size(new[waiting:], person) < least:
            used[new] = False
            continue
        used[new[:waiting]] = False
        after[members[used[members]]] = after.max() + 1
    return Taken(after, used)


def newcomers(count: int, known: int, least: int) -> int:
    """How many of so many new records a study may take: all, or none while they are few; the first table is taken."""
    return count if count >= least or not known else 0


def smallest_part(classes: Classes, wanted: Flags, least: int, person: Persons = None) -> int:
    """The records in the smallest part below ``least`` that a study would make of a class; 0 where there is none.

    For studies in which a party cannot leave out further records: its rows belong to the other parties' rows.
    """
    halves = [members[wanted[members] == some] for members in _partly(classes, wanted) for some in (True, False)]
    return min((few for half in halves if (few := size(half, person)) < least), default=0)


def size(records: NDArray[np.intp], person: Persons) -> int:
    """How many records, or persons, these are."""
    return len(records) if person is None else len(np.unique(person[records]))


def _along(some: NDArray[np.intp], others: NDArray[np.intp], least: int, person: Persons) -> int:
    """How many of some records, in their order, make others ``least`` of them; all where they are too few."""
    lacking = least - size(others, person)
    if lacking <= 0 or person is None:
        return max(0, lacking)
    _, first = np.unique(person[some], return_index=True)
    joins = np.zeros(len(some), np.intp)
    joins[first] = ~np.isin(person[some[first]], person[others])
    return min(len(some), 1 + int(np.searchsorted(np.cumsum(joins), lacking)))


def _partly(classes: Classes, flags: Flags) -> list[NDArray[np.intp]]:
    """The members of every class of which some records have a flag and some have not."""
    if not len(classes):
        return []
    _, place = np.unique(classes, return_inverse=True)
    sizes, marked = np.bincount(place), np.bincount(place, flags)
    split = (marked > 0) & (marked < sizes)
    members = np.flatnonzero(split[place])
    by_class = members[np.argsort(place[members], kind="stable")]
    return list(np.split(by_class, np.cumsum(sizes[split])[:-1])) if len(by_class) else []
