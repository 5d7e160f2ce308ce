"""``P X`` and ``P^T X`` of a matrix that memory does not hold (specification, section 4).

The matrix lies in ``lines``, (columns, n): a column of X is a line there, in memory, on a disk or on a device. What
stands before a round of blocks takes whole columns, some at a time; blocks take rows of all columns at once, some at a
time. Every pass writes where it read, so there is one file, not two. The last round of the way forward, which is the
first of the way back, is left to the caller: it handles rows as they are sent, or as they come.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from fedsvd.linalg.backend import like, namespace, to_numpy
from fedsvd.linalg.block_diagonal import Orthogonal
from fedsvd.masks.permute import ROUNDS, Mixing, groups_of_blocks
from fedsvd.types import Array

WORKING = 4
"""Copies of a column that are alive at once: as read, transformed, its places, as written."""


@dataclass(frozen=True, repr=False)
class Passes:
    """The passes of an orthogonal P over lines, within ``memory`` bytes; arrays are moved to where ``on`` lies."""

    P: Orthogonal
    memory: int
    on: Array | None = None
    mapped: bool = True  # whether lines lie on a disk: rows of all of them are then read and written in slabs

    def __repr__(self) -> str:
        return f"Passes({self.P!r})"

    def forward(self, lines: Array) -> None:
        """All of P but the blocks of its last round, on columns that lie in ``lines``."""
        if not isinstance(self.P, Mixing):
            self._over_columns(lines, self.P.left)
            return
        for t in range(ROUNDS):
            self._mix(lines, t, transposed=False)
            if t < ROUNDS - 1:
                self._over_rows(lines, t, transposed=False)

    def backward(self, lines: Array) -> None:
        """All of ``P^T`` after the blocks of what was the last round."""
        if not isinstance(self.P, Mixing):
            self._over_columns(lines, self.P.left_t)
            return
        for t in reversed(range(ROUNDS)):
            self._mix(lines, t, transposed=True)
            if t:
                self._over_rows(lines, t - 1, transposed=True)

    def last(self, rows: slice, X: Array) -> Array:
        """``B X`` for these rows, which are whole blocks of the last round."""
        return X if not isinstance(self.P, Mixing) else self.P.blocks[-1].left(X, self._first(rows))

    def last_t(self, rows: slice, X: Array) -> Array:
        """``B^T X`` for the same."""
        return X if not isinstance(self.P, Mixing) else self.P.blocks[-1].left_t(X, self._first(rows))

    def groups(self, rows: slice, most: int) -> list[slice]:
        """These rows cut where several threads may ask for parts that are ``finished``: about ``most`` each."""
        if not isinstance(self.P, Mixing):
            return [slice(start, min(start + most, rows.stop)) for start in range(rows.start, rows.stop, most)]
        starts = self.P.blocks[-1].starts
        first = self._first(rows)
        last = first + 1
        while starts[last] < rows.stop:
            last += 1
        self.P.blocks[-1].ready()
        return [found for _, found in groups_of_blocks(starts[first : last + 1], most)]

    def finished(self, rows: slice, lines: Array, *, alone: bool = False) -> Array:
        """``B X`` for these rows of X, whose columns are these lines; written over where they lie in memory.

        ``alone`` in the calling thread, for rows that ``groups`` has cut.
        """
        if self.on is not None or not isinstance(self.P, Mixing):
            return self.last(rows, self._there(lines))
        part = np.array(lines) if self.mapped else lines
        self.P.blocks[-1].turn(part, self._first(rows), alone=alone)
        return part.T

    def _first(self, rows: slice) -> int:
        assert isinstance(self.P, Mixing)
        return int(np.searchsorted(self.P.blocks[-1].starts, rows.start))

    def _mix(self, lines: Array, t: int, transposed: bool) -> None:
        assert isinstance(self.P, Mixing)
        if self.on is None:
            self.P.mix(t, lines, transposed=transposed)
        else:
            self._over_columns(lines, partial(self.P.before_t if transposed else self.P.before, t))

    def _over_columns(self, lines: Array, step: Callable[[Array], Array]) -> None:
        count, n = lines.shape
        width = max(1, min(count, self.memory // (WORKING * 8 * n)))
        cuts = [count * j // -(-count // width) for j in range(-(-count // width) + 1)]
        for start, stop in pairwise(cuts):
            part = lines[start:stop]
            lines[start:stop] = self._back(step(self._there(part)), part)

    def _over_rows(self, lines: Array, t: int, transposed: bool) -> None:
        assert isinstance(self.P, Mixing)
        blocks = self.P.blocks[t]
        if self.on is None and not self.mapped:
            blocks.turn(lines, transposed=transposed)
            return
        apply = blocks.left_t if transposed else blocks.left
        for first, rows in groups_of_blocks(blocks.starts, self.memory // (WORKING * 8 * lines.shape[0])):
            part = lines[:, rows]
            lines[:, rows] = self._back(apply(self._there(part), first), part)

    def _there(self, part: Array) -> Array:
        """Lines as columns, where they are computed with."""
        if not isinstance(part, np.ndarray):
            return namespace(part).matrix_transpose(part)
        columns = np.ascontiguousarray(part).T
        return columns if self.on is None else like(columns, self.on)

    def _back(self, columns: Array, part: Array) -> Array:
        """Columns as lines, where these lines were."""
        lines = namespace(columns).matrix_transpose(columns)
        return to_numpy(lines) if isinstance(part, np.ndarray) else lines
