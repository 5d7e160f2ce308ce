"""Pads on words of Z_2^128 that lie on a user's device: its keystreams are moved there and added with their carries.

Words and pads of a batch of a Gram matrix pass host memory as they are made and as they are sent, and no more often.
What is moved is the stream of this batch alone; the seeds stay with the cipher, in host memory.
"""

import numpy as np

from fedsvd.linalg import ring128
from fedsvd.linalg.device import Device
from fedsvd.linalg.uniform_words import pinned_words
from fedsvd.randomness.keystream import Each, Keystream
from fedsvd.secagg.on_device import words_of
from fedsvd.secagg.pads import Pads
from fedsvd.types import Array, Ring

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
