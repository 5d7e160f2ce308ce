"""Tables of a few rows, dependent columns and rows of leverage 1: what scikit-learn and R make of them."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn.linear_model import LinearRegression
from tests.tolerances import GLM_BAR, RESULT_BAR, STATISTIC_BAR, assert_close, assert_each_close

from fedsvd import FederatedGLM, FederatedLinearRegression
from fedsvd.estimators.load import load
from fedsvd.policy.rules import Policy
from fedsvd.results.write import write_job
from fedsvd.statistics.undefined import LEVERAGE
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import read_job
from fedsvd.studies.jobs import results_of, run_job

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")

# R 4.2.2, lm(y ~ x1 + x2 + x3 + x4) of these rows, x3 = x1 + 2 x2.
X1 = np.array([-1.2, -0.7, -0.1, 0.3, 0.8, 1.1, 1.7, 2.2])
X2 = np.array([0.5, -1.0, 0.25, 2.0, -0.5, 1.5, -2.0, 0.0])
X4 = np.array([1.0, 0.0, 2.0, 0.0, 1.0, 3.0, 1.0, 0.0])
Y = np.array([1.3, 0.9, 2.2, 1.7, 3.9, 2.8, 6.1, 9.4])
X = np.column_stack((X1, X2, X1 + 2.0 * X2, X4))


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("n", [2, 3, 4, 6, 8])
def test_dependent_columns_of_a_few_rows_have_the_coefficients_of_least_norm(n, inference):
    for seed in range(4):
        rng = np.random.default_rng([n, seed])
        for table in (rng.normal(size=(n, n + 1)), np.repeat(rng.normal(size=(n, max(1, n - 2))), 2, axis=1)):
            y = rng.normal(size=n)
            found = FederatedLinearRegression(inference=inference).fit(table, y)
            expected = LinearRegression().fit(table, y)
            assert_close(found.coef_, expected.coef_, STATISTIC_BAR)
            assert found.rank_ == np.linalg.matrix_rank(table - table.mean(axis=0), tol=STATISTIC_BAR)


def test_the_table_of_dependent_columns_is_that_of_r():
    model = FederatedLinearRegression(inference=True).fit([X[:3], X[3:]], [Y[:3], Y[3:]]).inference_[0]
    nan = np.nan
    assert model.aliased == (3,)
    assert_each_close(
        model.coefficients,
        [2.98318163946109, 2.146096864959176, -0.31958586497760666, nan, -0.5155951079110174],
        STATISTIC_BAR,
    )
    assert_each_close(
        model.standard_errors,
        [0.7854733380846916, 0.49540482395664986, 0.4580575743146496, nan, 0.5466086859999823],
        STATISTIC_BAR,
    )
    assert_each_close(
        model.p,
        [0.019137535919366677, 0.012330221863999626, 0.5237946158038468, nan, 0.39895603623692405],
        STATISTIC_BAR,
    )
    assert_each_close([model.r2, model.f], [0.8469516993213213, 7.3785133674845635], STATISTIC_BAR)
    assert_each_close(model.covariance[1, 4], -0.021280603623502644, STATISTIC_BAR)


@pytest.mark.parametrize("value", [0.0, 2.0, 0.1, 1e9])
@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_constant_column_is_the_aliased_one_wherever_it_stands(place, value):
    """Zeros of a centred column became rounding, which was scaled to a column: coefficients were 1e15."""
    features = X[:, [0, 1, 3]]
    table = np.insert(features, place, value, axis=1)
    linear = FederatedLinearRegression(inference=True).fit([table[:3], table[3:]], [Y[:3], Y[3:]]).inference_[0]
    model = FederatedGLM().fit([table[:3], table[3:]], [Y[:3], Y[3:]]).inference_[0]
    expected = sm.OLS(Y, sm.add_constant(features)).fit()
    for found in (linear, model):
        assert found.aliased == (place + 1,)
        assert_each_close(np.delete(found.coefficients, place + 1), expected.params, STATISTIC_BAR)
        assert_each_close(np.delete(found.standard_errors, place + 1), expected.bse, STATISTIC_BAR)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "gamma"])
def test_a_model_of_dependent_columns_has_the_errors_of_the_others(family):
    plain = FederatedGLM(family).fit(X[:, [0, 1, 3]], Y)
    found = FederatedGLM(family).fit(X, Y)
    model, expected = found.inference_[0], plain.inference_[0]
    assert model.aliased == (3,)
    for name in ("coefficients", "standard_errors", "p"):
        assert_each_close(np.delete(getattr(model, name), 3), getattr(expected, name), GLM_BAR)
        assert np.isnan(getattr(model, name)[3])
    assert_close(found.predict(X), plain.predict(X[:, [0, 1, 3]]), GLM_BAR)
    assert "aliased: x2 (" in str(found.summary())


@pytest.mark.parametrize(
    "asked", ['task = "lr"\nrelease = ["coefficients", "intercept", "inference"]', 'task = "glm"\nfamily = "gaussian"']
)
def test_a_table_with_an_aliased_column_is_read_back(asked, tmp_path):
    text = f'[job]\nname = "again"\n{asked}\nlabel = "y"\n'
    for name, rows in (("a", slice(0, 3)), ("b", slice(3, 6)), ("c", slice(6, 8))):
        table = np.column_stack((X, Y))[rows]
        np.savetxt(tmp_path / f"{name}.csv", table, delimiter=",", header="x1,x2,x3,x4,y", comments="", fmt="%.17g")
        text += f'[[party]]\nname = "{name}"\ndata = "{name}.csv"\n'
    (tmp_path / "job.toml").write_text(text, encoding="utf-8")
    prepared = prepare(read_job(tmp_path / "job.toml"))
    write_job(tmp_path / "out", results_of(prepared, run_job(prepared, policy=Policy.permissive())))
    found = load(tmp_path / "out")
    model = found.inference_[0]
    assert model.aliased == (3,)
    assert np.isnan(model.coefficients[3])
    assert_each_close(model.standard_errors[[1, 4]], [0.49540482395664986, 0.5466086859999823], STATISTIC_BAR)
    frame = pd.DataFrame(X, columns=["x1", "x2", "x3", "x4"])
    assert_close(found.predict(frame), LinearRegression().fit(X, Y).predict(X), STATISTIC_BAR)
    assert "aliased: x3 (" in str(found.summary())


@pytest.mark.parametrize("kind", ["HC2", "HC3"])
def test_a_row_of_leverage_one_leaves_no_errors_that_divide_by_what_is_left(kind):
    rng = np.random.default_rng(0)
    table = np.column_stack((rng.normal(size=(60, 2)), np.arange(60) == 41))  # party 2 has the only row of a group
    y = rng.normal(size=60)
    found = FederatedLinearRegression(inference=True, cov_type=kind).fit([table[:20], table[20:]], [y[:20], y[20:]])
    model = found.inference_[0]
    assert {model.standard_errors, model.p, model.covariance, model.f} == {LEVERAGE}
    assert "leverage 1" in str(found.summary())
    assert found.summary_frame()["se"].isna().all()
    assert_close(model.coefficients[1:], LinearRegression().fit(table, y).coef_, RESULT_BAR)


def test_a_row_of_leverage_one_has_the_errors_that_do_not_divide():
    rng = np.random.default_rng(0)
    table = np.column_stack((rng.normal(size=(60, 2)), np.arange(60) == 41))
    found = FederatedLinearRegression(inference=True, cov_type="HC1").fit(table, rng.normal(size=60))
    assert np.isfinite(found.inference_[0].standard_errors).all()
