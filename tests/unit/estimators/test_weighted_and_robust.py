"""Weights, offsets, robust errors and clusters of FederatedLinearRegression are those of statsmodels' WLS."""

from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from tests.tolerances import FITTED_BAR, STATISTIC_BAR, assert_close, assert_each_close, digits_lost
from tests.unit.statistics.tables import assert_table_of, fitted

from fedsvd import FederatedGLM, FederatedLinearRegression, Masks
from fedsvd.errors import ConfigError, DataError, FedSVDError, SplitView

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
ENDS = (0, 150, 260, 420)
KINDS = ("HC0", "HC1", "HC2", "HC3")


def drawn(p=5, seed=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ENDS[-1], p)) * np.geomspace(0.1, 10.0, p) + 3.0
    noise = rng.normal(size=ENDS[-1]) * (0.5 + np.abs(X[:, 1] - 3.0))
    y = X @ (rng.normal(size=p) / np.geomspace(0.1, 10.0, p)) + noise
    return X, y, rng.uniform(0.2, 4.0, ENDS[-1]), rng.normal(size=ENDS[-1])


def parts(array):
    return [array[start:stop] for start, stop in pairwise(ENDS)]


def wards(seed=5):
    """Each cluster at one party."""
    return np.concatenate(
        [
            10 * i + np.random.default_rng(seed + i).integers(0, 8, len(own))
            for i, own in enumerate(parts(np.zeros(420)))
        ]
    )


def fit(X, y, weights=None, **options):
    groups, offset = options.pop("groups", None), options.pop("offset", None)
    regression = FederatedLinearRegression(**{"inference": True} | options)
    return regression.fit(parts(X), parts(y), weights, offset, groups)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("targets", [1, 2])
def test_weighted_tables_are_those_of_wls(intercept, targets):
    X, y, weights, offset = drawn()
    Y = np.column_stack((y, np.sin(y)))[:, :targets]
    models = fit(X, Y, parts(weights), offset=offset, fit_intercept=intercept).inference_
    assert len(models) == targets
    for k, model in enumerate(models):
        assert_table_of(model, fitted(X, Y[:, k] - offset, intercept, weights))


@pytest.mark.parametrize(("kind", "weighted"), [*product(KINDS, [False, True])])
def test_robust_errors_are_those_of_statsmodels(kind, weighted):
    X, y, weights, _ = drawn()
    weights = weights if weighted else None
    expected = fitted(X, y, weights=weights, cov_type=kind)
    (model,) = fit(X, y, weights, cov_type=kind).inference_
    assert_robust(model, expected)
    assert (model.kind, model.distribution) == (kind, "normal")


@pytest.mark.parametrize("weighted", [False, True])
def test_errors_robust_to_clusters_are_those_of_statsmodels(weighted):
    X, y, weights, _ = drawn()
    weights, groups = weights if weighted else None, wards()
    expected = fitted(X, y, weights=weights, cov_type="cluster", cov_kwds={"groups": groups})
    (model,) = fit(X, y, weights, groups=parts(groups)).inference_
    assert_robust(model, expected)


def assert_robust(model, expected):
    assert_each_close(model.standard_errors, expected.bse, STATISTIC_BAR)
    assert_each_close(model.p, expected.pvalues, STATISTIC_BAR)
    assert_each_close(model.f, float(expected.fvalue), STATISTIC_BAR)
    scale = np.outer(expected.bse, expected.bse)
    assert_close(model.covariance / scale, expected.cov_params() / scale, STATISTIC_BAR)
    assert_close(model.intervals / expected.bse[:, None], expected.conf_int() / expected.bse[:, None], STATISTIC_BAR)
    assert_each_close([model.r2, model.log_likelihood], [expected.rsquared, expected.llf], STATISTIC_BAR)


def test_a_cluster_with_one_name_at_two_parties_counts_as_two():
    X, y, _, _ = drawn()
    names = wards() % 10
    apart = names + 10 * np.repeat(np.arange(3), np.diff(ENDS))
    expected = fitted(X, y, cov_type="cluster", cov_kwds={"groups": apart})
    assert_each_close(fit(X, y, groups=names).inference_[0].standard_errors, expected.bse, STATISTIC_BAR)


def test_clusters_are_each_partys_own_and_counted_so_and_joint_names_are_refused():
    X, y, _, _ = drawn()
    names = wards() % 10
    own = sum(len(np.unique(part)) for part in np.split(names, ENDS[1:-1]))
    found = fit(X, y, groups=names, clusters="own")
    assert found.inference_[0].clusters == own
    assert f"cluster, {own}" in str(found.summary())
    with pytest.raises(ConfigError, match="which names others have"):
        fit(X, y, groups=names, clusters="joint")


def test_several_targets_have_robust_errors_each():
    X, y, _, _ = drawn()
    Y = np.column_stack((y, np.sin(y)))
    for k, model in enumerate(fit(X, Y, cov_type="HC3").inference_):
        assert_robust(model, fitted(X, Y[:, k], cov_type="HC3"))


def test_columns_by_name_are_no_features():
    X, y, weights, offset = drawn(p=3)
    groups = wards()
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(w=weights, o=offset, ward=[f"ward {g}" for g in groups])
    regression = FederatedLinearRegression(inference=True, cluster="ward")
    regression.fit(parts(table), parts(y), sample_weight="w", offset="o")
    assert list(regression.feature_names_in_) == ["a", "b", "c"]
    expected = fitted(X, y - offset, weights=weights, cov_type="cluster", cov_kwds={"groups": groups})
    assert_robust(regression.inference_[0], expected)
    assert "cluster" in str(regression.summary())
    given = parts(table)
    given[1] = given[1].drop(columns="w")
    with pytest.raises(ConfigError, match="no such column at party 2"):
        regression.fit(given, parts(y), sample_weight="w")


def test_rows_of_weight_zero_are_left_out():
    X, y, weights, _ = drawn()
    weights[::7] = 0.0
    there = weights > 0.0
    assert_table_of(fit(X, y, weights).inference_[0], fitted(X[there], y[there], weights=weights[there]))


@pytest.mark.parametrize("options", [{}, {"masks": Masks(mode="A")}, {"alpha": 2.5}, {"fit_intercept": False}])
def test_without_inference_weights_give_the_coefficients_of_scikit_learn(options):
    X, y, weights, _ = drawn()
    alpha, intercept = options.get("alpha", 0.0), options.get("fit_intercept", True)
    twin = Ridge(alpha, fit_intercept=intercept, solver="svd") if alpha else LinearRegression(fit_intercept=intercept)
    twin.fit(X, y, weights)
    found = fit(X, y, weights, inference=False, **options)
    assert_close(found.predict(X), twin.predict(X), FITTED_BAR)
    assert_close(found.coef_, twin.coef_, digits_lost(5))


@pytest.mark.parametrize("alpha", [0.0, 3.0])
def test_weights_of_split_columns_give_the_coefficients_of_scikit_learn(alpha):
    X, y, weights, _ = drawn()
    weights[3] = 0.0
    twin = Ridge(alpha, solver="svd") if alpha else LinearRegression()
    twin.fit(X, y, weights)
    found = FederatedLinearRegression(alpha, split="vertical", ids="trust").fit([X[:, :2], X[:, 2:]], y, weights)
    assert_close(found.coef_, twin.coef_, digits_lost(5))
    assert_close(found.intercept_, twin.intercept_, digits_lost(5))


def test_weights_of_split_columns_that_differ_between_parties_end_the_session():
    from fedsvd.data.open import open_source
    from fedsvd.protocol.tasks import Split, Task
    from fedsvd.studies.parties import PartyData
    from fedsvd.studies.run import run_study
    from fedsvd.studies.study import Study

    X, y, weights, _ = drawn()
    other = weights.copy()
    other[7] *= 2.0
    study = Study(Task.LR, Split.VERTICAL, targets=1, label_user=2, weighted=True, trust_rows=True)
    parties = [
        PartyData(open_source(X[:, :2]), row_weights=weights),
        PartyData(open_source(X[:, 2:]), y[:, None], row_weights=other),
    ]
    with pytest.raises(SplitView):
        run_study(study, parties)


def test_a_ridge_and_lost_rank_print_reasons_with_weights_and_robust_errors_too():
    X, y, weights, _ = drawn()
    ridge = fit(X, y, weights, alpha=2.0, cov_type="HC1")
    assert_each_close(ridge.inference_[0].r2, Ridge(2.0, solver="svd").fit(X, y, weights).score(X, y, weights),
                      STATISTIC_BAR)  # fmt: skip
    assert "a penalty shrinks the coefficients" in str(ridge.summary())
    lost = fit(np.column_stack((X, X[:, 0] - X[:, 1])), y, weights, cov_type="HC1")
    assert lost.summary_frame()["se"].isna().tolist() == [False] * 6 + [True]
    assert "aliased: x5 (" in str(lost.summary())
    constant = fit(np.ones_like(X), np.ones_like(y), weights, groups=wards())
    assert "the target does not vary" in str(constant.summary())


def test_minimum_norm_with_weights_is_that_of_scikit_learn():
    X, y, weights, _ = drawn()
    X = np.column_stack((X, X[:, :2]))
    twin = LinearRegression().fit(X, y, weights)
    assert_close(fit(X, y, weights).coef_, twin.coef_, digits_lost(5))


def test_predictions_with_weights_have_the_intervals_of_statsmodels():
    X, y, weights, _ = drawn()
    new, ahead = X[:7] * 1.1, np.linspace(0.5, 3.0, 7)
    design = np.column_stack((np.ones(7), new))
    expected = fitted(X, y, weights=weights).get_prediction(design, weights=ahead).summary_frame(alpha=0.1)
    found = fit(X, y, weights).prediction_frame(new, level=0.9, sample_weight=ahead)
    wanted = expected[["mean", "mean_se", "mean_ci_lower", "mean_ci_upper", "obs_ci_lower", "obs_ci_upper"]]
    assert_close(found.to_numpy(), wanted.to_numpy(), STATISTIC_BAR)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cov_type": "HC9"}, "cov_type"),
        ({"cov_type": "HC3", "inference": False}, "inference=True"),
        ({"cov_type": "HC3", "groups": wards()}, "two kinds"),
        ({"weights": -np.ones(420)}, "not above 0"),
        ({"weights": np.zeros(420)}, "weight 0"),
        ({"weights": np.full(420, np.nan)}, "NaN"),
    ],
)
def test_what_cannot_be_had_is_refused(options, said):
    X, y, _, _ = drawn()
    with pytest.raises((FedSVDError, ValueError), match=said):
        fit(X, y, options.pop("weights", None), **options)


@pytest.mark.parametrize("empty", [np.nan, None, ""])
def test_a_row_without_a_cluster_is_refused_and_is_no_cluster_of_its_own(empty):
    X, y, _, _ = drawn()
    groups = np.array(["a", "b", "c"] * len(y), dtype=object)[: len(y)]
    groups[[3, 8]] = empty
    with pytest.raises(DataError, match="rows of party 1 have no cluster"):
        fit(X, y, groups=groups)


def test_what_is_missing_in_weights_and_in_an_offset_is_named_as_such():
    X, y, weights, _ = drawn()
    holed = np.where(np.arange(len(y)) == 3, np.nan, weights)
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        fit(X, y, holed)
    with pytest.raises(ValueError, match="offset contains NaN"):
        FederatedLinearRegression().fit(X, y, offset=holed)
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        FederatedGLM().fit(X, y, sample_weight=holed)
    with pytest.raises(ValueError, match="offset contains NaN"):
        FederatedGLM().fit(X, y, offset=holed)
