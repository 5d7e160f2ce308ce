"""A path of ridge penalties from one SVD: errors and choice of scikit-learn, and of rows left out one by one."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV
from tests.tolerances import GLM_BAR, STATISTIC_BAR, assert_close, assert_each_close
from tests.unit.statistics.driving import shares

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.statistics.ridge_path import RidgePath, coefficients, generalised, leave_one_out_rows, left_out, penalties

ALPHAS = np.logspace(-3, 4, 22)


def drawn(n=50, p=8, targets=1, seed=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + 2.0
    y = X @ rng.normal(size=(p, targets)) / 3.0 + 4.0 * rng.normal(size=(n, targets)) + 5.0
    return X, y, rng.uniform(0.5, 3.0, size=n)


def joint(X, y, weights=None, intercept=True):
    w = np.ones(len(X)) if weights is None else weights
    mean = np.average(X, axis=0, weights=w) if intercept else np.zeros(X.shape[1])
    y_mean = np.average(y, axis=0, weights=w) if intercept else np.zeros(y.shape[1])
    root = np.sqrt(w)[:, None]
    U, s, Vt = np.linalg.svd(root * (X - mean), full_matrices=False)
    centred = root * (y - y_mean)
    left = centred - U @ (U.T @ centred)
    path = RidgePath(s, U.T @ centred, np.sum(left**2, axis=0), len(X), intercept)
    return path, Vt, mean, y_mean


def summed(X, y, weights, path, Vt, mean, y_mean):
    return sum(
        leave_one_out_rows(
            X[i],
            y[i],
            mean,
            y_mean,
            Vt,
            path,
            ALPHAS,
            weights=None if weights is None else weights[i],
            weight_sum=None if weights is None else float(weights.sum()),
        )
        for i in shares(len(X))
    )


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("shape", [(50, 8), (12, 20)])
def test_leave_one_out_chooses_as_scikit_learn(intercept, targets, shape):
    X, y, _ = drawn(*shape, targets=targets)
    path, Vt, mean, y_mean = joint(X, y, intercept=intercept)
    choice = left_out(path, ALPHAS, summed(X, y, None, path, Vt, mean, y_mean))
    expected = RidgeCV(alphas=ALPHAS, fit_intercept=intercept, store_cv_results=True).fit(X, y)
    errors = expected.cv_results_.reshape(len(X), -1, len(ALPHAS)).mean(axis=(0, 1))
    assert_each_close(choice.errors, errors, GLM_BAR)
    assert choice.alpha == expected.alpha_
    w = coefficients(np.hstack((X - mean, y - y_mean)), np.ones(X.shape[1] + targets), [choice.alpha], X.shape[1])[0]
    assert_close(w.T, expected.coef_.reshape(targets, -1), GLM_BAR)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_is_what_refitting_without_each_row_gives(intercept, weighted):
    X, y, weights = drawn(n=20, p=4)
    w = weights if weighted else None
    path, Vt, mean, y_mean = joint(X, y, w, intercept)
    choice = left_out(path, ALPHAS, summed(X, y, w, path, Vt, mean, y_mean))
    prior = weights if weighted else np.ones(len(X))
    for a in (0, 9, 21):
        squares = []
        for i in range(len(X)):
            rest = np.arange(len(X)) != i
            model = Ridge(alpha=ALPHAS[a], fit_intercept=intercept, solver="svd")
            model.fit(X[rest], y[rest, 0], sample_weight=prior[rest])
            squares.append(prior[i] * (y[i, 0] - model.predict(X[i : i + 1])[0]) ** 2)
        assert_each_close(choice.errors[a], np.mean(squares), GLM_BAR)


@pytest.mark.parametrize("intercept", [True, False])
def test_generalised_cross_validation_is_that_of_the_hat_matrix(intercept):
    X, y, _ = drawn(targets=2)
    path, _, mean, y_mean = joint(X, y, intercept=intercept)
    choice = generalised(path, ALPHAS)
    centred, target = X - mean, y - y_mean
    expected = []
    for alpha in ALPHAS:
        hat = centred @ np.linalg.solve(centred.T @ centred + alpha * np.eye(X.shape[1]), centred.T)
        hat += 1.0 / len(X) if intercept else 0.0
        left = target - hat @ target
        expected.append(len(X) * np.mean(np.sum(left**2, axis=0)) / (len(X) - np.trace(hat)) ** 2)
    assert_each_close(choice.errors, expected, STATISTIC_BAR)
    assert choice.best == np.argmin(expected)
    assert choice.method == "gcv"


def test_coefficients_of_a_path_are_those_of_each_penalty_whatever_the_columns_are_scaled_by():
    X, y, _ = drawn()
    centred = np.hstack((X - X.mean(axis=0), y - y.mean(axis=0)))
    powers = np.ldexp(1.0, np.random.default_rng(3).integers(-20, 20, 9))
    expected = [Ridge(alpha=alpha, solver="svd").fit(X, y).coef_.reshape(1, -1).T for alpha in ALPHAS]
    assert_close(coefficients(centred * powers, powers, ALPHAS, 8), expected, STATISTIC_BAR)


def test_a_direction_without_variance_has_no_degree_of_freedom():
    X, y, _ = drawn()
    X = np.column_stack((X, np.full(len(X), 3.0)))
    path, _, _, _ = joint(X, y)
    values = np.where(path.values < path.values[0] * GLM_BAR, 0.0, path.values)
    exact = RidgePath(values, path.projected, path.outside, path.n, True)
    assert exact.freedom(np.array([0.0]))[0] == 9.0


def test_what_cannot_be_used_is_refused():
    X, y, _ = drawn()
    path, Vt, mean, y_mean = joint(X, y)
    for wrong in ([], [0.0], [-1.0], [np.nan], [[1.0]]):
        with pytest.raises(ConfigError):
            penalties(wrong)
    with pytest.raises(ShapeError):
        leave_one_out_rows(X[:, :3], y, mean[:3], y_mean, Vt, path, ALPHAS)
    X, y, _ = drawn(n=6, p=9)
    with pytest.raises(ConfigError, match="degrees of freedom"):
        generalised(joint(X, y)[0], [np.finfo(float).tiny])
