"""The top of a matrix from its Gram matrix: as good as LAPACK's of the matrix itself, or none at all (ADR 0035)."""

import numpy as np
import pytest
from tests.tolerances import EPS, VALUES_BAR, assert_close

from fedsvd.linalg.dense_svd import EVEN, even_left, leads, top_of_gram

ROWS, N, TOP = 900, 60, 5


def matrix(fall, scale=1.0, rest=1e-9):
    """Singular values that fall by so much over the top five, and are next to nothing after them."""
    rng = np.random.default_rng(2)
    U, V = (np.linalg.qr(rng.normal(size=(side, N)))[0] for side in (ROWS, N))
    sigma = np.concatenate((np.geomspace(1.0, 1.0 / fall, TOP), rest / np.arange(1, N - TOP + 1)))
    return scale * U * sigma @ V.T


def gram(B):
    with np.errstate(over="ignore", invalid="ignore"):
        return np.triu(B.T @ B)


@pytest.mark.parametrize("scale", [1.0, 1e-120, 1e120])
@pytest.mark.parametrize("fall", [1.0 + 1e-6, 3.0, 0.99 * EVEN])
def test_even_ones_at_the_top_are_those_of_the_matrix_whatever_lies_below(fall, scale):
    B = matrix(fall, scale)
    sigma, V = top_of_gram(gram(B), TOP)
    assert_close(sigma / scale, np.linalg.svd(B / scale, compute_uv=False)[:TOP], VALUES_BAR)
    assert np.linalg.norm(V.T @ V - np.eye(TOP)) <= 64 * EPS * (TOP + 16)
    L = B @ (V / sigma)
    assert np.linalg.norm(L.T @ L - np.eye(TOP)) <= 64 * EPS * (TOP + 16)
    assert np.linalg.norm(B.T @ L - V * sigma) <= VALUES_BAR * sigma[0]


@pytest.mark.parametrize("fall", [1.01 * EVEN, 1e3, 1e9])
def test_where_squares_would_cost_digits_there_is_none(fall):
    assert top_of_gram(gram(matrix(fall)), TOP) is None


def test_nor_is_there_of_a_matrix_of_lower_rank_of_zeros_or_out_of_range():
    assert top_of_gram(gram(matrix(2.0, rest=0.0)), TOP + 1) is None
    assert top_of_gram(np.zeros((N, N)), TOP) is None
    for scale in (1e-160, 1e200):
        assert top_of_gram(gram(matrix(2.0, scale)), TOP) is None


def test_vectors_that_are_not_the_matrix_s_are_refused(monkeypatch):
    import scipy.linalg

    solver = scipy.linalg.eigh

    def spoilt(*given, **how):
        squares, V = solver(*given, **how)
        V[3, 0] += np.sqrt(EPS)
        return squares, V

    assert top_of_gram(gram(matrix(2.0)), TOP) is not None
    monkeypatch.setattr(scipy.linalg, "eigh", spoilt)
    assert top_of_gram(gram(matrix(2.0)), TOP) is None


@pytest.mark.parametrize("rest", [1e-9, 0.499])
def test_a_cholesky_factor_says_whether_a_larger_one_was_left_out(rest):
    K = gram(matrix(2.0, rest=rest))
    sigma, V = top_of_gram(K, TOP)
    assert leads(K, sigma, V)
    for left_out in range(TOP - 1):
        some = np.arange(TOP) != left_out
        assert not leads(K, sigma[some], V[:, some])


@pytest.mark.parametrize("condition", [1.0, 2.0, 6.0])
def test_all_of_an_even_square_are_those_of_the_matrix(condition):
    rng = np.random.default_rng(4)
    left, right = (np.linalg.qr(rng.normal(size=(N, N)))[0] for _ in range(2))
    A = left * np.geomspace(1.0, 1.0 / condition, N) @ right
    U, sigma = even_left(A)
    assert_close(sigma, np.linalg.svd(A, compute_uv=False), VALUES_BAR)
    assert np.linalg.norm(U.T @ U - np.eye(N)) <= 64 * EPS * (N + 16)
    W = A.T @ (U / sigma)
    assert np.linalg.norm(W.T @ W - np.eye(N)) <= 64 * EPS * (N + 16)


def test_nor_are_they_taken_from_squares_of_a_matrix_that_is_not_even():
    for condition in (1.01 * EVEN, 1e3, 1e12):
        assert even_left(np.diag(np.geomspace(1.0, 1.0 / condition, N))) is None
    assert even_left(np.zeros((N, N))) is None
    assert even_left(np.ones((N, N + 1))) is None
    assert even_left(1e200 * np.eye(N)) is None
