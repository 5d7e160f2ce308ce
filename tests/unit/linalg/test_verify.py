"""Verification: what is right passes, what is wrong by 1e-9 does not, and NaN never does."""

import array_api_strict
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tolerances import EPS, digits_lost

from fedsvd.errors import ShapeError, VerificationFailed
from fedsvd.linalg import verify
from fedsvd.linalg.dense_svd import SVD, known_part
from fedsvd.linalg.operators import PanelOperator
from fedsvd.linalg.verify import (
    Quality,
    probes,
    verify_least_squares,
    verify_orthonormal,
    verify_svd,
    verify_truncated,
)

SHAPES = [(1, 1), (6, 6), (40, 25), (25, 40), (300, 12), (12, 300)]


def _svd(A):
    return scipy.linalg.svd(A, full_matrices=False, lapack_driver="gesvd")


def _random(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


class _Bare:
    """An operator with products and nothing else."""

    def __init__(self, A):
        self._A, self.shape = A, A.shape

    def matmul(self, B):
        return self._A @ B

    def rmatmul(self, B):
        return self._A.T @ B


def _as_everything(A):
    m, n = A.shape
    rows = PanelOperator(A.shape, lambda: ((slice(i, min(i + 7, m)), A[i : i + 7]) for i in range(0, m, 7)))
    columns = PanelOperator(A.shape, lambda: ((slice(j, min(j + 7, n)), A[:, j : j + 7]) for j in range(0, n, 7)))
    return {"array": A, "rows": rows, "columns": columns, "sparse": scipy.sparse.csr_array(A), "bare": _Bare(A)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("given_as", ["array", "rows", "columns", "sparse", "bare"])
def test_a_right_svd_passes_and_is_measured_as_by_the_formulas(shape, given_as):
    A = _random(shape)
    U, sigma, Vt = _svd(A)
    quality = verify_svd(_as_everything(A)[given_as], U, sigma, Vt)
    k = min(shape)
    # Formulas at full length; equal up to the rounding of the measurement itself.
    assert quality.residual == pytest.approx(np.linalg.norm(A - U * sigma @ Vt) / np.linalg.norm(A), abs=digits_lost(1))
    both = [np.linalg.norm(U.T @ U - np.eye(k)), np.linalg.norm(Vt @ Vt.T - np.eye(k))]
    assert quality.orthogonality == pytest.approx(max(both), abs=digits_lost(2))
    verify_truncated(_as_everything(A)[given_as], U[:, : k // 2], sigma[: k // 2], Vt[: k // 2])


@pytest.mark.parametrize("driver", ["gesdd", "gesvd"])
@pytest.mark.parametrize(
    "A",
    [
        np.ones((300, 200)),
        np.ones((30, 4000)),
        np.zeros((20, 30)),
        _random((80, 60)) * np.logspace(0, -14, 60),
        np.repeat(_random((4, 90)), 30, axis=0),
        _random((50, 40)) * 1e250,
        _random((50, 40)) * 1e-250,
        np.abs(_random((500, 400))),
    ],
    ids=["ones", "wide ones", "zero", "ill conditioned", "duplicated rows", "huge", "tiny", "one sign"],
)
def test_what_lapack_returns_above_rounding_passes_on_difficult_matrices(A, driver):
    found = SVD(*scipy.linalg.svd(A, full_matrices=False, lapack_driver=driver))
    verify_svd(A, *known_part(found, *A.shape))


@pytest.mark.parametrize("shape", [(40, 25), (25, 40)])
def test_a_result_cut_at_its_rank_passes(shape):
    A = _random((shape[0], 6)) @ _random((6, shape[1]), 1)
    U, sigma, Vt = _svd(A)
    verify_svd(A, U[:, :6], sigma[:6], Vt[:6])
    with pytest.raises(VerificationFailed, match="residual"):
        verify_svd(A, U[:, :5], sigma[:5], Vt[:5])


def _corruptions(U, sigma, Vt):
    def changed(X, place, by):
        X = X.copy()
        X[place] += by
        return X

    def scaled(X, place, by):
        X = X.copy()
        X[place] *= by
        return X

    k = len(sigma)
    last = (U.shape[0] - 1, k - 1)
    swapped = sigma[[1, 0, *range(2, k)]]
    order = [1, 0, *range(2, k)]
    return {
        "entry of U": (changed(U, (0, 0), 1e-9), sigma, Vt),
        "last entry of U": (changed(U, last, 1e-9), sigma, Vt),
        "entry of Vt": (U, sigma, changed(Vt, (k - 1, 3), 1e-9)),
        "first value": (U, changed(sigma, 0, 1e-9), Vt),
        "last value": (U, changed(sigma, k - 1, -1e-9), Vt),
        "sign of a left vector": (scaled(U, (slice(None), 2), -1), sigma, Vt),
        "sign of a right vector": (U, sigma, scaled(Vt, (k - 1,), -1)),
        "permuted values": (U, swapped, Vt),
        "permuted left vectors": (U[:, order], sigma, Vt),
        "everything permuted": (U[:, order], swapped, Vt[order]),
        "negative value": (scaled(U, (slice(None), k - 1), -1), scaled(sigma, k - 1, -1), Vt),
        "length moved from U to sigma": (scaled(U, (slice(None), 0), 1 - 1e-9), scaled(sigma, 0, 1 + 1e-9), Vt),
        "NaN in U": (changed(U, (1, 1), np.nan), sigma, Vt),
        "NaN in sigma": (U, changed(sigma, k - 1, np.nan), Vt),
        "NaN in Vt": (U, sigma, changed(Vt, (0, 0), np.nan)),
        "infinity in U": (changed(U, (1, 1), np.inf), sigma, Vt),
        "infinite value": (U, changed(sigma, 0, np.inf), Vt),
    }


NAMES = list(_corruptions(np.eye(9, 6), np.arange(6.0, 0, -1), np.eye(6, 9)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("given_as", ["array", "rows", "columns", "bare"])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_corrupted_svd_is_caught(name, given_as):
    A = _random((60, 45))
    with pytest.raises(VerificationFailed):
        verify_svd(_as_everything(A)[given_as], *_corruptions(*_svd(A))[name])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("given_as", ["array", "rows", "columns", "sparse", "bare"])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_corrupted_truncated_svd_is_caught(name, given_as):
    A = _random((60, 45))
    U, sigma, Vt = _svd(A)
    right = U[:, :8], sigma[:8], Vt[:8]
    verify_truncated(_as_everything(A)[given_as], *right)
    with pytest.raises(VerificationFailed):
        verify_truncated(_as_everything(A)[given_as], *_corruptions(*right)[name])


def test_an_entry_wrong_by_1e_9_is_caught_in_a_long_thin_factor():
    Q = np.linalg.qr(_random((100_000, 10)))[0]
    verify_orthonormal(Q)
    Q[777, 3] += 1e-9
    with pytest.raises(VerificationFailed, match="orthogonality"):
        verify_orthonormal(Q)


def test_a_change_in_the_matrix_is_caught():
    A = _random((50, 30))
    svd = _svd(A)
    A[17, 5] += 1e-9
    with pytest.raises(VerificationFailed, match="residual"):
        verify_svd(A, *svd)
    with pytest.raises(VerificationFailed, match="residual"):
        verify_svd(np.zeros((50, 30)), *svd)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_never_passes(bad):
    A = _random((20, 12))
    svd = _svd(A)
    A[3, 3] = bad
    with pytest.raises(VerificationFailed):
        verify_svd(A, *svd)
    with pytest.raises(VerificationFailed):
        verify_truncated(A, *svd)
    with pytest.raises(VerificationFailed):
        verify_least_squares(A, np.ones(12), np.ones(20))


def test_truncated_triplets_may_be_as_far_off_as_their_tolerance():
    A = _random((60, 45))
    U, sigma, Vt = (part.copy() for part in _svd(A))
    sigma = sigma[:8] + 1e-7 * sigma[0]
    # Both halves of the residual are off by 1e-7 sigma_1; sigma_1 itself grew by 1e-7 of itself.
    quality = verify_truncated(A, U[:, :8], sigma, Vt[:8], tolerance=1e-6)
    assert quality.residual == pytest.approx(np.sqrt(2) * 1e-7, rel=digits_lost(10))
    with pytest.raises(VerificationFailed, match=r"residual 1\.4e-07 is beyond its bound 1\.0e-08"):
        verify_truncated(A, U[:, :8], sigma, Vt[:8], tolerance=1e-8)


def test_no_triplets_are_right_for_a_zero_matrix():
    assert verify_truncated(np.zeros((4, 5)), np.zeros((4, 0)), np.zeros(0), np.zeros((0, 5))) == Quality(0.0, 0.0)
    assert verify_svd(np.zeros((4, 5)), np.zeros((4, 0)), np.zeros(0), np.zeros((0, 5))) == Quality(0.0, 0.0)


@given(
    m=st.integers(1, 30), n=st.integers(1, 30), q=st.integers(1, 3), decades=st.integers(0, 14), seed=st.integers(0, 99)
)
@settings(max_examples=60, deadline=None)
def test_least_squares_solutions_pass_at_every_condition(m, n, q, decades, seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(m, n)) * np.logspace(0, -decades, n)
    y = rng.normal(size=(m, q))
    w = scipy.linalg.lstsq(A, y, cond=np.finfo(float).eps * max(m, n))[0]
    assert verify_least_squares(A, w, y) < digits_lost(3)


@pytest.mark.parametrize("given_as", ["array", "rows", "columns", "sparse", "bare"])
def test_a_wrong_least_squares_solution_is_caught(given_as):
    A, y = _random((60, 8)), _random((60,), 1)
    operator = _as_everything(A)[given_as]
    w = np.linalg.lstsq(A, y)[0]
    residual = verify_least_squares(operator, w, y)
    size = np.linalg.norm(A)
    gradient = np.linalg.norm(A.T @ (A @ w - y))
    assert residual == pytest.approx(gradient / (size * (size * np.linalg.norm(w) + np.linalg.norm(y))), abs=EPS)
    for index in range(8):
        wrong = w.copy()
        wrong[index] += 1e-9
        with pytest.raises(VerificationFailed, match="residual"):
            verify_least_squares(operator, wrong, y)
    w[0] = np.nan
    with pytest.raises(VerificationFailed, match="residual nan"):
        verify_least_squares(operator, w, y)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_least_squares_are_judged_alike_at_every_scale(scale):
    A, y = _random((40, 5)), _random((40,), 1)
    w = np.linalg.lstsq(A, y)[0]
    verify_least_squares(A * scale, w / scale, y)
    with pytest.raises(VerificationFailed):
        verify_least_squares(A * scale, w * (1 + 1e-9) / scale, y)


def test_a_zero_system_is_solved_by_zero():
    assert verify_least_squares(np.zeros((4, 2)), np.zeros(2), np.ones(4)) == 0.0


def test_orthonormal_columns_are_measured_in_blocks(monkeypatch):
    Q = np.linalg.qr(_random((50, 30)))[0]
    Q[4, 4] += 1e-14
    expected = np.linalg.norm(Q.T @ Q - np.eye(30))
    for panel in (1, 100, 10_000):
        monkeypatch.setattr(verify, "PANEL", panel)
        assert verify_orthonormal(Q) == pytest.approx(expected, abs=digits_lost(1))


@pytest.mark.parametrize("panel", [1, 50, 333])
def test_small_panels_measure_the_same(monkeypatch, panel):
    A = _random((23, 31))
    whole = verify_svd(A, *_svd(A))
    monkeypatch.setattr(verify, "PANEL", panel)
    for matrix in _as_everything(A).values():
        quality = verify_svd(matrix, *_svd(A))
        assert quality.residual == pytest.approx(whole.residual, abs=digits_lost(1))
        assert quality.orthogonality == pytest.approx(whole.orthogonality, abs=digits_lost(2))


def test_shapes_that_do_not_belong_together_are_refused():
    A = _random((9, 7))
    U, sigma, Vt = _svd(A)
    for parts in ((U[:-1], sigma, Vt), (U, sigma[:-1], Vt), (U, sigma, Vt[:, :-1])):
        with pytest.raises(ShapeError):
            verify_svd(A, *parts)
        with pytest.raises(ShapeError):
            verify_truncated(A, *parts)
    with pytest.raises(ShapeError, match="8 triplets of a 9 x 7"):
        verify_svd(A, np.ones((9, 8)), np.ones(8), np.ones((8, 7)))
    with pytest.raises(ShapeError):
        verify_least_squares(A, np.ones(9), np.ones(9))
    with pytest.raises(ShapeError, match="do not exist"):
        verify_orthonormal(np.ones((2, 3)))


def test_verification_needs_only_the_array_api_standard(monkeypatch):
    monkeypatch.setattr(verify, "PANEL", 50)
    A = _random((30, 20))
    strict = array_api_strict.asarray(A)
    U, sigma, Vt = (array_api_strict.asarray(part) for part in _svd(A))
    assert verify_svd(strict, U, sigma, Vt).residual < digits_lost(2)
    assert verify_truncated(strict, U[:, :4], sigma[:4], Vt[:4, :]).residual < digits_lost(2)
    assert verify_orthonormal(U) < digits_lost(3)
    w, y = array_api_strict.asarray(np.linalg.lstsq(A, A[:, 0] ** 2)[0]), array_api_strict.asarray(A[:, 0] ** 2)
    assert verify_least_squares(strict, w, y) < digits_lost(2)
    with pytest.raises(VerificationFailed):
        verify_svd(strict, -U, sigma, Vt)


@pytest.mark.parametrize("rows", [1, 2, 7, 1000, 200_000])
def test_no_single_entry_is_invisible_to_the_probes(rows):
    """A wrong entry of U, S or Vt shows with at least 0.83 of its size, wherever it stands."""
    omega = probes(np.zeros((1, 1)), rows)
    assert np.sqrt(np.mean(omega**2, axis=1)).min() >= 0.83


def test_probes_look_like_noise_to_one_another():
    omega = probes(np.zeros((1, 1)), 100_000)
    np.testing.assert_allclose(omega.T @ omega / 100_000, np.eye(omega.shape[1]), rtol=0, atol=0.02)
