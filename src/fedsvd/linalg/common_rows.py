"""Which rows several arrays of words have in common: by sorting, without a loop over rows.

Knows nothing of what the words stand for. The order of the result is that of the words themselves; of keyed hashes it
is an order that says nothing to those who have no key, and that is the same in every array.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import RepeatedIds, ShapeError

Positions = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Common:
    """Positions of the common rows in every array, in one order; and how large arrays and overlaps are."""

    positions: tuple[Positions, ...]
    sizes: tuple[int, ...]
    pairwise: NDArray[np.int64]  # (arrays, arrays): how many rows two arrays share

    @property
    def count(self) -> int:
        return len(self.positions[0])


def common_rows(arrays: Sequence[NDArray[np.uint8]]) -> Common:
    """The rows that all arrays have; each array has shape (n_i, bytes), no row twice."""
    k, width = len(arrays), arrays[0].shape[1]
    if k < 2 or any(each.ndim != 2 or each.shape[1] != width or each.dtype != np.uint8 for each in arrays):
        raise ShapeError(f"{k} arrays of rows to compare", "give two or more arrays of bytes, equally wide")
    sizes = [len(each) for each in arrays]
    words = _words(np.concatenate(arrays))
    owner = np.repeat(np.arange(k), sizes)
    place = np.concatenate([np.arange(size) for size in sizes])
    order = np.lexsort((owner, *words.T[::-1]))
    words, owner, place = words[order], owner[order], place[order]
    differs = np.asarray((words[1:] != words[:-1]).any(axis=1), dtype=np.bool_)
    new: NDArray[np.bool_] = np.concatenate((np.ones(1, np.bool_), differs))[: len(words)]
    group = np.cumsum(new) - 1
    if bool(np.any(~differs & (owner[1:] == owner[:-1]))):
        raise RepeatedIds("an array has a row more than once", "every party sends each of its records once")
    groups = int(group[-1]) + 1 if len(group) else 0
    held = np.zeros((groups, k), np.bool_)
    held[group, owner] = True
    every: NDArray[np.bool_] = np.asarray(held.all(axis=1))
    # Inside a group rows are in the order of their arrays, so each array's part comes out in the order of the words.
    positions = tuple(place[(owner == i) & every[group]].astype(np.int64) for i in range(k))
    counts = held.astype(np.float64)
    return Common(positions, tuple(sizes), np.rint(counts.T @ counts).astype(np.int64))


def _words(rows: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Rows of bytes as big-endian 64-bit words, so that words compare as the bytes do."""
    short = -rows.shape[1] % 8
    if short:
        rows = np.pad(rows, ((0, 0), (0, short)))
    return np.ascontiguousarray(rows).view(">u8").astype(np.uint64)
