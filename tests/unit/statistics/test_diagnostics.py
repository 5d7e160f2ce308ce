"""What a party sees of its own rows equals statsmodels' influence and scikit-learn's curves on the same rows."""

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.calibration import calibration_curve
from sklearn.metrics import roc_auc_score, roc_curve
from tests.tolerances import STATISTIC_BAR, assert_close, assert_each_close

from fedsvd.errors import DataError, ShapeError
from fedsvd.statistics.diagnostics import calibration, deviance_residuals, own_rows, pearson_residuals, roc
from fedsvd.statistics.families import GAMMA, LOGIT, POISSON, PROBIT
from fedsvd.statistics.inference import infer
from fedsvd.statistics.undefined import EXACT_FIT, RANK_LOST


def drawn(n=80, seed=21):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X @ [1.0, 0.0, -1.0] + rng.normal(size=n), rng.uniform(0.5, 2.0, size=n)


def joint(X, y, weights=None):
    root = np.ones(len(y)) if weights is None else np.sqrt(weights)
    M = np.column_stack((np.ones(len(y)), X, y)) * root[:, None]
    return infer(np.linalg.qr(M, mode="r"), len(y))[0]


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_have_the_influence_that_statsmodels_gives_them(weighted):
    X, y, weights = drawn()
    w = weights if weighted else np.ones(len(y))
    model, own = joint(X, y, w), slice(10, 40)
    expected = sm.OLS(y * np.sqrt(w), sm.add_constant(X) * np.sqrt(w)[:, None]).fit(method="qr").get_influence()
    found = own_rows(model, X[own], y[own], weights=w[own])
    assert_each_close(found.leverage, expected.hat_matrix_diag[own], STATISTIC_BAR)
    assert_close(found.residuals, expected.resid[own], STATISTIC_BAR)
    assert_close(found.standardised, expected.resid_studentized_internal[own], STATISTIC_BAR)
    assert_close(found.cooks, expected.cooks_distance[0][own], STATISTIC_BAR)


def test_without_errors_there_is_no_leverage():
    X, y, _ = drawn()
    twice = np.column_stack((X, X[:, 0]))
    found = own_rows(joint(twice, y), twice, y)
    assert found.leverage == RANK_LOST
    assert_close(found.fitted, sm.OLS(y, sm.add_constant(X)).fit().fittedvalues, STATISTIC_BAR)
    assert own_rows(joint(X, np.zeros(len(y))), X, np.zeros(len(y))).cooks == EXACT_FIT
    with pytest.raises(ShapeError):
        own_rows(joint(X, y), X[:, :2], y)


@pytest.mark.parametrize(
    ("family", "reference"),
    [
        (LOGIT, sm.families.Binomial()),
        (PROBIT, sm.families.Binomial(sm.families.links.Probit())),
        (POISSON, sm.families.Poisson()),
        (GAMMA, sm.families.Gamma(sm.families.links.Log())),
    ],
)
def test_residuals_of_generalised_models_are_statsmodels(family, reference):
    X, eta, weights = drawn()
    y = {"binomial": (eta > X[:, 1]).astype(float), "poisson": np.round(np.exp(eta)), "gamma": np.exp(eta)}[family.name]
    expected = sm.GLM(y, X, family=reference, var_weights=weights).fit(maxiter=3)
    linear = X @ expected.params
    assert_close(deviance_residuals(family, linear, y, weights=weights), expected.resid_deviance, STATISTIC_BAR)
    assert_close(pearson_residuals(family, linear, y, weights=weights), expected.resid_pearson, STATISTIC_BAR)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_roc_curve_is_that_of_scikit_learn(weighted):
    X, score, weights = drawn(n=300)
    y, score = (score > X[:, 1]).astype(float), np.round(score, 1)
    w = weights if weighted else None
    found = roc(y, score, weights=w)
    false, true, thresholds = roc_curve(y, score, sample_weight=w, drop_intermediate=False)
    assert_close(found.false_positive, false, STATISTIC_BAR)
    assert_close(found.true_positive, true, STATISTIC_BAR)
    assert np.array_equal(found.thresholds, thresholds)
    assert_each_close(found.area, roc_auc_score(y, score, sample_weight=w), STATISTIC_BAR)


@pytest.mark.parametrize("groups", [1, 5, 10])
def test_calibration_is_that_of_scikit_learn(groups):
    X, score, _ = drawn(n=301)
    y, p = (score > X[:, 1]).astype(float), 1.0 / (1.0 + np.exp(-score))
    found = calibration(y, p, groups)
    observed, predicted = calibration_curve(y, p, n_bins=groups, strategy="quantile")
    assert_close(found.observed, observed, STATISTIC_BAR)
    assert_close(found.predicted, predicted, STATISTIC_BAR)
    assert found.counts.sum() == 301


def test_a_single_outcome_has_no_curve():
    with pytest.raises(DataError):
        roc(np.ones(4), np.arange(4.0))
    with pytest.raises(DataError):
        calibration(np.ones(4), np.ones(3))
