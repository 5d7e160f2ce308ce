"""Fixed point and pads where the masked numbers are: what ``fixed_point`` and ``pads`` do, on a device.

Devices know signed words alone. Modulo 2^64 they are the same words, and a sum wraps around alike; only where a word is
read as a number does the sign matter, and there it is meant.
Pieces of bounded size are handled one after the other, because every step makes an array as large as its piece.

For pads on words of Z_2^128 the keystreams of the host are moved to the device and added with their carries. Words and
pads of a batch of a Gram matrix pass host memory as they are made and as they are sent, and no more often. What is
moved is the stream of this batch alone; the seeds stay with the cipher, in host memory.
"""

import math
from collections.abc import Iterator

import numpy as np

from fedsvd.linalg import ring128
from fedsvd.linalg.backend import namespace
from fedsvd.linalg.device import Device
from fedsvd.linalg.uniform_words import pinned_words
from fedsvd.randomness.keystream import Each, Keystream
from fedsvd.secagg.fixed_point import GUARD, RANGE, overflow
from fedsvd.secagg.pads import Pads
from fedsvd.types import Array, Ring

_PIECE = 1 << 26  # entries


def encode(Y: Array, f: int) -> Array:
    """``round(2^f Y)`` as signed words; an entry out of range, NaN or infinite is an overflow."""
    xp = namespace(Y)
    codes = xp.empty(Y.shape, dtype=xp.int64, device=Y.device)
    beyond = 0
    for rows in pieces(Y):
        scaled = _scaled(Y[rows, :], f)
        within = xp.abs(scaled) <= float(RANGE)  # written so that NaN, which compares false, fails too
        beyond += scaled.shape[0] * scaled.shape[1] - int(xp.count_nonzero(within))
        codes[rows, :] = xp.astype(xp.round(scaled), xp.int64)
    if beyond:
        raise overflow(beyond, math.prod(Y.shape), f, "a share")
    return codes


def decode(total: Array, f: int) -> Array:
    """``total / 2^f``; an entry in the guard band is an overflow."""
    xp = namespace(total)
    floats = xp.empty(total.shape, dtype=xp.float64, device=total.device)
    beyond = 0
    for rows in pieces(total):
        part = total[rows, :]
        beyond += int(xp.count_nonzero((part > GUARD) | (part < -GUARD)))
        floats[rows, :] = _scaled(xp.astype(part, xp.float64), -f)
    if beyond:
        raise overflow(beyond, math.prod(total.shape), f, "the sum")
    return floats


def _scaled(A: Array, f: int) -> Array:
    """``2^f A``, in two steps where the power itself leaves the range of float64."""
    near = max(-1000, min(1000, f))
    A = A * math.ldexp(1.0, near)
    return A if near == f else A * math.ldexp(1.0, f - near)


def pieces(A: Array) -> Iterator[slice]:
    """Runs of rows, of bounded size, that make up A."""
    rows, width = A.shape
    step = max(1, _PIECE // max(1, width))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def words_of(codes: Array, device: Device) -> Ring:
    """Signed words on the device as unsigned ones in host memory, writeable and contiguous."""
    words: Ring = np.ascontiguousarray(device.get(codes)).view(np.uint64)
    return words


_SEGMENT = 1 << 17  # words that one thread makes at a time: a batch is two million of them


def padded_there(words: Array, pads: Pads, device: Device, each: Each | None) -> Ring:
    """The words of one batch, (n, 2) int64 on the device, with all pads, in host memory."""
    for plus, seed in pads.seeds:
        stream = pinned_words(2 * words.shape[0], device.like)

        def segment(start: int) -> None:
            Keystream(seed, start).into(stream[start : start + _SEGMENT])  # noqa: B023  over before the next peer

        for _ in (each or map)(segment, range(0, stream.size, _SEGMENT)):
            pass
        there = device.put(stream.view(np.int64).reshape(-1, 2))
        words = ring128.add(words, there) if plus else ring128.subtract(words, there)
    return words_of(words, device)
