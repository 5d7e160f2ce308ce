"""The paper's metrics, against hand-computed values, known rotations and longdouble arithmetic."""

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tolerances import digits_lost

from fedsvd.errors import ShapeError
from fedsvd_lab.experiments import compare


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


def test_reconstruction_errors_by_hand():
    X = np.array([[1.0, -2.0], [0.0, 4.0]])
    X_hat = np.array([[1.5, -2.0], [1e-10, 3.0]])
    assert compare.rmse(X, X_hat) == pytest.approx(np.sqrt((0.25 + 1e-20 + 1.0) / 4), rel=digits_lost(1))
    # |0.5| / 1, 0 / 2, 1e-10 / 1e-10 (a zero in the denominator), 1 / 4.
    assert compare.mape(X, X_hat) == pytest.approx((0.5 + 0.0 + 1.0 + 0.25) / 4, rel=digits_lost(1))


@pytest.mark.parametrize("metric", [compare.signed_rmse, compare.rmse, compare.mape])
def test_different_shapes_do_not_compare(metric):
    with pytest.raises(ShapeError):
        metric(np.ones((3, 2)), np.ones((3, 3)))


@pytest.mark.parametrize("metric", [compare.projection_distance, compare.projection_distance_spectral])
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
        compare.rmse,
        compare.mape,
    ):
        assert metric(strict, strict_hat) == pytest.approx(metric(U, U_hat), rel=digits_lost(2))
    score = compare.svd_rmse(strict, strict.T, strict_hat, strict_hat.T)
    assert score == pytest.approx(compare.signed_rmse(U, U_hat), rel=digits_lost(2))
