"""``A A^T`` without any rounding, as words of Z_2^128 in units of 2^-126 (specification, step 4).

The entries of A, at most 1/2 in magnitude, are put on the grid 2^-63 and cut into three signed slices of 21 bits,

    A = 2^-21 S_0 + 2^-42 S_1 + 2^-63 S_2,    |S_0|, |S_1| <= 2^20,    |S_2| <= 2^20 + 2^15 with the dither added,

float64 matrices of whole numbers, so that products of slices are matrix products of BLAS.

**Why they are exact.** A float64 holds every integer up to 2^53. An inner product of ``PANEL`` = 1792 terms, each at
most u^2 in magnitude, is an integer of at most 1792 u^2 whatever the order in which its terms are added, so no partial
sum of it is rounded, and neither is a fused multiply-add. The largest factors are sums of two slices,
u <= 2 2^20 + 2^15, and 1792 u^2 < 1792 (4.13) 2^40 < 2^52.9.

**Six products instead of nine.** ``A A^T = sum_d T_d 2^(-42 - 21 d)`` with ``T_d = sum_(a+b=d) S_a S_b^T``. The mixed
terms come from products of sums (Karatsuba),

    S_0 S_1^T + S_1 S_0^T = (S_0 + S_1)(S_0 + S_1)^T - S_0 S_0^T - S_1 S_1^T,

and so on: six products, each a Gram matrix, where the direct way has nine for a rectangle. Differences of integers
below 2^53 are exact. Panels of columns add up in int64, words are formed once.

The upper triangle is made by panels of rows, so that a caller can send one and drop it. There is no randomness here:
the dither comes as an argument.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ConfigError, FixedPointOverflow, ShapeError
from fedsvd.linalg.backend import gram, like, matmul, namespace, to_numpy
from fedsvd.linalg.foreign import aligned_width
from fedsvd.linalg.ring128 import cast, joined
from fedsvd.types import Array, Each, expect_shape

SLICE_BITS = 21
GRID_BITS = 63  # entries are multiples of 2^-63
UNIT_BITS = 126  # words count multiples of 2^-126
MOST_WORDS = 1 << 20  # of a panel of rows, which is one batch
MOST_DITHER = 1 << 15
_DIGIT = (1 << SLICE_BITS) - 1
PANEL = 1792  # columns that are multiplied at once
_MOST_COLUMNS = PANEL << 9  # 2^9 integers below 2^53 add up well inside int64
_ALIGNED = 16  # columns of which a panel has a multiple, but for the last
_BLOCKS = 8  # the least number of blocks of rows, so that little is computed left of the diagonal
_LEAST_BLOCK, _MOST_BLOCK = 128, 192  # rows: with more, what is computed at once would outgrow the slices
_NEAR_BLOCK = 1 << 16  # entries that NumPy slices at once
_FAR_BLOCK = 1 << 25  # entries that a device takes at once
_TEST_ROWS = 1024
_PAIRS = ((0, 1), (0, 2), (1, 2))
_TILE = 96  # columns of a block that one thread multiplies
WORTH_THREADS = 1 << 23  # multiplications of a block's product that is worth several threads


@dataclass(frozen=True, repr=False)
class Slices:
    """A matrix on the grid 2^-63 as three float64 matrices of whole numbers, each (m, q)."""

    parts: tuple[Array, ...]
    triangular: bool = False  # whether all entries right of the diagonal are zero: they are then not multiplied

    def __repr__(self) -> str:
        return f"Slices(shape={self.shape})"

    @property
    def shape(self) -> tuple[int, int]:
        m, q = self.parts[0].shape
        return m, q

    def rows(self, start: int, stop: int, each: Each | None = None) -> Array:
        """The upper triangle of ``A A^T`` in rows start to stop, row after row from its diagonal on: words (n, 2)."""
        xp, m = namespace(self.parts[0]), self.shape[0]
        column = like(np.arange(m), self.parts[0])
        pieces = (
            words[column[None, place.start :] >= column[place, None]] for place, words in self.blocks(start, stop, each)
        )
        count = (stop - start) * (2 * m - start - stop + 1) // 2
        packed = xp.empty((count, 2), dtype=xp.uint64 if xp is np else xp.int64, device=self.parts[0].device)
        end = 0
        for piece in pieces:
            packed[end : end + piece.shape[0], :] = piece
            end += piece.shape[0]
        return packed

    def blocks(self, start: int, stop: int, each: Each | None = None) -> Iterator[tuple[slice, Array]]:
        """Rows start to stop, some at a time: their place, and their words from the column of the first one on.

        The words, (rows, m - first row, 2), include those left of the diagonal, which repeat others. ``each`` brings
        threads to NumPy's products.
        """
        m = self.shape[0]
        if not 0 <= start < stop <= m:
            raise ShapeError(f"rows {start} to {stop} of a matrix of {m} rows")
        xp = namespace(self.parts[0])
        step = min(max(m // _BLOCKS, _LEAST_BLOCK), _MOST_BLOCK if xp is np else max(1, _FAR_BLOCK // m))
        for first in range(start, stop, step):
            last = min(first + step, stop)
            yield slice(first, last), _words(xp, self._digits(xp, first, last, each))

    def _digits(self, xp: Any, start: int, stop: int, each: Each | None) -> list[Array]:
        """``T_0, ..., T_4`` in rows start to stop, from column ``start`` on, as int64."""
        q = min(self.shape[1], stop) if self.triangular else self.shape[1]
        panels = -(-q // PANEL)
        step = -(-q // (panels * _ALIGNED)) * _ALIGNED  # at most PANEL, which is a multiple of it too
        ends = [*range(0, q, step), q]
        digits: list[Array] = []
        for left, right in pairwise(ends):
            products = _products(xp, [part[start:, left:right] for part in self.parts], stop - start, each)
            for d in range(5):
                T = cast(products.pop(0), xp.int64)  # one by one: each gives its memory back before the next
                if left == 0:
                    digits.append(T)
                else:
                    digits[d] += T
        return digits


def sliced(A: Array, D: Array | None = None, *, triangular: bool = False) -> Slices:
    """The slices of ``rint(2^63 A) + D`` for A and whole numbers D (dither), both (m, q), |A| <= 1/2, |D| <= 2^15."""
    xp, (m, q) = namespace(A) if D is None else namespace(A, D), A.shape
    if not 1 <= q <= _MOST_COLUMNS or m < 1:
        raise ShapeError(f"an exact Gram matrix of {m} x {q}: at least 1 x 1, at most {_MOST_COLUMNS} columns")
    if D is not None:
        expect_shape("D", D, m, q)
    stored = q if xp is np else aligned_width(q)
    parts = tuple(xp.empty((m, stored), dtype=A.dtype, device=A.device)[:, :q] for _ in range(3))
    step = max(1, (_NEAR_BLOCK if xp is np else _FAR_BLOCK) // q)
    for start in range(0, m, step):
        place = slice(start, min(start + step, m))
        for part, S in zip(parts, _slices_of(xp, A[place, :], None if D is None else D[place, :]), strict=True):
            part[place, :] = S
    return Slices(parts, triangular)


def _slices_of(xp: Any, A: Array, D: Array | None) -> tuple[Array, Array, Array]:
    # Every step is exact but for the last rounding: what is left has fewer bits than the entry itself.
    S_0 = xp.round(A * 2.0**SLICE_BITS)
    rest = A - S_0 * 2.0**-SLICE_BITS
    S_1 = xp.round(rest * 2.0 ** (2 * SLICE_BITS))
    S_2 = xp.round((rest - S_1 * 2.0 ** (-2 * SLICE_BITS)) * 2.0**GRID_BITS)
    if not float(xp.max(xp.abs(A))) <= 0.5:  # NaN compares false
        raise FixedPointOverflow("an entry of a share is beyond half of its unit", "check the joint norm")
    if D is not None:
        if not bool(xp.all((xp.abs(D) <= MOST_DITHER) & (xp.round(D) == D))):
            raise ConfigError(f"dither is whole numbers of at most {MOST_DITHER} in magnitude")
        S_2 = S_2 + D
    return S_0, S_1, S_2


def row_panels(m: int, most: int = MOST_WORDS) -> list[tuple[int, int]]:
    """The rows (start, stop) of the panels in which the upper triangle of an m x m matrix travels.

    Each has as many rows as ``most`` words hold, at least one.
    """
    panels, start = [], 0
    while start < m:
        stop, words = start + 1, m - start
        while stop < m and words + m - stop <= most:
            words += m - stop
            stop += 1
        panels.append((start, stop))
        start = stop
    return panels


def exact_products_hold(on: Array) -> bool:
    """Whether the float64 products of this library, on the device of ``on``, are exact where this file needs it.

    Emulated float64 is not. Whole numbers of 21 bits are multiplied, in the size of a panel because a library may
    choose its method by the size; the results, 53 bits long, are compared with sums of the same numbers in int64.
    """
    X, Y = (_scrambled(offset, _TEST_ROWS, PANEL) for offset in (0, _TEST_ROWS * PANEL))
    product = like(X.astype(np.float64), on) @ namespace(on).matrix_transpose(like(Y.astype(np.float64), on))
    weights = 2 * _scrambled(0, 1, _TEST_ROWS)[0] + 1  # a difference of one entry is not multiplied away
    found: NDArray[np.int64] = to_numpy(product).astype(np.int64) @ weights
    return bool((found == X @ (Y.T @ weights)).all())


def _scrambled(offset: int, rows: int, columns: int) -> NDArray[np.int64]:
    """Fixed whole numbers from 2^20 to 2^21 without a pattern."""
    k = np.arange(offset + 1, offset + 1 + rows * columns, dtype=np.int64) * 6364136223846793005
    return (1 << 20) + ((k ^ (k >> 29)) * 2862933555777941757 >> 40 & (1 << 20) - 1).reshape(rows, columns)


def _products(xp: Any, S: list[Array], rows: int, each: Each | None) -> list[Array]:
    """``T_0, ..., T_4`` of the first rows of S with all of its rows; exact."""
    if each is None or xp is not np or rows * S[0].size < WORTH_THREADS:
        T_0, middle, T_4 = (_block(xp, part, rows) for part in S)
        T_1, T_2, T_3 = (_block(xp, S[a] + S[b], rows) for a, b in _PAIRS)
    else:
        T_0, middle, T_4, T_1, T_2, T_3 = _blocks_by_threads(S, rows, each)
    T_1 -= T_0
    T_1 -= middle
    T_2 -= T_0
    T_2 -= T_4
    T_2 += middle
    T_3 -= middle
    T_3 -= T_4
    return [T_0, T_1, T_2, T_3, T_4]


def _block(xp: Any, S: Array, rows: int) -> Array:
    """The first rows of ``S S^T``."""
    X = S[:rows, :]
    if xp is not np:
        return X @ xp.matrix_transpose(S)
    out = np.empty((rows, S.shape[0]))
    out[:, :rows] = gram(X)
    if rows < S.shape[0]:
        matmul(X, S[rows:, :].T, out[:, rows:])
    return out


def _blocks_by_threads(S: list[Array], rows: int, each: Each) -> list[Array]:
    """The same of all six, some columns to each thread: products this low are not worth all threads of a BLAS."""
    count = S[0].shape[0]
    starts = range(0, count, _TILE)
    out = [np.empty((rows, count)) for _ in range(6)]

    def tile(start: int) -> None:
        place = slice(start, min(start + _TILE, count))
        for number, part in enumerate(S):
            matmul(part[:rows, :], part[place, :].T, out[number][:, place])
        for number, (a, b) in enumerate(_PAIRS, start=3):
            matmul(S[a][:rows, :] + S[b][:rows, :], (S[a][place, :] + S[b][place, :]).T, out[number][:, place])

    for _ in each(tile, starts):
        pass
    return out


def _words(xp: Any, digits: list[Array]) -> Array:
    """``sum_d T_d 2^(84 - 21 d)`` as words: all digits but the first are carried down to 21 bits, in place."""
    T_0, T_1, T_2, T_3, T_4 = digits
    low = T_4 & _DIGIT
    T_4 >>= SLICE_BITS
    T_3 += T_4
    low |= (T_3 & _DIGIT) << SLICE_BITS
    T_3 >>= SLICE_BITS
    T_2 += T_3
    low |= (T_2 & _DIGIT) << 2 * SLICE_BITS
    T_2 >>= SLICE_BITS
    T_1 += T_2
    low |= T_1 << 63  # the lowest bit of this digit is the last one of the low half
    T_1 >>= 1
    T_0 <<= 20
    T_0 += T_1
    return joined(xp, low, T_0)
