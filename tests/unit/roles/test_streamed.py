"""A_i as it is read from the data: its panels, and its products with the data where it lies, against NumPy."""

import numpy as np
import pytest
from tests import explicit
from tests.tolerances import assert_close, product
from tests.unit.roles.test_panels_of_y import plan

from fedsvd.data.open import open_source
from fedsvd.linalg import few_columns
from fedsvd.roles.user.masking import Masks
from fedsvd.roles.user.statistics import own_mean
from fedsvd.roles.user.streamed import Streamed, long_panels, powers_of_two
from fedsvd.roles.user.work import Work

ROWS, COLUMNS = 700, 900
X = np.random.default_rng(0).normal(0.5, 1.0, size=(ROWS, COLUMNS))
TIGHT = 1 << 21  # bytes of memory, with which the data is read in several panels


def laid_out():
    """The same matrix as one array, as part of a larger one, and with its axes exchanged."""
    larger = np.zeros((ROWS, 2 * COLUMNS))
    larger[:, COLUMNS:] = X
    yield open_source(X)
    yield open_source(larger[:, COLUMNS:])
    yield open_source(np.ascontiguousarray(X.T)).T


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("memory", [TIGHT, 1 << 30])
@pytest.mark.parametrize("power", [0, -3, -1005])
def test_products_are_numpys_with_and_without_a_mean(centred, memory, power):
    rng = np.random.default_rng(1)
    mean = X.mean(axis=1) + 0.1 if centred else np.zeros(ROWS)
    A = np.ldexp(X - mean[:, None], power)
    U, W = rng.normal(size=(ROWS, 4)), rng.normal(size=(COLUMNS, 3))
    size, bar = np.linalg.norm(X), product(ROWS + COLUMNS, 8)
    for source in laid_out():
        about = {"mean": mean, "own_mean": X.mean(axis=1)} if centred else {}
        streamed = Streamed(source, power=power, **about)
        assert streamed.at_once
        found = streamed.transposed_times(U, memory), streamed.times(W, memory)
        for given, expected in zip(found, (A.T @ U, A @ W), strict=True):
            assert_close(np.ldexp(given, -power), np.ldexp(expected, -power), bar, size * np.linalg.norm(U))
        if power > -500:
            squared = np.linalg.norm(A) ** 2
            assert_close(streamed.squared_norm(memory), squared, bar, np.ldexp(size, power) ** 2)
        assert_close(np.ldexp(streamed.rows(3, 40), -power), np.ldexp(A[3:40], -power), bar, size)
        assert_close(np.ldexp(streamed.columns(3, 40), -power), np.ldexp(A[:, 3:40], -power), bar, size)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("memory", [TIGHT, 1 << 30])
@pytest.mark.parametrize("power", [0, -3])
def test_products_with_the_own_gram_matrix_are_numpys_and_the_same_by_any_number_of_threads(
    centred, memory, power, monkeypatch
):
    V = np.random.default_rng(2).normal(size=(ROWS, 2))
    mean = X.mean(axis=1) + 0.1 if centred else np.zeros(ROWS)
    A = np.ldexp(X - mean[:, None], power)
    size, bar = np.linalg.norm(A) ** 2 * np.linalg.norm(V), product(ROWS + COLUMNS, 16)
    for source in laid_out():
        about = {"mean": mean, "own_mean": X.mean(axis=1)} if centred else {}
        streamed = Streamed(source, power=power, **about)
        monkeypatch.setattr(few_columns, "threads_for", lambda *shape: 1)
        found = streamed.gram_times(V, memory)
        assert_close(found, A @ (A.T @ V), bar, size)
        monkeypatch.setattr(few_columns, "threads_for", lambda *shape: 3)
        np.testing.assert_array_equal(streamed.gram_times(V, memory), found)


def test_long_panels_cover_all_rows_in_order():
    places = list(long_panels(ROWS, COLUMNS, TIGHT))
    assert len(places) > 1
    assert [row for place in places for row in range(place.start, place.stop)] == list(range(ROWS))


@pytest.mark.parametrize("power", [0, 1, -7, 999, 1000, -1074, 2000, -2000])
def test_powers_of_two_are_held_by_float64_and_multiply_exactly(power):
    factors = powers_of_two(power)
    assert all(0.0 < factor < np.inf for factor in factors)
    assert sum(int(np.log2(factor)) for factor in factors) == power


@pytest.mark.parametrize("far", [0.0, 1e6])
def test_the_norm_about_another_mean_follows_from_ones_own(far):
    for source in laid_out():
        agreed, own = plan(ROWS), explicit.seed(2)
        known = own_mean(Work(agreed, 0, source, Masks(agreed, 0, own, own), own, own))
        assert_close(known.mean, X.mean(axis=1), product(COLUMNS, 4), np.abs(X).max())
        assert_close(known.deviation, X.std(axis=1), product(COLUMNS, 4), np.abs(X).max())
        joint = X.mean(axis=1) + far
        expected = np.linalg.norm(X - joint[:, None])
        assert_close(known.norm_about(joint, np.zeros(ROWS), COLUMNS), expected, product(COLUMNS, 8), expected)
