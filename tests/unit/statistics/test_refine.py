"""What a second look at the rows gives: the digits of rational arithmetic on an ill-conditioned table."""

import numpy as np
import pytest
from tests.tolerances import SEVEN_DIGITS, assert_each_close, digits_lost
from tests.unit.statistics.certified import exactly_fitted, filip_set

from fedsvd.errors import VerificationFailed
from fedsvd.linalg import extended
from fedsvd.linalg.extended import Pair
from fedsvd.statistics.refine import expect_transform, refined, transform_of


def second_look(X, y, mean, T, w):
    """K, the gradient and the squares of one party that holds all rows."""
    f = X.shape[1]
    D = Pair(*extended.two_sum(np.column_stack((X, y)), -mean))
    C = np.column_stack((T, w))
    seen = extended.product(
        extended.sliced(Pair(D.high[:, :f], D.low[:, :f])), extended.sliced(Pair(C, 0.0 * C), 3, by_column=True)
    )
    Z = np.column_stack((np.full(len(y), len(y) ** -0.5), seen.high[:, :f]))
    e = Pair(-seen.high[:, f:], -seen.low[:, f:]).plus(D.high[:, f:]).plus(D.low[:, f:])
    A = Pair(np.column_stack((np.ones(len(y)), D.high[:, :f])), np.column_stack((np.zeros(len(y)), D.low[:, :f])))
    gradient = [v / (1 << 1074) for v in extended.inner_products(extended.sliced(A), extended.sliced(e))]
    squares = [v / (1 << 1074) for v in extended.squares(extended.sliced(e), extended.sliced(e))]
    return Z.T @ Z, np.array(gradient).reshape(f + 1, -1), np.array(squares)


def scaled_filip():
    data = filip_set()
    X = data.X * 2.0 ** -np.frexp(np.linalg.norm(data.X, axis=0))[1].astype(float)
    return X, data.y, np.append(X.mean(axis=0), data.y.mean())


def test_coefficients_errors_and_residuals_have_the_digits_of_rational_arithmetic():
    X, y, mean = scaled_filip()
    centred = X - mean[:-1]
    R = np.linalg.qr(centred, mode="r")
    T = np.stack([extended.on_grid(column, 2) for column in transform_of(R).T], axis=1)
    w = extended.on_grid(np.linalg.lstsq(centred, y - mean[-1])[0], 3)[:, None]
    K, gradient, squares = second_look(X, y, mean, T, w)
    found = refined(T, K, w, gradient, squares, weight=float(len(y)), mean=mean)
    coefficients, errors = exactly_fitted(X, y)
    assert_each_close(found.coefficients[:, 0], coefficients, digits_lost(4))
    sigma = np.sqrt(found.residual[0] / (len(y) - 11))
    assert_each_close(sigma * np.linalg.norm(found.root, axis=1), errors, digits_lost(4))
    plain = np.linalg.lstsq(np.column_stack((np.ones(len(y)), X)), y, rcond=0.0)[0]
    assert np.max(np.abs(plain / coefficients - 1.0)) > SEVEN_DIGITS / 100.0, "float64 alone has fewer digits"


def test_there_is_no_transform_where_none_is_needed_or_none_can_be():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(50, 4))
    assert transform_of(np.linalg.qr(A, mode="r")) is None
    A[:, 3] = A[:, 2]
    assert transform_of(np.linalg.qr(A, mode="r")) is None
    assert transform_of(np.zeros((4, 4))) is None


def test_a_transform_that_enlarges_anything_is_refused():
    X, _, mean = scaled_filip()
    R = np.linalg.qr(X - mean[:-1], mode="r")
    T = transform_of(R)
    expect_transform(R, T)
    T[:, 0] *= 2.0
    with pytest.raises(VerificationFailed):
        expect_transform(R, T)
    with pytest.raises(VerificationFailed):
        refined(T, np.full((11, 11), np.nan), np.zeros((10, 1)), np.zeros((11, 1)), np.ones(1), weight=1.0, mean=mean)
