"""The normals of a seed's stream, call after call, where they are computed with: in memory, or on a device.

Words are made by the threads of the host in both cases. On a device they are moved there, some at a time, and become
normals there: the same numbers but for the last place (``linalg.uniform_words``).
"""

import math

from fedsvd.linalg.backend import namespace
from fedsvd.linalg.uniform_words import normals_of, pinned_words
from fedsvd.randomness.keystream import Each, ThreadedNormals, fill_words
from fedsvd.randomness.seed import Seed
from fedsvd.types import Array

TOGETHER = 1 << 25  # words that are moved at once: 256 MiB


class DeviceNormals:
    """The same numbers as those of ``ThreadedNormals``, in the library and on the device of ``on``."""

    def __init__(self, seed: Seed, each: Each | None, on: Array) -> None:
        self._seed, self._each, self._on, self._next = seed, each or map, on, 0

    def __repr__(self) -> str:
        return f"DeviceNormals(next={self._next})"

    def normal(self, shape: tuple[int, ...] | int) -> Array:
        """The next ones, in this shape."""
        shape = (shape,) if isinstance(shape, int) else shape
        count, xp = math.prod(shape), namespace(self._on)
        if count <= TOGETHER:
            return xp.reshape(self._some(count), shape)
        flat = xp.empty((count,), dtype=self._on.dtype, device=self._on.device)
        for start in range(0, count, TOGETHER):
            stop = min(start + TOGETHER, count)
            flat[start:stop] = self._some(stop - start)
        return xp.reshape(flat, shape)

    def _some(self, count: int) -> Array:
        words = pinned_words(count, self._on)
        fill_words(self._seed, words, self._each, self._next)
        self._next += count
        return normals_of(words, self._on)


def normals_on(seed: Seed, each: Each | None, on: Array | None) -> ThreadedNormals | DeviceNormals:
    """The normals of this seed in memory, or where ``on`` lies."""
    return ThreadedNormals(seed, each) if on is None else DeviceNormals(seed, each, on)
