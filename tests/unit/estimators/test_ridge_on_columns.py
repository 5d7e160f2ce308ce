"""FederatedRidgeCV with columns split: generalised cross-validation of the joint data, coefficients of RidgeCV."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import Ridge, RidgeCV
from tests.tolerances import GLM_BAR, RESULT_BAR, SEVEN_DIGITS, assert_close, assert_each_close

from fedsvd import FederatedLinearRegression, FederatedRidgeCV, Policy, Simulation
from fedsvd.errors import DigitsLost, ReleaseRefused

from .joint import DIVISIONS, cut

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
ALPHAS = np.logspace(-4, 4, 17)
SETS = {
    "wine": lambda: (load_wine().data[:, 1:], load_wine().data[:, 0]),
    "breast cancer": lambda: (load_breast_cancer().data[:, 1:20], load_breast_cancer().data[:, 0]),
    "diabetes": lambda: (20.0 * load_diabetes().data, load_diabetes().target),
}


def errors_of(X, y, intercept, weights=None):
    """Of every penalty, by its formula: ``n RSS / (n - df)^2`` of weighted rows about their means."""
    w = np.ones(len(y)) if weights is None else weights
    Y = y.reshape(len(y), -1)
    if intercept:
        X, Y = X - np.average(X, axis=0, weights=w), Y - np.average(Y, axis=0, weights=w)
    U, s, _ = np.linalg.svd(np.sqrt(w)[:, None] * X, full_matrices=False)
    Z, found = np.sqrt(w)[:, None] * Y, []
    for alpha in ALPHAS:
        kept = s**2 / (s**2 + alpha)
        residual = np.sum((Z - U @ (kept[:, None] * (U.T @ Z))) ** 2, axis=0).mean()
        found.append(len(Y) * residual / (len(Y) - kept.sum() - intercept) ** 2)
    return np.array(found)


def fit(X, y, shares=DIVISIONS["three"], sample_weight=None, **options):
    asked = {"split": "vertical", "ids": "trust", "choose_by": "gcv"} | options
    return FederatedRidgeCV(ALPHAS, **asked).fit(cut(X, shares, 1), y, sample_weight=sample_weight)


@pytest.mark.filterwarnings("ignore::fedsvd.errors.DigitsLost")  # areas of 1000 next to shares of 0.01
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", SETS)
def test_the_curve_and_the_coefficients_are_those_of_the_joint_data(name, intercept):
    X, y = SETS[name]()
    found, errors = fit(X, y, fit_intercept=intercept), errors_of(X, y, intercept)
    assert_each_close(found.cv_errors_, errors, GLM_BAR)
    assert found.alpha_ == ALPHAS[np.argmin(errors)]
    twin = Ridge(found.alpha_, fit_intercept=intercept, solver="svd").fit(X, y)
    assert_close(found.coef_, twin.coef_, GLM_BAR)
    assert_close(found.intercept_, twin.intercept_, GLM_BAR, scale=1.0 + abs(float(twin.intercept_)))
    assert not hasattr(found, "coef_path_")


@pytest.mark.parametrize("division", DIVISIONS)
def test_scikit_learn_chooses_the_same_where_rows_have_equal_leverage(division):
    """Its generalised cross-validation is leave-one-out; with equal leverages, as of a design of signs, both agree."""
    signs = np.array([[(-1.0) ** bin(i & j).count("1") for j in range(1, 9)] for i in range(64)])
    y = signs @ np.arange(8.0) + 20.0 * np.random.default_rng(1).normal(size=64)
    twin = RidgeCV(ALPHAS, gcv_mode="svd").fit(signs, y)
    found = fit(signs, y, DIVISIONS[division])
    assert found.alpha_ == twin.alpha_
    assert_close(found.coef_, twin.coef_, GLM_BAR)


@pytest.mark.parametrize("holder", [0, 1, 2])
def test_weights_several_targets_and_any_label_holder(holder):
    X, y = SETS["diabetes"]()
    weights = np.random.default_rng(0).uniform(0.3, 2.0, len(y))
    Y = np.column_stack((y, 1e-3 * np.sqrt(y)))
    found = fit(X, Y, sample_weight=weights, label_party=holder)
    errors = errors_of(X, Y, True, weights)
    assert_each_close(found.cv_errors_, errors, GLM_BAR)
    twin = Ridge(ALPHAS[np.argmin(errors)], solver="svd").fit(X, Y, sample_weight=weights)
    for k in range(2):
        assert_close(found.coef_[k], twin.coef_[k], GLM_BAR)


def test_columns_that_do_not_vary_or_repeat_others_are_no_obstacle():
    X, y = SETS["diabetes"]()
    table = np.column_stack((X, np.full(len(y), 3.0), X[:, 0]))
    found = fit(table, y)
    assert_each_close(found.cv_errors_, errors_of(table, y, True), GLM_BAR)
    assert_close(found.coef_, Ridge(found.alpha_, solver="svd").fit(table, y).coef_, GLM_BAR)


@pytest.mark.filterwarnings("ignore::fedsvd.errors.DigitsLost")
def test_the_label_holder_sees_the_spectrum_and_this_asks_for_consent():
    X, y = SETS["breast cancer"]()
    X = np.column_stack((X, X[:, ::-1] ** 2))
    with pytest.raises(ReleaseRefused, match="singular values of the joint columns"):
        fit(X, y, DIVISIONS["two equal"], federation=Simulation(policy=Policy(enforce=True)))
    agreed = fit(
        X, y, DIVISIONS["two equal"], federation=Simulation(policy=Policy(enforce=True, consent_to_columns=True))
    )
    assert agreed.alpha_ in ALPHAS


def by_scaled_columns(X, y, alpha):
    """A ridge by least squares, its rows below the data, every column at unit length."""
    rows = np.sqrt(alpha) * np.eye(X.shape[1])
    below = np.concatenate((X - X.mean(axis=0), rows))
    length = np.linalg.norm(below, axis=0)
    target = np.concatenate((y - y.mean(), np.zeros(len(rows))))
    return np.linalg.lstsq(below / length, target)[0] / length


@pytest.mark.filterwarnings("ignore::fedsvd.errors.DigitsLost")
@pytest.mark.parametrize("reach", [0, 3, 6])
def test_no_coefficient_is_farther_off_than_the_result_says_whatever_units_columns_are_in(reach):
    for seed in range(6):
        rng = np.random.default_rng([20, reach, seed])
        n, p = int(rng.integers(24, 120)), int(rng.integers(4, 20))
        plain = rng.normal(size=(n, p)) @ (np.eye(p) + rng.integers(0, 2) * rng.normal(size=(p, p)))
        X, y = plain * 10.0 ** rng.uniform(-reach, reach, p), plain @ rng.normal(size=p) + rng.normal(size=n)
        found = fit(X, y, DIVISIONS["two equal"])
        off = np.abs(found.coef_ - by_scaled_columns(X, y, found.alpha_)).max()
        assert off <= found.coef_within_
        assert found.coef_within_ <= off * 1e6 + RESULT_BAR  # it says something


def test_coefficients_without_digits_are_not_silent_and_one_penalty_has_them_all():
    rng = np.random.default_rng(23)
    plain = rng.normal(size=(60, 6))
    X, y = plain * 10.0 ** np.array([-6.0, -4.0, 6.0, 0.0, 3.0, -6.0]), plain @ rng.normal(size=6) + rng.normal(size=60)
    with pytest.warns(DigitsLost, match="first two digits: features are in units far apart"):
        found = fit(X, y, DIVISIONS["two equal"])
    single = FederatedLinearRegression(found.alpha_, split="vertical", ids="trust").fit(
        cut(X, DIVISIONS["two equal"], 1), y
    )
    assert_each_close(single.coef_, by_scaled_columns(X, y, found.alpha_), GLM_BAR)


@pytest.mark.filterwarnings("ignore::fedsvd.errors.DigitsLost")  # of coefficients that hardly count
@pytest.mark.parametrize("seed", range(8))
def test_more_columns_than_rows_in_units_from_1e_minus_3_to_1e3_are_fitted(seed):
    """What blinds leave along a null space is longer than any solution: the CSP was blamed for its rounding."""
    rng = np.random.default_rng([20, 61, seed])
    n, p = int(rng.integers(4, 10)), int(rng.integers(10, 20))
    plain = rng.normal(size=(n, p))
    X, y = plain * 10.0 ** rng.uniform(-3, 3, p), plain[:, 0] + rng.normal(size=n)
    found = fit(X, y, DIVISIONS["two equal"])
    exact = by_scaled_columns(X, y, found.alpha_)
    assert np.abs(found.coef_ - exact).max() <= found.coef_within_
    assert_close(found.coef_ * X.std(axis=0), exact * X.std(axis=0), SEVEN_DIGITS)  # what a column adds to a prediction
