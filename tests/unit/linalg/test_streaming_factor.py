"""The running factor has the singular values of all that arrived, to 1e-14 of the largest, however it arrived."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import tolerances
from tests.unit.linalg.streaming_cases import CASES, CONDITIONS, conditioned

from fedsvd.errors import ConfigError, ShapeError, StorageError
from fedsvd.linalg import streaming_factor
from fedsvd.linalg.streaming_factor import Route, StreamingFactor

every_case = pytest.mark.parametrize("X", CASES.values(), ids=CASES.keys())


def absorb(X, width, library=None):
    factor = StreamingFactor(X.shape[0])
    for start in range(0, X.shape[1], width):
        panel = X[:, start : start + width]
        factor.update_columns(panel if library is None else library.array(panel))
    return factor


def error(R, X):
    """The largest error of a singular value, relative to the largest of them."""
    sigma, got = np.zeros(X.shape[0]), np.zeros(X.shape[0])
    sigma[: min(X.shape)] = np.linalg.svd(X, compute_uv=False)
    got[: min(R.shape)] = np.linalg.svd(R, compute_uv=False)
    return np.abs(got - sigma).max() / (sigma[0] or 1.0)


def expect_factor_of(R, X):
    """R is triangular, and the singular values, the Gram matrix and U that follow from it are those of X."""
    m, n = X.shape
    assert R.shape == (min(m, n), m)
    np.testing.assert_array_equal(R, np.triu(R))
    assert error(R, X) < tolerances.FACTOR_BAR
    unit = np.abs(X).max() or 1.0
    X, R = X / unit, R / unit
    largest = np.linalg.norm(X, 2) or 1.0
    assert np.abs(R.T @ R - X @ X.T).max() < tolerances.gram(n) * largest**2
    U, sigma, _ = np.linalg.svd(R.T, full_matrices=False)
    projected = U.T @ X
    assert np.abs(projected @ projected.T - np.diag(sigma**2)).max() < tolerances.projected_gram(m, n) * largest**2
    assert np.linalg.norm(X - U @ projected, 2) < tolerances.FACTOR_BAR * largest


# The bars.


@every_case
@pytest.mark.parametrize("width", [1, 7, 100, 600])
def test_the_factor_is_that_of_all_columns_whatever_they_are_and_however_wide_the_panels(X, width):
    expect_factor_of(absorb(X, width).factor(), X)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_digits_do_not_fade_over_a_thousand_panels(condition):
    m = 8
    U = np.linalg.qr(np.random.default_rng(4).normal(size=(m, m)))[0]
    X = U * np.geomspace(1.0, 1.0 / condition, m) @ np.random.default_rng(5).normal(size=(m, 20_000))
    factor = absorb(X, 2 * m)
    assert (factor.route.gram if condition == 1.0 else factor.route.cholesky) > 1000
    assert error(factor.factor(), np.linalg.qr(X.T)[1].T) < tolerances.FACTOR_BAR


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_bar_holds_at_a_few_hundred_features(condition):
    X = conditioned(condition, 250, 4000)
    factor = absorb(X, 700)
    assert factor.route.cholesky + factor.route.gram > 0
    expect_factor_of(factor.factor(), X)


def test_the_gram_matrix_would_miss_the_bar():
    """C7: so that the bar is one that a wrong route cannot pass."""
    X = conditioned(1e12)
    roots = np.sqrt(np.abs(np.linalg.eigvalsh(X @ X.T)))[::-1]
    assert np.abs(roots - np.linalg.svd(X, compute_uv=False)).max() > 1e5 * tolerances.FACTOR_BAR


def test_without_the_guard_on_the_diagonal_the_update_would_miss_the_bar(monkeypatch):
    X = CASES["another spectrum in the middle"]
    monkeypatch.setattr(streaming_factor, "LARGEST_DIAGONAL", np.inf)
    assert error(absorb(X, 100).factor(), X) > tolerances.FACTOR_BAR


# How it arrives.


@settings(max_examples=80)
@given(
    m=st.integers(1, 12),
    rank=st.integers(0, 12),
    cuts=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    decay=st.sampled_from([0.0, 8.0, 15.0]),
    parts=st.integers(1, 3),
    seed=st.integers(0, 2**16),
)
def test_any_shape_rank_and_cut_gives_the_same_singular_values(m, rank, cuts, decay, parts, seed):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** -np.linspace(0, decay, m)[:, None]
    X = np.linalg.qr(rng.normal(size=(m, m)))[0] @ (
        scale * rng.normal(size=(m, rank)) @ rng.normal(size=(rank, sum(cuts)))
    )
    panels = np.split(X, np.cumsum(cuts)[:-1], axis=1)
    factors = [StreamingFactor(m) for _ in range(parts)]
    for j, panel in enumerate(panels):
        factors[j % parts].update_columns(panel)
    for other in factors[1:]:
        factors[0].merge(other)
    assert factors[0].rows == X.shape[1]
    if X.shape[1]:
        expect_factor_of(factors[0].factor(), X)


def test_chunks_of_rows_are_transposed_panels_of_columns():
    X = CASES["gaussian"]
    by_rows = StreamingFactor(X.shape[0])
    for start in range(0, X.shape[1], 70):
        by_rows.update(X.T[start : start + 70])
    np.testing.assert_array_equal(by_rows.factor(), absorb(X, 70).factor())


def test_an_augmented_column_carries_the_mean():
    """The first row of the factor of [1, X^T] is sqrt(n) (1, mean), below it stands the centred factor."""
    X = CASES["features from 1e-8 to 1e8"] + np.geomspace(1e-8, 1e8, 24)[:, None]
    n = X.shape[1]
    R = absorb(np.concatenate((np.ones((1, n)), X)), 90).factor()
    tolerances.assert_close(R[0, 1:] / R[0, 0], X.mean(axis=1), tolerances.digits_lost(3))
    centred = X - X.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(abs(R[0, 0]), np.sqrt(n), rtol=tolerances.digits_lost(2))
    assert error(R[1:, 1:], centred) < tolerances.FACTOR_BAR


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("width", [5, 100])
def test_panels_are_read_only_and_their_memory_may_be_used_again(width, order):
    X = CASES["gaussian"]
    factor, buffer = StreamingFactor(X.shape[0]), np.empty((X.shape[0], width), order=order)
    for start in range(0, X.shape[1], width):
        buffer[...] = X[:, start : start + width]
        buffer.flags.writeable = False
        factor.update_columns(buffer)
        buffer.flags.writeable = True
        buffer[...] = np.nan
    expect_factor_of(factor.factor(), X)


def test_asking_for_the_factor_in_between_changes_nothing():
    X = CASES["gaussian"]
    factor = StreamingFactor(X.shape[0])
    for start in range(0, X.shape[1], 10):
        factor.update_columns(X[:, start : start + 10])
        assert factor.rows == start + 10
        assert error(factor.factor(), X[:, : start + 10]) < tolerances.FACTOR_BAR


@pytest.mark.parametrize("panel", [3, 400])
def test_memory_is_that_of_the_factor_and_a_panel(panel):
    m, rng = 80, np.random.default_rng(6)

    def peak(panels):
        factor = StreamingFactor(m)
        tracemalloc.start()
        for _ in range(panels):
            factor.update_columns(rng.normal(size=(m, panel)))
        factor.factor()
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    count = 12_000 // panel
    allowed = 8 * (12 * m * m + 4 * m * panel) + 100_000
    assert peak(count) < allowed
    assert peak(2 * count) < 1.1 * peak(count) < 8 * m * panel * count / 3


# Routes.


def test_well_conditioned_data_takes_the_gram_route():
    assert absorb(CASES["gaussian"], 60).route == Route(gram=11)  # the first panel is cut in two


def test_homogeneous_data_takes_the_cholesky_route():
    assert absorb(CASES["condition 1e+06"], 60).route == Route(cholesky=10, householder=1)


def test_features_of_any_lengths_take_the_gram_route_and_each_is_as_exact_as_if_it_had_the_others_length():
    rng = np.random.default_rng(7)
    even, lengths = rng.normal(size=(30, 600)), 10.0 ** rng.uniform(-40, 40, 30)
    X = even * lengths[:, None]
    factor = absorb(X, 60)
    assert factor.route.gram == sum((factor.route.gram, factor.route.cholesky, factor.route.householder))
    R = factor.factor() / lengths  # in the features' own units
    assert np.abs(R.T @ R - even @ even.T).max() < tolerances.gram(600) * np.linalg.norm(even, 2) ** 2
    # Lengths that hide a bad condition are not even, however they are scaled.
    bad = conditioned(1e5) * 10.0 ** rng.uniform(-5, 5, len(conditioned(1e5)))[:, None]
    assert absorb(bad, 60).route.gram == 0


def test_data_that_ceases_to_be_well_conditioned_gives_the_gram_matrix_up_and_loses_nothing():
    X = np.concatenate((CASES["gaussian"], 1e9 * CASES["rank 3"]), axis=1)
    factor = absorb(X, 60)
    assert factor.route.gram == 11
    assert factor.route.cholesky + factor.route.householder == 10
    expect_factor_of(factor.factor(), X)


def test_data_that_becomes_well_conditioned_takes_the_gram_route_from_then_on():
    X = np.concatenate((1e-9 * CASES["rank 3"], CASES["gaussian"]), axis=1)
    factor = absorb(X, 60)
    assert factor.route.gram >= 9
    expect_factor_of(factor.factor(), X)


@settings(max_examples=60)
@given(
    m=st.integers(2, 30),
    condition=st.floats(1.0, 12.0),
    shape=st.sampled_from(["one small", "one large", "geometric"]),
    seed=st.integers(0, 2**16),
)
def test_up_to_the_condition_where_it_is_given_up_the_gram_matrix_holds_the_bar(m, condition, shape, seed):
    sigma = np.ones(m)
    sigma[-1:] = 1 / condition
    sigma = {"one small": sigma, "one large": sigma[::-1] / condition, "geometric": condition ** -np.linspace(0, 1, m)}[
        shape
    ]
    rng = np.random.default_rng(seed)
    U, V = np.linalg.qr(rng.normal(size=(m, m)))[0], np.linalg.qr(rng.normal(size=(10 * m, m)))[0]
    X = U * sigma @ V.T
    expect_factor_of(absorb(X, 2 * m).factor(), X)


def test_without_the_proof_of_condition_the_gram_route_would_miss_the_bar(monkeypatch):
    X = conditioned(1e5)
    monkeypatch.setattr(streaming_factor, "is_even", lambda K: True)
    monkeypatch.setattr(StreamingFactor, "may_be_even", lambda self, X: True)
    assert error(absorb(X, 60).factor(), X) > tolerances.FACTOR_BAR


@pytest.mark.parametrize(
    "name", ["rank 3", "every feature twice", "features never seen", "large mean", "condition 1e+15"]
)
def test_so_does_homogeneous_data_that_is_singular(name):
    route = absorb(CASES[name], 60).route
    assert (route.cholesky, route.householder) == (10, 1)  # the first panel is cut in two


def test_growing_data_takes_the_householder_route():
    route = absorb(CASES["samples growing"], 100).route
    assert (route.cholesky, route.householder) == (0, 6 + 1)  # the first panel is cut in two


def test_a_feature_that_appears_late_costs_one_householder_update():
    route = absorb(CASES["features seen only late"], 60).route
    assert (route.cholesky, route.householder) == (9, 2)


# Merging.


@every_case
def test_factors_of_parts_combine_in_a_tree(X):
    cuts = np.array_split(np.arange(X.shape[1]), 5)
    factors = [absorb(X[:, cut], 17) for cut in cuts]
    while len(factors) > 1:
        factors[0].merge(factors.pop())
        factors = [*factors[1:], factors[0]]
    assert factors[0].rows == X.shape[1]
    expect_factor_of(factors[0].factor(), X)


def test_merging_leaves_the_other_factor_as_it_was():
    X = CASES["gaussian"]
    first, other = absorb(X[:, :300], 40), absorb(X[:, 300:], 40)
    before = other.factor().copy()
    first.merge(other)
    first.update_columns(np.full((24, 100), 1e3))
    np.testing.assert_array_equal(other.factor(), before)
    assert (first.rows, other.rows) == (700, 300)


def test_an_empty_factor_adds_nothing_on_either_side():
    X = CASES["gaussian"]
    for first, other in ((absorb(X, 50), StreamingFactor(24)), (StreamingFactor(24), absorb(X, 50))):
        first.merge(other)
        expect_factor_of(first.factor(), X)
    empty = StreamingFactor(24)
    empty.merge(StreamingFactor(24))
    assert empty.factor().shape == (0, 24)
    assert empty.rows == 0


def test_a_merged_factor_goes_on_absorbing():
    X = CASES["gaussian"]
    factor = absorb(X[:, :10], 3)
    factor.merge(absorb(X[:, 10:15], 5))
    for start in range(15, 600, 45):
        factor.update_columns(X[:, start : start + 45])
    expect_factor_of(factor.factor(), X)


# Checkpoints.


@every_case
def test_bytes_bring_back_the_same_factor(X):
    factor = absorb(X, 70)
    again = StreamingFactor.from_bytes(factor.to_bytes())
    assert (again.width, again.rows) == X.shape
    np.testing.assert_array_equal(again.factor(), factor.factor())
    assert again.to_bytes() == factor.to_bytes()


@pytest.mark.parametrize("cut", [0, 1, 10, 300, 599])
def test_a_pass_goes_on_from_its_bytes(cut):
    X = CASES["condition 1e+12"]
    factor = StreamingFactor.from_bytes(absorb(X[:, :cut], 50).to_bytes())
    factor.update_columns(X[:, cut:])
    expect_factor_of(factor.factor(), X)


def test_any_damage_to_the_bytes_is_noticed():
    blob = absorb(CASES["gaussian"][:3], 70).to_bytes()
    for position in range(len(blob)):
        damaged = bytearray(blob)
        damaged[position] ^= 0x10
        with pytest.raises(StorageError, match="damaged"):
            StreamingFactor.from_bytes(bytes(damaged))
    for length in range(len(blob)):
        with pytest.raises(StorageError, match="damaged"):
            StreamingFactor.from_bytes(blob[:length])
    with pytest.raises(StorageError, match="damaged"):
        StreamingFactor.from_bytes(blob + b"\0")


# Libraries.


@every_case
@pytest.mark.parametrize("width", [7, 100])
def test_every_library_gives_the_same_factor(X, width, foreign):
    expect_factor_of(foreign.numpy(absorb(X, width, foreign).factor()), X)


@pytest.mark.parametrize("name", ["gaussian", "samples growing", "features never seen", "features seen only late"])
def test_every_library_takes_the_same_routes(name, foreign):
    assert absorb(CASES[name], 60, foreign).route == absorb(CASES[name], 60).route


def test_merging_and_resuming_stay_in_the_library(foreign):
    X = CASES["features seen only late"]
    factor = absorb(X[:, :200], 50, foreign)
    factor = StreamingFactor.from_bytes(factor.to_bytes(), foreign.array([0.0]))
    factor.merge(absorb(X[:, 200:400], 50, foreign))
    factor.update_columns(foreign.array(X[:, 400:]))
    expect_factor_of(foreign.numpy(factor.factor()), X)


# What is checked on entry.


def test_a_factor_without_columns_and_panels_of_another_height_are_refused():
    with pytest.raises(ConfigError, match="width >= 1"):
        StreamingFactor(0)
    factor = StreamingFactor(3)
    for panel in (np.ones((4, 2)), np.ones(3), np.ones((3, 2, 2))):
        with pytest.raises(ShapeError, match="expected"):
            factor.update_columns(panel)
    with pytest.raises(ShapeError, match="do not combine"):
        factor.merge(StreamingFactor(4))
    assert factor.rows == 0


def test_an_empty_panel_is_no_panel():
    factor = StreamingFactor(3)
    factor.update_columns(np.ones((3, 0)))
    assert factor.rows == 0
    assert factor.factor().shape == (0, 3)


@pytest.mark.parametrize("power", [6, 12])
def test_a_wide_factor_of_dependent_columns_keeps_its_bar_on_every_library(foreign, power):
    """Wide enough for solves to be cut into triangles, whose inverses then stand for them."""
    width, rows = 300, 2400
    rng = np.random.default_rng(power)
    V, _ = np.linalg.qr(rng.normal(size=(width, width)))
    B = rng.normal(size=(rows, width)) * 10.0 ** -np.linspace(0, power, width) @ V
    factor = StreamingFactor(width)
    for start in range(0, rows, 800):
        factor.update(foreign.array(B[start : start + 800]))
    assert factor.route.cholesky, "the preconditioned update was taken"
    exact = np.linalg.svd(B, compute_uv=False)
    found = np.linalg.svd(foreign.numpy(factor.factor()), compute_uv=False)
    assert np.abs(found - exact).max() <= tolerances.FACTOR_BAR * exact[0]


def test_pieces_in_threads_make_the_factor_of_the_data():
    """A narrow factor is updated in pieces that are added in order: the same numbers however many threads there are."""
    rng = np.random.default_rng(5)
    X = np.geomspace(1.0, 1e-6, 40)[:, None] * (rng.standard_normal((40, 40)) @ rng.standard_normal((40, 60_000)))
    found = []
    with ThreadPoolExecutor(3) as pool:
        for each in (map, pool.map):
            factor = StreamingFactor(40, each)
            for start in range(0, X.shape[1], 20_000):
                factor.update_columns(X[:, start : start + 20_000])
            assert factor.route.cholesky > 0
            found.append(factor.factor())
    np.testing.assert_array_equal(*found)
    expected = np.linalg.svd(X, compute_uv=False)
    tolerances.assert_close(np.linalg.svd(found[0], compute_uv=False), expected, tolerances.FACTOR_BAR)


def test_features_of_which_some_are_not_even_are_not_multiplied_with_each_other(monkeypatch):
    """All columns are as long as each other, so that their lengths say nothing; the Gram matrix would be in vain."""
    rng, m, plain = np.random.default_rng(6), 512, []
    Q = np.linalg.qr(rng.standard_normal((m, m)))[0]
    X = Q @ (np.geomspace(1.0, 1e-8, m)[:, None] * rng.standard_normal((m, 1_300)))
    multiplied = streaming_factor.gram_of_columns

    def watched(X, **how):
        plain.append(how.get("R") is None)
        return multiplied(X, **how)

    monkeypatch.setattr(streaming_factor, "gram_of_columns", watched)
    factor = absorb(X, 1_300)
    assert error(factor.factor(), X) <= tolerances.FACTOR_BAR
    assert plain
    assert not any(plain)
