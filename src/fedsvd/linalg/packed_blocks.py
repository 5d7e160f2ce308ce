"""Haar blocks along a side as reflectors, two blocks to a square, applied to lines in place.

LAPACK reads the reflectors of a block strictly below the diagonal of a square, so that another block fits above it, as
rows: half the memory, and nothing is unpacked. ``draw`` makes the very blocks that ``householder.draw`` makes from the
same normals. Reflectors are applied at half the speed of a product, and writing a block out takes as long as applying
them to 150 columns: a block that is applied to more than some hundred columns is written out first.

Lines, (columns, rows), are the transpose of what is multiplied: a column of X is a line there. Blocks do not touch each
other's rows, so that a caller may turn them in several threads, with one BLAS thread each.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsvd.linalg import blas
from fedsvd.linalg.backend import matmul
from fedsvd.types import Float

_COLUMNS = 1024  # of X that a block is applied to at once: what is worked on stays in a cache
WORTH_WRITING = 240
"""Columns of X from which writing a block out and multiplying is quicker than its reflectors."""


class _Index(NamedTuple):
    """Where the normals of a block stand: the first of every reflector, their lengths, and places in a square."""

    starts: NDArray[np.intp]
    counts: NDArray[np.intp]
    places: NDArray[np.intp]


@cache
def _index(n: int, side: int, above: bool) -> _Index:
    counts = np.arange(n, 0, -1)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    rows, columns = np.triu_indices(n)
    places = rows * side + columns if above else columns * side + rows
    return _Index(starts, counts, places)


@dataclass(frozen=True, repr=False)
class PackedBlock:
    """One Haar block ``Q = H_0 ... H_{n-1} D``: its triangle of a square, and its scales."""

    square: Float  # (side, side), by rows, in one piece; n or more
    above: bool  # whether reflectors are rows above its diagonal, or columns below it
    tau: Float
    signs: Float

    def __repr__(self) -> str:
        return f"PackedBlock(n={self.n})"

    @property
    def n(self) -> int:
        return len(self.tau)

    def turn(self, lines: Float, transposed: bool) -> None:
        """``Q X``, or ``Q^T X``, over X, whose columns are these lines, (columns, n)."""
        for start in range(0, len(lines), _COLUMNS):
            part = lines[start : start + _COLUMNS]
            X = part.copy() if transposed else part * self.signs
            blas.reflect_into(self.square.T, not self.above, self.tau, X.T, transposed=transposed)
            np.multiply(X, self.signs, out=part) if transposed else np.copyto(part, X)

    def written(self) -> "WrittenBlock":
        """The same block as a matrix."""
        Qt = np.eye(self.n)
        self.turn(Qt, transposed=False)
        return WrittenBlock(Qt)


@dataclass(frozen=True, repr=False)
class WrittenBlock:
    """One block as a matrix, transposed: (n, n)."""

    Qt: Float

    def __repr__(self) -> str:
        return f"WrittenBlock(n={len(self.Qt)})"

    def turn(self, lines: Float, transposed: bool) -> None:
        """``Q X``, or ``Q^T X``, over X, whose columns are these lines, (columns, n)."""
        Qt = self.Qt.T if transposed else self.Qt
        for start in range(0, len(lines), _COLUMNS):
            part = lines[start : start + _COLUMNS]
            part[...] = matmul(part, Qt)


def draw(n: int, normals: Float, square: Float, above: bool) -> PackedBlock:
    """A block of n rows from its n (n + 1) / 2 normals, which are written over, into one triangle of ``square``."""
    starts, counts, places = _index(n, square.shape[1], above)
    head = normals[starts]
    length = np.sqrt(np.add.reduceat(normals * normals, starts))
    sign = np.where(head < 0, -1.0, 1.0)
    pivot = head + sign * length
    normals /= np.repeat(pivot, counts)
    square.reshape(-1)[places] = normals  # the diagonal is written, and not read
    return PackedBlock(square, above, pivot * sign / length, -sign)
