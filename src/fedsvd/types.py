"""The few type aliases everybody shares.

Shapes are not part of a type: they stand in docstrings and are checked once, at the door of a room, by
``expect_shape``. ``Array`` is an array of whatever namespace the caller computes in (NumPy, PyTorch,
CuPy); ``Float`` and ``Ring`` are always NumPy.
"""

from typing import Any, NewType

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ShapeError

Float = NDArray[np.float64]
Ring = NDArray[np.uint64]
Array = Any

Digest = NewType("Digest", str)
SessionId = NewType("SessionId", str)


def expect_shape(name: str, array: Array, *shape: int) -> None:
    """Raise ``ShapeError`` unless ``array`` has exactly this shape."""
    if tuple(array.shape) != shape:
        raise ShapeError(f"{name} has shape {tuple(array.shape)}, expected {shape}")
