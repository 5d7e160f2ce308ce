"""A keystream is one stream however it is cut, and its numbers have the laws they claim.

Exact values are pinned in ``tests/vectors``; the statistics here run on fixed seeds, so they pass or fail
for good. Bounds are those of a one in a thousand event or rarer.
"""

import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tolerances import digits_lost

from fedsvd.randomness.keystream import Keystream, ThreadedNormals
from fedsvd.randomness.seed import Seed

SEED = Seed(bytes(range(32)))
ZERO = Seed(bytes(32))
CHUNK = 1 << 14  # words drawn at a time inside; cuts on, before and after it are tried on purpose


@settings(max_examples=60, deadline=None)
@given(cuts=st.lists(st.integers(0, 70), min_size=1, max_size=5))
def test_a_stream_read_in_pieces_is_the_stream_read_at_once(cuts):
    stream = Keystream(SEED)
    pieces = [stream.words(count) for count in cuts]
    np.testing.assert_array_equal(np.concatenate(pieces), Keystream(SEED).words(sum(cuts)))


@settings(max_examples=60, deadline=None)
@given(position=st.integers(0, 3 * CHUNK), count=st.integers(0, 50))
def test_a_stream_can_be_entered_anywhere(position, count):
    whole = Keystream(SEED).words(position + count)
    np.testing.assert_array_equal(Keystream(SEED, position).words(count), whole[position:])


@pytest.mark.parametrize("count", [CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 3])
def test_nothing_happens_at_the_border_of_a_chunk(count):
    whole = Keystream(SEED).words(count)
    np.testing.assert_array_equal(Keystream(SEED, count - 5).words(5), whole[-5:])
    uniforms = ((whole >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    np.testing.assert_allclose(Keystream(SEED).normal(count), scipy.stats.norm.ppf(uniforms), rtol=digits_lost(4))


def test_one_normal_takes_one_word_so_that_positions_can_be_skipped_to():
    whole = Keystream(SEED).normal((7, 11))
    np.testing.assert_array_equal(Keystream(SEED, 3 * 11).normal((4, 11)), whole[3:])
    stream = Keystream(SEED)
    stream.normal((7, 11))
    np.testing.assert_array_equal(stream.words(2), Keystream(SEED, 77).words(2))


@pytest.mark.parametrize("shape", [0, 5, (0, 3), (2, 3, 4), (1,)])
def test_normals_have_the_shape_asked_for(shape):
    got = Keystream(SEED).normal(shape)
    assert got.shape == ((shape,) if isinstance(shape, int) else shape)
    assert got.dtype == np.float64


def test_words_may_be_changed_without_changing_the_stream():
    stream = Keystream(SEED)
    stream.words(4)[:] = 0
    np.testing.assert_array_equal(stream.words(4), Keystream(SEED, 4).words(4))


def test_streams_of_two_seeds_share_no_word():
    a, b = Keystream(SEED.derive("a")).words(10_000), Keystream(SEED.derive("b")).words(10_000)
    assert np.intersect1d(a, b).size == 0


def test_a_keystream_shows_nothing_and_cannot_be_pickled():
    assert repr(Keystream(SEED)) == "Keystream(<redacted>)"
    assert SEED.reveal().hex() not in repr(vars(Keystream(SEED)))
    with pytest.raises(TypeError):
        pickle.dumps(Keystream(SEED))


@pytest.mark.parametrize("seed", [SEED, ZERO], ids=["a seed", "the zero seed"])
class TestLaws:
    def test_words_fill_their_range_evenly(self, seed):
        words = Keystream(seed).words(1 << 18)
        for shift in (0, 8, 32, 56):
            counts = np.bincount(((words >> np.uint64(shift)) & np.uint64(255)).astype(int), minlength=256)
            assert scipy.stats.chisquare(counts).pvalue > 1e-3

    def test_normals_are_normal(self, seed):
        normals = Keystream(seed).normal(200_000)
        assert scipy.stats.kstest(normals, "norm").pvalue > 1e-3
        assert abs(normals.mean()) < 3.3 / math.sqrt(normals.size)
        assert abs(normals.var() - 1.0) < 3.3 * math.sqrt(2 / normals.size)

    def test_normals_have_the_tails_of_a_normal(self, seed):
        normals = np.abs(Keystream(seed).normal(400_000))
        expected = normals.size * 2 * scipy.stats.norm.sf(4.0)  # about 25
        assert abs(np.count_nonzero(normals > 4.0) - expected) < 3.3 * math.sqrt(expected)

    def test_neighbouring_normals_are_independent(self, seed):
        normals = Keystream(seed).normal(200_000)
        for lag in (1, 2, 64):
            assert abs(np.mean(normals[lag:] * normals[:-lag])) < 3.3 / math.sqrt(normals.size)

    def test_signs_are_fair_and_independent(self, seed):
        signs = Keystream(seed).signs(1_000_000)
        assert set(np.unique(signs)) == {-1.0, 1.0}
        for products in (signs, signs[1:] * signs[:-1], signs[64:] * signs[:-64]):
            assert abs(products.sum()) < 3.3 * math.sqrt(products.size)

    def test_each_of_24_orders_is_as_frequent_as_the_others(self, seed):
        stream = Keystream(seed)
        weights = np.array([64, 16, 4, 1])
        codes = [int(stream.permutation(4) @ weights) for _ in range(12_000)]
        orders, counts = np.unique(codes, return_counts=True)
        assert orders.size == 24
        assert scipy.stats.chisquare(counts).pvalue > 1e-3

    def test_a_long_permutation_holds_each_index_once_and_fixes_about_one(self, seed):
        stream = Keystream(seed)
        fixed = 0
        for _ in range(100):
            order = stream.permutation(1000)
            np.testing.assert_array_equal(np.sort(order), np.arange(1000))
            fixed += np.count_nonzero(order == np.arange(1000))
        assert abs(fixed - 100) < 3.3 * math.sqrt(100)

    def test_uniforms_fill_the_interval_evenly(self, seed):
        stream = Keystream(seed)
        uniforms = [stream.uniform(1.0, 2.0) for _ in range(5000)]
        assert min(uniforms) >= 1.0
        assert max(uniforms) < 2.0
        assert scipy.stats.kstest(uniforms, scipy.stats.uniform(1.0, 1.0).cdf).pvalue > 1e-3


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200])
def test_signs_take_64_to_a_word(count):
    stream = Keystream(SEED)
    assert stream.signs(count).shape == (count,)
    np.testing.assert_array_equal(stream.words(1), Keystream(SEED, math.ceil(count / 64)).words(1))
    np.testing.assert_array_equal(Keystream(SEED).signs(count), Keystream(SEED).signs(256)[:count])


def test_the_smallest_and_largest_words_give_finite_opposite_normals(monkeypatch):
    ends = np.array([0, 2**64 - 1], np.uint64)
    monkeypatch.setattr(Keystream, "into", lambda self, out: np.copyto(out, ends))
    low, high = Keystream(SEED).normal(2)
    assert math.isfinite(low)
    assert low == pytest.approx(-high, rel=digits_lost(3))
    assert low == pytest.approx(scipy.stats.norm.ppf(2.0**-53), rel=digits_lost(3))


def test_normals_grow_with_their_words(monkeypatch):
    words = np.arange(999, dtype=np.uint64) * np.uint64(2**64 // 999)
    monkeypatch.setattr(Keystream, "into", lambda self, out: np.copyto(out, words))
    assert all(a < b for a, b in pairwise(Keystream(SEED).normal(999)))


def test_normals_made_in_threads_are_those_of_the_stream_call_after_call():
    with ThreadPoolExecutor(3) as pool:
        drawn = ThreadedNormals(SEED, pool.map).normal
        found = np.concatenate([drawn(7), drawn((3, 100_000)).ravel(), drawn(1)])
    np.testing.assert_array_equal(found, Keystream(SEED).normal(300_008))
