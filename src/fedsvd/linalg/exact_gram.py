"""``A A^T`` without any rounding, as words of Z_2^128 in units of 2^-126 (specification, step 4).

The entries of A, at most 1/2 in magnitude, are put on the grid 2^-63 and cut into three signed slices of 21 bits,

    A = 2^-21 S_0 + 2^-42 S_1 + 2^-63 S_2,    |S_0|, |S_1| <= 2^20,    |S_2| <= 2^20 + 2^15 with the dither added,

float64 matrices of whole numbers, so that products of slices are matrix products of BLAS.

**Five products instead of nine.** ``A A^T = sum_d T_d 2^(-42 - 21 d)`` with ``T_d = sum_(a+b=d) S_a S_b^T``. These are
the coefficients of a polynomial, ``E(x) E(x)^T = sum_d T_d x^d`` with ``E(x) = S_0 + S_1 x + S_2 x^2``: five values of
it, each a Gram matrix, determine them (Toom and Cook). The points are 0 and infinity, where E is S_0 and S_2; 1 and -1;
and 1/2, where it is ``4 S_0 + 2 S_1 + S_2`` over 4. Sums of products are int64, and the divisions by 2 and 3 leave no
remainder.

**Why they are exact.** A float64 holds every integer up to 2^53. No sum of products of two rows of one E, in whatever
order and fused or not, is above the product of their norms. A row of at most half a unit, as those of shares and of
factors are, has ``||S_0|| <= 2^20 + sqrt(q) / 2``, and q columns of S_1 and S_2 have ``2^20 sqrt(q)`` and
``(2^20 + 2^15) sqrt(q)``, so that the largest E has at most ``2^20 (4 + 3.04 sqrt(q))``: for ``PANEL`` = 800 columns
at once below 2^26.5. Where a row is longer, ``NARROW`` = 160 are multiplied: any entry of E is below 7.04 2^20, and
160 of their squares are below 2^53.

The upper triangle is made by panels of rows, so that a caller can send one and drop it. There is no randomness here:
the dither comes as an argument.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ConfigError, FixedPointOverflow, ShapeError
from fedsvd.kernels import gram as kernels
from fedsvd.linalg import blas
from fedsvd.linalg.backend import like, matmul, namespace, to_numpy
from fedsvd.linalg.foreign import aligned_width
from fedsvd.linalg.ring128 import cast, joined
from fedsvd.types import Array, Each, expect_shape

SLICE_BITS = 21
GRID_BITS = 63  # entries are multiples of 2^-63
UNIT_BITS = 126  # words count multiples of 2^-126
MOST_WORDS = 1 << 20  # of a panel of rows, which is one batch
MOST_DITHER = 1 << 15
_DIGIT = (1 << SLICE_BITS) - 1
PANEL, NARROW = 800, 160  # columns that are multiplied at once
_MOST_COLUMNS = 1 << 17  # sums of 2^17 products of entries below 7.04 2^20 stay inside int64
_ALIGNED = 16  # columns of which a panel has a multiple, but for the last
_LEAST_BLOCK = 128  # rows that a device takes at once
_NEAR_BLOCK = 1 << 16  # entries that NumPy slices at once
_FAR_BLOCK = 1 << 25  # entries that a device takes at once
_TEST_ROWS, _TEST_COLUMNS = 1024, 1792
_HALF_SQUARED = 0.25 * (1.0 + 2.0**-30)  # of a row's length, rounding included
TILE = 128, 256  # rows and columns that one thread multiplies at once: products, sums and words stay in its cache
LANES = 16  # threads that do, at most: the tiles of all take 64 MiB
WORTH_THREADS = 1 << 23  # multiplications of a tile that is worth several threads


@dataclass(frozen=True, repr=False)
class Slices:
    """A matrix on the grid 2^-63 as matrices of whole numbers, each (m, q).

    NumPy has the five that are multiplied, in float32, which has space for their 23 bits; they are float64 where they
    are multiplied. Other libraries have the three slices that the five are made of, block by block.
    """

    parts: tuple[Array, ...]
    triangular: bool = False  # whether all entries right of the diagonal are zero: they are then not multiplied
    short: bool = False  # whether no row is longer than half a unit

    def __repr__(self) -> str:
        return f"Slices(shape={self.shape})"

    @property
    def shape(self) -> tuple[int, int]:
        m, q = self.parts[0].shape
        return m, q

    def rows(self, start: int, stop: int, each: Each | None = None) -> Array:
        """The upper triangle of ``A A^T`` in rows start to stop, row after row from its diagonal on: words (n, 2).

        ``each`` brings threads to NumPy's products.
        """
        m = self.shape[0]
        if not 0 <= start < stop <= m:
            raise ShapeError(f"rows {start} to {stop} of a matrix of {m} rows")
        xp = namespace(self.parts[0])
        count = (stop - start) * (2 * m - start - stop + 1) // 2
        packed = xp.empty((count, 2), dtype=xp.uint64 if xp is np else xp.int64, device=self.parts[0].device)
        if xp is not np:
            return self._rows_there(xp, start, stop, packed)
        # Where the entry of row i and column 0 would be, had the triangle one.
        before = np.arange(m, dtype=np.int64)
        before = before * (2 * m - 1 - before) // 2 - start * (2 * m + 1 - start) // 2

        def made(place: tuple[slice, slice], sums: Array) -> None:
            rows, columns = place
            at = before[rows] + columns.start
            skip = np.maximum(np.arange(rows.start, rows.stop, dtype=np.int64) - columns.start, 0)
            if not kernels.words(sums, at, skip, packed):
                words = words_of(sums)
                for row, (first, left) in enumerate(zip(at, skip, strict=True)):
                    packed[first + left : first + sums.shape[2]] = words[row, left:]

        self.each_tile(start, stop, made, each, half=True)
        return packed

    def each_tile(
        self,
        start: int,
        stop: int,
        made: Callable[[tuple[slice, slice], Array], None],
        each: Each | None,
        *,
        half: bool = False,
    ) -> None:
        """``made`` of every tile of rows start to stop that reaches beyond the diagonal: its place, and its sums.

        With ``half`` what lies left of the diagonal may be zeros.

        The sums, (5, rows, columns), are what ``_digits`` takes; for NumPy alone, and in threads.
        """
        m = self.shape[0]
        height, width = TILE
        worth = height * width * self.shape[1] >= WORTH_THREADS
        if half and not worth and stop == m <= start + width:
            height = width  # one tile for one thread
        tiles = [
            (slice(first, min(first + height, stop)), slice(left, min(left + width, m)))
            for first in range(start, stop, height)
            for left in range(first, m, width)
        ]

        lanes = min(LANES, len(tiles)) if worth else 1

        def lane(number: int) -> None:
            for place in tiles[number::lanes]:
                made(place, self._sums(*place, half=half))

        for _ in (each if each is not None and lanes > 1 else map)(lane, range(lanes)):
            pass

    def _ends(self, rows: slice) -> list[int]:
        """Where the panels of columns end that matter to these rows."""
        q = min(self.shape[1], rows.stop) if self.triangular else self.shape[1]
        panels = -(-q // (PANEL if self.short else NARROW))
        step = -(-q // (panels * _ALIGNED)) * _ALIGNED  # at most a panel, which is a multiple of it too
        return [*range(0, q, step), q]

    def _sums(self, rows: slice, columns: slice, *, half: bool) -> Array:
        shape = rows.stop - rows.start, columns.stop - columns.start
        product, sums = np.empty(shape), np.zeros((5, *shape), np.int64)
        for left, right in pairwise(self._ends(rows)):
            X, Y = (np.empty((side, right - left)) for side in shape)
            for part, total in zip(self.parts, sums, strict=True):
                np.copyto(X, part[rows, left:right])
                if half and rows == columns and blas.found():
                    product = blas.syrk(X, lower=True).T
                else:
                    np.copyto(Y, part[columns, left:right])
                    matmul(X, Y.T, product)
                kernels.add_whole(total, product)
        return sums

    def _rows_there(self, xp: Any, start: int, stop: int, packed: Array) -> Array:
        column = like(np.arange(self.shape[0]), self.parts[0])
        end = 0
        for place, words in self.blocks(start, stop):
            piece = words[column[None, place.start :] >= column[place, None]]
            packed[end : end + piece.shape[0], :] = piece
            end += piece.shape[0]
        return packed

    def blocks(self, start: int, stop: int) -> Iterator[tuple[slice, Array]]:
        """Rows start to stop, some at a time, of another library: their place, and words from their first column on.

        The words, (rows, m - first row, 2), include those left of the diagonal, which repeat others.
        """
        xp, m = namespace(self.parts[0]), self.shape[0]
        step = max(_LEAST_BLOCK, min(m // 8, _FAR_BLOCK // m))
        for first in range(start, stop, step):
            place = slice(first, min(first + step, stop))
            sums: list[Array] = []
            for left, right in pairwise(self._ends(place)):
                cut = [part[first:, left:right] for part in self.parts]
                for number, E in enumerate(_points(cut)):
                    product = cast(E[: place.stop - first, :] @ xp.matrix_transpose(E), xp.int64)
                    if left == 0:
                        sums.append(product)
                    else:
                        sums[number] += product
            yield place, _words(xp, _digits(xp, sums))


def sliced(A: Array, D: Array | None = None, *, triangular: bool = False, each: Each | None = None) -> Slices:
    """The slices of ``rint(2^63 A) + D`` for A and whole numbers D (dither), both (m, q), |A| <= 1/2, |D| <= 2^15.

    ``each`` brings threads to NumPy.
    """
    xp, (m, q) = namespace(A) if D is None else namespace(A, D), A.shape
    if not 1 <= q <= _MOST_COLUMNS or m < 1:
        raise ShapeError(f"an exact Gram matrix of {m} x {q}: at least 1 x 1, at most {_MOST_COLUMNS} columns")
    if D is not None:
        expect_shape("D", D, m, q)
    stored, count = (q, 5) if xp is np else (aligned_width(q), 3)
    kind = np.float32 if xp is np else A.dtype
    parts = tuple(xp.empty((m, stored), dtype=kind, device=A.device)[:, :q] for _ in range(count))
    step = max(1, (_NEAR_BLOCK if xp is np else _FAR_BLOCK) // q)
    starts = range(0, m, step)
    longest = [0.0] * len(starts)

    def some(number: int) -> None:
        place = slice(starts[number], min(starts[number] + step, m))
        S = _slices_of(xp, A[place, :], None if D is None else D[place, :])
        for part, E in zip(parts, _points(S) if xp is np else S, strict=True):
            part[place, :] = E
        longest[number] = float(xp.max(xp.sum(A[place, :] * A[place, :], axis=1)))

    for _ in (each if each is not None and xp is np and len(starts) > 1 else map)(some, range(len(starts))):
        pass
    return Slices(parts, triangular, max(longest) <= _HALF_SQUARED)


def _points(S: Sequence[Array]) -> Iterator[Array]:
    """``S_0 + S_1 x + S_2 x^2`` at 0, infinity, 1, -1, and times 4 at 1/2."""
    S_0, S_1, S_2 = S
    yield S_0
    yield S_2
    outer = S_0 + S_2
    yield outer + S_1
    yield outer - S_1
    yield 4.0 * S_0 + (2.0 * S_1 + S_2)


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

    Emulated float64 is not. Whole numbers of 21 bits are multiplied, more of them than a panel has because a library
    may choose its method by the size; the results, 53 bits long, are compared with sums of the same numbers in int64.
    """
    X, Y = (_scrambled(offset, _TEST_ROWS, _TEST_COLUMNS) for offset in (0, _TEST_ROWS * _TEST_COLUMNS))
    product = like(X.astype(np.float64), on) @ namespace(on).matrix_transpose(like(Y.astype(np.float64), on))
    weights = 2 * _scrambled(0, 1, _TEST_ROWS)[0] + 1  # a difference of one entry is not multiplied away
    found: NDArray[np.int64] = to_numpy(product).astype(np.int64) @ weights
    return bool((found == X @ (Y.T @ weights)).all())


def _scrambled(offset: int, rows: int, columns: int) -> NDArray[np.int64]:
    """Fixed whole numbers from 2^20 to 2^21 without a pattern."""
    k = np.arange(offset + 1, offset + 1 + rows * columns, dtype=np.int64) * 6364136223846793005
    return (1 << 20) + ((k ^ (k >> 29)) * 2862933555777941757 >> 40 & (1 << 20) - 1).reshape(rows, columns)


def words_of(sums: Array) -> Array:
    """The words of a tile's sums, (rows, columns, 2), by NumPy; the sums are spent."""
    return _words(np, _digits(np, sums))


def _digits(xp: Any, sums: Sequence[Array]) -> list[Array]:
    """``T_0, ..., T_4`` from the values at the five points."""
    T_0, T_4, one, other, half = sums
    odd, T_2 = (one - other) // 2, (one + other) // 2 - T_0 - T_4
    T_1 = ((half - 16 * T_0 - 4 * T_2 - T_4) // 2 - odd) // 3
    return [T_0, T_1, T_2, odd - T_1, T_4]


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
