"""What the CSP makes of a tall matrix that is worth products: the SVD of LAPACK, at any condition and any rank."""

import numpy as np
import pytest
from tests.tolerances import assert_close, digits_lost, spectrum

from fedsvd.linalg.dense_svd import svd_of_even
from fedsvd.roles.service_provider.factorise import svd_of_tall

ROWS, COLUMNS = 4400, 240  # more than a million numbers


def matrix(condition, rank=COLUMNS):
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.normal(size=(side, COLUMNS)))[0] for side in (ROWS, COLUMNS))
    sigma = np.geomspace(1.0, 1.0 / condition, COLUMNS)
    sigma[rank:] = 0.0
    return (U * sigma) @ V.T


@pytest.mark.parametrize("condition", [1.0, 10.0, 1e3, 1e8, 1e12])
@pytest.mark.parametrize("order", ["C", "F"])
def test_it_is_that_of_lapack_and_orthonormal_at_any_condition(condition, order):
    A = np.asarray(matrix(condition), order=order)
    U, sigma, Vt = svd_of_tall(A)
    bar = spectrum(*A.shape)
    assert_close(sigma, np.linalg.svd(A, compute_uv=False), bar)
    assert_close((U * sigma) @ Vt, A, bar)
    assert_close(U.T @ U, np.eye(COLUMNS), digits_lost(3))
    assert_close(Vt @ Vt.T, np.eye(COLUMNS), digits_lost(3))


@pytest.mark.parametrize("rank", [1, 100, COLUMNS - 1])
def test_it_has_as_many_triplets_as_the_rank(rank):
    A = matrix(100.0, rank)
    U, sigma, Vt = svd_of_tall(A)
    assert sigma.shape == (rank,)
    assert_close((U * sigma) @ Vt, A, digits_lost(2))
    assert_close(U.T @ U, np.eye(rank), digits_lost(3))


def test_a_jump_of_scale_in_the_middle_loses_nothing():
    A = matrix(1e3)
    A[ROWS // 2 :] *= 1e6
    U, sigma, Vt = svd_of_tall(A)
    assert_close((U * sigma) @ Vt, A, digits_lost(2), sigma[0])
    assert_close(U.T @ U, np.eye(COLUMNS), digits_lost(3))


def test_an_uneven_matrix_is_none_of_those_that_its_gram_matrix_stands_for():
    even, uneven = matrix(4.0), matrix(20.0)
    U, sigma, Vt = svd_of_even(even, even.T @ even)
    assert_close((U * sigma) @ Vt, even, digits_lost(2))
    assert_close(U.T @ U, np.eye(COLUMNS), digits_lost(3))
    assert svd_of_even(uneven, uneven.T @ uneven) is None
    assert svd_of_even(0.0 * even, np.zeros((COLUMNS, COLUMNS))) is None
