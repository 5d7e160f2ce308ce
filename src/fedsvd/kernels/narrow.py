"""Products of long lines with few others, by ``narrow.h``: what is long is read once, where it lies.

There is no second form of these in NumPy: where they are not compiled, or this processor has none of the vectors that
they are made for, BLAS multiplies.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from fedsvd.kernels.library import at, compiled, lines_of, lying

Float = NDArray[np.float64]
Indices = NDArray[np.int32]

EIGHT = 8
"""Columns that a sparse matrix is multiplied with at a time, at least."""


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


def sparse(values: Float, places: Indices, starts: Indices, B: Float, out: Float) -> None:
    """``out = A B`` for a matrix A stored by rows; rows of B and of ``out`` are in one piece, of 8 k numbers each."""
    assert B.shape[1] % EIGHT == 0
    assert B.flags.c_contiguous
    assert out.flags.c_contiguous
    compiled().sparse(at(values), at(places), at(starts), len(starts) - 1, at(B), B.shape[1], at(out))


def _to(out: Float) -> tuple[int, int]:
    return at(out), out.strides[0] // 8


def lies(lines: Float) -> bool:
    """Whether each of these rows is in one piece, and they lie one after the other."""
    return lines.ndim == 2 and lying(lines)
