"""Fixed point where the masked numbers lie: what ``fixed_point`` does, on a device.

Devices know signed words alone. Modulo 2^64 they are the same words, and a sum wraps around alike; only where a word is
read as a number does the sign matter, and there it is meant. Pads are put on in host memory, where the keys are.
Pieces of bounded size are handled one after the other, because every step makes an array as large as its piece.
"""

import math
from collections.abc import Iterator

import numpy as np

from fedsvd.linalg.backend import namespace
from fedsvd.linalg.device import Device
from fedsvd.secagg.fixed_point import GUARD, RANGE, overflow
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
