"""The paper's metrics, against hand-computed values, known rotations and longdouble arithmetic."""

import array_api_strict
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tolerances import EPS, assert_close, digits_lost

from fedsvd.errors import ShapeError
from fedsvd.linalg import compare


def _orthonormal(rng, m, r):
    return np.linalg.qr(rng.normal(size=(m, r)))[0]


def _rotated(U, complement, angles):
    """The basis U turned by ``angles`` towards orthonormal directions outside it: principal angles by construction."""
    return U * np.cos(angles) + complement * np.sin(angles)


def test_signed_rmse_by_hand():
    U = np.array([[1.0, 0.0], [0.0, 1.0]])
    U_hat = np.array([[-1.0, 0.3], [0.4, 1.0]])
    # First column: with the sign turned, (0, 0.4): mean square 0.08. Second: (0.3, 0): 0.045.
    assert compare.signed_rmse(U, U_hat) == pytest.approx(np.sqrt((0.08 + 0.045) / 2), rel=digits_lost(1))


@given(signs=st.lists(st.sampled_from([-1.0, 1.0]), min_size=4, max_size=4))
@settings(max_examples=16, deadline=None)
def test_signed_rmse_does_not_see_signs(signs):
    U = _orthonormal(np.random.default_rng(0), 9, 4)
    assert compare.signed_rmse(U, U * np.array(signs)) == 0.0


def test_svd_rmse_is_the_mean_of_both_sides():
    U, Vt = np.eye(2), np.eye(2)
    U_hat, Vt_hat = np.array([[1.0, 0.0], [0.2, 1.0]]), np.array([[1.0, 0.6], [0.0, -1.0]])
    # U: columns with mean squares 0.02 and 0. Vt: rows with mean squares 0.18 and 0.
    expected = (np.sqrt(0.01) + np.sqrt(0.09)) / 2
    assert compare.svd_rmse(U, Vt, U_hat, Vt_hat) == pytest.approx(expected, rel=digits_lost(2))


@pytest.mark.parametrize("m,r,s", [(6, 2, 2), (30, 7, 7), (12, 3, 5), (12, 5, 1), (8, 8, 8)])
def test_projection_distances_equal_the_norm_of_the_difference_of_projections(m, r, s):
    rng = np.random.default_rng(m)
    U, U_hat = _orthonormal(rng, m, r), _orthonormal(rng, m, s)
    difference = U @ U.T - U_hat @ U_hat.T
    assert compare.projection_distance(U, U_hat) == pytest.approx(np.linalg.norm(difference), abs=digits_lost(3))
    spectral = compare.projection_distance_spectral(U, U_hat)
    assert spectral == pytest.approx(np.linalg.norm(difference, 2), abs=digits_lost(3))


@pytest.mark.parametrize("angle", [1e-14, 1e-9, 1e-5, 0.3, np.pi / 2 - 1e-9])
def test_projection_distance_keeps_the_digits_of_tiny_angles(angle):
    Q = _orthonormal(np.random.default_rng(1), 50, 6)
    angles = angle * np.array([1.0, 0.5, 0.25])
    U, U_hat = Q[:, :3], _rotated(Q[:, :3], Q[:, 3:], angles)
    # ||U U^T - U_hat U_hat^T||_F = sqrt(2) ||sin theta||; the cancelling formula would be off by 1e-8 here.
    expected = np.sqrt(2) * np.linalg.norm(np.sin(angles))
    assert compare.projection_distance(U, U_hat) == pytest.approx(expected, rel=digits_lost(3), abs=digits_lost(1))
    assert compare.projection_distance_spectral(U, U_hat) == pytest.approx(
        np.sin(angle), rel=digits_lost(3), abs=digits_lost(1)
    )


def test_projection_distance_agrees_with_longdouble():
    rng = np.random.default_rng(2)
    U = np.linalg.qr(rng.normal(size=(40, 4)))[0]
    U_hat = np.linalg.qr(U + 1e-10 * rng.normal(size=(40, 4)))[0]
    long_U, long_U_hat = U.astype(np.longdouble), U_hat.astype(np.longdouble)
    difference = long_U @ long_U.T - long_U_hat @ long_U_hat.T
    expected = float(np.sqrt((difference**2).sum()))
    assert compare.projection_distance(U, U_hat) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("angle", [0.0, 1e-15, 1e-9, 1e-4, 0.7, np.pi / 2 - 1e-9, np.pi / 2])
def test_subspace_angles_are_accurate_at_both_ends(angle):
    rng = np.random.default_rng(4)
    Q = _orthonormal(rng, 30, 6)
    angles = np.array([angle, angle / 2, angle / 4])
    mix = rng.normal(size=(3, 3))
    A, B = Q[:, :3] @ mix, _rotated(Q[:, :3], Q[:, 3:], angles) @ mix[::-1]
    assert_close(compare.subspace_angles(A, B), angles, EPS * np.linalg.cond(mix), scale=1.0)


@pytest.mark.parametrize("r,s", [(4, 4), (2, 6), (6, 2), (1, 1)])
def test_subspace_angles_are_scipys(r, s):
    rng = np.random.default_rng(10 * r + s)
    A, B = rng.normal(size=(20, r)), rng.normal(size=(20, s))
    assert_close(compare.subspace_angles(A, B), scipy.linalg.subspace_angles(A, B), digits_lost(2))


def test_reconstruction_errors_by_hand():
    X = np.array([[1.0, -2.0], [0.0, 4.0]])
    X_hat = np.array([[1.5, -2.0], [1e-10, 3.0]])
    assert compare.mae(X, X_hat) == pytest.approx((0.5 + 1e-10 + 1.0) / 4, rel=digits_lost(1))
    assert compare.rmse(X, X_hat) == pytest.approx(np.sqrt((0.25 + 1e-20 + 1.0) / 4), rel=digits_lost(1))
    # |0.5| / 1, 0 / 2, 1e-10 / 1e-10 (a zero in the denominator), 1 / 4.
    assert compare.mape(X, X_hat) == pytest.approx((0.5 + 0.0 + 1.0 + 0.25) / 4, rel=digits_lost(1))


@pytest.mark.parametrize("metric", [compare.signed_rmse, compare.mae, compare.rmse, compare.mape])
def test_different_shapes_do_not_compare(metric):
    with pytest.raises(ShapeError):
        metric(np.ones((3, 2)), np.ones((3, 3)))


@pytest.mark.parametrize(
    "metric", [compare.projection_distance, compare.projection_distance_spectral, compare.subspace_angles]
)
def test_subspaces_of_different_spaces_do_not_compare(metric):
    with pytest.raises(ShapeError):
        metric(np.eye(3, 2), np.eye(4, 2))


def test_metrics_need_only_the_array_api_standard():
    rng = np.random.default_rng(8)
    U, U_hat = _orthonormal(rng, 12, 3), _orthonormal(rng, 12, 3)
    strict, strict_hat = array_api_strict.asarray(U), array_api_strict.asarray(U_hat)
    for metric in (
        compare.signed_rmse,
        compare.projection_distance,
        compare.projection_distance_spectral,
        compare.mae,
        compare.rmse,
        compare.mape,
    ):
        assert metric(strict, strict_hat) == pytest.approx(metric(U, U_hat), rel=digits_lost(2))
    angles = np.asarray(compare.subspace_angles(strict, strict_hat))
    assert_close(angles, scipy.linalg.subspace_angles(U, U_hat), digits_lost(3), scale=1.0)
    score = compare.svd_rmse(strict, strict.T, strict_hat, strict_hat.T)
    assert score == pytest.approx(compare.signed_rmse(U, U_hat), rel=digits_lost(2))
