"""``A B`` for a large A and a B of few columns: A is read once, where it lies, and not copied into an order of BLAS.

Of ten columns that takes half of the time. BLAS has threads of its own; here ``each`` brings them, a part of A to a
thread. Without it a product that is worth several threads is left to BLAS, unless that has one.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from fedsvd.kernels import narrow
from fedsvd.kernels.lines import transpose
from fedsvd.linalg.pools import threads
from fedsvd.types import Each, Float

MOST = 32
"""Columns of B from which BLAS is as quick."""

_ALONE = 1 << 25  # multiplications that one thread is done with before several have begun
_PART = 1 << 18  # numbers of A that a thread reads at a time, at least
_PARTS = 32  # of A, at most: two for each of sixteen threads
_PIECE = 1024  # numbers of a line that are read in one piece: of shorter ones most of the time is spent on the way
_LINES = 256  # lines, at least, of a part that has sums of its own, which are added up afterwards
_TILE, _VECTORS = 12, 16  # lines, and numbers of a line, that the kernels take together
_ALIKE = 512  # numbers after which lines are in the same places of a cache: a few more are put between them


def multiplied(A: Float, B: Float, out: Float | None, add: bool, each: Each | None = None) -> Float | None:
    """``A B``, into ``out`` or, with ``add``, onto it; None where BLAS is to do it."""
    work = A.size * B.shape[1]
    if B.shape[1] > MOST or not narrow.available() or (each is None and work > _ALONE and threads() > 1):
        return None
    if narrow.lies(A):
        to, product = _target(out, (A.shape[0], B.shape[1]), add)
        _inner(A, B, to, each)
        return product(to)
    if narrow.lies(A.T):
        to, product = _target(None if out is None else out.T, (B.shape[1], A.shape[0]), add)
        _combined(A, B, to, each)
        return product(to).T
    return None


def _inner(A: Float, B: Float, to: Float, each: Each | None) -> None:
    """Rows of A are lines, and so are columns of B: their inner products are added to ``to``, (rows, columns)."""
    columns = B.T
    if not narrow.lies(columns):
        columns = _apart(B.shape[1], B.shape[0])
        transpose(B, columns)
    parts = _cut(len(A), _TILE, 1 if each is None else _count(A))
    _each_part(lambda rows: narrow.inner(A[rows], columns, to[rows]), parts, each)


def _combined(A: Float, B: Float, to: Float, each: Each | None) -> None:
    """Columns of A are lines, whose sums with the weights in B are added to ``to``, (columns, rows).

    Threads have places of all lines, where lines are long. Of short ones each has some lines, and sums of its own: how
    these are added up follows from the shape, and not from the number of threads.
    """
    weights, lines = np.ascontiguousarray(B), A.T
    count, (height, length) = _count(A), lines.shape
    shares = min(-(-count // max(1, length // _PIECE)), max(1, height // _LINES))
    places = _cut(length, _VECTORS, 1 if each is None else count // shares)
    if shares == 1:
        _each_part(lambda place: narrow.combine(lines[:, place], weights, to[:, place]), places, each)
        return
    sums = np.zeros((shares, *to.shape))
    parts = [(place, *each_of) for place in places for each_of in enumerate(_cut(height, _TILE, shares))]

    def part(given: tuple[slice, int, slice]) -> None:
        place, number, some = given
        narrow.combine(lines[some, place], weights[some], sums[number, :, place])

    _each_part(part, parts, each)
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


def _cut(length: int, grain: int, count: int) -> list[slice]:
    """This length in parts, at most ``count``, that begin at multiples of the grain."""
    count = max(1, min(count, length // grain))
    starts = [length * number // count // grain * grain for number in range(count)]
    return [slice(a, b) for a, b in pairwise((*starts, length))]


def _each_part(work: Callable[[Any], None], parts: list[Any], each: Each | None) -> None:
    """The work on each of these parts."""
    for _ in (map if each is None or len(parts) == 1 else each)(work, parts):
        pass
