"""A float64 factor R of an exact Gram matrix, ``R^T R = G`` to a few eps of ``s_1^2`` (specification, step 6).

G is known to 126 bits, a float64 Cholesky factor of it to 53: where G has condition 1e32 (a table of condition 1e16)
rounding alone makes it indefinite. Here a first factor R_0 of the rounded, slightly shifted G only preconditions:

    Delta = G - R_0^T R_0                                in the ring, exact
    B = I + R_0^-T Delta R_0^-1 = K^T K                   close to I, or singular where G is
    R = K R_0

B is factored with an error dB of a few eps, and ``|x^T (R^T R - G) x| <= |dB| ||R_0 x||^2``, so that a singular value s
of the table moves by at most ``|dB| s + sqrt(|dB| h d)``, a few eps of s_1. R_0 takes G in the order of diagonal
pivoting: without it the leading corner of a rank-deficient G has a heavy-tailed condition. In that order R_0, K and R
are triangular, and their exact Gram matrices take a third of the work; the R that is returned has its columns in G's
order again and is not triangular.

Input is the upper triangle of G by rows as words in units of 2^-126, its diagonal below 1/4.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from fedsvd.errors import FixedPointOverflow, PrecisionLost, ShapeError
from fedsvd.kernels import gram as kernels
from fedsvd.linalg import backend, foreign, ring128
from fedsvd.linalg.backend import like, namespace, to_numpy
from fedsvd.linalg.exact_gram import GRID_BITS, UNIT_BITS, sliced, words_of
from fedsvd.types import Array, Each

Order = NDArray[np.int64]

_EPS = 2.0**-53  # the unit roundoff; backend.EPS is twice that
# The first h, over sqrt(m). Few tables need 2 eps, smooth ones far less: h' grows with m, and with a larger h than they
# need those would be refused at thousands of features.
_LEAST_SHIFT = _EPS / 8.0
_LEAST_PIVOT = 2.0**-40  # relative to the square root of the largest diagonal entry
_MOST_SHIFT = 2.0**-20  # of h: rounding makes up for less than m^2 eps, 2^-25 at m = 2^14; beyond, G is indefinite
_WELL = 2.0**-24  # the least eigenvalue, relative to the largest diagonal entry, of a G that needs no pivoting
_DELTA_SHIFT = 2.0**-104
_MOST_SHIFTS = 2.0**-92  # of h d h', relative to ||H||_F: an error of sqrt(h h')
_MOST_DIAGONAL = 0.25 * (1.0 - _MOST_SHIFT)  # so that no entry of R_0 is above 1/2
_NEAR, _FAR = 1 << 18, 1 << 22  # words that are rounded at once: in the cache, and on a device


@dataclass(frozen=True, repr=False)
class WideFactor:
    """R, (m, m), not triangular, and what certificates say of it."""

    R: Array
    residual: float  # ||G - R^T R||_F / ||G||_F, the difference taken exactly
    shifts: tuple[float, float]  # h, added to G for R_0, relative to its largest diagonal entry; h', added to B

    def __repr__(self) -> str:
        return f"WideFactor(m={self.R.shape[0]})"


def factor(G: Array, each: Each | None = None) -> WideFactor:
    """The factor of the symmetric m x m matrix G given by the words of its upper triangle, (m (m + 1) / 2, 2)."""
    m, H = side(G), rounded_within(G)
    d, size = float(namespace(H).max(_diagonal(H))), backend.norm(H)
    if size == 0.0:
        return WideFactor(H, 0.0, (0.0, 0.0))
    order = _pivots(H, 2.0 * _EPS * math.sqrt(m) * d)
    R_0, h = _first(H, order, d)
    del H
    B = _preconditioned(G, order, R_0, d, each)
    K, second = _second(B, h * d, size)
    del B
    R = _on_grid(backend.multiply_triangular(K, R_0))
    del K, R_0
    residual = _residual(G, order, R, each) / size
    if not residual <= 64.0 * math.sqrt(m) * _EPS:
        raise _lost()
    back = np.empty_like(order)
    back[order] = np.arange(m)
    if not _is_plain(order):
        R = namespace(R).take(R, like(back, R), axis=1)
    return WideFactor(R, residual, (h, second))


def rounded_within(G: Array) -> Array:
    """``rounded``, of a G whose words are within their bounds."""
    ring128.expect_within(G)
    H = rounded(G)
    if float(namespace(H).max(_diagonal(H))) > _MOST_DIAGONAL:
        raise FixedPointOverflow("a diagonal entry of a Gram matrix is beyond 1/4 of its unit", "check the joint norm")
    return H


def side(G: Array) -> int:
    """The m of an upper triangle of m (m + 1) / 2 words."""
    m = (math.isqrt(8 * G.shape[0] + 1) - 1) // 2
    if m < 1 or tuple(G.shape) != (m * (m + 1) // 2, 2):
        raise ShapeError(f"a triangle of words has shape (m (m + 1) / 2, 2), got {tuple(G.shape)}")
    return m


def rounded(G: Array) -> Array:
    """G as a symmetric float64 matrix, (m, m), every entry correctly rounded."""
    xp, m = namespace(G), side(G)
    order = like(np.arange(m), G)
    H = xp.empty((m, m), dtype=xp.float64, device=G.device)
    for place in _pieces(xp, m, m):
        rows, columns = order[place], order[place.start :]
        if xp is not np or not kernels.left(None, G, m, rows, columns, H[place, place.start :]):
            H[place, place.start :] = _to_unit(_words_at(G, m, rows, columns))
        H[place.stop :, place] = xp.matrix_transpose(H[place, place.stop :])
    return H


def _pivots(H: Array, shift: float) -> Order:
    """The order of diagonal pivoting; LAPACK's, in host memory, since no other library has it.

    G stays as it is where it is proved to be well conditioned: so is then every leading corner of it. LAPACK's pivots
    are found by vectors, on one core.
    """
    xp = namespace(H)
    if backend.is_definite(H, 1.0, -_WELL * float(xp.max(_diagonal(H)))):
        return np.arange(H.shape[0])
    shifted = np.array(to_numpy(H), order="F")
    shifted[np.diag_indices_from(shifted)] += shift
    # A negative tolerance is LAPACK's own, m eps max(diag): what is left below it stays in the order it has.
    _, order, _, info = lapack.dpstrf(shifted, lower=0, tol=-1.0, overwrite_a=1)
    if info < 0:
        raise _lost()
    positions: Order = order.astype(np.int64) - 1
    return positions


def _is_plain(order: Order) -> bool:
    return bool((order == np.arange(len(order))).all())


def _first(H: Array, order: Order, d: float) -> tuple[Array, float]:
    """R_0 on the grid, and the h it took: ``R_0^T R_0 = H + h d I`` roughly, in the given order."""
    xp, m = namespace(H), H.shape[0]
    place, plain = like(order, H), _is_plain(order)
    h = _LEAST_SHIFT * math.sqrt(m)
    R_0 = None
    while R_0 is None:
        if not (d > 0.0 and h <= _MOST_SHIFT):
            raise _lost()
        permuted = xp.take(xp.take(H, place, axis=0), place, axis=1) if not plain else H.copy() if xp is np else H
        R_0 = backend.cholesky(_plus_diagonal(permuted, h * d))
        h = h if R_0 is not None else 2.0 * h
    least = _LEAST_PIVOT * math.sqrt(d)
    pivot = _diagonal(R_0)
    return _on_grid(_plus_diagonal(R_0, xp.where(pivot < least, least - pivot, xp.zeros_like(pivot)))), h


def _preconditioned(G: Array, order: Order, R_0: Array, d: float, each: Each | None) -> Array:
    """``B = I + R_0^-T Delta R_0^-1``, symmetric."""
    xp = namespace(R_0)
    Delta = _plus_diagonal(_difference(G, order, R_0, each), _DELTA_SHIFT * d)
    Delta = backend.solve_triangular(R_0, Delta, transposed=True)
    Delta = backend.solve_triangular(R_0, xp.matrix_transpose(Delta), transposed=True)
    Delta = Delta + xp.matrix_transpose(Delta)
    Delta *= 0.5
    return _plus_diagonal(Delta, 1.0)


def _second(B: Array, hd: float, size: float) -> tuple[Array, float]:
    """``K^T K = B + h' I``, and h'; refused where the two shifts together would show in the singular values."""
    shift = 0.0
    while hd * shift <= _MOST_SHIFTS * size:
        K = backend.cholesky(_plus_diagonal(namespace(B).asarray(B, copy=True), shift))
        if K is not None:
            return K, shift
        shift = max(_EPS, 2.0 * shift)
    raise _lost()


def _residual(G: Array, order: Order, R: Array, each: Each | None) -> float:
    """``||G - R^T R||_F`` for R on the grid."""
    return backend.norm(_difference(G, order, R, each))


def _difference(G: Array, order: Order, R: Array, each: Each | None) -> Array:
    """``G - R^T R`` exactly, rounded once, for an upper triangular R on the grid and G in the given order."""
    xp, m = namespace(R), R.shape[0]
    placed, slices = like(order, G), sliced(xp.matrix_transpose(R), triangular=True, each=each)
    left = xp.empty((m, m), dtype=R.dtype, device=R.device)
    if xp is not np:
        for place, words in slices.blocks(0, m):
            for part in _pieces(xp, *words.shape[:2]):
                of = _words_at(G, m, placed[place][part], placed[place.start :])
                here = slice(place.start + part.start, place.start + part.stop)
                left[here, place.start :] = _to_unit(ring128.subtract(of, words[part, :, :]))
            left[place.stop :, place] = xp.matrix_transpose(left[place, place.stop :])
        return left

    def made(place: tuple[slice, slice], sums: Array) -> None:
        rows, columns = place
        if not kernels.left(sums, G, m, placed[rows], placed[columns], left[place]):
            words = _words_at(G, m, placed[rows], placed[columns])
            left[place] = _to_unit(ring128.subtract(words, words_of(sums)))
        # Tiles reach below the diagonal where they meet it: what lies there is theirs to write, and no other's.
        below = slice(max(columns.start, rows.stop), columns.stop)
        left[below, rows] = left[rows, below].T

    slices.each_tile(0, m, made, each)
    return left


def _pieces(xp: Any, rows: int, width: int) -> Iterator[slice]:
    """Rows of this width, as many at a time as are worked on quickly."""
    step = max(1, (_NEAR if xp is np else _FAR) // width)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _words_at(G: Array, m: int, rows: Array, columns: Array) -> Array:
    """The words of G at these rows and columns, (rows, columns, 2), from those of its upper triangle."""
    xp = namespace(G)
    a, b = rows[:, None], columns[None, :]
    first, last = xp.where(a < b, a, b), xp.where(a < b, b, a)
    position = (first * (2 * m - 1 - first) >> 1) + last
    found = xp.take(G, xp.reshape(position, (-1,)), axis=0)
    return xp.reshape(found, (*position.shape, 2))


def _to_unit(words: Array) -> Array:
    return ring128.to_float(words) * 2.0**-UNIT_BITS


def _on_grid(R: Array) -> Array:
    """R in multiples of the grid; in place on NumPy, whose passes over new memory take three times as long."""
    xp = namespace(R)
    if xp is not np:
        return xp.round(R * 2.0**GRID_BITS) * 2.0**-GRID_BITS
    R *= 2.0**GRID_BITS
    np.rint(R, out=R)
    R *= 2.0**-GRID_BITS
    return R


def _diagonal(A: Array) -> Array:
    return namespace(A).linalg.diagonal(A)


def _plus_diagonal(A: Array, values: Array | float) -> Array:
    """A with values added to its diagonal; in place on NumPy."""
    xp = namespace(A)
    if xp is np:
        A[np.diag_indices_from(A)] += values
        return A
    return foreign.plus_diagonal(xp, A, values)


def _lost() -> PrecisionLost:
    return PrecisionLost(
        "the joint Gram matrix has no factor of the accuracy that is promised",
        "check that every party's table is the one it meant; then use the mask family",
    )
