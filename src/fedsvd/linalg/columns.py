"""A matrix that grows by columns: appending copies what is new, and what was there before stays as it was.

Columns lie one after the other in memory that is taken ahead. A longer matrix shares it with the shorter one that it
was made of, and both may be kept. Where another matrix has been written behind it, the columns are copied.
"""

import numpy as np

from fedsvd.linalg.backend import namespace
from fedsvd.types import Array


class Columns:
    """Columns of one length, in memory that longer matrices share; on the device of ``like``, where one is given."""

    def __init__(self, rows: int, like: Array | None = None) -> None:
        self._buffer, self._taken = _memory(np.empty(0) if like is None else like, 0, rows), [0]
        self._count = 0

    @classmethod
    def of(cls, A: Array) -> "Columns":
        """A matrix to begin with, where it is."""
        return cls(A.shape[0], A).with_more(A)

    @property
    def count(self) -> int:
        return self._count

    @property
    def all(self) -> Array:
        """(rows, count), where it lies."""
        return self._buffer[: self._count, :].T

    def with_more(self, A: Array) -> "Columns":
        """The same columns and those of A behind them."""
        found = object.__new__(Columns)
        stop = self._count + A.shape[1]
        found._buffer, found._taken, found._count = self._buffer, self._taken, stop
        if self._taken[0] != self._count or stop > self._buffer.shape[0]:
            found._buffer = _memory(self._buffer, max(stop, 2 * self._count), self._buffer.shape[1])
            found._taken = [0]
            found._buffer[: self._count, :] = self._buffer[: self._count, :]
        found._buffer[self._count : stop, :] = A.T
        found._taken[0] = stop
        return found


def _memory(like: Array, columns: int, rows: int) -> Array:
    if isinstance(like, np.ndarray):
        return np.empty((columns, rows))
    return namespace(like).empty((columns, rows), dtype=like.dtype, device=like.device)
