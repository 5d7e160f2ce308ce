"""Scores, whitening, missing features, outliers and component regression, against scikit-learn, SciPy, statsmodels."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from tests.tolerances import STATISTIC_BAR, assert_close, assert_each_close, digits_lost

from fedsvd.errors import ConfigError, DataError, ShapeError
from fedsvd.statistics.projection import Components, component_regression, outliers, q_limit, t2_limit
from fedsvd.statistics.undefined import NO_FREEDOM, Undefined


def wine(k=3):
    X = load_wine().data
    X = (X - X.mean(axis=0)) / X.std(axis=0) + 1.0
    _, s, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    return X, Components(Vt[:k], s[:k], X.mean(axis=0), len(X)), s[k:]


@pytest.mark.parametrize("whiten", [False, True])
def test_scores_and_rows_are_those_of_scikit_learn(whiten):
    X, components, _ = wine()
    expected = PCA(3, svd_solver="full", whiten=whiten).fit(X)
    signs = np.sign(np.sum(expected.components_ * components.Vt, axis=1))
    T = components.scores(X, whiten)
    assert_close(T * signs, expected.transform(X), STATISTIC_BAR)
    assert_close(components.rows(T, whiten), expected.inverse_transform(expected.transform(X)), STATISTIC_BAR)
    assert_each_close(components.variances, expected.explained_variance_, STATISTIC_BAR)


def test_loadings_are_covariances_with_standardised_components():
    X, components, _ = wine()
    T = components.scores(X, whiten=True)
    expected = (X - X.mean(axis=0)).T @ T / (len(X) - 1)
    assert_close(components.loadings(), expected, STATISTIC_BAR)


def test_rows_in_the_span_of_the_components_need_not_be_complete():
    rng = np.random.default_rng(2)
    _, components, _ = wine()
    T = rng.normal(size=(30, 3))
    X = components.rows(T)
    X[rng.random(X.shape) < 0.4] = np.nan
    assert np.isnan(X).any(axis=1).all()
    assert_close(components.scores_of_incomplete(X), T, digits_lost(5))


def test_missing_features_are_projected_by_least_squares():
    X, components, _ = wine()
    X = X[:6].copy()
    X[0, [1, 4]] = X[3, [1, 4]] = X[5, 7] = np.nan
    found = components.scores_of_incomplete(X)
    for i, row in enumerate(X):
        there = ~np.isnan(row)
        expected = np.linalg.pinv(components.Vt[:, there].T) @ (row - components.mean)[there]
        assert_close(found[i], expected, digits_lost(5))
    assert_close(found[[1, 2, 4]], components.scores(X[[1, 2, 4]]), digits_lost(5))


def test_rows_with_too_few_features_are_refused():
    X, components, _ = wine()
    X = X[:4].copy()
    X[2, 2:] = np.nan
    with pytest.raises(DataError, match="1 rows have 2 features"):
        components.scores_of_incomplete(X)


def test_t2_and_q_split_the_distance_of_a_row():
    X, components, others = wine()
    found = outliers(components, X, others)
    centred = X - X.mean(axis=0)
    covariance = np.cov(centred.T)
    values, vectors = np.linalg.eigh(covariance)
    kept = vectors[:, -3:]
    expected = np.einsum("ij,jk,ik->i", centred, kept @ np.diag(1.0 / values[-3:]) @ kept.T, centred)
    assert_close(found.t2, expected, STATISTIC_BAR)
    assert_close(found.q, np.sum(centred**2, axis=1) - np.sum((centred @ kept) ** 2, axis=1), STATISTIC_BAR)


@pytest.mark.parametrize("training", [True, False])
def test_one_row_in_twenty_of_a_normal_population_is_beyond_the_limits(training):
    rng = np.random.default_rng(12)
    spread = np.array([5.0, 4.0, 3.0, 1.0, 0.9, 0.8, 0.7, 0.5])
    X, new = rng.normal(size=(400, 8)) * spread, rng.normal(size=(20000, 8)) * spread
    _, s, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    components = Components(Vt[:3], s[:3], X.mean(axis=0), 400)
    found = outliers(components, X if training else new, s[3:], training=training)
    size = len(found.t2)
    for values, limit in ((found.t2, found.t2_limit), (found.q, found.q_limit)):
        share = float(np.mean(values > limit))
        assert abs(share - 0.05) < (0.03 if training else 0.012), size


def test_limits_are_quantiles():
    new = 3 * (2500 - 1) / (50 * 47) * stats.f.ppf(0.95, 3, 47)
    old = 49**2 / 50 * stats.beta.ppf(0.95, 1.5, 23.0)
    assert_each_close(t2_limit(3, 50, 0.95, training=False), new, STATISTIC_BAR)
    assert_each_close(t2_limit(3, 50, 0.95, training=True), old, STATISTIC_BAR)
    assert t2_limit(5, 6, 0.95, training=True) == NO_FREEDOM
    assert isinstance(q_limit(np.array([]), 0.95), Undefined)


def test_the_limit_of_one_left_out_component_is_nearly_chi_squared():
    expected = 2.0 * stats.chi2.ppf(0.95, 1)
    assert abs(q_limit(np.array([2.0]), 0.95) / expected - 1.0) < 0.03


def test_component_regression_is_least_squares_on_the_scores():
    X, components, _ = wine()
    rng = np.random.default_rng(3)
    y = X @ rng.normal(size=X.shape[1]) + rng.normal(size=len(X))
    T = components.scores(X)
    projected = (T.T @ (y - y.mean())) / components.values
    centred = y - y.mean()
    found = component_regression(components, projected, float(y.mean()), float(centred @ centred))
    expected = sm.OLS(y, sm.add_constant(T)).fit()
    assert_each_close(found.table.coefficients, expected.params, STATISTIC_BAR)
    assert_each_close(found.table.standard_errors, expected.bse, STATISTIC_BAR)
    assert_each_close(found.table.p, expected.pvalues, STATISTIC_BAR)
    assert_each_close([found.table.r2, found.table.aic], [expected.rsquared, expected.aic], STATISTIC_BAR)
    assert_close(X @ found.coefficients + found.intercept, expected.fittedvalues, STATISTIC_BAR)
    left = expected.ssr
    given = component_regression(components, projected, float(y.mean()), float(centred @ centred), residual=left)
    assert_each_close(given.table.standard_errors, expected.bse, STATISTIC_BAR)


def test_what_cannot_be_used_is_refused():
    X, components, others = wine()
    with pytest.raises(ShapeError):
        Components(components.Vt, components.values[:2], components.mean, 10)
    with pytest.raises(ConfigError):
        outliers(components, X, others, level=2.0)
