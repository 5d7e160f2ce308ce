"""A source that remembers what was read of it."""

import numpy as np

from fedsvd.data.arrays import ArraySource
from fedsvd.types import Float


class WatchedSource(ArraySource):
    """A matrix in memory; ``reads`` are the runs of columns asked for, in order."""

    def __init__(self, X: Float) -> None:
        super().__init__(X)
        self.reads: list[tuple[int, int]] = []

    def columns(self, start: int, stop: int) -> Float:
        self.reads.append((start, stop))
        return super().columns(start, stop)

    def touched(self) -> Float:
        """How often each column was read."""
        times = np.zeros(self.shape[1])
        for start, stop in self.reads:
            times[start:stop] += 1
        return times
