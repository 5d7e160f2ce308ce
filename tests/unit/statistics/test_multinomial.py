"""Logistic regression of several classes equals statsmodels' MNLogit and scikit-learn on the joint rows."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import special
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from tests.tolerances import GLM_BAR, assert_close, assert_each_close
from tests.unit.statistics.driving import drive

from fedsvd.errors import ConfigError, DataError, Separated, ShapeError
from fedsvd.statistics import multinomial
from fedsvd.statistics.irls import Request
from fedsvd.statistics.undefined import PENALISED


def drawn(classes=4, n=600, seed=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    eta = X @ rng.normal(size=(3, classes)) + rng.normal(size=classes)
    return X, np.argmax(eta + rng.gumbel(size=eta.shape), axis=1), rng.uniform(0.5, 2.0, size=n)


def fitted(X, y, classes, *, intercept=True, weights=None, **settings):
    def contribute(request, rows):
        own = None if weights is None else weights[rows]
        return multinomial.contribution(request, X[rows], y[rows], classes, intercept=intercept, weights=own)

    return drive(multinomial.fit(classes, X.shape[1], intercept=intercept, **settings), contribute, len(y))


def probabilities(model, X):
    coefficients = model.symmetric()
    intercepts = coefficients[:, 0] if model.intercept else 0.0
    return special.softmax(X @ coefficients[:, int(model.intercept) :].T + intercepts, axis=1)


@pytest.mark.parametrize("classes", [3, 5])
def test_the_table_is_statsmodels(classes):
    X, y, _ = drawn(classes)
    model, requests = fitted(X, y, classes)
    expected = sm.MNLogit(y, sm.add_constant(X)).fit(method="newton", disp=0, tol=1e-13, maxiter=100)
    for found, wanted in (
        (model.coefficients, expected.params.T),
        (model.standard_errors, expected.bse.T),
        (model.z, expected.tvalues.T),
        (model.p, expected.pvalues.T),
        (model.intervals, expected.conf_int().reshape(model.intervals.shape)),
        (model.log_likelihood, expected.llf),
        (model.aic, expected.aic),
        (model.bic, expected.bic),
        (model.null_deviance, -2.0 * expected.llnull),
    ):
        assert_each_close(found, wanted, GLM_BAR)
    assert_close(model.covariance, expected.cov_params(), GLM_BAR)
    assert len(requests) == model.iterations + 2  # the start, each iteration, and the end


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.5, 20.0])
def test_a_penalised_model_is_scikit_learn(intercept, alpha):
    X, y, weights = drawn()
    model, _ = fitted(X, y, 4, intercept=intercept, alpha=alpha, weights=weights)
    solver = LogisticRegression(C=1.0 / alpha, fit_intercept=intercept, solver="newton-cholesky", tol=1e-12)
    expected = solver.fit(X, y, sample_weight=weights)
    assert_close(model.symmetric()[:, int(intercept) :], expected.coef_, GLM_BAR)
    assert_close(probabilities(model, X), expected.predict_proba(X), GLM_BAR)
    assert model.standard_errors == PENALISED


def test_wine_has_three_classes():
    data = load_wine()
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    model, _ = fitted(X, data.target, 3, alpha=1.0)
    expected = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12).fit(X, data.target)
    assert_close(probabilities(model, X), expected.predict_proba(X), GLM_BAR)
    assert_close(model.symmetric()[:, 0], expected.intercept_, GLM_BAR)
    with pytest.raises(Separated):
        fitted(X, data.target, 3)


def test_what_cannot_be_used_is_refused():
    X, y, _ = drawn()
    with pytest.raises(ConfigError, match="binomial"):
        next(multinomial.fit(2, 3))
    with pytest.raises(DataError, match="no row"):
        fitted(X, y, 5)
    start = Request("step", 0, None, ("rows",), gram=True)
    with pytest.raises(DataError, match="whole numbers"):
        multinomial.contribution(start, X, y, 3)
    with pytest.raises(DataError, match="whole numbers"):
        multinomial.contribution(start, X, y + 0.5, 6)
    with pytest.raises(ShapeError):
        multinomial.contribution(Request("step", 1, np.zeros(5), (), gram=True), X, y, 4)
