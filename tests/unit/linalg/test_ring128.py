"""Words of the ring Z_2^128 subtract and round as Python's integers do, in every library."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ring128 import add, from_ints, to_device, to_host, to_ints

from fedsvd.errors import FixedPointOverflow, ShapeError
from fedsvd.linalg import ring128

SIZE = 1 << 128
integers = st.one_of(
    st.integers(-(1 << 127), (1 << 127) - 1),
    st.integers(-(1 << 66), 1 << 66),
    st.sampled_from([0, 1, -1, 1 << 63, -(1 << 63), (1 << 64) - 1, 1 << 64, -(1 << 64), -(1 << 127), (1 << 127) - 1]),
)
lists = st.lists(integers, min_size=1, max_size=8)


def signed(value):
    value %= SIZE
    return value - SIZE if value >> 127 else value


def in_library(library, values):
    return to_device(from_ints(values), library.array(np.zeros(0)))


def integers_in(library, words):
    assert library.numpy(words).dtype == (np.uint64 if library.name == "numpy" else np.int64)
    return to_ints(to_host(words))


def near_ties():
    """Integers around those that lie half-way between two float64, and around powers of two."""
    rng = np.random.default_rng(0)
    found = [sign * ((1 << b) + d) for b in range(126) for d in (-2, -1, 0, 1, 2) for sign in (1, -1)]
    for _ in range(3000):
        bits = int(rng.integers(1, 73))
        top = (int(rng.integers(1 << 52, 1 << 53)) << 1 | 1) << bits  # an odd last bit: half-way
        below = int(rng.integers(0, 1 << min(bits, 62)))
        found += [sign * (top + d) for d in (-below, -1, 0, 1, below) for sign in (1, -1)]
    return [value for value in found if abs(value) <= 1 << 126]


def test_python_integers_become_words_and_return():
    values = [0, 1, -1, (1 << 127) - 1, -(1 << 127), 1 << 64, 12345678901234567890123]
    words = from_ints(values)
    assert words.shape == (7, 2)
    assert words.dtype == np.uint64
    assert [tuple(map(int, word)) for word in words[:3]] == [(0, 0), (1, 0), (2**64 - 1, 2**64 - 1)]
    assert to_ints(words) == values
    assert to_ints(add(words, words[::-1])) == [signed(a + b) for a, b in zip(values, values[::-1], strict=True)]


@settings(max_examples=60, deadline=None)
@given(a=lists, b=lists)
def test_differences_are_those_of_integers_modulo_the_ring(library, a, b):
    pairs = list(zip(a, b, strict=False))
    x, y = (in_library(library, [pair[side] for pair in pairs]) for side in (0, 1))
    assert integers_in(library, ring128.subtract(x, y)) == [signed(p - q) for p, q in pairs]


@settings(max_examples=60, deadline=None)
@given(a=lists, b=lists)
def test_sums_are_those_of_integers_modulo_the_ring(library, a, b):
    pairs = list(zip(a, b, strict=False))
    x, y = (in_library(library, [pair[side] for pair in pairs]) for side in (0, 1))
    assert integers_in(library, ring128.add(x, y)) == [signed(p + q) for p, q in pairs]


def test_words_round_to_the_nearest_float64_half_to_even(library):
    values = near_ties()
    rounded = library.numpy(ring128.to_float(in_library(library, values)))
    np.testing.assert_array_equal(rounded, np.array([float(value) for value in values]))


@pytest.mark.parametrize("value", [1 << 125, -(1 << 125), 0, -1])
def test_words_up_to_the_bound_are_let_through(library, value):
    ring128.expect_within(in_library(library, [value]))


@pytest.mark.parametrize("value", [(1 << 125) + 1, -(1 << 125) - 1, (1 << 127) - 1, -(1 << 127)])
def test_a_word_beyond_the_bound_is_an_overflow(library, value):
    with pytest.raises(FixedPointOverflow, match="beyond 2\\^125"):
        ring128.expect_within(in_library(library, [0, value, 3]))


def test_what_are_not_words_is_refused():
    with pytest.raises(ShapeError, match=r"\(\.\.\., 2\)"):
        ring128.to_float(np.zeros((4, 3), np.uint64))
    with pytest.raises(ShapeError, match="float64"):
        ring128.to_float(np.zeros((4, 2)))
