"""A table from a factor of centred columns and their means is that of the columns as they are."""

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.datasets import load_wine
from sklearn.linear_model import Ridge
from tests.tolerances import assert_each_close, digits_lost
from tests.unit.statistics.tables import assert_table_of, assert_vif_of, fitted

from fedsvd.errors import ShapeError
from fedsvd.statistics.centred import infer_centred
from fedsvd.statistics.undefined import NO_FREEDOM, NO_VARIATION, PENALISED, RANK_LOST


def drawn(n=80, p=4, seed=0, far=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * [1.0, 30.0, 0.1, 2.0][:p] + far
    return X, 2.0 + X @ [0.5, -0.02, 3.0, 0.0][:p] + rng.normal(size=n)


def opened(X, y, alpha=0.0, intercept=True):
    """What the parties hold: a factor in no order, the means, and coefficients that scikit-learn or NumPy found."""
    Y = y.reshape(len(y), -1)
    table = np.column_stack((X, Y))
    mean = table.mean(axis=0) if intercept else None
    about = table if mean is None else table - mean
    ridge = np.column_stack((np.sqrt(alpha) * np.eye(X.shape[1]), np.zeros((X.shape[1], Y.shape[1]))))
    R = np.linalg.qr(np.concatenate((about, ridge)), mode="r")
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(len(R), len(R))))[0]
    A, b = np.concatenate((about, ridge))[:, : X.shape[1]], np.concatenate((about, ridge))[:, X.shape[1] :]
    w, _, rank, _ = np.linalg.lstsq(A, b)
    return {"R": rotation @ R, "n": len(X), "w": w, "mean": mean, "rank": int(rank), "alpha": alpha}


@pytest.mark.parametrize("far", [0.0, 1e4])
def test_the_table_is_that_of_statsmodels_also_where_columns_lie_far_from_zero(far):
    X, y = drawn(far=far)
    (model,) = infer_centred(**opened(X, y))
    # statsmodels factorises the columns as they are, and loses the digits of their distance from zero.
    assert_table_of(model, fitted(X, y), digits_lost(6) * max(1.0, far))
    assert_vif_of(model, X)


def test_wine_has_the_table_of_statsmodels():
    X, y = load_wine().data[:, 1:], load_wine().data[:, 0]
    (model,) = infer_centred(**opened(X, y))
    assert_table_of(model, fitted(X, y))
    assert_vif_of(model, X)


def test_each_target_has_its_own_table_and_the_intercept_its_mean():
    X, y = drawn()
    other = np.sin(y) + X[:, 0]
    first, second = infer_centred(**opened(X, np.column_stack((y, other))))
    assert_table_of(first, fitted(X, y))
    assert_table_of(second, fitted(X, other))


def test_without_means_there_is_no_intercept():
    X, y = drawn()
    (model,) = infer_centred(**opened(X, y, intercept=False))
    assert not model.intercept
    assert_table_of(model, fitted(X, y, intercept=False))


def test_a_ridge_leaves_coefficients_and_r2_and_names_the_reason_for_all_else():
    X, y = drawn()
    (model,) = infer_centred(**opened(X, y, alpha=3.0))
    twin = Ridge(3.0, solver="svd").fit(X, y)
    assert_each_close(model.coefficients, [twin.intercept_, *twin.coef_], digits_lost(4))
    assert_each_close(model.r2, twin.score(X, y), digits_lost(4))
    undefined = (model.standard_errors, model.t, model.p, model.intervals, model.covariance, model.vif, model.sigma)
    assert {*undefined, model.adjusted_r2, model.f, model.f_p, model.log_likelihood, model.aic, model.bic} == {
        PENALISED
    }


def test_where_rank_is_lost_the_model_as_one_is_that_of_the_columns_that_are_left():
    X, y = drawn()
    (model,) = infer_centred(**opened(np.column_stack((X, X[:, 0] - X[:, 1])), y))
    expected = fitted(X, y)
    assert (model.aliased, model.vif) == ((5,), RANK_LOST)
    for found, wanted in (
        (model.coefficients, expected.params),
        (model.standard_errors, expected.bse),
        (model.t, expected.tvalues),
        (model.p, expected.pvalues),
        (model.intervals, expected.conf_int()),
    ):
        assert_each_close(found[:5], wanted, digits_lost(6))
        assert np.isnan(found[5]).all()
    assert np.isnan(model.covariance[5]).all()
    assert np.isnan(model.covariance[:, 5]).all()
    assert (model.df_residual, model.rank) == (expected.df_resid, 5)
    for found, wanted in ((model.sigma**2, expected.scale), (model.r2, expected.rsquared), (model.f, expected.fvalue)):
        assert_each_close(found, wanted, digits_lost(6))


def test_a_rank_that_the_parties_found_smaller_than_rounding_says_is_the_rank_of_the_table():
    X, y = drawn()
    held = opened(np.column_stack((X, X[:, 0] + 1e-9 * np.sin(X[:, 1]))), y)
    full, lost = infer_centred(**held)[0], infer_centred(**held | {"rank": 4})[0]
    assert (full.df_residual, lost.df_residual) == (74, 75)
    assert lost.aliased == (5,)
    assert np.isfinite(lost.standard_errors[:5]).all()


def test_without_rows_beyond_the_coefficients_no_likelihood_is_taken_of_rounding():
    X, y = drawn(n=5)
    (model,) = infer_centred(**opened(X, y))
    assert model.df_residual == 0
    assert {model.standard_errors, model.sigma, model.log_likelihood, model.aic, model.bic, model.f} == {NO_FREEDOM}


def test_a_target_that_does_not_vary_has_no_r2():
    X, _ = drawn()
    (model,) = infer_centred(**opened(X, np.full(len(X), 3.0)))
    assert model.r2 == NO_VARIATION


def test_a_factor_of_other_columns_is_refused():
    with pytest.raises(ShapeError):
        infer_centred(np.eye(4), 10, np.zeros((4, 1)), mean=None, rank=4)


def test_the_constant_of_statsmodels_is_our_intercept():
    X, y = drawn()
    (model,) = infer_centred(**opened(X, y))
    assert_each_close(model.standard_errors[0], sm.OLS(y, sm.add_constant(X)).fit().bse[0], digits_lost(6))
