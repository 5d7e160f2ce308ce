"""A matrix that grows by columns: appending copies what is new, and what was there before stays as it was.

Columns lie one after the other in memory that is taken ahead. A longer matrix shares it with the shorter one that it
was made of, and both may be kept. Where another matrix has been written behind it, the columns are copied.
"""

import numpy as np

from fedsvd.types import Float


class Columns:
    """Columns of one length, in memory that longer matrices share."""

    def __init__(self, rows: int) -> None:
        self._buffer, self._taken = np.empty((0, rows)), [0]
        self._count = 0

    @classmethod
    def of(cls, A: Float) -> "Columns":
        """A matrix to begin with."""
        return cls(len(A)).with_more(A)

    @property
    def count(self) -> int:
        return self._count

    @property
    def all(self) -> Float:
        """(rows, count), where it lies."""
        return self._buffer[: self._count].T

    def with_more(self, A: Float) -> "Columns":
        """The same columns and those of A behind them."""
        found = object.__new__(Columns)
        stop = self._count + A.shape[1]
        found._buffer, found._taken, found._count = self._buffer, self._taken, stop
        if self._taken[0] != self._count or stop > len(self._buffer):
            found._buffer, found._taken = np.empty((max(stop, 2 * self._count), self._buffer.shape[1])), [0]
            found._buffer[: self._count] = self._buffer[: self._count]
        found._buffer[self._count : stop] = A.T
        found._taken[0] = stop
        return found
