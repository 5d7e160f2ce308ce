"""What every mask is, and blocks of a mixing mask on a device, where those of one width are multiplied together.

A GPU multiplies a hundred blocks at once in the time it takes to start one. ``draw_blocks`` makes the very blocks that
``householder.draw`` would make from the same normals, one after the other; here they are written out, because a block
of a mixing mask is small and used many times.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

import numpy as np

from fedsvd.linalg.backend import like, namespace
from fedsvd.linalg.householder import FromTheLeft
from fedsvd.types import Array, expect_shape


class Orthogonal(Protocol):
    """What every mask is: an orthogonal n x n matrix that multiplies from either side."""

    @property
    def n(self) -> int: ...
    def left(self, X: Array) -> Array:
        """``Q X``."""

    def left_t(self, X: Array) -> Array:
        """``Q^T X``."""

    def right(self, X: Array) -> Array:
        """``X Q``."""

    def right_t(self, X: Array) -> Array:
        """``X Q^T``."""

    def explicit(self) -> Array:
        """The matrix itself."""


@dataclass(frozen=True, repr=False)
class BatchedBlocks(FromTheLeft):
    """``diag(Q_1, ..., Q_B)``: for each run of equal widths one array (count, width, width)."""

    groups: tuple[Array, ...]

    def __repr__(self) -> str:
        return f"BatchedBlocks(n={self.n})"

    @property
    def n(self) -> int:
        return sum(group.shape[0] * group.shape[1] for group in self.groups)

    def left(self, X: Array) -> Array:
        """``Q X``."""
        return self._from_left(X, transposed=False)

    def left_t(self, X: Array) -> Array:
        """``Q^T X``."""
        return self._from_left(X, transposed=True)

    def part(self, first: int, last: int) -> "BatchedBlocks":
        """Blocks first to last alone, as views."""
        groups, start = [], 0
        for Q in self.groups:
            count = Q.shape[0]
            own = slice(max(first - start, 0), max(min(last - start, count), 0))
            if own.start < own.stop:
                groups.append(Q[own, ...])
            start += count
        return BatchedBlocks(tuple(groups))

    def explicit(self) -> Array:
        """The matrix itself, (n, n)."""
        first = self.groups[0]
        return self.left(namespace(first).eye(self.n, dtype=first.dtype, device=first.device))

    def _from_left(self, X: Array, transposed: bool) -> Array:
        expect_shape("X", X, self.n, X.shape[1])
        xp = namespace(X)
        parts = []
        start = 0
        for Q in self.groups:
            count, width, _ = Q.shape
            stop = start + count * width
            part = xp.reshape(X[start:stop, :], (count, width, X.shape[1]))
            product = (xp.matrix_transpose(Q) if transposed else Q) @ part
            parts.append(xp.reshape(product, (stop - start, X.shape[1])))
            start = stop
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)


def normals_needed(widths: tuple[int, ...]) -> int:
    """How many normals make Haar blocks of these widths."""
    return sum(width * (width + 1) // 2 for width in widths)


def draw_blocks(widths: tuple[int, ...], normals: Array) -> BatchedBlocks:
    """Haar blocks of these widths from as many normals as they need, in order, where the normals lie."""
    xp = namespace(normals)
    expect_shape("normals", normals, normals_needed(widths))
    groups = []
    for width, count, place in _runs(widths):
        groups.append(_written_out(xp, xp.reshape(normals[place], (count, width * (width + 1) // 2)), width))
    return BatchedBlocks(tuple(groups))


def _runs(widths: tuple[int, ...]) -> Iterator[tuple[int, int, slice]]:
    """Runs of equal widths: the width, how many, and the place of their normals."""
    start = 0
    for width, run in groupby(widths):
        count = len(list(run))
        stop = start + count * (width * (width + 1) // 2)
        yield width, count, slice(start, stop)
        start = stop


def _written_out(xp: Any, normals: Array, b: int) -> Array:
    """Haar matrices, (count, b, b): ``(I - W T W^T) D`` of the reflectors that the normals are (``householder``)."""
    count = normals.shape[0]
    place = np.full((b, b), b * (b + 1) // 2)  # below the diagonal stands a zero, which is put after the normals
    place[np.triu_indices(b)] = np.arange(b * (b + 1) // 2)
    zero = xp.zeros((count, 1), dtype=normals.dtype, device=normals.device)
    picked = xp.take(xp.concat((normals, zero), axis=1), like(np.ravel(place), normals), axis=1)
    Vt = xp.reshape(picked, (count, b, b))
    head, length = xp.linalg.diagonal(Vt), xp.linalg.vector_norm(Vt, axis=-1)
    sign = xp.where(head < 0, -xp.ones_like(head), xp.ones_like(head))
    eye = xp.eye(b, dtype=normals.dtype, device=normals.device)
    W = xp.matrix_transpose(xp.triu(Vt / (head + sign * length)[:, :, None], k=1) + eye)
    Wt = xp.matrix_transpose(W)
    G = Wt @ W
    T_inverse = xp.triu(G) - 0.5 * (G * eye)
    return (eye - W @ _solved(xp, T_inverse, Wt)) * (-sign)[:, None, :]


def _solved(xp: Any, T: Array, B: Array) -> Array:
    """``T^-1 B`` for upper triangular T, batch by batch."""
    if type(T).__module__.partition(".")[0] == "torch":
        import torch

        return torch.linalg.solve_triangular(T, B, upper=True)
    return xp.linalg.solve(T, B)  # exact for a triangle too, and there is a batched one in every library
