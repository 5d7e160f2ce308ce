"""Lines, (columns, n): the transpose of a matrix that is under a mask, each of its columns in one piece of memory.

Signs, orders, transposes, and Haar blocks as reflectors ``H_k = I - tau_k v_k v_k^T``, where the first entry of v_k, of
n - k entries, is one. The compiled passes and NumPy differ in the last digits of a reflected line, nowhere else.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.kernels.library import at, compiled, lines_of, lying

Float = NDArray[np.float64]
_WIDEST = 512  # of a block that the compiled pass has memory for


def sign(lines: Float, signs: NDArray[np.int8]) -> None:
    """Each line times these signs, in place."""
    library = compiled()
    if library is not None and lying(lines) and signs.flags.c_contiguous:
        library.sign(*lines_of(lines), at(signs))
    else:
        np.multiply(lines, signs, out=lines)


def take(lines: Float, order: NDArray[np.intp], out: Float) -> None:
    """``out[:, j] = lines[:, order[j]]``; ``out`` is another array. All places are in range."""
    library = compiled()
    if library is not None and lying(lines) and lying(out) and _places(order):
        library.take(*lines_of(lines), at(order), at(out), out.strides[0] // 8)
    else:
        out[...] = lines[:, order]


def put(lines: Float, order: NDArray[np.intp], out: Float) -> None:
    """``out[:, order[j]] = lines[:, j]``: ``take`` backwards."""
    library = compiled()
    if library is not None and lying(lines) and lying(out) and _places(order):
        library.put(*lines_of(lines), at(order), at(out), out.strides[0] // 8)
    else:
        out[:, order] = lines


def transpose(rows: Float, out: Float) -> None:
    """``out = rows^T``: rows, (n, columns), as lines."""
    library = compiled()
    if library is not None and lying(rows) and lying(out):
        library.transpose(*lines_of(rows), at(out), out.strides[0] // 8)
    else:
        out[...] = rows.T


@dataclass(frozen=True, repr=False)
class Blocks:
    """Haar blocks one after the other along the lines, as reflectors: ``Q = H_0 ... H_{n-1} D`` each.

    ``starts`` are the first rows of the blocks and the end, counted from anywhere.
    """

    starts: NDArray[np.int64]
    packed: Float  # the reflectors of all blocks, n (n + 1) / 2 numbers of each
    by_row: Float  # (3, rows): scales tau, the signs of D, and the product of each reflector with the next

    def __repr__(self) -> str:
        return f"Blocks(count={len(self.starts) - 1})"

    @classmethod
    def of(cls, starts: NDArray[np.int64], normals: Float, by_row: Float) -> "Blocks":
        """The blocks that follow from their normals, which are written over, as ``by_row`` is."""
        library, blocks = compiled(), cls(starts, normals, by_row)
        if library is not None and lying(by_row):
            library.reflectors(at(normals), at(starts), len(starts) - 1, *(at(row) for row in by_row))
        else:
            for v, rows in blocks._each():
                _reflectors(v, by_row[:, rows])
        return blocks

    def turn(self, lines: Float, *, transposed: bool) -> None:
        """``Q X``, or ``Q^T X``, over X, whose columns are these lines, (columns, rows of all blocks)."""
        library, starts = compiled(), self.starts
        if library is not None and lying(lines) and lying(self.by_row) and int(np.diff(starts).max()) <= _WIDEST:
            where = at(starts), len(starts) - 1, at(lines), lines.shape[0], lines.strides[0] // 8
            library.reflect(at(self.packed), *(at(row) for row in self.by_row), *where, int(transposed))
            return
        for v, rows in self._each():
            _reflect(v, self.by_row[:, rows], lines[:, rows], transposed)

    def _each(self) -> Iterator[tuple[Float, slice]]:
        """The reflectors of each block, and its rows."""
        begin = 0
        for start, stop in pairwise((self.starts - self.starts[0]).tolist()):
            n = stop - start
            end = begin + n * (n + 1) // 2
            yield self.packed[begin:end], slice(start, stop)
            begin = end


def _reflectors(normals: Float, by_row: Float) -> None:
    n = by_row.shape[1]
    counts = np.arange(n, 0, -1)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    head, length = normals[starts], np.sqrt(np.add.reduceat(normals * normals, starts))
    side = np.where(head < 0, -1.0, 1.0)
    pivot = head + side * length
    normals /= np.repeat(pivot, counts)
    normals[starts] = 1.0
    V = _rows_of(normals, n)
    by_row[:] = pivot * side / length, -side, np.append(np.einsum("kj,kj->k", V[:-1], V[1:]), 0.0)


def _reflect(packed: Float, by_row: Float, lines: Float, transposed: bool) -> None:
    (tau, signs, _), n = by_row, by_row.shape[1]
    V = _rows_of(packed, n)
    # I - V^T T V is their product in this order; T^-1 is what V V^T has above its diagonal, and 1 / tau on it.
    T_inverse = np.triu(V @ V.T, 1) + np.diag(1.0 / tau)
    X = np.array(lines) if transposed else lines * signs
    X -= (V.T @ np.linalg.solve(T_inverse.T if transposed else T_inverse, V @ X.T)).T
    lines[...] = X * signs if transposed else X


def _rows_of(packed: Float, n: int) -> Float:
    """Reflectors as rows, zeros before each."""
    V = np.zeros((n, n))
    V[np.triu_indices(n)] = packed
    return V


def _places(order: NDArray[Any]) -> bool:
    return bool(order.flags.c_contiguous) and order.dtype == np.int64
