"""Sliced products have the digits of rational arithmetic, which is what they are compared with."""

from fractions import Fraction

import numpy as np
import pytest
from tests.tolerances import assert_close, digits_lost

from fedsvd.errors import ShapeError
from fedsvd.linalg.extended import (
    MOST_TERMS,
    Pair,
    inner_products,
    on_grid,
    product,
    sliced,
    squares,
    two_product,
    two_sum,
)


def drawn(*shape, seed=0, spread=6):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) * 10.0 ** rng.integers(-spread, spread, size=shape)


def alone(A):
    return Pair(A, np.zeros_like(A))


def exactly(A, B):
    return [[sum(Fraction(a) * Fraction(b) for a, b in zip(row, column, strict=True)) for column in B.T] for row in A]


def test_sums_and_products_of_two_numbers_lose_nothing():
    a, b = drawn(200), drawn(200, seed=1)
    for high, low, operation in ((*two_sum(a, b), "__add__"), (*two_product(a, b), "__mul__")):
        for x, y, h, s in zip(a, b, high, low, strict=True):
            assert getattr(Fraction(x), operation)(Fraction(y)) == Fraction(h) + Fraction(s)


def test_a_product_of_matrices_has_a_hundred_bits_where_terms_cancel():
    A, B = drawn(20, 5), drawn(5, 3, seed=1)
    A = np.concatenate((A, A), axis=1)
    B = np.concatenate((B, on_grid(-B, 2) + drawn(5, 3, seed=2, spread=1) * 2.0**-40))
    found, expected = product(sliced(alone(A)), sliced(alone(B), by_column=True)), exactly(A, B)
    size = np.abs(A) @ np.abs(B)
    for i, row in enumerate(expected):
        for k, value in enumerate(row):
            error = abs(Fraction(found.high[i, k]) + Fraction(found.low[i, k]) - value)
            assert float(error) <= size.max() * 2.0**-95


def test_inner_products_over_rows_are_exact():
    A, e = np.round(drawn(300, 4, spread=2), 3), alone(drawn(300, 2, seed=3, spread=1))
    e = Pair(e.high, e.high * 2.0**-60)
    S, T = sliced(alone(A), 6), sliced(e, 6)
    whole = [sum(Fraction(a) * (Fraction(h) + Fraction(s)) for a, h, s in zip(column, high, low, strict=True))
             for column in A.T for high, low in zip(e.high.T, e.low.T, strict=True)]  # fmt: skip
    for found, expected in zip(inner_products(S, T), whole, strict=True):
        assert_close(float(Fraction(found, 1 << 1074)), float(expected), digits_lost(0))
    lengths = [sum((Fraction(h) + Fraction(s)) ** 2 for h, s in zip(high, low, strict=True))
               for high, low in zip(e.high.T, e.low.T, strict=True)]  # fmt: skip
    for found, expected in zip(squares(T, T), lengths, strict=True):
        assert_close(float(Fraction(found, 1 << 1074)), float(expected), digits_lost(0))


def test_numbers_on_the_grid_are_held_exactly_by_so_many_slices():
    a = on_grid(drawn(50), 2)
    parts = sliced(alone(a), 2)
    again = sum(np.ldexp(S, int(parts.unit) - 21 * k) for k, S in enumerate(parts.parts, start=1))
    np.testing.assert_array_equal(again, a)


def test_zeros_and_empty_matrices_are_zeros():
    zero = sliced(alone(np.zeros((3, 2))))
    assert not product(zero, sliced(alone(np.ones((2, 2))))).high.any()
    assert inner_products(zero, sliced(alone(np.ones((3, 1))))) == [0, 0]


def test_more_terms_than_float64_adds_up_exactly_are_refused():
    long = sliced(alone(np.ones((MOST_TERMS + 1, 1))))
    with pytest.raises(ShapeError):
        inner_products(long, long)
    with pytest.raises(ShapeError):
        product(sliced(alone(np.ones((2, 3)))), sliced(alone(np.ones((2, 3)))))
