"""Matrices that are made: the same entries whatever the panel, the law they claim, addresses that are understood."""

import numpy as np
import pytest
import scipy.fft
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.tolerances import ACCEPTED, assert_close, digits_lost, product

from fedsvd.data.hashed_normals import fields, normals, normals_on, quantiles, stream_key
from fedsvd.data.open import open_source
from fedsvd.data.sparse import SparsePanels
from fedsvd.errors import ConfigError, ShapeError, UnknownFormat

MASK = (1 << 64) - 1


def splitmix64(key: int, n: int) -> int:
    """The published generator, written with Python's own integers."""
    z = (key + 0x9E3779B97F4A7C15 * (n + 1)) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def test_words_are_those_of_splitmix64():
    key = stream_key(7, "entries")
    words = fields(key, (3, 5), (1, 4), 6).view(np.uint64)
    assert words.tolist() == [[splitmix64(key, 6 * t + g) for g in (1, 2, 3)] for t in (3, 4)]


def test_a_place_far_beyond_32_bits_is_as_good_as_any():
    key, far = stream_key(1, "entries"), 10**12
    word = fields(key, (far, far + 1), (0, 1), 250).view(np.uint64)
    assert int(word[0, 0]) == splitmix64(key, 250 * far)


def test_normals_have_the_normal_law():
    drawn = normals(stream_key(5, "entries"), (0, 500), (0, 200), 200).ravel()
    assert stats.kstest(drawn, "norm").pvalue > ACCEPTED
    assert (
        stats.kstest(
            drawn * np.roll(drawn, 1),
            stats.norm.rvs(size=10**5, random_state=0) * stats.norm.rvs(size=10**5, random_state=1),
        ).pvalue
        > ACCEPTED
    ), "neighbours are independent"
    values = quantiles()
    assert abs(values.mean()) < digits_lost(1)
    assert np.mean(values**2) == pytest.approx(1, abs=digits_lost(4))


def test_another_library_makes_the_same_numbers():
    xp = pytest.importorskip("array_api_strict")
    key = stream_key(7, "entries")
    made = normals_on(xp, None, key, (5, 9), 10)
    np.testing.assert_array_equal(np.asarray(made), normals(key, (5, 9), (0, 10), 10))


@pytest.mark.torch
def test_pytorch_makes_the_same_columns():
    pytest.importorskip("torch")
    import array_api_compat.torch as xp

    source = open_source("synthetic://40x300?alpha=0.5&seed=7")
    made = source.columns_on(xp, "cpu", 100, 150).numpy()
    np.testing.assert_allclose(made, source.columns(100, 150), rtol=0, atol=product(40) * 10)


@settings(deadline=None, max_examples=40)
@given(
    shape=st.sampled_from([(7, 50), (50, 7), (8, 64), (64, 8)]),
    alpha=st.sampled_from([0.0, 0.7]),
    run=st.tuples(st.integers(0, 63), st.integers(0, 63)),
    axis=st.integers(0, 1),
)
def test_every_panel_has_the_entries_of_the_whole(shape, alpha, run, axis):
    source = open_source(f"synthetic://{shape[0]}x{shape[1]}?alpha={alpha}&seed=3")
    whole = source.rows(0, shape[0])
    start, stop = sorted(place % (shape[axis] + 1) for place in run)
    panel = (source.rows, source.columns)[axis](start, stop)
    np.testing.assert_array_equal(panel, np.take(whole, range(start, stop), axis=axis))


def test_parties_hold_parts_of_one_matrix():
    whole = open_source("synthetic://6x40?alpha=0.3&seed=9")
    left, right = (open_source(f"synthetic://6x40?alpha=0.3&seed=9&columns={run}") for run in (":15", "15:"))
    assert (left.shape, right.shape) == ((6, 15), (6, 25))
    joint = np.hstack((left.columns(0, 15), right.columns(0, 25)))
    np.testing.assert_array_equal(joint, whole.columns(0, 40))
    some = open_source("synthetic://6x40?alpha=0.3&seed=9&rows=2:5&columns=10:20")
    np.testing.assert_array_equal(some.rows(0, 3), whole.rows(2, 5)[:, 10:20])


def test_a_power_law_is_u_times_decay_times_normals():
    m, n = 12, 4000
    X = open_source(f"synthetic://{m}x{n}?alpha=1&seed=2").columns(0, n)
    G = open_source(f"synthetic://{m}x{n}?seed=2").columns(0, n)
    unsigned = scipy.fft.dct(np.arange(1, m + 1)[:, None] ** -1.0 * G, axis=0, norm="ortho")
    assert_close(np.abs(X), np.abs(unsigned), digits_lost(3))
    sigma = np.linalg.svd(X, compute_uv=False) / np.sqrt(n)
    np.testing.assert_allclose(sigma * np.arange(1, m + 1), 1, rtol=0, atol=0.1)


def test_labels_are_fitted_by_the_weights_that_made_them():
    source = open_source("synthetic://20000x9?seed=4&label=y&noise=0.5")
    assert source.names is not None
    assert source.names[-1] == "y"
    D, y = source.without(["y"]).rows(0, 20000), source.column("y")
    w, *_ = np.linalg.lstsq(D, y, rcond=None)
    assert np.std(y - D @ w) == pytest.approx(0.5, rel=0.03)
    silent = open_source("synthetic://20000x9?seed=4&label=y&noise=0").column("y")
    np.testing.assert_allclose(np.linalg.lstsq(D, silent, rcond=None)[0], w, rtol=0, atol=0.02)
    holder = open_source("synthetic://20000x9?seed=4&label=y&noise=0.5&columns=5:")
    np.testing.assert_array_equal(holder.column("y"), y, err_msg="all columns count, also those of other parties")


def test_fifty_million_columns_take_no_time_to_open_inspect_and_fingerprint():
    source = open_source("synthetic://1000x50_000_000?alpha=0.01&seed=7")
    source.inspect()
    same = open_source("synthetic://1000x50000000?seed=7&alpha=0.010&columns=:")
    assert source.fingerprint() == same.fingerprint()
    assert source.fingerprint() != open_source("synthetic://1000x50000000?seed=8&alpha=0.01").fingerprint()
    assert source.columns(49_999_990, 50_000_000).shape == (1000, 10)
    assert source.made_up
    assert source.T.made_up
    assert source.reordered([1, 0]).made_up


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("synthetic://1000", ConfigError),
        ("synthetic://0x5", ConfigError),
        ("synthetic://5x5?sed=1", ConfigError),
        ("synthetic://5x5?seed=-1", ConfigError),
        ("synthetic://5x5?seed=1&seed=2", ConfigError),
        ("synthetic://5x5?alpha=nan", ConfigError),
        ("synthetic://5x5?columns=3:9", ConfigError),
        ("synthetic://5x5?columns=3:3", ConfigError),
        ("synthetic://5x9?label=y", ConfigError),
        ("synthetic-ratings://5x9?density=0.9", ConfigError),
        ("postgres://5x9", UnknownFormat),
    ],
)
def test_an_address_that_says_nothing_sensible_is_refused(address, error):
    with pytest.raises(error):
        open_source(address)


def test_names_and_delimiters_are_not_for_made_matrices():
    with pytest.raises(ConfigError):
        open_source("synthetic://5x2", names=["a", "b"])
    with pytest.raises(ConfigError):
        open_source("synthetic://5x2", delimiter=";")


def test_ratings_are_sparse_whole_stars_and_popular_items_are_few():
    source = open_source("synthetic-ratings://800x3000?density=0.02&seed=1")
    assert isinstance(source, SparsePanels)
    assert isinstance(source.T, SparsePanels)
    R = source.sparse_rows(0, 800)
    assert set(np.unique(R.data)) == {1.0, 2.0, 3.0, 4.0, 5.0}
    assert R.nnz / (800 * 3000) == pytest.approx(0.02, rel=0.1)
    by_item = np.sort(np.asarray((R > 0).sum(axis=0)).ravel())[::-1]
    assert by_item[:300].sum() > 0.4 * R.nnz, "a tenth of the items have far more than a tenth of the ratings"


def test_groups_give_ratings_as_many_directions_above_the_noise():
    R = open_source("synthetic-ratings://4000x200?density=0.1&seed=1&groups=6").sparse_rows(0, 4000)
    assert R.nnz / (4000 * 200) == pytest.approx(0.1, rel=0.2)
    X = R.toarray() - R.mean(axis=0)
    values = np.linalg.svd(X / X.std(axis=0), compute_uv=False)
    assert values[5] > 1.25 * values[6], "activity and five differences of six groups"
    assert values[6] < 1.1 * values[7]


def test_ratings_are_the_same_whichever_way_they_are_read():
    source = open_source("synthetic-ratings://60x90?density=0.1&seed=2&half=1")
    R = source.sparse_rows(0, 60).toarray()
    np.testing.assert_array_equal(source.rows(10, 20), R[10:20])
    np.testing.assert_array_equal(source.sparse_columns(5, 33).toarray(), R[:, 5:33])
    np.testing.assert_array_equal(source.T.sparse_rows(5, 33).toarray(), R[:, 5:33].T)
    np.testing.assert_array_equal(source.reordered([7, 3]).rows(0, 2), R[[7, 3]])
    part = open_source("synthetic-ratings://60x90?density=0.1&seed=2&half=1&rows=10:20&columns=5:33")
    np.testing.assert_array_equal(part.rows(0, 10), R[10:20, 5:33])
    assert set(np.unique(R * 2) % 1) == {0.0}
    assert 4.5 in R
    with pytest.raises(ShapeError):
        source.sparse_rows(0, 61)
