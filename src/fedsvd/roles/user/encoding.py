"""A batch of Y_i as words of the ring, its last bits filled: everything of step 4 but the pads.

It happens where Y_i lies. A batch has two parts with an exponent each: the matrix, and the labels beside it.
"""

from collections.abc import Sequence

import numpy as np

from fedsvd.linalg.device import Device
from fedsvd.randomness.keystream import Each, Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.secagg import device_dither, dither, fixed_point, on_device
from fedsvd.types import Array, Float, Ring

Part = tuple[slice, int, int]  # columns, exponent, how many last bits are filled at least


def encoded(Y: Array, parts: Sequence[Part], seed: Seed, device: Device | None, each: Each | None) -> Ring:
    """These columns of Y beside one another, as writeable words in host memory."""
    if device is None:
        return _on_host(Y, parts, seed)
    codes = []
    for number, (columns, f, least) in enumerate(parts):
        if columns.stop > columns.start:
            words = on_device.encode(Y[:, columns], f)
            device_dither.fill(words, least, seed.derive("part", number), device, each or map)
            codes.append(words)
    return on_device.words_of(codes[0] if len(codes) == 1 else device.xp.concat(codes, axis=1), device)


def _on_host(Y: Float, parts: Sequence[Part], seed: Seed) -> Ring:
    first, stream = parts[0][0].start, Keystream(seed)
    payload = np.empty((Y.shape[0], Y.shape[1] - first), np.uint64)
    for columns, f, least in parts:
        words = payload[:, columns.start - first : columns.stop - first]
        dither.fill(fixed_point.encode(Y[:, columns], f, out=words), least, stream)
    return payload
