"""Products of long lines with few others, by ``narrow.h``: what is long is read once, where it lies.

There is no second form of these in NumPy: where they are not compiled, or this processor has none of the vectors that
they are made for, BLAS multiplies.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from fedsvd.kernels.library import at, compiled, lines_of, lying

Float = NDArray[np.float64]


@cache
def available() -> bool:
    """Whether these are compiled, for a processor such as this one."""
    library = compiled()
    return library is not None and bool(library.has_narrow())


def inner(lines: Float, others: Float, out: Float) -> None:
    """``out += lines others^T``; lines are (rows, width), others (count, width)."""
    compiled().inner(*lines_of(lines), at(others), others.shape[0], others.strides[0] // 8, *_to(out))


def combine(lines: Float, weights: Float, out: Float) -> None:
    """``out += weights^T lines``; lines are (rows, width), weights (rows, count), out (count, width)."""
    compiled().combine(*lines_of(lines), at(weights), weights.shape[1], weights.strides[0] // 8, *_to(out))


def _to(out: Float) -> tuple[int, int]:
    return at(out), out.strides[0] // 8


def lies(lines: Float) -> bool:
    """Whether each of these rows is in one piece, and they lie one after the other."""
    return lines.ndim == 2 and lying(lines)
