"""One pass over the columns gives a small factor with the same Gram matrix."""

import re
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import tolerances
from tests.unit.compress.sources import WatchedSource

from fedsvd.compress.reduce import Reduced, compress, panel_width
from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, ShapeError
from fedsvd.linalg.device import Device


def normal(m, n, seed=1):
    return np.random.default_rng(seed).normal(size=(m, n))


def expect_same_gram(L, X):
    bound = tolerances.gram(X.shape[1]) * np.linalg.norm(X, 2) ** 2
    np.testing.assert_allclose(L @ L.T, X @ X.T, rtol=0, atol=bound)
    sigma = np.linalg.svd(X, compute_uv=False)
    np.testing.assert_allclose(
        np.linalg.svd(L, compute_uv=False)[: sigma.size],
        sigma[: min(L.shape)],
        rtol=0,
        atol=tolerances.FACTOR_BAR * sigma[0],
    )


@settings(max_examples=50)
@given(m=st.integers(1, 15), n_i=st.integers(1, 80), panel=st.integers(1, 100))
def test_the_factor_has_the_gram_matrix_of_the_data_and_at_most_m_columns(m, n_i, panel):
    X = normal(m, n_i)
    reduced = compress(open_source(X), panel=panel)
    assert reduced.L_i.shape == (m, min(m, n_i))
    assert reduced.count == n_i
    assert reduced.mean_i is None
    expect_same_gram(reduced.L_i, X)


@settings(max_examples=50)
@given(m=st.integers(1, 12), n_i=st.integers(1, 60), panel=st.integers(1, 70))
def test_with_a_shift_the_factor_is_that_of_the_data_less_its_own_mean(m, n_i, panel):
    X = normal(m, n_i) + 5.0
    shift = X[:, : min(3, n_i)].mean(axis=1)
    reduced = compress(open_source(X), shift=shift, panel=panel)
    assert reduced.L_i.shape == (m, min(m + 1, n_i) - 1)
    tolerances.assert_close(reduced.mean_i, X.mean(axis=1), tolerances.digits_lost(3))
    tolerances.assert_close(
        reduced.offset_i, (X - shift[:, None]).mean(axis=1), tolerances.digits_lost(3), np.abs(X).max()
    )
    centred = X - X.mean(axis=1, keepdims=True)
    scale = np.linalg.norm(X - shift[:, None], 2) ** 2
    np.testing.assert_allclose(
        reduced.L_i @ reduced.L_i.T, centred @ centred.T, rtol=0, atol=tolerances.gram(n_i) * scale
    )


@pytest.mark.parametrize(
    "data",
    [
        np.arange(60).reshape(4, 15),
        normal(4, 15).astype(np.float32),
        np.asfortranarray(normal(4, 15)),
        normal(15, 4).T,
        normal(8, 30)[::2, ::-2],
        sp.random_array((4, 15), density=0.3, rng=2),
    ],
    ids=["whole numbers", "float32", "Fortran order", "transposed", "strided backwards", "sparse"],
)
def test_it_reads_what_any_source_holds(data, library):
    X = data.toarray() if sp.issparse(data) else np.asarray(data, dtype=np.float64)
    before = X.copy()
    expect_same_gram(
        library.numpy(compress(open_source(data), panel=9, device=Device("test", library.array([0.0]))).L_i), X
    )
    np.testing.assert_array_equal(data.toarray() if sp.issparse(data) else data, before)


@pytest.mark.parametrize("shifted", [False, True])
def test_the_answer_is_the_same_in_every_library(shifted, foreign):
    X = normal(6, 100)
    shift = X.mean(axis=1) if shifted else None
    ours = compress(open_source(X), shift=shift, panel=30)
    theirs = compress(open_source(X), shift=shift, panel=30, device=Device("test", foreign.array([0.0])))
    expect_same_gram(foreign.numpy(theirs.L_i), ours.L_i)
    if shifted:
        tolerances.assert_close(theirs.mean_i, ours.mean_i, tolerances.digits_lost(1))


def test_every_column_is_read_exactly_once():
    source = WatchedSource(normal(3, 100))
    compress(source, panel=30)
    assert source.reads == [(0, 30), (30, 60), (60, 90), (90, 100)]


@pytest.mark.parametrize("n_i, panel", [(1, 5), (100, 30), (100, 100), (100, 1)])
def test_progress_only_grows_and_ends_at_the_end(n_i, panel):
    told = []
    compress(open_source(normal(3, n_i)), panel=panel, progress=lambda done, total: told.append((done, total)))
    done = [entry[0] for entry in told]
    assert done == sorted(set(done))
    assert len(done) == -(-n_i // panel)
    assert done[-1] == n_i
    assert {total for _, total in told} == {n_i}


def test_memory_does_not_grow_with_the_number_of_columns():
    m, panel = 30, 500

    def peak(n_i):
        X = np.broadcast_to(np.linspace(1.0, 2.0, m)[:, None], (m, n_i))
        source = open_source(X)
        tracemalloc.start()
        compress(source, shift=np.ones(m), panel=panel)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    assert peak(5_000) < 8 * (12 * m * m + 6 * m * panel) + 100_000
    assert peak(50_000) < 1.1 * peak(5_000)


# Panels and budgets.


def test_panels_are_eight_times_as_wide_as_high_but_never_narrow():
    assert panel_width(1) == 4096
    assert panel_width(512) == 4096
    assert panel_width(1000) == 8000


@given(m=st.integers(1, 5000), budget=st.integers(1, 10**9))
def test_six_panels_fit_the_budget_or_it_is_refused_with_the_smallest_that_would_do(m, budget):
    try:
        width = panel_width(m, budget)
    except ConfigError as error:
        smallest = int(re.search(r"at least \d+ MiB \((\d+) bytes\)", error.fix)[1])
        assert budget < smallest == 48 * m
        assert panel_width(m, smallest) == 1
        return
    assert 1 <= width <= panel_width(m)
    assert 6 * 8 * m * width <= budget
    assert width == panel_width(m) or 6 * 8 * m * (width + 1) > budget


# What is checked on entry.


def test_a_shift_of_another_length_is_refused():
    with pytest.raises(ShapeError, match="shift"):
        compress(open_source(normal(3, 10)), shift=np.zeros(4))


def test_a_reduced_matrix_cannot_be_changed_and_shows_no_number():
    reduced = compress(open_source(normal(3, 10)), shift=np.full(3, 0.125))
    assert repr(reduced) == "Reduced(shape=(3, 3), count=10, centred=True)"
    assert repr(Reduced(np.eye(2), 2)) == "Reduced(shape=(2, 2), count=2, centred=False)"
    with pytest.raises(AttributeError):
        reduced.count = 3
