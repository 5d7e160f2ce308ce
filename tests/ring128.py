"""Words of the ring and Python integers, both ways: how tests say what a word must be."""

from collections.abc import Iterable

import numpy as np

from fedsvd.linalg.backend import like, to_numpy
from fedsvd.linalg.ring128 import BITS
from fedsvd.types import Array, Ring


def from_ints(values: Iterable[int]) -> Ring:
    """Python integers modulo 2^128 as NumPy words, (n, 2)."""
    raw = b"".join((int(value) % (1 << BITS)).to_bytes(16, "little") for value in values)
    return np.frombuffer(bytearray(raw), "<u8").astype(np.uint64).reshape(-1, 2)


def to_ints(words: Ring) -> list[int]:
    """The signed Python integers of NumPy words, in C order."""
    raw = np.ascontiguousarray(words, "<u8").tobytes()
    return [int.from_bytes(raw[at : at + 16], "little", signed=True) for at in range(0, len(raw), 16)]


def add(a: Ring, b: Ring) -> Ring:
    """The sum of NumPy words modulo 2^128."""
    low = a[..., 0] + b[..., 0]
    return np.stack((low, a[..., 1] + b[..., 1] + (low < a[..., 0])), axis=-1)


def to_device(words: Ring, on: Array) -> Array:
    """NumPy words in the library, and on the device, of ``on``."""
    return words if isinstance(on, np.ndarray) else like(words.view(np.int64), on)


def to_host(words: Array) -> Ring:
    """Words of any library as NumPy's, in host memory."""
    return to_numpy(words).view(np.uint64)
