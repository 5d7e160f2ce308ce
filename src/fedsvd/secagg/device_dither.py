"""Digits that no float64 has, filled with dice on a device: what ``dither`` does, where the words lie.

The dice are made in host memory, by several threads, and travel: two bytes to a word of eight.
"""

import numpy as np

from fedsvd.linalg.backend import leading_powers
from fedsvd.linalg.device import Device
from fedsvd.randomness.keystream import Each, fill_words
from fedsvd.randomness.seed import Seed
from fedsvd.secagg.on_device import pieces
from fedsvd.types import Array


def fill(codes: Array, least: int, seed: Seed, device: Device, each: Each) -> None:
    """The last bits that no float64 has, filled with dice, in place; ``seed`` is this user's own, used once."""
    xp, width = device.xp, codes.shape[1]
    for number, rows in enumerate(pieces(codes)):
        part = codes[rows, :]
        count = part.shape[0] * width
        words = device.room((-(-count // 4),), np.int64)
        fill_words(seed.derive("piece", number), words.view(np.uint64), each)
        dice = device.put(words.view(np.int16))[:count]
        uniform = xp.reshape(xp.astype(dice, xp.float64), part.shape) * 2.0**-16 + 0.5
        places = leading_powers(xp.astype(part, xp.float64)) * 2.0**-52
        places = xp.where(places < 2.0**least, xp.full_like(places, 2.0**least), places)
        # A whole number from 0 to places - 1, less half.
        moved = xp.floor(uniform * places) - xp.floor(places * 0.5)
        codes[rows, :] = part + xp.astype(moved, xp.int64)
