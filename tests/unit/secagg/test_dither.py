"""The last bits of a word are filled: uniform whatever was encoded, and too small a change to matter."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tolerances import ACCEPTED, REJECTED

from fedsvd.errors import FixedPointOverflow
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.secagg import fixed_point
from fedsvd.secagg.dither import encode_filled, encode_long, least_filled

SEED = Seed(bytes(range(32)))


def filled(Y, f, least=0, seed=SEED):
    return encode_filled(Y, f, least, Keystream(seed), np.empty(Y.shape, np.uint64))


def uniform(words, bits):
    counts = np.bincount((words & np.uint64(2**bits - 1)).astype(np.int64).ravel(), minlength=2**bits)
    return scipy.stats.chisquare(counts).pvalue


@pytest.mark.parametrize("size", [0.9, 2.0**-3, 2.0**-6])
def test_the_last_bits_of_large_numbers_are_uniform_and_were_not(size):
    """Entries of one magnitude in a word of 62 bits: as many bits are empty as they are above 2^53."""
    Y = size * np.random.default_rng(1).uniform(0.5, 1.0, (100, 300))
    empty = 9 + int(np.floor(np.log2(size / 2)))
    if empty > 0:
        assert uniform(fixed_point.encode(Y, 62), empty) < REJECTED
        assert uniform(filled(Y, 62), empty) > ACCEPTED
    assert uniform(filled(Y, 62, least=5), 5) > ACCEPTED


def test_numbers_with_few_digits_are_filled_up_to_the_least():
    Y = np.full((60, 100), 2.0**-20)  # one bit each
    assert uniform(fixed_point.encode(Y, 62), 6) < REJECTED
    assert uniform(filled(Y, 62, least=6), 6) > ACCEPTED


@settings(max_examples=60)
@given(st.floats(-1.0, 1.0), st.integers(0, 12))
def test_a_number_moves_by_at_most_half_of_what_is_filled(value, least):
    Y = np.full((3, 5), value)
    words, bare = filled(Y, 62, least), fixed_point.encode(Y, 62)
    moved = np.abs((words - bare).view(np.int64).astype(float))
    own = np.spacing(np.abs(bare.view(np.int64).astype(float))) if value else 0.0
    assert (moved <= np.maximum(own, 2.0**least) / 2).all()


def test_the_change_is_centred():
    Y = np.full((300, 300), 0.7)
    moved = (filled(Y, 62) - fixed_point.encode(Y, 62)).view(np.int64)
    assert abs(moved.mean() + 0.5) < 4 * moved.std() / 300
    assert moved.min() == -(2**8)
    assert moved.max() == 2**8 - 1


def test_it_is_the_same_for_the_same_stream_and_another_for_another():
    Y = np.random.default_rng(2).standard_normal((20, 33)) / 8
    assert np.array_equal(filled(Y, 62, 6), filled(Y, 62, 6))
    other = filled(Y, 62, 6, Seed(bytes(32)))
    assert not np.array_equal(filled(Y, 62, 6), other)


@pytest.mark.parametrize(
    "sides, certain, bits", [((1000, 2000), False, 4), ((64, 64), False, 4), ((4, 4), False, 8), ((1, 1), False, 9),
                             ((100, 200), True, 2), ((1000, 2000), True, 0)],
)  # fmt: skip
def test_how_many_bits_are_filled_follows_from_the_bound(sides, certain, bits):
    """2^62 holds 64 usual entries, or sqrt(w_m w_n) of them: two usual entries have their last place at 2^bits."""
    assert least_filled(*sides, certain) == bits


def test_any_layout_is_filled_alike():
    Y = np.random.default_rng(3).standard_normal((7, 11)) / 4
    payload = np.zeros((7, 20), np.uint64)
    encode_filled(Y, 60, 4, Keystream(SEED), payload[:, 5:16])
    assert np.array_equal(payload[:, 5:16], filled(Y, 60, 4))
    assert not payload[:, :5].any()


def test_numbers_are_written_over_by_their_own_words():
    Y = np.random.default_rng(4).standard_normal((90, 400)) / 8
    expected = filled(Y, 62, 4)
    assert np.array_equal(encode_filled(Y, 62, 4, Keystream(SEED), Y.view(np.uint64)), expected)


def test_where_nothing_is_to_be_filled_words_are_the_encoding():
    Y = np.random.default_rng(5).uniform(-1, 1, (40, 30))
    assert np.array_equal(filled(Y, 52), fixed_point.encode(Y, 52))


@pytest.mark.parametrize("entry", [2.0**13, -(2.0**13), np.inf, -np.inf, np.nan])
def test_an_entry_out_of_range_is_an_overflow(entry):
    Y = np.zeros((20, 20))
    Y[3, 4] = entry
    with pytest.raises(FixedPointOverflow, match="1 of 400 entries of a share"):
        filled(Y, 50)


def test_an_entry_at_the_bound_itself_is_within_range():
    Y = np.array([[1.0, -1.0, 1.0 + 2.0**-31, -1.0 - 2.0**-31]])
    moved = (filled(Y, 62) - fixed_point.encode(Y, 62)).view(np.int64)
    assert np.abs(moved).max() <= 2**9


@pytest.mark.parametrize("count", [1, 65_536, 200_003])
def test_threads_fill_a_long_share_as_one_does(count):
    Y = np.random.default_rng(count).uniform(-1.0, 1.0, count)
    with ThreadPoolExecutor(3) as pool:
        for each in (None, pool.map):
            np.testing.assert_array_equal(encode_long(Y, 61, 5, SEED, each)[:, 0], filled(Y[None], 61, 5)[0])
        Y[-1] = 4.0
        with pytest.raises(FixedPointOverflow):
            encode_long(Y, 61, 5, SEED, pool.map)
