"""Pairs of records that a prediction orders as their times are ordered, counted in O(n log n): Harrell's concordance.

A pair is comparable where one record has an event at u and the other is at risk after it: it leaves later, or at u
without an event, and came before u. It is concordant where the event has the larger prediction; equal predictions count
one half, as R's ``concordance`` counts them. Records of one stratum of one party are compared, and totals are added.
"""

import numpy as np
from numpy.typing import NDArray

from fedsvd.types import Float


def concordant_pairs(
    eta: Float, time: Float, event: Float, *, weights: Float | None = None, entry: Float | None = None
) -> tuple[float, float]:
    """Concordant and comparable pairs, each in weights of both records."""
    w = np.ones(len(eta)) if weights is None else weights
    dead = np.flatnonzero(event)
    if not len(dead):
        return 0.0, 0.0
    rank = np.unique(eta, return_inverse=True)[1].reshape(-1)
    u = time[dead]
    # Later first; at one time those without an event, which an event of that time precedes.
    later = np.lexsort((event, -time))
    ahead = np.searchsorted(-time[later], -u, side="left") + _without_event(time, event, u)
    less, equal, total = _below(rank[later], w[later], ahead, rank[dead])
    if entry is not None:
        late = np.argsort(-entry, kind="stable")
        after = np.searchsorted(-entry[late], -u, side="right")
        found = _below(rank[late], w[late], after, rank[dead])
        less, equal, total = less - found[0], equal - found[1], total - found[2]
    own = w[dead]
    return float(own @ (less + 0.5 * equal)), float(own @ total)


def _without_event(time: Float, event: Float, u: Float) -> NDArray[np.intp]:
    """How many records leave at each of these times without an event."""
    censored = np.sort(time[event == 0.0])
    found: NDArray[np.intp] = np.searchsorted(censored, u, "right") - np.searchsorted(censored, u, "left")
    return found


def _below(
    ranks: NDArray[np.intp], weights: Float, upto: NDArray[np.intp], of: NDArray[np.intp]
) -> tuple[Float, Float, Float]:
    """For each query the weights among the first ``upto`` places of a smaller rank, of the same one, and of all.

    A wavelet matrix: places are parted by one bit of their rank after the other, the highest first, and the ranges of
    all queries follow.
    """
    running = np.concatenate(([0.0], np.cumsum(weights)))
    total = running[upto]
    low, high, less = np.zeros_like(upto), upto, np.zeros(len(upto))
    for bit in range(int(ranks.max(initial=0)).bit_length() - 1, -1, -1):
        ones = (ranks >> bit) & 1
        zeros_before = np.concatenate(([0], np.cumsum(1 - ones)))
        zero_weights = np.concatenate(([0.0], np.cumsum(weights * (1 - ones))))
        one = ((of >> bit) & 1).astype(bool)
        less += np.where(one, zero_weights[high] - zero_weights[low], 0.0)
        zeros = int(zeros_before[-1])
        low = np.where(one, zeros + low - zeros_before[low], zeros_before[low])
        high = np.where(one, zeros + high - zeros_before[high], zeros_before[high])
        order = np.argsort(ones, kind="stable")
        ranks, weights = ranks[order], weights[order]
    running = np.concatenate(([0.0], np.cumsum(weights)))
    return less, running[high] - running[low], total
