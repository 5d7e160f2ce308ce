"""``A B`` for a large A and a B of few columns: A is read once, where it lies, and not copied into an order of BLAS.

Of ten columns that takes half of the time. Such a product is bound by memory, and often done in a millisecond: it has
as many of the threads that BLAS has now as find a tenth of a millisecond of work each, which end with it and never wait
for one another or for Python's lock (``kernels/team.h``). More of them than memory can serve cost their start and no
more, so that sixteen are never slower than four.
"""

from collections.abc import Callable

import numpy as np

from fedsvd.kernels import narrow
from fedsvd.kernels.lines import transpose
from fedsvd.linalg.pools import threads
from fedsvd.types import Float

MOST = 32
"""Columns of B from which BLAS is as quick."""

READ = 8
"""Products of a number with so many others take as long as to read it."""

_PART = 1 << 16  # numbers of A that a thread reads at a time, at least
_PARTS = 32  # of A, at most: two for each of sixteen threads
_PIECE = 1024  # numbers of a line that are read in one piece: of shorter ones most of the time is spent on the way
_LINES = 256  # lines, at least, of a part that has sums of its own, which are added up afterwards
_TILE, _VECTORS = 12, 16  # lines, and numbers of a line, that the kernels take together
_ALIKE = 512  # numbers after which lines are in the same places of a cache: a few more are put between them
_WORTH = 1 << 21  # such products that are worth the start of a thread: a tenth of a millisecond, and ten microseconds


def multiplied(A: Float, B: Float, out: Float | None, add: bool) -> Float | None:
    """``A B``, into ``out`` or, with ``add``, onto it; None where BLAS is to do it."""
    if B.shape[1] > MOST or not narrow.available():
        return None
    if narrow.lies(A):
        to, product = _target(out, (A.shape[0], B.shape[1]), add)
        _inner(A, B, to)
        return product(to)
    if narrow.lies(A.T):
        to, product = _target(None if out is None else out.T, (B.shape[1], A.shape[0]), add)
        _combined(A, B, to)
        return product(to).T
    return None


def threads_for(numbers: int, columns: int) -> int:
    """How many of the threads that BLAS has now are worth starting for so many numbers times so many columns."""
    wanted = numbers * (READ + columns) // _WORTH
    return 1 if wanted < 2 else min(wanted, threads())


def _inner(A: Float, B: Float, to: Float) -> None:
    """Rows of A are lines, and so are columns of B: their inner products are added to ``to``, (rows, columns)."""
    columns = B.T
    if not narrow.lies(columns):
        columns = _apart(B.shape[1], B.shape[0])
        transpose(B, columns)
    several = threads_for(A.size, len(columns))
    narrow.inner(A, columns, to, _cut(len(A), _TILE, _count(A) if several > 1 else 1), several)


def _combined(A: Float, B: Float, to: Float) -> None:
    """Columns of A are lines, whose sums with the weights in B are added to ``to``, (columns, rows).

    Threads have places of all lines, where lines are long. Of short ones each has some lines, and sums of its own: how
    these are added up follows from the shape, and not from the number of threads.
    """
    weights, lines = np.ascontiguousarray(B), A.T
    count, (height, length) = _count(A), lines.shape
    shares = min(-(-count // max(1, length // _PIECE)), max(1, height // _LINES))
    several = threads_for(A.size, weights.shape[1])
    places = _cut(length, _VECTORS, count // shares if several > 1 else 1)
    if shares == 1:
        narrow.combine(lines, weights, to, places, threads=several)
        return
    sums = np.zeros((shares, *to.shape))
    narrow.combine(lines, weights, sums, places, _cut(height, _TILE, shares), several)
    to += sums.sum(axis=0)


def _target(out: Float | None, shape: tuple[int, int], add: bool) -> tuple[Float, Callable[[Float], Float]]:
    """Lines that a product is added to, and what makes of them what was asked for."""
    if out is not None and narrow.lies(out):
        if not add:
            out[...] = 0.0
        return out, lambda to: to
    to = _apart(*shape)
    to[...] = 0.0

    def put(to: Float) -> Float:
        if out is None:
            return to
        np.add(out, to, out=out) if add else np.copyto(out, to)
        return out

    return to, put


def _apart(count: int, length: int) -> Float:
    """Memory for lines that do not take each other's places in a cache."""
    return np.empty((count, length + (8 if length % _ALIKE == 0 else 0)))[:, :length]


def _count(A: Float) -> int:
    """In how many parts threads read A."""
    return max(1, min(_PARTS, A.size // _PART))


def _cut(length: int, grain: int, count: int) -> list[int]:
    """Where parts of this length begin, at most ``count``, at multiples of the grain; and where the last one ends."""
    count = max(1, min(count, length // grain))
    return [length * number // count // grain * grain for number in range(count)] + [length]
