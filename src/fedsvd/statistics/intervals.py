"""Records that are each at risk over an interval of event times: sums of one over the other, by additions alone.

A sum over a risk set as a running sum less another one loses all digits where a record that is not at risk is far
larger than those that are. Here an interval is a few nodes of a binary tree over the event times, at most two of a
level: records are added to their nodes and nodes to their leaves, or the other way round. Nothing is subtracted, so a
sum of positive numbers has the digits that these have: O(n log n).
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedsvd.types import Float


class Intervals:
    """For each record the event times from ``begin`` up to, and without, ``end``, of ``count`` in their order."""

    def __init__(self, begin: NDArray[np.intp], end: NDArray[np.intp], count: int) -> None:
        self._count, self._leaves = count, 1 << max(0, count - 1).bit_length()
        records = np.arange(len(begin))
        low, high = begin + self._leaves, np.maximum(begin, end) + self._leaves
        nodes, whose = [], []
        while len(records):
            left = (low & 1 == 1) & (low < high)  # a right child: its parent has more than the interval
            right = (high & 1 == 1) & (low < high)
            nodes += [low[left], high[right] - 1]
            whose += [records[left], records[right]]
            low, high = (low + left) >> 1, (high - right) >> 1
            open_ = low < high
            low, high, records = low[open_], high[open_], records[open_]
        places = (np.concatenate(nodes), np.concatenate(whose))
        shape = 2 * self._leaves, len(begin)
        self._nodes = sparse.csr_array((np.ones(len(places[0])), places), shape=shape)
        self._records = self._nodes.T.tocsr()

    def of_records(self, values: Float) -> Float:
        """For each event time the sum over the records that it is an event time of."""
        tree: Float = self._nodes @ values
        width = 1
        while width < self._leaves:
            tree[2 * width : 4 * width] += np.repeat(tree[width : 2 * width], 2, axis=0)
            width *= 2
        return tree[self._leaves : self._leaves + self._count]

    def of_times(self, values: Float) -> Float:
        """For each record the sum over its event times."""
        tree = np.zeros((2 * self._leaves, *values.shape[1:]))
        tree[self._leaves : self._leaves + self._count] = values
        width = self._leaves // 2
        while width:
            tree[width : 2 * width] = tree[2 * width : 4 * width : 2] + tree[2 * width + 1 : 4 * width : 2]
            width //= 2
        found: Float = self._records @ tree
        return found
