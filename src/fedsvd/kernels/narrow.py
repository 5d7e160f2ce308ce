"""Products of long lines with few others, by ``narrow.h``: what is long is read once, where it lies.

There is no second form of these in NumPy: where they are not compiled, or this processor has none of the vectors that
they are made for, BLAS multiplies. A product is computed in parts, by threads of its own (``team.h``) that never ask
for Python's lock; what comes out depends on the parts and not on the number of threads.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fedsvd.kernels.library import at, compiled, lines_of, lying

Float = NDArray[np.float64]
Indices = NDArray[np.int32]
Cuts = Sequence[int]
"""Where parts begin, and where the last one ends."""

EIGHT = 8
"""Columns that a sparse matrix is multiplied with at a time, at least."""


@cache
def available() -> bool:
    """Whether these are compiled, for a processor such as this one."""
    library = compiled()
    return library is not None and bool(library.has_narrow())


def inner(lines: Float, others: Float, out: Float, cuts: Cuts = (), threads: int = 1) -> None:
    """``out += lines others^T``; lines are (rows, width), others (count, width), and parts have some lines each."""
    parts = _parts(cuts, len(lines))
    columns = at(others), others.shape[0], others.strides[0] // 8
    compiled().inner(*lines_of(lines), *columns, *_to(out), at(parts), len(parts) - 1, threads)


def combine(lines: Float, weights: Float, out: Float, cuts: Cuts = (), shares: Cuts = (), threads: int = 1) -> None:
    """``out += weights^T lines``; lines are (rows, width), weights (rows, count), out (count, width).

    Parts have some places of each line. Where there are shares, each has some lines and sums of its own in ``out``,
    (shares, count, width).
    """
    places, some = _parts(cuts, lines.shape[1]), _parts(shares, len(lines))
    near = out[0] if out.ndim == 3 else out
    assert out.ndim == 2 or len(out) == len(some) - 1
    apart = out.strides[0] // 8 if out.ndim == 3 else 0
    given = at(weights), weights.shape[1], weights.strides[0] // 8
    parts = at(some), len(some) - 1, apart, at(places), len(places) - 1
    compiled().combine(*lines_of(lines), *given, *_to(near), *parts, threads)


def sparse(
    values: Float, places: Indices, starts: Indices, B: Float, out: Float, cuts: Cuts = (), threads: int = 1
) -> None:
    """``out = A B`` for a matrix A stored by rows; rows of B and of ``out`` are in one piece, of 8 k numbers each."""
    assert B.shape[1] % EIGHT == 0
    assert B.flags.c_contiguous
    assert out.flags.c_contiguous
    parts = _parts(cuts, len(starts) - 1)
    stored = at(values), at(places), at(starts)
    compiled().sparse(*stored, at(B), B.shape[1], at(out), at(parts), len(parts) - 1, threads)


def _parts(cuts: Cuts, end: int) -> NDArray[np.int64]:
    parts = np.array(cuts or (0, end), np.int64)
    assert parts[0] == 0
    assert parts[-1] == end
    return parts


def _to(out: Float) -> tuple[int, int]:
    return at(out), out.strides[0] // 8


def lies(lines: Float) -> bool:
    """Whether each of these rows is in one piece, and they lie one after the other."""
    return lines.ndim == 2 and lying(lines)
