"""Quadratic forms in the ring are those of Python's integers, bit for bit."""

import numpy as np
import pytest

from fedsvd.errors import ShapeError
from fedsvd.linalg.ring_forms import GRID_BITS, MOST_SIDE, on_grid, quadratic, square
from fedsvd.secagg.words128 import to_integers


def words(side, seed=0):
    return np.random.default_rng(seed).integers(0, 2**64, size=(side * (side + 1) // 2, 4), dtype=np.uint64)


def rows_of_rotation(n, side, seed=1):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(side, side)))[0][:n]


@pytest.mark.parametrize(("n", "side"), [(1, 1), (1, 2), (3, 3), (4, 9), (20, 33)])
def test_a_form_is_that_of_whole_numbers_modulo_two_to_the_256(n, side):
    triangle, Q = words(side), on_grid(rows_of_rotation(n, side))
    M, exact = np.empty((side, side), object), Q.astype(object)
    M[np.triu_indices(side)] = M.T[np.triu_indices(side)] = to_integers(triangle)
    expected = (exact @ M @ exact.T)[np.triu_indices(n)]
    found = to_integers(quadratic(Q, square(triangle, side)))
    assert [(int(a) - b) % (1 << 256) for a, b in zip(expected, found, strict=True)] == [0] * len(found)


def test_the_largest_words_and_entries_lose_no_bit():
    side = 64
    triangle = np.full((side * (side + 1) // 2, 4), 2**64 - 1, dtype=np.uint64)
    Q = np.full((2, side), 1 << GRID_BITS, dtype=np.int64)
    Q[1] *= -1
    found = to_integers(quadratic(Q, square(triangle, side)))
    once = -(side**2) << (2 * GRID_BITS)  # every word is -1
    assert found == [once, -once, once]


def test_the_grid_has_the_digits_of_float64_and_no_place_beyond_one():
    Q = rows_of_rotation(5, 5)
    assert np.abs(on_grid(Q) * 2.0**-GRID_BITS - Q).max() <= 2.0**-GRID_BITS
    with pytest.raises(ShapeError, match="beyond 1"):
        on_grid(np.array([[1.5]]))


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="not the triangle"):
        square(words(3), 4)
    with pytest.raises(ShapeError, match="a form of"):
        quadratic(np.zeros((1, MOST_SIDE + 1), np.int64), np.zeros((MOST_SIDE + 1, MOST_SIDE + 1, 4), np.uint64))
