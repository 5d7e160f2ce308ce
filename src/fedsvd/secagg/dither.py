"""Digits that no float64 has, filled with random bits before a share is padded (step 4 of the protocol).

A word has 62 bits for an entry and a float64 has 53, or fewer where it is the small difference of larger numbers. So an
encoding ends in zeros, the more of them the larger the numbers behind it. Pads hide that in a share but leave it in the
sum: a sum that ends in zeros says that *every* user's term is large, and how norms are divided between users could be
read off its last bits, which secure aggregation is there to hide. Here these places are filled with random bits. An
entry moves by half a unit in its own last place, or in that of a number up to twice the usual entry, whichever is
more: the masked product was rounded as much. What still shows is whether all users but one hold nothing but zeros.

``fill_on_device`` does the same where the words lie on a device. The random bits are made in host memory, by several
threads, and travel: two bytes to a word of eight.
"""

import math

import numpy as np

from fedsvd.kernels import words
from fedsvd.linalg.backend import leading_powers
from fedsvd.linalg.device import Device
from fedsvd.randomness.keystream import Each, Keystream, fill_words
from fedsvd.randomness.seed import Seed
from fedsvd.secagg import fixed_point
from fedsvd.secagg.fixed_point import BITS, TAIL
from fedsvd.secagg.on_device import pieces
from fedsvd.types import Array, Float, Ring

_PART = 1 << 16  # numbers that a thread encodes at a time, a multiple of four: four share a word of the stream
_LARGER = 1.0  # as a power of two: how much larger than a usual entry the numbers behind it may be


def least_filled(w_m: int, w_n: int, certain: bool) -> int:
    """How many last bits of every word are filled at least, for masks with windows of these sides.

    A usual entry is ``c F / sqrt(w_m w_n)``. The bound that fills the word is ``c F``, or 64 usual entries.
    """
    entries = math.log2(math.sqrt(w_m * w_n) if certain else min(math.sqrt(w_m * w_n), TAIL))
    # In a small matrix little is summed, and a rank cut at max(m, n) eps leaves less space.
    larger = min(_LARGER, entries / 2)
    return max(0, int(BITS - 53 + larger - entries))


def encode_filled(Y: Float, f: int, least: int, stream: Keystream, out: Ring) -> Ring:
    """``fixed_point.encode(Y, f)`` into ``out``, its last bits filled; ``stream`` is this user's own, used once.

    One pass over what should stay in a cache. ``out`` may be ``Y.view(np.uint64)``. After an overflow its contents are
    of no use.
    """
    if abs(f) > fixed_point.ONE_FACTOR:
        entries, factor = np.empty(Y.shape), 1.0
        fixed_point.scale(Y, f, entries)
    else:
        entries, factor = Y, math.ldexp(1.0, f)
    # A whole number from -places / 2 to places / 2 - 1: sixteen bits make it, so a word of the stream serves four.
    bits = stream.words(-(-Y.size // 4)).view("<i2")[: Y.size]
    beyond = words.encode_filled(entries, factor, float(fixed_point.RANGE), least, bits, out)
    if beyond:
        raise fixed_point.overflow(beyond, Y.size, f, "a share")
    return out


def encode_long(flat: Float, f: int, least: int, seed: Seed, each: Each | None) -> Ring:
    """``encode_filled`` of many numbers, (count, 1), by as many threads as there are; with the stream of ``seed``."""
    out = np.empty((1, flat.size), np.uint64)

    def some(start: int) -> None:
        part = slice(start, start + _PART)
        encode_filled(flat[None, part], f, least, Keystream(seed, start // 4), out[:, part])

    for _ in (each or map)(some, range(0, flat.size, _PART)):
        pass
    return out.reshape(-1, 1)


def fill_on_device(codes: Array, least: int, seed: Seed, device: Device, each: Each) -> None:
    """The last bits that no float64 has, filled with random bits, in place; ``seed`` is this user's own, used once."""
    xp, width = device.xp, codes.shape[1]
    for number, rows in enumerate(pieces(codes)):
        part = codes[rows, :]
        count = part.shape[0] * width
        buffer = device.buffer((-(-count // 4),), np.int64)
        fill_words(seed.derive("piece", number), buffer.view(np.uint64), each)
        bits = device.put(buffer.view(np.int16))[:count]
        uniform = xp.reshape(xp.astype(bits, xp.float64), part.shape) * 2.0**-16 + 0.5
        places = leading_powers(xp.astype(part, xp.float64)) * 2.0**-52
        places = xp.where(places < 2.0**least, xp.full_like(places, 2.0**least), places)
        # A whole number from 0 to places - 1, less half.
        moved = xp.floor(uniform * places) - xp.floor(places * 0.5)
        codes[rows, :] = part + xp.astype(moved, xp.int64)
