"""Sets of few records for which counts in multiples of a number, alone or next to exact ones, leave one number.

Each count is an interval of a sum over classes of records: a linear programme has the same least and largest value of
the set, or whole numbers leave one between them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.types import Float

Places = NDArray[np.intp]

MOST_CLASSES = 6000  # of records, above which no programme is solved
_ZERO = 1e-7
_TURNS = 8  # programmes that look at all sets at once


def pinned(
    sets: Sequence[frozenset[int]], counts: Sequence[tuple[Places, int, int]], sizes: Places
) -> list[frozenset[int]]:
    """Sets of classes for which the counts leave one number: of each count the bin of every class, edges, multiple."""
    if not sets:
        return []
    limits = _limits(counts, sizes)
    width = len(limits["bounds"])
    targets = np.zeros((len(sets), width))
    for row, some in enumerate(sets):
        targets[row, list(some)] = 1.0
    left, held = np.ones(len(sets), np.bool_), targets[:, : len(sizes)] @ sizes
    for turn in range(_TURNS):  # most are free: one programme shows it of many
        weights = np.where((np.arange(len(sets)) * (turn // 2 + 1)) % (turn // 2 + 2) < 1, 1.0, 0.3 * (turn // 2))
        if not left.any():
            return []
        x = _least((1.0 if turn % 2 else -1.0) * (weights * left) @ targets, limits)
        if x is not None:
            left &= np.abs(targets @ x - held) < 1.0 - _ZERO
    found = []
    for row in np.flatnonzero(left).tolist():
        ends = [_least(sign * targets[row], limits) for sign in (1.0, -1.0)]
        values = [float(targets[row] @ x) for x in ends if x is not None]
        if len(values) == 2 and np.ceil(values[0] - 1e-6) == np.floor(values[1] + 1e-6):
            found.append(sets[row])
    return found


def _least(weights: Float, limits: dict[str, Any]) -> Float | None:
    from scipy.optimize import linprog  # slow to import, and `job watch` never needs it

    found: Float | None = linprog(weights, **limits).x
    return found


def _limits(counts: Sequence[tuple[Places, int, int]], sizes: Places) -> dict[str, Any]:
    """What the programme holds to: records of each class, then what is counted up to each edge that is rounded."""
    from scipy.sparse import coo_array

    rows: list[Places] = []
    columns: list[Places] = []
    entries: list[Float] = []
    wanted: list[float] = []
    bounds: list[tuple[float, float | None]] = [(0.0, None)] * len(sizes)
    for places, edges, least in counts:
        there = places < edges
        used, bins = np.unique(places[there], return_inverse=True)
        own = np.bincount(bins.ravel(), weights=sizes[there], minlength=len(used))
        rows.append(len(wanted) + bins.ravel())
        columns.append(np.flatnonzero(there))
        entries.append(np.ones(len(bins.ravel())))
        if least == 1:
            wanted += own.tolist()
            continue
        at, j = len(bounds), np.arange(len(used))  # what is counted up to an edge, less up to the one before, is a bin
        rows += [len(wanted) + j, len(wanted) + j[1:]]
        columns += [at + j, at + j[:-1]]
        entries += [np.full(len(j), -1.0), np.ones(max(0, len(j) - 1))]
        wanted += [0.0] * len(used)
        shown, off = least * np.rint(np.cumsum(own) / least), least // 2
        bounds += zip((shown - off).tolist(), (shown + off).tolist(), strict=True)
    shape = (len(wanted), len(bounds))
    held = coo_array((np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))), shape=shape).tocsr()
    return {"A_eq": held, "b_eq": np.array(wanted), "bounds": bounds}
