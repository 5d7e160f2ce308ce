"""Products of about a hundred bits out of float64 matrix products: numbers are cut into slices that multiply exactly.

A number is a pair ``high + low`` of float64, 106 bits together. In units of a power of two that brings it below 1/2 it
is cut into signed slices of 21 bits,

    x = 2^-21 S_0 + 2^-42 S_1 + ...,    |S_k| <= 2^20,

float64 matrices of whole numbers, so that an inner product of up to 2^13 terms of two slices is a whole number below
2^53: no sum of it is rounded, in whatever order BLAS adds. ``product`` adds the products of slices up as pairs, and
``inner_products`` as Python integers, without any rounding at all.

This is for the few passes in which float64 would lose what an ill-conditioned problem asks for, not for all data.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ShapeError
from fedsvd.linalg import backend
from fedsvd.types import Float

SLICE_BITS = 21
SLICES = 5  # 105 bits
MOST_TERMS = 1 << 12  # of one inner product
_SPLIT = 2.0**27 + 1.0
_UNIT = 1074  # integers count multiples of 2^-1074, as wide sums do


@dataclass(frozen=True, repr=False)
class Pair:
    """Numbers ``high + low``, low below half of the last digit of high."""

    high: Float
    low: Float

    def __repr__(self) -> str:
        return f"Pair(shape={self.high.shape})"

    def plus(self, other: Float) -> "Pair":
        """The sum with float64 numbers, rounded to a pair."""
        high, rest = two_sum(self.high, other)
        return Pair(*two_sum(high, rest + self.low))

    def times(self, other: Float) -> "Pair":
        """The product with float64 numbers, rounded to a pair."""
        high, rest = two_product(self.high, other)
        return Pair(*two_sum(high, rest + self.low * other))


def two_sum(a: Float, b: Float) -> tuple[Float, Float]:
    """``a + b`` rounded, and what was rounded off, exactly."""
    total = a + b
    added = total - a
    return total, (a - (total - added)) + (b - added)


def two_product(a: Float, b: Float) -> tuple[Float, Float]:
    """``a b`` rounded, and what was rounded off, exactly; for numbers below 2^990."""
    a_high, b_high = (_SPLIT * x - (_SPLIT * x - x) for x in (a, b))
    a_low, b_low = a - a_high, b - b_high
    total = a * b
    return total, ((a_high * b_high - total) + a_high * b_low + a_low * b_high) + a_low * b_low


@dataclass(frozen=True, repr=False)
class Sliced:
    """Matrices of whole numbers S_k that stand for ``2^unit sum_k 2^(-21 (k + 1)) S_k``."""

    parts: tuple[Float, ...]
    unit: NDArray[np.int64]  # of all numbers, (), or of each column, (columns,)

    def __repr__(self) -> str:
        return f"Sliced(shape={self.parts[0].shape}, slices={len(self.parts)})"


def sliced(numbers: Pair, most: int = SLICES, *, by_column: bool = False) -> Sliced:
    """These numbers in at most ``most`` slices, in one unit or one for each column; what is below the last is cut."""
    largest = np.max(np.abs(numbers.high), axis=0 if by_column else None, initial=0.0)
    unit = np.asarray(np.frexp(largest)[1], np.int64) + 1
    high, low = np.ldexp(numbers.high, -unit), np.ldexp(numbers.low, -unit)
    parts = []
    for k in range(1, most + 1):
        S = np.rint(np.ldexp(high, SLICE_BITS * k))
        parts.append(S)
        # The difference is exact, since S is what high rounds to; it may then be smaller than low.
        high, low = two_sum(high - np.ldexp(S, -SLICE_BITS * k), low)
        if not high.any():
            break
    return Sliced(tuple(parts), unit)


def on_grid(numbers: Float, slices: int) -> Float:
    """The float64 numbers that this number of slices holds exactly, nearest to these."""
    unit = int(np.frexp(np.max(np.abs(numbers), initial=0.0))[1]) + 1
    grid: Float = np.ldexp(np.rint(np.ldexp(numbers, SLICE_BITS * slices - unit)), unit - SLICE_BITS * slices)
    return grid


def product(A: Sliced, B: Sliced) -> Pair:
    """``A B`` for A (n, f) and B (f, c), to about 2^-100 of the largest sum of products."""
    n, f = A.parts[0].shape
    if B.parts[0].shape[0] != f or f > 2 * MOST_TERMS:
        raise ShapeError(f"a product of {A.parts[0].shape} and {B.parts[0].shape}: inner sides of at most 2^13")
    shape = n, B.parts[0].shape[1]
    total = Pair(np.zeros(shape), np.zeros(shape))
    for a, S in enumerate(A.parts, start=1):
        for b, U in enumerate(B.parts, start=1):
            if a + b <= SLICES + 2:
                total = total.plus(np.ldexp(S @ U, A.unit + B.unit - SLICE_BITS * (a + b)))
    return total


def inverse_gram(R: Float) -> Pair:
    """``(R^T R)^-1`` of an upper triangular R, to about 2^-100 of its largest number.

    ``Y = R^-1`` in float64 has ``R Y = I + E`` with E as large as eps times the condition. What is on the right of
    R^-1 is a relative error of every block ``(Q Y)(Q Y)^T``, however small, and two steps ``Y - Y_0 E``, with E in
    about 100 bits, leave less of it than eps.
    """
    n = R.shape[0]
    first = backend.solve_triangular(R, np.eye(n))
    Y, factor = Pair(first, np.zeros_like(first)), sliced(Pair(R, np.zeros_like(R)))
    for _ in range(2):
        E = product(factor, sliced(Y)).plus(-np.eye(n))
        Y = Y.plus(-(first @ E.high))
    return product(sliced(Y), sliced(Pair(Y.high.T, Y.low.T)))


def congruence(T: Float, C: Pair) -> Pair:
    """``T C T^T`` for T (n, n) and a symmetric C."""
    T_sliced = sliced(Pair(T, np.zeros_like(T)))
    half = product(T_sliced, sliced(C))
    return product(T_sliced, sliced(Pair(half.high.T, half.low.T)))


def inner_products(A: Sliced, B: Sliced) -> list[int]:
    """``A^T B`` for A (n, f) and B (n, t), n at most 2^12, exactly, row after row, in units of 2^-1074."""
    return _collected(A, B, lambda S, U: S.T @ U)


def squares(A: Sliced, B: Sliced) -> list[int]:
    """The inner product of each column of A with that of B, (n, t) both, exactly, in units of 2^-1074."""
    return _collected(A, B, lambda S, U: np.einsum("ij,ij->j", S, U))


def added(left: Sequence[int], right: Sequence[int]) -> list[int]:
    """Two lists of integers, number by number."""
    return [a + b for a, b in zip(left, right, strict=True)]


def _collected(A: Sliced, B: Sliced, multiply: Callable[[Float, Float], Float]) -> list[int]:
    if A.parts[0].shape[0] > MOST_TERMS:
        raise ShapeError(f"inner products of {A.parts[0].shape[0]} terms: at most {MOST_TERMS} at once")
    totals: list[int] = []
    for a, S in enumerate(A.parts, start=1):
        for b, U in enumerate(B.parts, start=1):
            shift = int(A.unit + B.unit) - SLICE_BITS * (a + b) + _UNIT
            whole = multiply(S, U).ravel().tolist()
            here = [int(v) << shift if shift >= 0 else int(v) >> -shift for v in whole]
            totals = added(totals, here) if totals else here
    return totals
