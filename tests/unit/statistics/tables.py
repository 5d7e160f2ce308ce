"""What "the same regression table as statsmodels" means, for every statistic that both print."""

import numpy as np
import statsmodels.api as sm
from statsmodels.stats.outliers_influence import variance_inflation_factor
from tests.tolerances import IMPOSSIBLE, STATISTIC_BAR, assert_close, assert_each_close


def fitted(X, y, intercept=True, weights=None, **robust):
    """statsmodels on the joint table, by QR of columns as they are; ``robust`` as its ``fit`` takes it."""
    design = np.column_stack((np.ones(len(X)), X)) if intercept else np.asarray(X)
    if weights is None:
        return sm.OLS(y, design, hasconst=intercept).fit(method="qr", **robust)
    return sm.WLS(y, design, weights=weights, hasconst=intercept).fit(method="qr", **robust)


def assert_table_of(model, expected, bar=STATISTIC_BAR, columns_split=False):
    """Every statistic to ``bar`` of itself; coefficients, whose zero is no size, to ``bar`` of their errors or size."""
    errors = expected.bse
    assert_close(model.coefficients / errors, expected.params / errors, bar)
    assert_close(model.t, expected.tvalues, bar)
    assert_close(model.intervals / errors[:, None], expected.conf_int() / errors[:, None], bar)
    deviations = np.sqrt(np.diag(expected.cov_params()))
    scale = np.outer(deviations, deviations)
    held = ~np.isnan(model.covariance)  # of split columns a party holds its own alone
    assert held.all() or columns_split
    assert_close((model.covariance / scale)[held], (expected.cov_params() / scale)[held], bar)
    for found, wanted in (
        (model.standard_errors, expected.bse),
        (model.sigma, np.sqrt(expected.scale)),
        (model.r2, expected.rsquared),
        (model.adjusted_r2, expected.rsquared_adj),
        (model.f, expected.fvalue),
        (model.log_likelihood, expected.llf),
        (model.aic, expected.aic),
        (model.bic, expected.bic),
    ):
        assert_each_close(found, wanted, bar)
    if not columns_split:
        assert_each_close(model.condition, expected.condition_number, bar)
    # A p-value moves by |t| times what t moves by: where it is next to nothing, that is more than its own digits.
    for found, wanted in ((np.asarray(model.p), expected.pvalues), (np.atleast_1d(model.f_p), [expected.f_pvalue])):
        ordinary = np.asarray(wanted) > IMPOSSIBLE
        assert_each_close(found[ordinary], np.asarray(wanted)[ordinary], bar)
        assert np.all(found[~ordinary] <= IMPOSSIBLE)
    assert (model.df_residual, model.df_model, model.n) == (expected.df_resid, expected.df_model, expected.nobs)


def assert_vif_of(model, X, bar=STATISTIC_BAR):
    """Of a model with an intercept."""
    design = np.column_stack((np.ones(len(X)), X))
    assert_each_close(model.vif, [variance_inflation_factor(design, j) for j in range(1, design.shape[1])], bar)
