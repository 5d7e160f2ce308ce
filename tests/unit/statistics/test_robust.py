"""Robust errors from the summed scores of three parties equal statsmodels on the joint rows."""

import numpy as np
import pytest
import statsmodels.api as sm
from tests.tolerances import STATISTIC_BAR, assert_close, assert_each_close

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.statistics.inference import infer, predict
from fedsvd.statistics.robust import ClusterSums, robust, root_of, score_rows
from fedsvd.statistics.undefined import PENALISED, Undefined

KINDS = ("HC0", "HC1", "HC2", "HC3")


def drawn(n=90, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = 1.0 + X @ [1.0, -2.0, 0.0] + rng.normal(size=n) * (0.2 + np.abs(X[:, 0]))
    return X, y, rng.uniform(0.5, 2.0, size=n), rng.integers(0, 12, size=n)


def design(X):
    return np.column_stack((np.ones(len(X)), X))


def plain(X, y, weights=None):
    root = np.ones(len(y)) if weights is None else np.sqrt(weights)
    return infer(np.linalg.qr(np.column_stack((design(X), y)) * root[:, None], mode="r"), len(y))[0]


def clustered(X, y, groups, model):
    sums = ClusterSums(groups, len(model.coefficients))
    sums.add(slice(0, len(y)), score_rows(X, y, model, "HC0"))
    return sums.rows


def assert_same(model, expected):
    assert_each_close(model.standard_errors, expected.bse, STATISTIC_BAR)
    assert_each_close(model.t, expected.tvalues, STATISTIC_BAR)
    assert_each_close(model.p, expected.pvalues, STATISTIC_BAR)
    assert_each_close(model.intervals, expected.conf_int(), STATISTIC_BAR)
    assert_close(model.covariance, expected.cov_params(), STATISTIC_BAR)
    assert_each_close(model.f, float(expected.fvalue), STATISTIC_BAR)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use_t", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_heteroscedastic_errors_are_statsmodels(kind, use_t, weighted):
    X, y, weights, _ = drawn()
    w = weights if weighted else np.ones(len(y))
    model = plain(X, y, w)
    parts = [score_rows(X[i], y[i], model, kind, weights=w[i]) for i in np.array_split(np.arange(len(y)), 3)]
    factor = root_of(sum(part.T @ part for part in parts))
    found = robust(model, factor, kind, use_t=use_t)
    expected = sm.WLS(y, design(X), weights=w).fit(method="qr", cov_type=kind, use_t=use_t)
    assert_same(found, expected)
    if use_t:
        assert_each_close(found.f_p, float(expected.f_pvalue), STATISTIC_BAR)


@pytest.mark.parametrize("use_t", [False, True])
def test_clusters_within_parties_are_statsmodels(use_t):
    X, y, _, groups = drawn()
    order = np.argsort(groups, kind="stable")
    X, y, groups = X[order], y[order], groups[order]
    model = plain(X, y)
    parts = [clustered(X[i], y[i], groups[i], model) for i in (groups < 4, (groups >= 4) & (groups < 7), groups >= 7)]
    clusters = sum(len(part) for part in parts)
    found = robust(model, np.concatenate(parts), "cluster", clusters=clusters, use_t=use_t)
    expected = sm.OLS(y, design(X)).fit(
        method="qr", cov_type="cluster", cov_kwds={"groups": groups, "df_correction": True}, use_t=use_t
    )
    assert clusters == 12
    assert_same(found, expected)


def test_labels_of_clusters_may_be_text():
    X, y, _, groups = drawn()
    model = plain(X, y)
    as_text = clustered(X, y, [f"ward {g}" for g in groups], model)
    as_numbers = clustered(X, y, groups, model)
    assert len(as_text) == len(as_numbers)
    assert_close(as_text.T @ as_text, as_numbers.T @ as_numbers, STATISTIC_BAR)


def test_clusters_may_come_in_panels():
    X, y, _, groups = drawn()
    model = plain(X, y)
    sums, scores = ClusterSums(groups, 4), score_rows(X, y, model, "HC0")
    for rows in (slice(0, 40), slice(40, 90)):
        sums.add(rows, scores[rows])
    assert_close(sums.rows, clustered(X, y, groups, model), STATISTIC_BAR)


def test_confidence_intervals_of_means_use_the_robust_covariance():
    X, y, _, _ = drawn()
    model = plain(X, y)
    found = robust(model, score_rows(X, y, model, "HC1"), "HC1", use_t=True)
    expected = sm.OLS(y, design(X)).fit(cov_type="HC1", use_t=True).get_prediction(design(X[:5]))
    assert_each_close(predict(found, X[:5]).confidence, expected.conf_int(), STATISTIC_BAR)


def test_fewer_clusters_than_features_have_no_joint_test():
    X, y, _, groups = drawn()
    model = plain(X, y)
    part = clustered(X, y, groups % 2, model)
    assert isinstance(robust(model, part, "cluster", clusters=2).f, Undefined)


@pytest.mark.parametrize("kind", ["HC0", "HC1", "HC2", "HC3"])
def test_a_column_that_is_there_twice_has_no_errors_and_the_others_have_theirs(kind):
    X, y, _, _ = drawn()
    twice = np.column_stack((X, X[:, 0]))
    model, expected = plain(twice, y), sm.OLS(y, design(X)).fit(cov_type=kind)
    found = robust(model, score_rows(twice, y, model, kind), kind)
    assert_each_close(found.standard_errors[:-1], expected.bse, STATISTIC_BAR)
    assert_each_close(found.p[:-1], expected.pvalues, STATISTIC_BAR)
    assert_each_close(found.f, expected.fvalue, STATISTIC_BAR)
    assert np.isnan(found.standard_errors[-1])


def test_a_penalty_leaves_no_robust_errors():
    X, y, _, _ = drawn()
    model = infer(np.linalg.qr(np.column_stack((design(X), y)), mode="r"), len(y), alpha=1.0)[0]
    assert robust(model, np.ones((3, 5)), "HC0").standard_errors == PENALISED
    with pytest.raises(ConfigError, match="full rank"):
        score_rows(X, y, model, "HC3")


@pytest.mark.parametrize("kind", ["HC2", "HC3"])
def test_a_row_of_leverage_one_has_no_scores(kind):
    X, y, _, _ = drawn()
    alone = np.column_stack((X, np.arange(len(y)) == 7))
    model = plain(alone, y)
    assert np.isnan(score_rows(alone, y, model, kind)).all()
    assert np.isfinite(score_rows(alone, y, model, "HC1")).all()


def test_what_cannot_be_used_is_refused():
    X, y, _, groups = drawn()
    model = plain(X, y)
    with pytest.raises(ConfigError, match="HC9"):
        score_rows(X, y, model, "HC9")
    with pytest.raises(ConfigError, match="HC9"):
        robust(model, np.ones((3, 4)), "HC9")
    with pytest.raises(ConfigError, match="1 clusters"):
        robust(model, np.ones((3, 4)), "cluster", clusters=1)
    with pytest.raises(ShapeError):
        ClusterSums(groups[:5], 4).add(slice(0, 90), score_rows(X, y, model, "HC0"))
    with pytest.raises(ShapeError):
        score_rows(X[:, :2], y, model)
