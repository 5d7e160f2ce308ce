"""Words of the ring against whole numbers of Python, with the compiled passes and with NumPy."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.kernels import library, words

MOST = float((1 << 62) + (1 << 32))


def numbers(shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) * np.exp2(rng.integers(-70, 2, shape).astype(float))


def bits(count, seed=1):
    return np.random.default_rng(seed).integers(-(1 << 15), 1 << 15, count).astype(np.int16)


def encoded(entry, f, least, sixteen):
    """One word by the law: round half to even, and a part of the unit in the last place, in whole numbers."""
    scaled = Fraction(float(entry)) * Fraction(2) ** f
    places = max(math.ulp(math.ldexp(float(entry), f)), 2.0**least)
    filled = 0 if places <= 1 else math.floor(Fraction(int(sixteen), 1 << 16) * Fraction(places))
    return (round(scaled) + filled) % (1 << 64)


@pytest.mark.parametrize("least", [0, 1, 5])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 600), (40, 1100)])
def test_a_word_is_its_entry_with_the_last_bits_filled(way, least, shape):
    Y, random = numbers(shape), bits(math.prod(shape))
    out = np.zeros(shape, np.uint64)
    assert words.encode_filled(Y, 2.0**58, MOST, least, random, out) == 0
    some = np.random.default_rng(2).integers(0, Y.size, 200)
    for place in some:
        assert int(out.flat[place]) == encoded(Y.flat[place], 58, least, random[place])


def test_columns_of_wider_arrays_and_the_words_own_place_are_written_too(way):
    Y, random = numbers((20, 9)), bits(20 * 4)
    wide, alone = np.zeros((20, 11), np.uint64), np.empty((20, 4), np.uint64)
    words.encode_filled(Y[:, 2:6], 2.0**50, MOST, 3, random, wide[:, 5:9])
    words.encode_filled(np.ascontiguousarray(Y[:, 2:6]), 2.0**50, MOST, 3, random, alone)
    np.testing.assert_array_equal(wide[:, 5:9], alone)
    assert not wide[:, :5].any()
    assert not wide[:, 9:].any()
    own = Y.copy()
    words.encode_filled(own, 2.0**50, MOST, 3, bits(180), own.view(np.uint64))
    apart = np.empty(Y.shape, np.uint64)
    words.encode_filled(Y, 2.0**50, MOST, 3, bits(180), apart)
    np.testing.assert_array_equal(own.view(np.uint64), apart)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 2.0**63, -(2.0**62 + 2.0**33)])
def test_entries_beyond_the_range_are_counted(way, wrong):
    Y = np.zeros((3, 700))
    Y[0, 0] = Y[1, 650] = Y[2, 699] = wrong
    Y[2, 0] = 2.0**62  # the bound itself is within
    assert words.encode_filled(Y, 1.0, MOST, 2, bits(2100), np.empty(Y.shape, np.uint64)) >= 3


def test_the_count_of_entries_beyond_is_exact_where_all_are_in_one_piece(way):
    Y = np.full((1, 40), 2.0**63)
    assert words.encode_filled(Y, 1.0, MOST, 2, bits(40), np.empty(Y.shape, np.uint64)) == 40


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=70), st.integers(0, 9), st.integers(0, 2**32))
def test_the_compiled_pass_makes_the_words_that_numpy_makes(entries, least, seed):
    if library.compiled() is None:
        pytest.skip("no C compiler was there at the installation")
    Y, random = np.array([entries]), bits(len(entries), seed)
    ours, theirs = np.empty(Y.shape, np.uint64), np.empty(Y.shape, np.uint64)
    words.encode_filled(Y, 2.0**60, MOST, least, random, ours)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "compiled", lambda: None)
        words.encode_filled(Y, 2.0**60, MOST, least, random, theirs)
    np.testing.assert_array_equal(ours, theirs)


def test_sums_wrap_around_and_differences_undo_them(way):
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 1 << 64, 5001, dtype=np.uint64) for _ in range(2))
    total = a.copy()
    words.add(total, b)
    assert [int(word) for word in total[:50]] == [
        (int(x) + int(y)) % (1 << 64) for x, y in zip(a[:50], b[:50], strict=True)
    ]
    words.subtract(total, b)
    np.testing.assert_array_equal(total, a)
    strided = np.zeros((50, 4), np.uint64)
    words.add(strided[:, 1], b[:50])
    np.testing.assert_array_equal(strided[:, 1], b[:50])


def test_decoding_reads_signed_words_and_counts_those_beyond(way):
    given_words = np.array([[1, (1 << 64) - 1, 1 << 62, (1 << 63) + 5, (1 << 53) + 1]], np.uint64)
    out = np.empty(given_words.shape)
    assert words.decode(given_words, 0.5, 1 << 62, out) == 1
    assert out[0, :3].tolist() == [0.5, -0.5, 2.0**61]
    assert out[0, 4] == float((1 << 53) + 1) / 2
    scalar = np.array(7, np.uint64)
    value = np.empty(())
    assert words.decode(scalar, 2.0, 1 << 62, value) == 0
    assert float(value) == 14.0


def test_uniforms_are_the_first_52_bits_and_a_half(way):
    given_words = np.array([0, (1 << 64) - 1, 1 << 63, (1 << 12) - 1, 1 << 12], np.uint64)
    found = words.uniforms(given_words.copy())
    expected = [math.ldexp((int(word) >> 12) + 0.5, -52) for word in given_words]
    assert found.tolist() == expected
    assert found.min() > 0.0
    assert found.max() < 1.0
