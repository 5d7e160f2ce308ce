"""A generalised linear model of ours and one of statsmodels: every figure that both have is the same."""

from tests.tolerances import GLM_BAR, assert_close, assert_each_close


def assert_same(model, expected):
    for found, wanted in (
        (model.coefficients, expected.params),
        (model.standard_errors, expected.bse),
        (model.z, expected.tvalues),
        (model.p, expected.pvalues),
        (model.intervals, expected.conf_int()),
        (model.deviance, expected.deviance),
        (model.null_deviance, expected.null_deviance),
        (model.pearson, expected.pearson_chi2),
        (model.scale, expected.scale),
        (model.log_likelihood, expected.llf),
        (model.aic, expected.aic),
        (model.bic, expected.bic_llf),
    ):
        assert_each_close(found, wanted, GLM_BAR)
    assert_close(model.covariance, expected.cov_params(), GLM_BAR)
    assert (model.df_residual, model.n) == (expected.df_resid, expected.nobs)
