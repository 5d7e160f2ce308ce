"""Answers from a Gram matrix in float64 are LAPACK's of the data behind it, or none is given."""

import numpy as np
import pytest
from tests.tolerances import EPS, assert_close, digits_lost

from fedsvd.errors import VerificationFailed
from fedsvd.linalg import rounded_gram
from fedsvd.linalg.rounded_gram import solution_of_rounded, top_of_rounded

ROWS, FEATURES, R = 600, 80, 6
TOLERANCE = digits_lost(4)


def data(sigma, seed=0):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.normal(size=(side, FEATURES)))[0] for side in (ROWS, FEATURES))
    return (U * sigma) @ V.T


def leading(last):
    """R singular values down to ``last``, and many below them."""
    return np.concatenate((np.geomspace(1.0, last, R), np.geomspace(last / 2, 1e-9, FEATURES - R)))


@pytest.mark.parametrize("last", [1.0, 0.5, 0.126])
def test_the_top_within_a_factor_of_eight_is_that_of_lapack(last):
    A = data(leading(last))
    found = top_of_rounded(A.T @ A, R, TOLERANCE)
    assert found is not None
    U, sigma, quality = found
    _, s, Vt = np.linalg.svd(A)
    assert_close(sigma, s[:R], digits_lost(2))
    assert_close(U @ U.T, Vt[:R].T @ Vt[:R], digits_lost(3))
    assert quality.residual <= TOLERANCE


@pytest.mark.parametrize("last", [0.12, 1e-3, 1e-8])
def test_beyond_a_factor_of_eight_nothing_is_said(last):
    A = data(leading(last))
    assert top_of_rounded(A.T @ A, R, TOLERANCE) is None


@pytest.mark.parametrize("fault", [lambda s, U: (s * (1 + 1e-9), U), lambda s, U: (s, U + 1e-9)])
def test_eigenvectors_that_are_not_those_of_the_matrix_are_refused(fault, monkeypatch):
    H, found = data(leading(0.5)), rounded_gram.top_of_gram
    H = H.T @ H
    monkeypatch.setattr(rounded_gram, "top_of_gram", lambda K, r: fault(*found(K, r)))
    monkeypatch.setattr(rounded_gram, "leads", lambda *given: True)
    with pytest.raises(VerificationFailed):
        top_of_rounded(H, R, TOLERANCE)


def test_vectors_that_do_not_lead_are_not_taken(monkeypatch):
    H = data(leading(0.5))
    H = H.T @ H
    squares, V = np.linalg.eigh(H)
    later = slice(-R - 1, -1)  # all but the first
    monkeypatch.setattr(rounded_gram, "top_of_gram", lambda K, r: (np.sqrt(squares[later])[::-1], V[:, later][:, ::-1]))
    assert top_of_rounded(H, R, TOLERANCE) is None


def test_of_few_features_zeros_and_what_is_not_finite_nothing_is_said():
    A = data(leading(0.5))
    assert top_of_rounded(A.T @ A, FEATURES // 8 + 1, TOLERANCE) is None
    assert top_of_rounded(np.zeros((FEATURES, FEATURES)), R, TOLERANCE) is None
    assert top_of_rounded(np.full((FEATURES, FEATURES), np.nan), R, TOLERANCE) is None


@pytest.mark.parametrize("noise", [1.0, 1e-6, 0.0])
@pytest.mark.parametrize("targets", [1, 3])
def test_the_solution_of_even_features_is_that_of_lapack(noise, targets):
    A = data(np.geomspace(1.0, 0.3, FEATURES))
    rng = np.random.default_rng(1)
    y = A @ rng.normal(size=(FEATURES, targets)) + noise * rng.normal(size=(ROWS, targets))
    joined = np.concatenate((A, y), axis=1)
    found = solution_of_rounded(joined.T @ joined, targets)
    assert found is not None
    w, residual = found
    expected = np.linalg.lstsq(A, y, rcond=None)[0]
    assert_close(w, expected, digits_lost(3), scale=np.linalg.norm(expected) + np.linalg.norm(y))
    assert residual <= 64 * EPS


@pytest.mark.parametrize("last", [0.05, 1e-4, 0.0])
def test_of_uneven_or_dependent_features_no_solution_is_given(last):
    sigma = np.ones(FEATURES)
    sigma[-1] = last
    A = data(sigma)
    joined = np.concatenate((A, A[:, :1]), axis=1)
    assert solution_of_rounded(joined.T @ joined, 1) is None


def test_without_features_there_is_no_solution():
    assert solution_of_rounded(np.eye(2), 2) is None
