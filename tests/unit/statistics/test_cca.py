"""Canonical correlations from own bases and the SVD of the stacked bases, against statsmodels and direct formulas."""

import numpy as np
import pytest
import statsmodels.api as sm
from statsmodels.multivariate.cancorr import CanCorr
from tests.tolerances import STATISTIC_BAR, assert_close, assert_each_close, digits_lost

from fedsvd.errors import ConfigError, NumericalError, ShapeError
from fedsvd.statistics.cca import basis, canonical_loadings, common_weights, correlations, pair_weights, wilks
from fedsvd.statistics.undefined import NO_FREEDOM


def drawn(widths=(3, 4), n=120, seed=11):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 2))
    return [common @ rng.normal(size=(2, w)) + rng.normal(size=(n, w)) + 7.0 for w in widths]


def stacked(bases):
    U, s, Vt = np.linalg.svd(np.concatenate([b.Q for b in bases], axis=1), full_matrices=False)
    return U, s, np.split(Vt, np.cumsum([b.rank for b in bases])[:-1], axis=1)


@pytest.mark.parametrize("widths", [(3, 4), (4, 4), (5, 2)])
def test_two_parties_have_the_correlations_of_statsmodels(widths):
    X, Y = drawn(widths)
    own = [basis(X), basis(Y)]
    _, s, parts = stacked(own)
    rho = correlations(s, (own[0].rank, own[1].rank))
    assert_each_close(rho, CanCorr(X, Y).cancorr, STATISTIC_BAR)
    scores = []
    for data, b, Vt_i in zip((X, Y), own, parts, strict=True):
        found = pair_weights(b, Vt_i, len(rho))
        assert_close(found.scores, (data - data.mean(axis=0)) @ found.weights, digits_lost(4))
        assert_close(found.scores.T @ found.scores, np.eye(len(rho)), digits_lost(5))
        scores.append(found.scores)
    assert_close(scores[0].T @ scores[1], np.diag(rho), digits_lost(4))


def test_dependent_columns_are_left_out_of_the_basis():
    X, Y = drawn()
    wide = np.column_stack((X, X[:, 0] - X[:, 1], np.full(len(X), 2.0)))
    b, c = basis(wide), basis(Y)
    assert b.rank == 3
    assert_close((wide - wide.mean(axis=0)) @ b.W, b.Q, digits_lost(4))
    rho = correlations(stacked([b, c])[1], (3, 4))
    assert_each_close(rho, CanCorr(X, Y).cancorr, STATISTIC_BAR)


def projection(X):
    U, _, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    return U @ U.T


@pytest.mark.parametrize("value", [0.1, 1.0 / 3.0, 123.456, 1e9 + 0.1])
@pytest.mark.parametrize("n", [7, 30, 1000])
def test_a_constant_column_is_no_direction_of_a_basis_whatever_its_digits(n, value):
    """Its mean is rounded: what was left of 0.1 made a column of ones, and two parties with one a correlation of 1."""
    X = np.random.default_rng(n).normal(size=(n, 2))
    found = basis(np.column_stack((X, np.full(n, value))))
    assert found.rank == 2
    assert_close(found.Q @ found.Q.T, projection(X), STATISTIC_BAR)


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e-160, 1e160, 1e300])
def test_columns_in_any_unit_have_the_basis_of_the_usual_one(unit):
    """At 1e-170 a column was taken for a constant one."""
    X, _ = drawn()
    other = X * np.array([unit, 1.0, 1.0])
    found = basis(other)
    assert_close(found.Q @ found.Q.T, projection(X), STATISTIC_BAR)
    score = X @ [1.0, 2.0, 3.0]
    loadings = canonical_loadings(other - other.mean(axis=0), (score - score.mean())[:, None])
    assert_close(loadings[:, 0], [np.corrcoef(column, score)[0, 1] for column in X.T], STATISTIC_BAR)


def test_columns_at_the_end_of_the_range_are_refused():
    X, _ = drawn()
    for unit in (1e-310, 1e307):
        with pytest.raises(NumericalError, match="end of the range"):
            basis(X * unit)


def test_three_parties_have_the_common_variables_of_generalised_cca():
    data = drawn((3, 4, 2))
    own = [basis(X) for X in data]
    U, s, parts = stacked(own)
    projections = sum(b.Q @ b.Q.T for b in own)
    values, vectors = np.linalg.eigh(projections)
    assert_close(s[:2] ** 2, values[::-1][:2], STATISTIC_BAR)
    assert_close(np.abs(vectors[:, ::-1][:, :2].T @ U[:, :2]), np.eye(2), STATISTIC_BAR)
    for X, b, Vt_i in zip(data, own, parts, strict=True):
        found = common_weights(b, Vt_i, s, 2)
        centred = X - X.mean(axis=0)
        assert_close(found.weights, np.linalg.lstsq(centred, U[:, :2])[0], STATISTIC_BAR)
        assert_close(found.scores, centred @ found.weights, digits_lost(4))


@pytest.mark.parametrize("widths", [(3, 3), (2, 2), (5, 5)])
def test_wilks_tests_are_those_of_statsmodels(widths):
    X, Y = drawn(widths)
    reference = CanCorr(X, Y)
    expected = reference.corr_test().stats
    for found, (_, row) in zip(wilks(reference.cancorr, len(X), *widths), expected.iterrows(), strict=True):
        assert_each_close(
            [found.wilks, found.df1, found.df2, found.f, found.f_p],
            row[["Wilks' lambda", "Num DF", "Den DF", "F Value", "Pr > F"]].to_numpy(dtype=float),
            STATISTIC_BAR,
        )


@pytest.mark.parametrize("widths", [(2, 4), (4, 2), (3, 6)])
def test_tables_of_different_widths_have_the_joint_test_of_a_multivariate_regression(widths):
    X, Y = drawn(widths)
    reference = CanCorr(X, Y)
    row = reference.corr_test().stats_mv.loc["Wilks' lambda"]
    found = wilks(reference.cancorr, len(X), *widths)[0]
    assert_each_close(
        [found.wilks, found.df1, found.df2, found.f, found.f_p],
        row[["Value", "Num DF", "Den DF", "F Value", "Pr > F"]].to_numpy(dtype=float),
        STATISTIC_BAR,
    )


@pytest.mark.parametrize("widths", [(1, 1), (1, 5), (5, 1)])
def test_a_single_column_has_the_multiple_correlation_and_the_f_of_its_regression(widths):
    X, Y = drawn(widths)
    own = [basis(X), basis(Y)]
    rho = correlations(stacked(own)[1], widths)
    target, features = (X[:, 0], Y) if widths[0] == 1 else (Y[:, 0], X)
    expected = sm.OLS(target, sm.add_constant(features)).fit()
    assert_each_close(rho, [np.sqrt(expected.rsquared)], STATISTIC_BAR)
    found = wilks(rho, len(X), *widths)[0]
    assert_each_close([found.f, found.f_p], [expected.fvalue, expected.f_pvalue], STATISTIC_BAR)


def test_bartletts_test_has_the_right_size_when_nothing_is_correlated():
    rng = np.random.default_rng(14)
    p = []
    for _ in range(400):
        X, Y = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))
        p.append(wilks(CanCorr(X, Y).cancorr, 60, 3, 2)[0].chi2_p)
    assert abs(np.mean(np.array(p) < 0.1) - 0.1) < 0.05


def test_too_few_rows_have_no_test():
    assert wilks(np.array([0.9]), 4, 3, 3)[0].f == NO_FREEDOM


def test_what_cannot_be_used_is_refused():
    with pytest.raises(ShapeError):
        correlations(np.ones(2), (3, 3))
    with pytest.raises(ConfigError):
        wilks(np.array([0.5, 0.4]), 50, 1, 3)
