"""Words of Z_2^128 obey the laws of the ring and of rounding; Python's integers and fractions are the witness."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.errors import ConfigError, FixedPointOverflow, ShapeError
from fedsvd.secagg.words128 import (
    add_into,
    from_int64,
    from_integers,
    negate,
    subtract_into,
    to_integers,
    to_numbers,
    to_words,
)

EDGES = [0, 1, -1, 2**63, -(2**63), 2**64 - 1, 2**64, -(2**64), 2**127 - 1, -(2**127), 2**126, 2**53 + 1, 2**54 + 6]
EDGES += [(2**64 - 1) << 63, (2**54 + 2) << 70, (2**54 + 6) << 70, ((2**54 + 2) << 70) + 1, -((2**54 + 6) << 70) - 1]
words = st.integers(-(2**127), 2**127 - 1) | st.sampled_from(EDGES)
pairs = st.lists(st.tuples(words, words), min_size=1, max_size=30)


def signed(value, bits=128):
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


@settings(max_examples=200, deadline=None)
@given(pairs)
def test_words_add_subtract_and_negate_as_integers_modulo_2_to_the_128(values):
    a, b = (from_integers(column) for column in zip(*values, strict=True))
    assert to_integers(add_into(a.copy(), b)) == [signed(x + y) for x, y in values]
    assert to_integers(subtract_into(a.copy(), b)) == [signed(x - y) for x, y in values]
    assert to_integers(negate(a)) == [signed(-x) for x, _ in values]
    np.testing.assert_array_equal(subtract_into(add_into(a.copy(), b), b), a)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(*[st.integers(-(2**191), 2**191 - 1) | st.sampled_from(EDGES)] * 2), min_size=1, max_size=9))
def test_three_halves_add_up_modulo_2_to_the_192(values):
    a, b = (from_integers(column, 3) for column in zip(*values, strict=True))
    assert to_integers(add_into(a.copy(), b)) == [signed(x + y, 192) for x, y in values]
    assert to_integers(subtract_into(a.copy(), b)) == [signed(x - y, 192) for x, y in values]


def test_a_carry_runs_through_halves_of_ones_and_a_borrow_through_halves_of_zeros():
    ones, one = from_integers([-1], 3), from_integers([1], 3)
    assert to_integers(add_into(ones, one)) == [0]
    assert to_integers(subtract_into(from_integers([0], 3), one)) == [-1]
    assert to_integers(add_into(from_integers([2**128 - 1], 3), one)) == [2**128]


def test_more_words_than_a_chunk_add_up():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2**64, (2, 40_000, 2), np.uint64)
    expected = [signed(x + y) for x, y in zip(to_integers(a), to_integers(b), strict=True)]
    assert to_integers(add_into(a, b)) == expected


@given(st.lists(words, max_size=20))
def test_integers_survive_as_words(values):
    assert to_integers(from_integers(values)) == values
    assert from_integers(values).shape == (len(values), 2)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_a_64_bit_integer_keeps_its_sign(values):
    assert to_integers(from_int64(np.array(values, np.int64))) == values


@settings(max_examples=300, deadline=None)
@given(st.lists(words, min_size=1, max_size=20), st.sampled_from([70, 100, 126]))
def test_words_become_float64_with_one_rounding(values, step):
    assert to_numbers(from_integers(values), step).tolist() == [float(Fraction(value, 2**step)) for value in values]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.floats(-1, 1) | st.sampled_from([0.0, -0.0, 1.0, 5e-324, 2.0**-101, 3 * 2.0**-101]), max_size=20),
    st.sampled_from([70, 100]),
    st.integers(-40, 40),
    st.integers(-(2**50), 2**50),
)
def test_numbers_become_words_with_one_rounding_to_even_and_noise_is_added_as_an_integer(values, step, unit, noise):
    scaled = np.ldexp(np.array(values, float), unit)
    exact = [round(Fraction(value) * Fraction(2) ** (step - unit)) + noise for value in scaled.tolist()]
    found = to_words(scaled, step, unit=unit, noise=np.full(len(values), noise, np.int64), terms=50)
    assert to_integers(found) == exact


def test_a_matrix_is_its_entries_by_rows_and_nothing_is_no_word():
    A = np.arange(6.0).reshape(2, 3).T
    assert to_integers(to_words(A, 0)) == [0, 3, 1, 4, 2, 5]
    assert to_words(np.zeros(0), 100).shape == (0, 2)
    assert to_numbers(np.zeros((0, 2), np.uint64), 100).shape == (0,)


@pytest.mark.parametrize("terms", [1, 2, 500])
def test_a_share_is_held_to_its_part_of_the_range_so_that_no_sum_wraps(terms):
    most = 2.0**126 / terms
    noise = np.full(1, 2**63 - 1, np.int64)
    largest = to_integers(to_words(np.array([np.nextafter(most, 0)]), 0, noise=noise, terms=terms))[0]
    assert terms * largest < 2**127
    with pytest.raises(FixedPointOverflow, match="1 of 2"):
        to_words(np.array([1.0, -np.nextafter(most, np.inf)]), 0, terms=terms)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_what_does_not_fit_its_unit_is_refused_and_not_shown(value):
    with pytest.raises(FixedPointOverflow) as caught:
        to_words(np.array([0.5, value]), 100)
    assert "300" not in str(caught.value).replace("FSVD-301", "")


def test_arguments_that_do_not_fit_are_refused():
    two = np.zeros((2, 2), np.uint64)
    for total, term in ((two, two[:1]), (two[0], two[0]), (two, np.zeros((2, 3), np.uint64))):
        with pytest.raises(ShapeError):
            add_into(total, term)
    with pytest.raises(ShapeError):
        to_words(np.zeros(3), 100, noise=np.zeros(2, np.int64))
    with pytest.raises(ConfigError):
        to_words(np.zeros(3), 100, terms=0)
    for wrong in (np.zeros((2, 3), np.uint64), two.astype(np.int64), two[0]):
        with pytest.raises(ShapeError):
            to_numbers(wrong, 100)
    for wrong in (two.astype(float), two[0]):
        with pytest.raises(ShapeError):
            to_integers(wrong)
    with pytest.raises(FixedPointOverflow):
        to_numbers(from_integers([2**126]), -1000)
