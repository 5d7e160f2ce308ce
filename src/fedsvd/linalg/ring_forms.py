"""Exact products with matrices of the ring Z_2^320: quadratic forms of whole numbers, modulo a power of two.

A word has five uint64, low first, and a symmetric matrix travels as the words of its upper triangle, row after row.
``quadratic`` computes ``Q M Q^T`` modulo 2^256 for whole numbers Q below 2^57 and a matrix M of words: M is cut into
limbs of 24 bits and Q into slices of 19, whose products add up in float64 without rounding (24 + 19 + 10 bits), and
BLAS does the work. Products with single vectors of words go through Python's integers: they are few.

There are no pads and no keys here: the CSP uses this file for its own side.
"""

from itertools import product

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ShapeError
from fedsvd.types import Float, Ring

HALVES = 5
BITS = 64 * HALVES
LOW_HALVES = 4
"""Of a word, the uint64 that a quadratic form with whole numbers needs: it is computed modulo 2^256."""

GRID_BITS = 57
"""Entries of an orthogonal Q are whole numbers in steps of 2^-57."""

MOST_SIDE = 1024  # products of limbs and slices add up exactly as far as this
_LIMB, _SLICE = 24, 19

Integers = NDArray[np.int64]


def on_grid(Q: Float) -> Integers:
    """Q, entries within +-1, as whole numbers in steps of 2^-57."""
    whole = np.rint(np.ldexp(Q, GRID_BITS))
    if not bool(np.all(np.abs(whole) <= 2.0**GRID_BITS)):
        raise ShapeError("an entry beyond 1 has no place on the grid of an orthogonal matrix")
    return whole.astype(np.int64)


def square(triangle: Ring, side: int) -> Ring:
    """The symmetric matrix, (side, side, any), behind the words of its upper triangle."""
    if triangle.shape[0] != side * (side + 1) // 2:
        raise ShapeError(f"{triangle.shape[0]} words are not the triangle of a matrix of side {side}")
    whole = np.empty((side, side, triangle.shape[1]), np.uint64)
    rows, columns = np.triu_indices(side)
    whole[rows, columns] = triangle
    whole[columns, rows] = triangle
    return whole


def quadratic(Q: Integers, M: Ring) -> Ring:
    """The words, modulo 2^256, of the upper triangle of ``Q M Q^T``: Q (n, N) on its grid, M (N, N, 4 or more)."""
    n, N = Q.shape
    if N > MOST_SIDE or M.shape[:2] != (N, N) or M.shape[2] < LOW_HALVES:
        raise ShapeError(f"a form of {Q.shape} with words of shape {M.shape}")
    slices = _slices(Q)
    half = _times(slices, M[:, :, :LOW_HALVES])
    whole = _times(slices, half.transpose(1, 0, 2))
    return whole[np.triu_indices(n)]


def _times(slices: list[Float], M: Ring) -> Ring:
    """``Q M`` modulo 2^256, (n, columns, 4)."""
    total = np.zeros((slices[0].shape[0] * M.shape[1], LOW_HALVES), np.uint64)
    limbs = _limbs(M)
    for (a, limb), (b, part) in product(enumerate(limbs), enumerate(slices)):
        shift = _LIMB * a + _SLICE * b
        if shift < 64 * LOW_HALVES:
            _add_shifted(total, (part @ limb).astype(np.int64).ravel(), shift)
    return total.reshape(slices[0].shape[0], M.shape[1], LOW_HALVES)


def _slices(Q: Integers) -> list[Float]:
    """Q as three matrices of whole numbers within +-2^19, in steps of 1, 2^19 and 2^38."""
    found, half = [], np.int64(1) << (_SLICE - 1)
    for _ in range(2):
        low = ((Q + half) & ((np.int64(1) << _SLICE) - 1)) - half
        found.append(low.astype(np.float64))
        Q = (Q - low) >> _SLICE
    return [*found, Q.astype(np.float64)]


def _limbs(M: Ring) -> list[Float]:
    """The limbs of 24 bits, unsigned, lowest first, each a matrix of M's shape."""
    octets = np.ascontiguousarray(M, "<u8").view(np.uint8).reshape(*M.shape[:2], -1)
    padded = np.zeros((*M.shape[:2], 3 * -(-octets.shape[2] // 3)), np.uint8)
    padded[..., : octets.shape[2]] = octets
    octets = padded.reshape(*M.shape[:2], -1, 3).astype(np.float64)
    joined = octets[..., 0] + 256.0 * octets[..., 1] + 65536.0 * octets[..., 2]
    return [np.ascontiguousarray(joined[..., a]) for a in range(joined.shape[2])]


def _add_shifted(total: Ring, values: Integers, shift: int) -> None:
    """``total + values 2^shift``, in place, modulo 2^256; values are signed."""
    first, right = divmod(shift, 64)
    sign = (values >> 63).view(np.uint64)
    terms = [values.view(np.uint64) << np.uint64(right)]
    terms.append((values >> (64 - right)).view(np.uint64) if right else sign)
    carry: NDArray[np.uint64] | None = None
    for place in range(first, total.shape[1]):
        term = terms[place - first] if place - first < 2 else sign
        column = total[:, place]
        sums = column + term
        over = sums < term
        if carry is not None:
            sums += carry
            over |= sums < carry
        total[:, place] = sums
        carry = over.astype(np.uint64)
