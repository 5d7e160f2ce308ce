"""Random orthogonal matrices: Algorithm 1 of the paper (section 3.1), and what we have in place of Algorithm 2.

Two forms of mask stand behind one interface (``linalg.block_diagonal.Orthogonal``):

    haar     one dense Haar matrix: the law of P A Q then depends on A only through its singular values
    mixing   random signs and DCT twice, then two rounds of a secret permutation and Haar blocks (``permute.py``)

They are made of the normals of a seed's stream, in memory or on a device. Words are made by the threads of the host in
both cases. On a device they are moved there, some at a time, and become normals there: the same numbers but for the
last place (``linalg.uniform_words``). The paper's bare blocks (C4) are the lab's.
"""

import math

from fedsvd.linalg.backend import namespace
from fedsvd.linalg.block_diagonal import Orthogonal
from fedsvd.linalg.householder import Reflectors, draw
from fedsvd.linalg.uniform_words import normals_of, pinned_words
from fedsvd.linalg.windows import HAAR_RIGHT_LIMIT, Form, block_width
from fedsvd.masks.permute import ROUNDS, Mixing
from fedsvd.randomness.keystream import Each, Keystream, ThreadedNormals, fill_words
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


STORED = 1 << 29
"""Bytes that the drawn blocks of one mixing mask may take, where no other number is given."""


def orthogonal(n: int, stream: Keystream | ThreadedNormals | DeviceNormals, on: Array | None = None) -> Reflectors:
    """Algorithm 1: a Haar-random orthogonal matrix, shape (n, n), as reflectors instead of Gram-Schmidt."""
    return draw(n, stream.normal, on)


def draw_form(
    form: Form,
    n: int,
    b: int,
    seed: Seed,
    on: Array | None = None,
    each: Each | None = None,
    stored: int = STORED,
) -> Orthogonal:
    """The orthogonal matrix of this form that follows from ``seed``.

    The blocks of a mixing mask are stored within ``stored`` bytes, else drawn at every use: the same blocks.
    """
    if form is Form.MIXING:
        b = block_width(b)
        matrices = ROUNDS * 8 * n * b
        packed = matrices // 2 if on is None else matrices  # on the host they are reflectors
        return Mixing(n, b, seed, on, each, keep=packed <= stored)
    return orthogonal(n, Keystream(seed), on)


def local_rotation(
    n: int, seed: Seed, on: Array | None = None, each: Each | None = None, stored: int = STORED, b: int = 0
) -> Orthogonal:
    """T_i: the rotation known to user i alone, built like Q (specification, section 4)."""
    return draw_form(Form.HAAR if n <= HAAR_RIGHT_LIMIT else Form.MIXING, n, b, seed, on, each, stored)


def secret_scale(seed: Seed) -> float:
    """c = 2^u, u uniform in [0, 1): with it the norm, up to a power of two, says nothing of the data's."""
    scale: float = 2.0 ** Keystream(seed).uniform(0.0, 1.0)
    return scale
