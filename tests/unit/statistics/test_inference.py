"""Linear regression with inference equals statsmodels on the joint data, for every statistic of the table."""

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LinearRegression, Ridge
from statsmodels.stats.outliers_influence import variance_inflation_factor
from tests.tolerances import STATISTIC_BAR, assert_close, assert_each_close, digits_lost

from fedsvd.errors import ConfigError, NotFinite, ShapeError
from fedsvd.statistics.inference import Totals, infer, infer_block, predict
from fedsvd.statistics.undefined import (
    EXACT_FIT,
    NO_FEATURES,
    NO_FREEDOM,
    NO_VARIATION,
    PENALISED,
    RANK_LOST,
    Undefined,
    is_array,
    is_number,
)


def factor(*columns, weights=None):
    """A factor of the joint rows as a study has it: not triangular, its rows in no order."""
    M = np.column_stack(columns)
    M = M if weights is None else M * np.sqrt(weights)[:, None]
    R = np.linalg.qr(M, mode="r")
    rotation, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(R.shape[0], R.shape[0])))
    return rotation @ R


def with_constant(X):
    return np.column_stack((np.ones(X.shape[0]), X))


def drawn(n=60, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * [1.0, 30.0, 0.1, 2.0][:p] + 3.0
    y = 2.0 + X @ [0.5, -0.02, 3.0, 0.0][:p] + rng.normal(size=n)
    return X, y, rng.uniform(0.2, 4.0, size=n)


SETS = {
    "wine": lambda: (load_wine().data[:, 1:], load_wine().data[:, 0]),
    "breast cancer": lambda: (load_breast_cancer().data[:, 1:20], load_breast_cancer().data[:, 0]),
    "diabetes": lambda: (load_diabetes().data, load_diabetes().target),
    "drawn": lambda: drawn()[:2],
}


def assert_same_table(model, expected):
    for found, wanted in (
        (model.coefficients, expected.params),
        (model.standard_errors, expected.bse),
        (model.t, expected.tvalues),
        (model.p, expected.pvalues),
        (model.intervals, expected.conf_int()),
        (model.sigma, np.sqrt(expected.scale)),
        (model.r2, expected.rsquared),
        (model.adjusted_r2, expected.rsquared_adj),
        (model.f, expected.fvalue),
        (model.f_p, expected.f_pvalue),
        (model.log_likelihood, expected.llf),
        (model.aic, expected.aic),
        (model.bic, expected.bic),
        (model.sums.residual, expected.ssr),
    ):
        assert_each_close(found, wanted, STATISTIC_BAR)
    assert_close(model.covariance, expected.cov_params(), STATISTIC_BAR)
    assert (model.df_residual, model.df_model, model.n) == (expected.df_resid, expected.df_model, expected.nobs)


@pytest.mark.parametrize("name", SETS)
def test_the_table_is_statsmodels(name):
    X, y = SETS[name]()
    # Twenty columns of breast cancer are dependent to 1e-6: both sides lose the same digits unless scaled alike.
    X = X / np.linalg.norm(X, axis=0)
    model = infer(factor(with_constant(X), y), len(y))[0]
    assert_same_table(model, sm.OLS(y, with_constant(X)).fit(method="qr"))


def test_weights_are_those_of_weighted_least_squares():
    X, y, weights = drawn()
    R = factor(with_constant(X), y, weights=weights)
    model = infer(R, len(y), log_weights=float(np.sum(np.log(weights))))[0]
    assert_same_table(model, sm.WLS(y, with_constant(X), weights=weights).fit(method="qr"))


def test_without_intercept_sums_are_around_zero():
    X, y, _ = drawn()
    model = infer(factor(X, y), len(y), intercept=False)[0]
    assert_same_table(model, sm.OLS(y, X).fit(method="qr", hasconst=False))


def test_each_target_has_its_own_table():
    X, y, _ = drawn()
    other = np.sin(y) + X[:, 0]
    first, second = infer(factor(with_constant(X), y, other), len(y), targets=2)
    assert_same_table(first, sm.OLS(y, with_constant(X)).fit(method="qr"))
    assert_same_table(second, sm.OLS(other, with_constant(X)).fit(method="qr"))


def test_an_offset_is_subtracted_from_the_target():
    X, y, weights = drawn()
    model = infer(factor(with_constant(X), y - weights), len(y))[0]
    assert_same_table(model, sm.OLS(y - weights, with_constant(X)).fit(method="qr"))


def test_variance_inflation_and_condition_are_those_of_the_design():
    X, y, _ = drawn()
    X[:, 1] += 20.0 * X[:, 0]
    design = with_constant(X)
    model = infer(factor(design, y), len(y))[0]
    expected = [variance_inflation_factor(design, j) for j in range(1, design.shape[1])]
    assert_each_close(model.vif, expected, STATISTIC_BAR)
    assert_each_close(model.condition, np.linalg.cond(design), STATISTIC_BAR)


def test_variance_inflation_without_intercept_is_around_zero():
    X, y, _ = drawn()
    model = infer(factor(X, y), len(y), intercept=False)[0]
    inverse = np.linalg.inv(X.T @ X)
    assert_each_close(model.vif, np.sum(X**2, axis=0) * np.diag(inverse), STATISTIC_BAR)


def test_units_of_measurement_change_no_p_value():
    X, y, _ = drawn()
    here = infer(factor(with_constant(X), y), len(y))[0]
    there = infer(factor(with_constant(X * [1e-9, 1e3, 1e7, 1.0]), y * 1e6), len(y))[0]
    assert_each_close(there.p, here.p, STATISTIC_BAR)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("weighted", [False, True])
def test_predictions_have_the_intervals_of_statsmodels(level, weighted):
    X, y, weights = drawn()
    w = weights if weighted else np.ones(len(y))
    model = infer(factor(with_constant(X), y, weights=w), len(y), level=level)[0]
    new, new_weights = X[:7] * 1.1, w[:7]
    expected = (
        sm.WLS(y, with_constant(X), weights=w).fit(method="qr").get_prediction(with_constant(new), weights=new_weights)
    )
    found = predict(model, new, weights=new_weights)
    assert_each_close(found.mean, expected.predicted_mean, STATISTIC_BAR)
    assert_each_close(found.standard_errors, expected.se_mean, STATISTIC_BAR)
    assert_each_close(found.confidence, expected.conf_int(alpha=1.0 - level), STATISTIC_BAR)
    assert_each_close(found.prediction, expected.conf_int(obs=True, alpha=1.0 - level), STATISTIC_BAR)


def test_lost_rank_leaves_columns_out_in_their_order_and_the_others_have_their_errors():
    X, y, _ = drawn()
    X = np.column_stack((X, X[:, 0] - X[:, 3], np.ones(len(y))))
    model = infer(factor(with_constant(X), y), len(y))[0]
    reference = sm.OLS(y, with_constant(X[:, :4])).fit()
    assert (model.aliased, model.vif) == ((5, 6), RANK_LOST)
    for found, wanted in (
        (model.coefficients, reference.params),
        (model.standard_errors, reference.bse),
        (model.t, reference.tvalues),
        (model.p, reference.pvalues),
        (model.intervals, reference.conf_int()),
    ):
        assert_each_close(found[:5], wanted, STATISTIC_BAR)
        assert np.isnan(found[5:]).all()
    assert model.rank == 5
    assert_each_close(
        [model.r2, model.f, model.sigma],
        [reference.rsquared, reference.fvalue, np.sqrt(reference.scale)],
        STATISTIC_BAR,
    )
    assert_each_close(
        predict(model, X).prediction,
        reference.get_prediction(with_constant(X[:, :4])).conf_int(obs=True),
        STATISTIC_BAR,
    )
    assert_close(predict(model, X).mean, reference.fittedvalues, STATISTIC_BAR)


@pytest.mark.parametrize("intercept", [True, False])
def test_ridge_has_coefficients_and_no_errors(intercept):
    X, y, _ = drawn()
    columns = (with_constant(X), y) if intercept else (X, y)
    model = infer(factor(*columns), len(y), intercept=intercept, alpha=5.0)[0]
    expected = Ridge(alpha=5.0, fit_intercept=intercept, solver="svd").fit(X, y)
    assert_close(model.coefficients[int(intercept) :], expected.coef_, STATISTIC_BAR)
    if intercept:
        assert_each_close(model.coefficients[0], expected.intercept_, STATISTIC_BAR)
        assert_each_close(model.r2, expected.score(X, y), STATISTIC_BAR)
    assert_each_close(model.sums.residual, np.sum((y - expected.predict(X)) ** 2), STATISTIC_BAR)
    for missing in (model.standard_errors, model.p, model.sigma, model.f, model.aic, model.bic, model.adjusted_r2):
        assert missing == PENALISED


@pytest.mark.parametrize("n", [3, 5])
def test_no_more_rows_than_coefficients_leave_no_errors(n):
    X, y, _ = drawn(n=n)
    model = infer(factor(with_constant(X), y), n)[0]
    assert model.standard_errors == NO_FREEDOM
    for missing in (model.sigma, model.f, model.adjusted_r2):
        assert missing == NO_FREEDOM
    expected = LinearRegression().fit(X, y).predict(X)
    assert_close(predict(model, X).mean, expected, digits_lost(6))


def test_a_target_that_does_not_vary_has_no_r2():
    X, y, _ = drawn()
    model = infer(factor(with_constant(X), np.zeros(len(y))), len(y))[0]
    assert model.r2 == NO_VARIATION
    assert model.adjusted_r2 == NO_VARIATION
    assert model.t == EXACT_FIT
    assert model.aic == EXACT_FIT


def test_a_constant_alone_has_no_f():
    _, y, _ = drawn()
    model = infer(factor(np.ones(len(y)), y), len(y))[0]
    assert (model.f, model.vif) == (NO_FEATURES, NO_FEATURES)
    assert_each_close(model.standard_errors, [np.std(y, ddof=1) / np.sqrt(len(y))], STATISTIC_BAR)


@pytest.mark.parametrize("shared_mean", [True, False])
def test_on_split_columns_each_party_has_the_rows_of_its_own_features(shared_mean):
    X, y, _ = drawn()
    n, means = len(y), X.mean(axis=0)
    U, s, Vt = np.linalg.svd(X - means, full_matrices=False)
    centred = y - y.mean()
    Uty = U.T @ centred
    left = centred - U @ Uty
    sums = Totals(n, float(left @ left), float(centred @ centred), float(Uty @ Uty))
    expected = sm.OLS(y, with_constant(X)).fit(method="qr")
    projected = Vt @ means if shared_mean else None
    inflation = [variance_inflation_factor(with_constant(X), j) for j in range(1, 5)]
    for own in (slice(0, 1), slice(1, 4)):
        model = infer_block(s, Vt[:, own], Uty, sums, rank=4, y_mean=float(y.mean()), projected_mean=projected)
        rows = [*([0] if shared_mean else []), *(1 + np.arange(4)[own])]
        for found, wanted in (
            (model.coefficients, expected.params[rows]),
            (model.standard_errors, expected.bse[rows]),
            (model.p, expected.pvalues[rows]),
            (model.intervals, expected.conf_int()[rows]),
            (model.vif, np.array(inflation)[own]),
            (model.f_p, expected.f_pvalue),
            (model.aic, expected.aic),
            (model.adjusted_r2, expected.rsquared_adj),
        ):
            assert_each_close(found, wanted, STATISTIC_BAR)
        assert_close(model.covariance, expected.cov_params()[np.ix_(rows, rows)], STATISTIC_BAR)


def test_on_split_columns_lost_rank_is_said_too():
    X, y, _ = drawn()
    X = np.column_stack((X, X[:, 0]))
    U, s, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    centred = y - y.mean()
    Uty = U.T @ centred
    reached = float(Uty[:4] @ Uty[:4])
    total = float(centred @ centred)
    model = infer_block(s, Vt[:, :2], Uty, Totals(len(y), total - reached, total, reached), rank=4)
    assert model.standard_errors == RANK_LOST
    assert model.condition == float("inf")
    assert_close(
        model.coefficients, np.linalg.lstsq(X - X.mean(axis=0), centred, rcond=digits_lost(2))[0][:2], digits_lost(5)
    )


def test_an_undefined_statistic_is_no_number():
    reason = Undefined("it is so")
    assert not is_number(reason)
    assert not is_array(reason)
    assert is_number(0.0)
    assert str(reason) == "not defined: it is so"


def test_what_cannot_be_used_is_refused():
    X, y, _ = drawn()
    R = factor(with_constant(X), y)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        infer(R, len(y), level=95.0)
    with pytest.raises(ShapeError):
        infer(R, len(y), targets=6)
    with pytest.raises(NotFinite):
        infer(np.full((3, 3), np.nan), 3)
    with pytest.raises(ShapeError):
        predict(infer(R, len(y))[0], X[:, :2])
    with pytest.raises(ShapeError):
        infer_block(np.ones(2), np.ones((3, 2)), np.ones(2), Totals(9, 1.0, 2.0, 1.0), rank=2)


@pytest.mark.scale
def test_two_hundred_features_of_two_hundred_thousand_rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200_000, 200)) * np.geomspace(1.0, 1e3, 200) + 1.0
    y = X @ (rng.normal(size=200) / np.geomspace(1.0, 1e3, 200)) + rng.normal(size=200_000)
    model = infer(np.linalg.qr(np.column_stack((with_constant(X), y)), mode="r"), len(y))[0]
    assert_same_table(model, sm.OLS(y, with_constant(X)).fit(method="qr"))
