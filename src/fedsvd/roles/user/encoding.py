"""A batch of Y_i as words of the ring, its last bits filled: everything of step 5 but the pads.

It happens where Y_i lies, on the host in slabs that stay in a cache, by as many threads as there are. A batch has two
parts with an exponent each: the matrix, and the labels beside it.
"""

from collections.abc import Sequence

import numpy as np

from fedsvd.linalg.device import Device
from fedsvd.randomness.keystream import Each, Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.secagg import device_dither, dither, fixed_point, on_device
from fedsvd.types import Array, Float, Ring

Part = tuple[slice, int, int]  # columns, exponent, how many last bits are filled at least


_SLAB = 1 << 17  # entries that are encoded and filled while they are in a cache


def encoded(
    Y: Array, parts: Sequence[Part], seed: Seed, device: Device | None, each: Each | None, *, spent: bool = False
) -> Ring:
    """These columns of Y beside one another, as writeable words in host memory; in Y's own where it is ``spent``."""
    if device is None:
        return _on_host(Y, parts, seed, each or map, spent)
    codes = []
    for number, (columns, f, least) in enumerate(parts):
        if columns.stop > columns.start:
            words = on_device.encode(Y[:, columns], f)
            device_dither.fill(words, least, seed.derive("part", number), device, each or map)
            codes.append(words)
    return on_device.words_of(codes[0] if len(codes) == 1 else device.xp.concat(codes, axis=1), device)


def _on_host(Y: Float, parts: Sequence[Part], seed: Seed, each: Each, spent: bool) -> Ring:
    first, stop = parts[0][0].start, parts[-1][0].stop
    in_place = spent and (first, stop) == (0, Y.shape[1]) and Y.flags.c_contiguous and Y.flags.writeable
    payload = Y.view(np.uint64) if in_place else np.empty((Y.shape[0], stop - first), np.uint64)
    step = max(1, _SLAB // max(1, stop - first))

    def slab(number: int) -> None:
        rows, stream = slice(number * step, (number + 1) * step), Keystream(seed.derive("slab", number))
        for columns, f, least in parts:
            words = payload[rows, columns.start - first : columns.stop - first]
            dither.fill(fixed_point.encode(Y[rows, columns], f, out=words), least, stream)

    for _ in each(slab, range(-(-Y.shape[0] // step))):
        pass
    return payload
