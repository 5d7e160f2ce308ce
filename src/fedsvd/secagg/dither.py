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

from fedsvd.linalg.backend import leading_powers
from fedsvd.linalg.device import Device
from fedsvd.randomness.keystream import Each, Keystream, fill_words
from fedsvd.randomness.seed import Seed
from fedsvd.secagg import fixed_point
from fedsvd.secagg.batches import CHUNK, chunks
from fedsvd.secagg.fixed_point import BITS, TAIL
from fedsvd.secagg.on_device import pieces
from fedsvd.types import Array, Float, Ring

_EXPONENT = 0x7FF << 52  # where a float64 keeps its power of two
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

    One pass over chunks that stay in a cache. ``out`` may be ``Y.view(np.uint64)``. After an overflow its contents are
    of no use.
    """
    scaled, places = np.empty(min(CHUNK, Y.size)), np.empty(min(CHUNK, Y.size))
    beyond = 0
    for part, code in chunks(Y, out.view(np.int64)):
        entries, powers = (scratch[: part.size].reshape(part.shape) for scratch in (scaled, places))
        fixed_point.scale(part, f, entries)
        # The unit in the last place of each entry, a power of two, times 2^52; but no less than 2^least.
        np.bitwise_and(entries.view(np.int64), _EXPONENT, out=powers.view(np.int64))
        # The power of NaN and of infinity is infinite, so that one comparison finds all that may be out of range.
        if not powers.max() < 2.0**BITS and (found := fixed_point.beyond_range(entries)):
            beyond += found
            continue
        np.rint(entries, out=entries)
        np.maximum(powers, 2.0 ** (52 + least), out=powers)
        if least == 0:  # where the unit is one there is no place to fill
            powers[powers <= 2.0**52] = 0.0
        np.copyto(code, entries, casting="unsafe")
        # A whole number from -places / 2 to places / 2 - 1: sixteen bits make it, so a word of the stream serves four.
        bits = stream.words(-(-part.size // 4)).view("<i2")[: part.size].reshape(part.shape)
        np.multiply(bits, 2.0**-68, out=entries)
        np.multiply(entries, powers, out=entries)
        np.floor(entries, out=entries)
        np.copyto(powers.view(np.int64), entries, casting="unsafe")
        np.add(code, powers.view(np.int64), out=code)
    if beyond:
        raise fixed_point.overflow(beyond, Y.size, f, "a share")
    return out


def fill_on_device(codes: Array, least: int, seed: Seed, device: Device, each: Each) -> None:
    """The last bits that no float64 has, filled with random bits, in place; ``seed`` is this user's own, used once."""
    xp, width = device.xp, codes.shape[1]
    for number, rows in enumerate(pieces(codes)):
        part = codes[rows, :]
        count = part.shape[0] * width
        words = device.buffer((-(-count // 4),), np.int64)
        fill_words(seed.derive("piece", number), words.view(np.uint64), each)
        bits = device.put(words.view(np.int16))[:count]
        uniform = xp.reshape(xp.astype(bits, xp.float64), part.shape) * 2.0**-16 + 0.5
        places = leading_powers(xp.astype(part, xp.float64)) * 2.0**-52
        places = xp.where(places < 2.0**least, xp.full_like(places, 2.0**least), places)
        # A whole number from 0 to places - 1, less half.
        moved = xp.floor(uniform * places) - xp.floor(places * 0.5)
        codes[rows, :] = part + xp.astype(moved, xp.int64)
