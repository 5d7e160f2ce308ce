"""``A B`` for a large A and a B of few columns: A is read once, where it lies, and not copied into an order of BLAS.

Of ten columns that takes half of the time. BLAS has threads of its own; here ``each`` brings them, a part of A to a
thread. Without it a product that is worth several threads is left to BLAS, unless that has one.
"""

from collections.abc import Callable

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
    _each_part(lambda rows: narrow.inner(A[rows], columns, to[rows]), A, each)


def _combined(A: Float, B: Float, to: Float, each: Each | None) -> None:
    """Columns of A are lines, whose sums with the weights in B are added to ``to``, (columns, rows)."""
    weights = np.ascontiguousarray(B)
    _each_part(lambda places: narrow.combine(A.T[:, places], weights, to[:, places]), A, each)


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


def _each_part(work: Callable[[slice], None], A: Float, each: Each | None) -> None:
    """The work in parts of A's first side, for as many threads as there are."""
    length = len(A)
    count = 1 if each is None else max(1, min(_PARTS, A.size // _PART, length))

    def part(number: int) -> None:
        work(slice(length * number // count, length * (number + 1) // count))

    if each is None or count == 1:
        work(slice(length))
        return
    for _ in each(part, range(count)):
        pass
