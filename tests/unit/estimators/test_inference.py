"""FederatedLinearRegression with inference has the table of statsmodels on the joint data, however rows are split."""

import copy
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.tolerances import SEVEN_DIGITS, STATISTIC_BAR, TEN_DIGITS, assert_close, assert_each_close, digits_lost
from tests.unit.statistics.certified import exactly_fitted, filip_set, longley_set, wampler_set
from tests.unit.statistics.tables import assert_table_of, assert_vif_of, fitted

from fedsvd import FederatedLinearRegression, Masks
from fedsvd.errors import ConfigError, NotFittedError
from fedsvd.protocol.tasks import Item, Mode

from .joint import DIVISIONS, cut

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


def generated(n=400, p=6, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) @ (np.eye(p) + 0.3 * rng.normal(size=(p, p))) * np.geomspace(0.1, 10.0, p) + 7.0
    return X, X @ (rng.normal(size=p) / np.geomspace(0.1, 10.0, p)) + rng.normal(size=n)


SETS = {
    "wine": lambda: (load_wine().data[:, 1:], load_wine().data[:, 0]),
    "breast cancer": lambda: (load_breast_cancer().data[:, 1:20], load_breast_cancer().data[:, 0]),
    "generated": generated,
}


def thirds(*arrays):
    return [np.array_split(array, 3) for array in arrays]


def fit(X, y, shares=DIVISIONS["three"], **options):
    ends = np.cumsum([len(part) for part in cut(np.asarray(X), shares, 0)])
    rows = [slice(start, stop) for start, stop in pairwise([0, *ends])]
    parts, labels = [X[own] for own in rows], [y[own] for own in rows]
    return FederatedLinearRegression(inference=True, **options).fit(parts, labels)


@pytest.mark.filterwarnings("ignore:the mean of column:fedsvd.errors.DataWarning")  # parties are unlike
@pytest.mark.parametrize("name", SETS)
def test_three_parties_have_the_table_of_statsmodels_on_the_joint_data(name):
    X, y = SETS[name]()
    regression = fit(X, y)
    assert regression.plan_.mode is Mode.A
    assert regression.plan_.releases(Item.INFERENCE)
    (model,) = regression.inference_
    assert_table_of(model, fitted(X, y))
    assert_vif_of(model, X)


@pytest.mark.parametrize("data", [longley_set(), *map(wampler_set, range(1, 6))], ids=["longley", *"12345"])
def test_longley_and_wampler_have_ten_certified_digits(data):
    (model,) = fit(data.X, data.y).inference_
    assert_each_close(model.coefficients, data.coefficients, TEN_DIGITS)
    if data.f is None:
        assert np.max(model.standard_errors) < TEN_DIGITS
        assert model.r2 == 1.0
    else:
        assert_each_close(model.standard_errors, data.errors, TEN_DIGITS)
        assert_each_close([model.sigma, model.r2, model.f], [data.sigma, data.r2, data.f], TEN_DIGITS)


def test_filip_has_seven_certified_digits_and_all_that_its_float64_numbers_have():
    data = filip_set()
    regression = fit(data.X, data.y)
    (model,) = regression.inference_
    assert_each_close(model.coefficients, data.coefficients, SEVEN_DIGITS)
    assert_each_close(model.standard_errors, data.errors, SEVEN_DIGITS)
    assert_each_close([model.sigma, model.r2, model.f], [data.sigma, data.r2, data.f], SEVEN_DIGITS)
    # Powers of x are rounded to float64 before anyone sees them; on these numbers rational arithmetic has no error.
    coefficients, errors = exactly_fitted(data.X, data.y)
    assert_each_close(model.coefficients, coefficients, digits_lost(4))
    assert_each_close(model.standard_errors, errors, digits_lost(4))
    np.testing.assert_array_equal(regression.coef_, model.coefficients[1:])
    assert regression.intercept_ == model.coefficients[0]


@pytest.mark.filterwarnings("ignore:the .* of column:fedsvd.errors.DataWarning")  # parties are unlike
def test_weights_and_means_far_from_zero_are_refined_as_well():
    data, weights = filip_set(), np.random.default_rng(1).uniform(0.1, 3.0, 82)
    model = FederatedLinearRegression(inference=True).fit(*thirds(data.X, data.y), thirds(weights)[0]).inference_[0]
    coefficients, errors = exactly_fitted(data.X, data.y, weights)
    assert_each_close(model.coefficients, coefficients, digits_lost(5))
    assert_each_close(model.standard_errors, errors, digits_lost(5))
    years = np.arange(2000.0, 2060.0)[:, None] ** np.arange(1, 5)
    target = np.cos(years[:, 0])
    (model,) = fit(years, target).inference_
    coefficients, errors = exactly_fitted(years, target)
    assert_each_close(model.coefficients, coefficients, digits_lost(5))
    assert_each_close(model.standard_errors, errors, digits_lost(5))


def test_twenty_thousand_rows_of_fifty_features_have_the_table_of_statsmodels():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(20_000, 50)) * np.geomspace(0.1, 10.0, 50) + rng.normal(size=50)
    y = X @ (0.02 * rng.normal(size=50)) + rng.normal(size=20_000)
    (model,) = fit(X, y).inference_
    assert_table_of(model, fitted(X, y))


@pytest.mark.parametrize("division", DIVISIONS)
def test_the_table_does_not_depend_on_who_holds_which_rows(division):
    X, y = generated()
    (model,) = fit(X, y, DIVISIONS[division]).inference_
    assert_table_of(model, fitted(X, y))


def test_several_targets_and_no_intercept():
    X, y = generated()
    Y = np.column_stack((y, np.cos(y)))
    for k, model in enumerate(fit(X, Y).inference_):
        assert_table_of(model, fitted(X, Y[:, k]))
    (model,) = fit(X, y, fit_intercept=False).inference_
    assert_table_of(model, fitted(X, y, intercept=False))


def test_the_coefficients_of_the_table_are_those_of_the_estimator_bit_by_bit():
    X, y = generated()
    regression = fit(X, y)
    frame = regression.summary_frame()
    np.testing.assert_array_equal(frame["coef"].to_numpy()[1:], regression.coef_)
    assert_each_close(frame["coef"].iloc[0], regression.intercept_, digits_lost(1))


def test_without_inference_the_same_coefficients_come_and_nothing_else():
    X, y = generated()
    plain = FederatedLinearRegression().fit(cut(X, DIVISIONS["three"], 0), cut(y, DIVISIONS["three"], 0))
    assert plain.plan_.mode is Mode.B
    assert plain.inference_ == ()
    assert_close(plain.coef_, fit(X, y).coef_, digits_lost(4))
    with pytest.raises(ConfigError, match="inference=True"):
        plain.summary()
    with pytest.raises(NotFittedError):
        FederatedLinearRegression(inference=True).summary()


@pytest.mark.filterwarnings("ignore:the mean of column:fedsvd.errors.DataWarning")  # parties are unlike
def test_the_summary_is_text_and_html_with_the_names_of_the_columns():
    wine = load_wine(as_frame=True).data
    regression = fit(wine.iloc[:, 1:], wine["alcohol"])
    expected = fitted(wine.iloc[:, 1:].to_numpy(), wine["alcohol"].to_numpy())
    text = str(regression.summary())
    assert "alcohol" in text
    assert f"{expected.rsquared:.6g}" in text
    assert f"{expected.params[2]:.5g}" in next(line for line in text.splitlines() if line.startswith("ash "))
    html = regression.summary()._repr_html_()
    assert '<th scope="row">(intercept)</th>' in html
    assert '<th scope="row">od280/od315_of_diluted_wines</th>' in html
    assert "0.5%" in str(regression.summary(level=0.99))


def test_the_frame_has_a_row_to_each_term_and_to_each_target():
    X, y = generated()
    expected = fitted(X, y)
    frame = fit(X, y).summary_frame(level=0.9)
    assert list(frame.columns) == ["coef", "se", "t", "p", "low", "high"]
    assert list(frame.index) == ["(intercept)", *(f"x{j}" for j in range(6))]
    assert_each_close(frame["se"], expected.bse, STATISTIC_BAR)
    assert_close(frame[["low", "high"]].to_numpy() / expected.bse[:, None],
                 expected.conf_int(0.1) / expected.bse[:, None], STATISTIC_BAR)  # fmt: skip
    both = fit(pd.DataFrame(X), pd.DataFrame({"a": y, "b": np.cos(y)})).summary_frame()
    assert both.index.names == ["target", "term"]
    assert_each_close(both.loc["b", "se"], fitted(X, np.cos(y)).bse, STATISTIC_BAR)
    with pytest.raises(ConfigError):
        fit(X, y).summary(target=1)


def test_predictions_have_the_intervals_of_statsmodels():
    X, y = generated()
    new = X[:5] * 1.1
    expected = fitted(X, y).get_prediction(np.column_stack((np.ones(5), new))).summary_frame(alpha=0.1)
    found = fit(X, y).prediction_frame(new, level=0.9)
    wanted = expected[["mean", "mean_se", "mean_ci_lower", "mean_ci_upper", "obs_ci_lower", "obs_ci_upper"]]
    assert_close(found.to_numpy(), wanted.to_numpy(), STATISTIC_BAR)


def test_a_ridge_prints_the_reason_instead_of_standard_errors():
    X, y = generated()
    regression = fit(X, y, alpha=2.0)
    twin = Ridge(2.0, solver="svd").fit(X, y)
    assert_each_close(regression.inference_[0].r2, twin.score(X, y), STATISTIC_BAR)
    assert "a penalty shrinks the coefficients" in str(regression.summary())
    assert regression.summary_frame()[["se", "t", "p", "low", "high"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("columns", "rows"), [("constant", 400), ("dependent", 400), ("as they are", 6), ("as they are", 7)]
)
def test_where_standard_errors_do_not_exist_none_is_printed(columns, rows):
    X, y = generated(n=rows)
    more = {"constant": np.full(rows, 2.0), "dependent": X[:, 0] - 3.0 * X[:, 1]}
    table = np.column_stack((X, more[columns])) if columns in more else X
    regression = fit(table, y)
    missing, text = regression.summary_frame()["se"].isna(), str(regression.summary())
    if columns not in more:
        assert missing.all()
        assert "not more rows than coefficients" in text
    else:
        assert missing.tolist() == [False] * 7 + [True]
        assert "aliased: x6 (" in text
        expected = fitted(X, y)
        model = regression.inference_[0]
        assert_each_close(model.coefficients[:7], expected.params, STATISTIC_BAR)
        assert_each_close(model.standard_errors[:7], expected.bse, STATISTIC_BAR)
        least = LinearRegression().fit(table, y)  # of least norm, for predictions
        assert_close(regression.coef_, least.coef_, STATISTIC_BAR)
        assert model.df_residual == expected.df_resid
        assert_each_close(
            [model.r2, model.f, model.aic], [expected.rsquared, expected.fvalue, expected.aic], STATISTIC_BAR
        )


def test_a_target_and_features_that_do_not_vary_are_named_as_such():
    regression = fit(np.ones((40, 2)), np.full(40, 3.0))
    assert "the target does not vary" in str(regression.summary())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"masks": Masks(mode="B")}, "mode 'B'"),
        ({"masks": Masks(scheme="mask")}, "exact sum"),
    ],
)
def test_where_no_party_may_hold_the_gram_matrix_inference_is_refused_with_the_way_out(options, said):
    X, y = generated()
    with pytest.raises(ConfigError, match=said) as refusal:
        FederatedLinearRegression(inference=True, **options).fit(X, y)
    assert "leave inference out" in refusal.value.fix


def test_it_is_an_estimator_like_any_other():
    X, y = generated()
    regression = clone(FederatedLinearRegression(inference=True)).fit(X, y)
    assert str(copy.deepcopy(regression).summary()) == str(regression.summary())
    pipe = make_pipeline(StandardScaler(), FederatedLinearRegression(inference=True)).fit(X, y)
    assert_each_close(pipe[-1].inference_[0].r2, fitted(X, y).rsquared, STATISTIC_BAR)
    search = GridSearchCV(FederatedLinearRegression(), {"inference": [True, False]}, cv=2).fit(X, y)
    assert_close(*search.cv_results_["mean_test_score"], digits_lost(4))
