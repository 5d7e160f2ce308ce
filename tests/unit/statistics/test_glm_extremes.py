"""Generalised linear models where a fit is exact, counts are large or features nearly dependent; and R's numbers."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
import statsmodels.api as sm
from tests.tolerances import (
    GLM_BAR,
    PRINTED_BAR,
    SEVEN_DIGITS,
    STATISTIC_BAR,
    TEN_DIGITS,
    assert_each_close,
    digits_lost,
)
from tests.unit.statistics.test_glm import fitted, reference

from fedsvd.errors import Separated
from fedsvd.statistics.families import GAMMA, GAUSSIAN, LOGIT, POISSON, PROBIT

# What follows was computed by R 4.2.2 of these eight rows.
X = np.column_stack(([-1.2, -0.7, -0.1, 0.3, 0.8, 1.1, 1.7, 2.2], [0.5, -1.0, 0.25, 2.0, -0.5, 1.5, -2.0, 0.0]))
Y = np.array([1.3, 0.9, 2.2, 1.7, 3.9, 2.8, 6.1, 9.4])
TRIALS = np.array([10.0, 20.0, 15.0, 30.0, 12.0, 25.0, 18.0, 40.0])
SUCCESSES = np.array([2.0, 7.0, 5.0, 14.0, 8.0, 14.0, 13.0, 33.0])


def test_shares_with_trials_as_weights_have_the_likelihood_of_r():
    model, _ = fitted(LOGIT, X, SUCCESSES / TRIALS, weights=TRIALS)
    assert_each_close(model.coefficients, [-0.301660662072813, 0.779955901884787, -0.0845119512586647], GLM_BAR)
    found = [model.aic, model.log_likelihood, model.deviance]
    assert_each_close(found, [33.34586651924667, -13.672933259623335, 1.305684315263807], STATISTIC_BAR)


@pytest.mark.parametrize(
    ("family", "p", "t"),
    [
        (GAMMA, [0.0017469216360217377, 0.0017538453338481, 0.4235666837945866], 6.07442729967227812),
        (GAUSSIAN, [0.007984583075404266, 0.007577964852972807, 0.37878359781950355], 4.26396642390162572),
    ],
    ids=["gamma", "gaussian"],
)
def test_where_a_scale_is_estimated_tests_are_students_as_in_r(family, p, t):
    model, _ = fitted(family, X, Y)
    # R's standard errors are those one iteration before the end.
    assert_each_close(model.p, p, SEVEN_DIGITS)
    assert_each_close(model.z[0], t, SEVEN_DIGITS)
    assert_each_close(model.intervals[:, 1] - model.coefficients, model.standard_errors * 2.5705818356363, TEN_DIGITS)


def test_a_saturated_table_of_shares_is_fitted_as_r_does():
    model, _ = fitted(LOGIT, np.eye(4)[:, 1:], np.array([0.2, 0.5, 0.7, 0.4]), weights=np.array([10.0, 10, 20, 20]))
    assert_each_close(
        model.coefficients, [-1.38629436111989, 1.38629436111989, 2.23359222150709, 0.98082925301173], GLM_BAR
    )
    variances = 1.0 / np.array([10 * 0.2 * 0.8, 10 * 0.5 * 0.5, 20 * 0.7 * 0.3, 20 * 0.4 * 0.6])
    variances[1:] += variances[0]
    assert_each_close(model.standard_errors, np.sqrt(variances), TEN_DIGITS)
    assert_each_close(model.aic, 19.935961433263071, STATISTIC_BAR)
    assert model.deviance < digits_lost(0)


@pytest.mark.parametrize("family", [LOGIT, PROBIT], ids=["logit", "probit"])
@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-5])
def test_shares_that_follow_the_model_are_not_taken_for_separation(family, noise):
    rng = np.random.default_rng(1)
    features, truth = rng.normal(size=(40, 2)), np.array([0.3, 0.5, -0.4])
    eta = truth[0] + features @ truth[1:]
    share = family.evaluate(eta, np.ones(40)).mu
    model, _ = fitted(family, features, np.clip(share + noise * rng.normal(size=40), 0.0, 1.0))
    assert_each_close(model.coefficients, truth, max(GLM_BAR, 100.0 * noise))


def test_small_shares_are_fitted_and_true_separation_is_still_named():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(60, 1))
    small = 1e-7 * np.exp(features[:, 0] / 4.0)
    model, _ = fitted(LOGIT, features, small, max_iterations=60)
    assert_each_close(model.coefficients[1], 0.25, SEVEN_DIGITS * 10.0)
    with pytest.raises(Separated):
        fitted(LOGIT, features, (features[:, 0] > 0.0).astype(float), max_iterations=60)


@pytest.mark.parametrize("level", [18.0, 25.0])
@pytest.mark.parametrize("seed", range(8))
def test_large_counts_converge_to_what_statsmodels_has(level, seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(200, 4))
    counts = rng.poisson(np.exp(level + features @ [0.3, 0.2, -0.5, 0.0])).astype(float)
    model, _ = fitted(POISSON, features, counts)
    expected = reference("poisson log", features, counts)
    # Where counts are 1e11, rounding of a linear predictor of 25 is this much of a standard error.
    assert np.all(np.abs(model.coefficients - expected.params) <= PRINTED_BAR * expected.bse)
    assert_each_close(model.standard_errors, expected.bse, GLM_BAR)


@pytest.mark.parametrize("apart", [1e-4, 1e-7, 1e-9])
@pytest.mark.parametrize("family", [LOGIT, PROBIT, POISSON, GAMMA], ids=["logit", "probit", "poisson", "gamma"])
def test_nearly_dependent_features_converge(family, apart):
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(80, 2))
    features = np.column_stack((Z[:, 0], Z[:, 0] + apart * Z[:, 1]))
    eta = 0.4 + 0.3 * Z[:, 0]
    targets = {
        "binomial": (rng.random(80) < 1.0 / (1.0 + np.exp(-eta))).astype(float),
        "poisson": rng.poisson(np.exp(eta)).astype(float),
        "gamma": rng.gamma(2.0, np.exp(eta)),
    }
    model, _ = fitted(family, features, targets[family.name], max_iterations=50)
    plain, _ = fitted(family, Z, targets[family.name], max_iterations=50)  # the same model in other coordinates
    assert_each_close(model.deviance, plain.deviance, GLM_BAR)
    assert_each_close(model.coefficients[2] * apart, plain.coefficients[2], 1e-14 / apart + GLM_BAR)
    assert_each_close(model.standard_errors[2] * apart, plain.standard_errors[2], 1e-14 / apart + GLM_BAR)


def test_the_deviance_and_the_likelihood_of_a_count_do_not_cancel():
    with localcontext() as context:
        context.prec = 60
        for eta, apart in ((18.0, 1.0), (25.0, -2.5), (30.0, 0.1), (3.0, 1.0), (-2.0, 0.0)):
            mu = Decimal(eta).exp()
            y = float(max(0, round(mu + Decimal(apart) * mu.sqrt())))
            own = Decimal(y) * Decimal(y).ln() - Decimal(y) if y else Decimal(0)
            expected = 2 * (own - Decimal(y) * Decimal(eta) + mu)
            found = POISSON.evaluate(np.array([eta]), np.array([y])).deviance[0]
            # mu itself has a few units in its last place: of a deviance of about 1 they leave these digits.
            assert_each_close(float(found), float(expected), digits_lost(2) * max(1.0, float(mu.sqrt())))


@pytest.mark.parametrize("name", ["binomial logit", "poisson log", "gamma log"])
def test_standard_errors_are_those_at_the_coefficients_however_early_the_end(name):
    family = {"binomial logit": LOGIT, "poisson log": POISSON, "gamma log": GAMMA}[name]
    rng = np.random.default_rng(4)
    features = rng.normal(size=(120, 3))
    eta = 0.2 + features @ [0.5, -0.3, 0.1]
    y = {
        "binomial": (rng.random(120) < 1.0 / (1.0 + np.exp(-eta))).astype(float),
        "poisson": rng.poisson(np.exp(eta)).astype(float),
        "gamma": rng.gamma(2.0, np.exp(eta)),
    }[family.name]
    model, _ = fitted(family, features, y, tolerance=0.05)
    design = sm.add_constant(features)
    mu = model.predict(features)
    weights = {"binomial": mu * (1.0 - mu), "poisson": mu, "gamma": np.ones_like(mu)}[family.name]
    pearson = np.sum(np.square(y - mu) / {"binomial": weights, "poisson": mu, "gamma": np.square(mu)}[family.name])
    scale = pearson / (120 - 4) if family.dispersion else 1.0
    errors = np.sqrt(scale * np.diag(np.linalg.inv(design.T @ (weights[:, None] * design))))
    assert_each_close(model.standard_errors, errors, digits_lost(3))
    assert_each_close(model.pearson, pearson, digits_lost(3))
