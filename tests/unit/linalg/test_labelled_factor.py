"""Labels that follow from even features keep the Gram route, and every digit; a first chunk is long if it is even."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.unit.linalg.test_streaming_factor import absorb, expect_factor_of

from fedsvd.linalg import streaming_factor
from fedsvd.linalg.backend import EPS
from fedsvd.linalg.streaming_factor import Route, StreamingFactor

FEATURES, ROWS = 40, 2000


def labelled(noise, seed=1, labels=2):
    """Features and labels, (FEATURES + labels, ROWS), and the labels' own part."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(FEATURES, ROWS))
    own = noise * rng.normal(size=(labels, ROWS))
    return np.concatenate((X, rng.normal(size=(labels, FEATURES)) @ X + own))


def factor_of(B, panel, shift=None, labels=2, each=None):
    factor = StreamingFactor(len(B) + (shift is not None), each, shift=shift, labels=labels)
    for start in range(0, B.shape[1], panel):
        factor.update_columns(B[:, start : start + panel])
    return factor


def lengths_left(R):
    """What is left of each label: the length of its column below the features."""
    return np.linalg.norm(R[-2:, -2:], axis=0)


def expect_lengths_left(R, B):
    """To rounding of the label itself, which is what a QR factorisation keeps."""
    reference = lengths_left(np.linalg.qr(B.T, mode="r"))
    size = np.linalg.norm(B[-2:], axis=1)
    assert (np.abs(lengths_left(R) - reference) <= 64 * EPS * size).all()


@pytest.mark.parametrize("panel", [60, 333, ROWS])
@pytest.mark.parametrize("noise", [1.0, 1e-4, 1e-9, 1e-15])
def test_labels_that_follow_from_even_features_stay_on_the_gram_route_and_keep_their_digits(noise, panel):
    B = labelled(noise)
    factor = factor_of(B, panel)
    if noise > 100 * EPS:  # below, what is left of a label is rounding, and may go either way
        assert (factor.route.cholesky, factor.route.householder) == (0, 0)
    R = factor.factor()
    expect_factor_of(R, B)
    expect_lengths_left(R, B)
    np.testing.assert_array_equal(R, factor.factor())


def test_the_same_with_a_mean_and_in_threads():
    B = labelled(1e-6) + np.linspace(-3, 3, FEATURES + 2)[:, None]
    shift = B[:, :100].mean(axis=1, keepdims=True)
    with ThreadPoolExecutor(3) as pool:
        R = factor_of(B, 500, shift, each=pool.map).factor()
    whole = np.concatenate((np.ones((1, ROWS)), B - shift))
    expect_factor_of(R, whole)
    expect_lengths_left(R, whole)


def test_without_the_regression_the_gram_matrix_would_lose_what_is_left_of_a_label(monkeypatch):
    B = labelled(1e-4)
    monkeypatch.setattr(streaming_factor, "less_regression", lambda K, X, shift, f: (K, None))
    monkeypatch.setattr(streaming_factor, "is_even", lambda K: True)
    with pytest.raises(AssertionError):
        expect_lengths_left(factor_of(B, ROWS).factor(), B)


def test_features_that_cease_to_be_even_give_the_regression_up_and_lose_nothing():
    late = labelled(1e-4, seed=2)
    late[:FEATURES] *= np.geomspace(1.0, 1e7, FEATURES)[:, None]
    B = np.concatenate((labelled(1e-4), late), axis=1)
    factor = factor_of(B, 500)
    assert factor.route.gram > 0
    assert factor.route.cholesky + factor.route.householder > 0
    expect_factor_of(factor.factor(), B)


def test_labels_that_are_zero_or_of_dependent_features_are_factored_all_the_same():
    B = labelled(1.0)
    B[-1] = 0.0
    expect_factor_of(factor_of(B, 500).factor(), B)
    twice = labelled(1.0)
    twice[1] = twice[0]
    expect_factor_of(factor_of(twice, 500).factor(), twice)


WIDE = 520


def test_a_long_first_chunk_of_even_columns_is_proved_once():
    X = np.random.default_rng(4).normal(size=(WIDE, 5 * WIDE))
    factor = absorb(X, 5 * WIDE)
    assert factor.route == Route(gram=1)
    R = factor.factor()
    assert np.linalg.norm(R.T @ R - X @ X.T) <= 64 * EPS * np.linalg.norm(X @ X.T)


@pytest.mark.parametrize("late", [False, True])
def test_what_is_not_even_is_factored_in_chunks_whether_its_first_columns_show_it_or_not(late):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(WIDE, 5 * WIDE))
    strong = rng.normal(size=(WIDE, 1)) @ rng.normal(size=(1, 5 * WIDE))
    X[:, 4 * WIDE if late else 0 :] += 100.0 * strong[:, 4 * WIDE if late else 0 :]
    factor = absorb(X, 5 * WIDE)
    assert factor.route.cholesky + factor.route.householder > 0
    R = factor.factor()
    assert np.linalg.norm(R.T @ R - X @ X.T) <= 64 * EPS * np.linalg.norm(X @ X.T)
