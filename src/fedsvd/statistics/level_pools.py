"""Levels that are joined because some are rare, decided from counts: the same at all parties, which have the same sums.

What is rare is joined, and with the least common of the others while what is joined is rare itself: then no joined cell
has fewer than ``least`` records outside of some party.
"""

import numpy as np
from numpy.typing import NDArray

from fedsvd.types import Float

Flags = NDArray[np.bool_]
Places = tuple[tuple[int, ...], ...]


def order_of_joining(rare: Flags, total: Float | None) -> list[int]:
    """Levels that are not rare, as they would be joined: the rarest first by counts (levels, groups), else the last."""
    others: list[int] = np.flatnonzero(~rare)[::-1].tolist()
    if total is None:
        return others
    size = total.sum(axis=1)
    return sorted(others, key=lambda place: float(size[place]))


def objections(rare: Flags, order: list[int], others: Float, least: int) -> Flags:
    """For each number of further levels whether what would be joined has fewer than ``least`` records of the others."""
    steps = np.concatenate((others[rare].sum(axis=0, keepdims=True), others[order]))
    joined = np.cumsum(steps, axis=0)[: len(rare)]
    found = np.zeros(len(rare), np.bool_)
    found[: len(joined)] = ((joined > 0) & (joined < least)).any(axis=1)
    return found


def places_shown(rare: Flags, order: list[int], failed: Flags) -> Places:
    """The levels that each shown one is made of: those alone, and last those that are joined, if any is rare."""
    if not rare.any():
        return tuple((place,) for place in range(len(rare)))
    more = next((t for t in range(len(order) + 1) if t < len(rare) and not failed[t]), len(order))
    joined = sorted([*np.flatnonzero(rare).tolist(), *order[:more]])
    return (*((place,) for place in range(len(rare)) if place not in joined), tuple(joined))


def membership(places: Places, levels: int) -> Float:
    """(shown, levels), of zeros and ones: its product with counts of levels has those of what is shown."""
    found = np.zeros((len(places), levels))
    for row, each in enumerate(places):
        found[row, list(each)] = 1.0
    return found
