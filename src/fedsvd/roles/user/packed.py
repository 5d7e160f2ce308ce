"""Arrays in one sum, each in the space that the plan has for it: what the data have less of is zeros behind it.

How many groups, levels or columns are left is found on the way, and a sum has the length that was declared.
"""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from fedsvd.types import Float

Spaced = tuple[Float, tuple[int, ...]]
"""An array, and the shape that the plan has space for."""


def packed(parts: Sequence[Spaced]) -> Float:
    """All of them in one vector."""
    flat = [np.pad(each, [(0, most - n) for n, most in zip(each.shape, space, strict=True)]) for each, space in parts]
    return np.concatenate([each.ravel() for each in flat])


def unpacked(total: Float, parts: Sequence[Spaced]) -> Iterator[Float]:
    """The inverse on a total: arrays of the shapes that were packed."""
    cuts = np.cumsum([prod(space) for _, space in parts])[:-1]
    for cut, (each, space) in zip(np.split(total, cuts), parts, strict=True):
        yield cut.reshape(space)[tuple(map(slice, each.shape))]
