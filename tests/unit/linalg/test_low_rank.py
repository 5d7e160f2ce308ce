"""Matrices of low rank, where LAPACK's divide and conquer keeps vectors of the null space orthogonal to 1e-10 only."""

import numpy as np
import pytest
from tests.tolerances import EPS, assert_close, spectrum

from fedsvd.linalg.dense_svd import SVD, dense_svd, full_svd, known_part
from fedsvd.linalg.verify import bounds, verify_svd


def low_rank(rows, columns, kept, seed):
    """Singular values over six orders of magnitude, as of images with empty corners, and then none."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.normal(size=(side, kept)))[0] for side in (rows, columns))
    return left * np.logspace(4, -2, kept) @ right.T


@pytest.mark.parametrize("seed", range(3))
def test_what_is_above_rounding_is_kept_and_verified(seed):
    A = low_rank(120, 110, 70, seed)
    found = known_part(dense_svd(A), *A.shape)
    assert len(found.sigma) == np.linalg.matrix_rank(A) == 70
    verify_svd(A, *found)
    assert_close(found.sigma, np.linalg.svd(A, compute_uv=False)[:70], spectrum(*A.shape))


def test_vectors_of_noise_that_are_not_orthogonal_are_not_asked_about():
    """As gesdd gave them for a matrix of masked images: only those below the rank were off."""
    A = low_rank(120, 110, 70, 0)
    U, sigma, Vt = dense_svd(A)
    spoiled = Vt.copy()
    spoiled[70] *= 1 + 3e-11
    with pytest.raises(Exception, match="orthogonality"):
        verify_svd(A, U, sigma, spoiled)
    verify_svd(A, *known_part(SVD(U, sigma, spoiled), *A.shape))


def test_a_matrix_of_zeros_keeps_one_triplet():
    A = np.zeros((6, 5))
    found = known_part(dense_svd(A), *A.shape)
    assert found.sigma.tolist() == [0.0]
    verify_svd(A, *found)


@pytest.mark.parametrize("shape", [(40, 30), (30, 40), (25, 25)])
def test_the_full_factors_are_orthonormal_at_any_rank(shape):
    A = low_rank(*shape, 12, 1)
    U, sigma, Vt = full_svd(A)
    allowed = bounds(max(shape), max(shape), max(shape)).orthogonality
    assert np.linalg.norm(U.T @ U - np.eye(shape[0])) <= allowed
    assert np.linalg.norm(Vt @ Vt.T - np.eye(shape[1])) <= allowed
    k = len(sigma)
    assert np.linalg.norm(U[:, :k] * sigma @ Vt[:k] - A) <= 1000 * EPS * np.linalg.norm(A)
