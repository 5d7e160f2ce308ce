"""Wide numbers: any float64 survives the ring, and sums are exact, rounded once; Python's fractions are the witness."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.errors import FixedPointOverflow, ShapeError
from fedsvd.secagg import wide
from fedsvd.secagg.wide import WORDS, decode, decode_integers, encode, encode_integers, integers, rounded

SMALLEST = 5e-324
LARGEST = float(np.finfo(float).max)
EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    SMALLEST,
    -SMALLEST,
    3 * SMALLEST,
    float(np.finfo(float).tiny),
    float(np.nextafter(np.finfo(float).tiny, 0)),  # the largest subnormal
    LARGEST,
    -LARGEST,
    1e308,
    2.0**-1022,
    2.0**1023,
    2.0**53 - 1,
    2.0**53,
    math.pi,
    0.1,
    *(2.0**power for power in range(-1074, 1024, 31)),
    *(float(np.nextafter(2.0**power, 0)) for power in range(-1000, 1024, 61)),
]
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(EDGES)


def exact_sum(values) -> float:
    """The sum in fractions, rounded once."""
    total = sum(map(Fraction, values), Fraction(0))
    return float(total)


def summed(values) -> float:
    """The same through the ring: one share from each value."""
    total = np.zeros((1, WORDS), np.uint64)
    for value in values:
        total += encode(np.array([value]))
    return float(decode(total)[0])


@pytest.mark.parametrize("value", EDGES)
def test_every_edge_of_float64_survives(value):
    assert decode(encode(np.array([value]))).tolist() == [value]


@settings(max_examples=300)
@given(st.lists(numbers, max_size=8))
def test_whatever_is_encoded_is_decoded(values):
    assert decode(encode(np.array(values, dtype=float))).tolist() == values


@settings(max_examples=300)
@given(st.lists(numbers, min_size=1, max_size=12))
def test_a_sum_is_exact_and_rounded_once(values):
    try:
        expected = exact_sum(values)
    except OverflowError:
        with pytest.raises(FixedPointOverflow, match="range of float64"):
            summed(values)
        return
    assert summed(values) == expected


@pytest.mark.parametrize(
    "values",
    [
        [1e308, 1.0, -1e308],
        [1e16, 1.0, -1e16, SMALLEST],
        [1.0, 2.0**-53, 2.0**-106],  # a tie that the third term breaks
        [1.0, 2.0**-53],  # a tie that goes to even
        [2.0**53, 1.0, SMALLEST],
        [SMALLEST] * 7,
        [1e308, -1e308, 1e-308, -1e-308],
    ],
)
def test_cancellation_and_ties_lose_nothing(values):
    assert summed(values) == exact_sum(values) == math.fsum(values)


def test_a_sum_that_leaves_float64_on_the_way_and_returns_is_right():
    """math.fsum itself gives up here; the digits go on above the largest float64."""
    assert summed([LARGEST, LARGEST, LARGEST, -LARGEST, -LARGEST]) == LARGEST


def test_a_sum_beyond_float64_is_an_overflow_and_not_infinity():
    with pytest.raises(FixedPointOverflow) as caught:
        summed([LARGEST, LARGEST])
    assert "e+308" not in str(caught.value)


def test_a_thousand_terms_of_all_magnitudes_add_up_exactly_in_any_order():
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000) * 10.0 ** rng.integers(-300, 300, 1000)
    shares = encode(values)
    expected = exact_sum(values)
    for order in (np.arange(1000), rng.permutation(1000), np.arange(1000)[::-1]):
        total = np.zeros((1, WORDS), np.uint64)
        for place in order:
            total += shares[place]
        assert decode(total)[0] == expected


@pytest.mark.parametrize("value", [LARGEST / 2**31, -math.pi, 2.0**53 - 1, 7 * SMALLEST, 2.0**40 - 2.0**-13])
def test_as_many_shares_as_there_may_ever_be_do_not_run_into_each_other(value):
    """2^30 equal shares, added all at once."""
    total = encode(np.array([value])) * np.uint64(2**30)
    assert decode(total)[0] == float(Fraction(value) * 2**30)


def test_pads_that_cancel_leave_the_sum():
    """The words are used modulo 2^64, whatever a pad adds in between."""
    rng = np.random.default_rng(1)
    pad = rng.integers(0, 2**64, (3, WORDS), np.uint64)
    a, b = np.array([1e300, -0.1, SMALLEST]), np.array([-1e284, 0.2, 1.0])
    total = (encode(a) + pad) + (encode(b) - pad)
    assert decode(total).tolist() == [exact_sum(pair) for pair in zip(a, b, strict=True)]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(value):
    with pytest.raises(FixedPointOverflow, match="not finite"):
        encode(np.array([1.0, value]))


@pytest.mark.parametrize("shape", [(WORDS,), (2, WORDS - 1), (2, WORDS + 1), (1, 2, WORDS)])
def test_words_of_another_shape_are_refused(shape):
    with pytest.raises(ShapeError, match=f"{WORDS} words"):
        decode(np.zeros(shape, np.uint64))


def test_nothing_is_no_number_and_a_matrix_is_its_entries():
    assert encode(np.zeros(0)).shape == (0, WORDS)
    assert decode(encode(np.zeros(0))).shape == (0,)
    A = np.arange(6.0).reshape(2, 3)
    assert decode(encode(A)).tolist() == A.ravel().tolist()


def test_an_encoding_shows_its_place_in_one_number_at_most_in_three_words():
    """What a share costs: 67 words, of which three carry digits; the pads make them all alike."""
    for value in EDGES:
        assert np.count_nonzero(encode(np.array([value]))) <= 3
    assert WORDS == 67
    assert wide.encode(np.ones(4)).nbytes == 4 * 67 * 8


@settings(max_examples=200)
@given(st.lists(st.integers(-(2**2144) + 1, 2**2144 - 1) | st.sampled_from([0, -1, 2**2144 - 1]), max_size=5))
def test_integers_of_any_size_survive_exactly(values):
    digits = encode_integers(values)
    assert digits.shape == (len(values), WORDS)
    assert decode_integers(digits) == values


@settings(max_examples=200)
@given(st.lists(numbers, max_size=5))
def test_a_float64_is_the_same_digits_by_either_way(values):
    floats = np.array(values, dtype=float)
    assert integers(floats) == [Fraction(value) * 2**1074 for value in values]
    np.testing.assert_array_equal(encode_integers(integers(floats)), encode(floats))


@settings(max_examples=100)
@given(st.lists(st.integers(-(2**2130), 2**2130), min_size=1, max_size=6), st.integers(1, 10**9))
def test_the_total_of_integers_is_exact_and_rounded_once(values, n):
    total = np.zeros((1, WORDS), np.uint64)
    for value in values:
        total += encode_integers([value])
    assert decode_integers(total) == [sum(values)]
    try:
        mean = float(Fraction(sum(values), n << 1074))
    except OverflowError:
        with pytest.raises(FixedPointOverflow, match="range of float64"):
            rounded(decode_integers(total), n)
        return
    assert rounded(decode_integers(total), n).tolist() == [mean]


@pytest.mark.parametrize("value", [2**2144, -(2**2144), 2**5000])
def test_an_integer_with_too_many_bits_is_refused_and_not_shown(value):
    with pytest.raises(FixedPointOverflow, match="more than 2144 bits"):
        encode_integers([1, value])


def test_a_float64_that_is_not_finite_is_no_integer():
    with pytest.raises(FixedPointOverflow, match="not finite"):
        integers(np.array([1.0, np.inf]))


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=WORDS, max_size=WORDS), min_size=1, max_size=3))
def test_digits_of_any_size_are_read_with_all_their_carries(rows):
    """Also those at the end of their range, which a carry would push beyond it."""
    rows = [*rows, [2**63 - 1] * WORDS, [-(2**63)] * WORDS, [-1] * WORDS, [0] * (WORDS - 1) + [-1]]
    expected = [sum(digit << (32 * place) for place, digit in enumerate(row)) for row in rows]
    assert decode_integers(np.array(rows, np.int64).view(np.uint64)) == expected
