"""The thin SVD of a tall matrix from its factor, and verification by probes: as exact, and as watchful, as in full."""

import numpy as np
import pytest
from tests.tolerances import assert_close, digits_lost, spectrum

from fedsvd.errors import VerificationFailed
from fedsvd.linalg.backend import qr_r
from fedsvd.linalg.dense_svd import tall_svd
from fedsvd.linalg.verify import verify_by_probes, verify_factor


def matrix(m, n, condition, rank=None, seed=0):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.normal(size=(side, n)))[0] for side in (m, n))
    sigma = np.logspace(0, -np.log10(condition), n)
    sigma[n if rank is None else rank :] = 0.0
    return (U * sigma) @ V.T


@pytest.mark.parametrize("condition", [1.0, 10.0, 1e3, 1e8, 1e12])
def test_a_tall_svd_is_that_of_lapack_at_any_condition(condition):
    A = matrix(400, 30, condition)
    U, sigma, Vt = tall_svd(A, np.linalg.qr(A, mode="r"))
    bar = spectrum(*A.shape)
    np.testing.assert_allclose(sigma, np.linalg.svd(A, compute_uv=False), rtol=0, atol=bar * sigma[0])
    np.testing.assert_allclose((U * sigma) @ Vt, A, rtol=0, atol=bar * sigma[0])
    assert_close(U.T @ U, np.eye(30), digits_lost(3))


@pytest.mark.parametrize("rank", [0, 1, 7, 29])
def test_a_tall_svd_has_as_many_triplets_as_the_rank(rank):
    A = matrix(300, 30, 100.0, rank)
    U, sigma, Vt = tall_svd(A, np.linalg.qr(A, mode="r"))
    assert (U.shape, sigma.shape, Vt.shape) == ((300, rank), (rank,), (rank, 30))
    assert_close((U * sigma) @ Vt, A, digits_lost(2))
    assert_close(U.T @ U, np.eye(rank), digits_lost(3))


def corrupted(how):
    A = matrix(500, 40, 50.0, seed=3)
    U, sigma, Vt = (part.copy() for part in np.linalg.svd(A, full_matrices=False))
    if how == "one entry of U":
        U[17, 3] += 1e-9
    elif how == "one entry of Vt":
        Vt[5, 11] += 1e-9
    elif how == "one value":
        sigma[9] *= 1 + 1e-9
    elif how == "one sign":
        U[:, 2] *= -1
    elif how == "two columns":
        U[:, [4, 5]] = U[:, [5, 4]]
    elif how == "NaN":
        U[0, 0] = np.nan
    return A, U, sigma, Vt


@pytest.mark.parametrize("how", ["one entry of U", "one entry of Vt", "one value", "one sign", "two columns", "NaN"])
def test_probes_see_what_the_full_product_would(how):
    with pytest.raises(VerificationFailed):
        verify_by_probes(*corrupted(how))


def test_probes_pass_what_is_right_and_estimate_its_residual():
    A, U, sigma, Vt = corrupted("not at all")
    assert verify_by_probes(A, U, sigma, Vt).residual < digits_lost(2)
    worse = U + 1e-13 * np.random.default_rng(1).normal(size=U.shape) / np.sqrt(U.size)
    true = np.linalg.norm(A - (worse * sigma) @ Vt) / np.linalg.norm(A)
    assert verify_by_probes(A, worse, sigma, Vt).residual == pytest.approx(true, rel=0.7)


def test_a_factor_that_is_not_the_matrixs_is_found():
    A = matrix(500, 40, 50.0).T
    R = qr_r(A.T)
    verify_factor(R, A)
    R = R.copy()
    R[0, 20] += 1e-9
    with pytest.raises(VerificationFailed):
        verify_factor(R, A)
