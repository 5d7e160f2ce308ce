"""FederatedCCA against NumPy, statsmodels and scikit-learn on the joint data; more parties against the definition."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.cross_decomposition import CCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from statsmodels.multivariate.cancorr import CanCorr
from tests.tolerances import (
    ACCEPTED,
    REJECTED,
    RESULT_BAR,
    STATISTIC_BAR,
    VALUES_BAR,
    assert_close,
    assert_each_close,
    digits_lost,
)

from fedsvd import FederatedCCA, Masks
from fedsvd.errors import ConfigError, ConstantData, ShapeError
from fedsvd.protocol.tasks import Mode, Scheme

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


def drawn(widths=(4, 3), n=200, seed=11):
    """Tables that share two directions, on scales and with means of their own."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 2)) * [1.0, 0.6]
    return [
        (common @ rng.normal(size=(2, w)) + rng.normal(size=(n, w))) * np.logspace(0, i, w) + 7.0 * i
        for i, w in enumerate(widths)
    ]


def fitted(tables, **options):
    return FederatedCCA(ids="trust", **options).fit(tables)


def orthonormal(X):
    return np.linalg.qr(X - X.mean(axis=0))[0]


@pytest.mark.parametrize("widths", [(4, 3), (3, 3), (1, 5)])
def test_two_parties_have_the_correlations_of_statsmodels_and_numpy(widths):
    X, Y = drawn(widths)
    found = fitted([X, Y])
    assert_each_close(found.correlations_, CanCorr(Y, X).cancorr[: min(widths)], STATISTIC_BAR)
    expected = np.linalg.svd(orthonormal(X).T @ orthonormal(Y), compute_uv=False)
    assert_close(found.correlations_, expected, VALUES_BAR)
    a, b = (party.scores_ for party in found.parties_)
    assert_close(a.T @ b, np.diag(expected), RESULT_BAR)
    assert_close(a.T @ a, np.eye(min(widths)), RESULT_BAR)
    for table, party in zip((X, Y), found.parties_, strict=True):
        assert_close((table - table.mean(axis=0)) @ party.weights_, party.scores_, RESULT_BAR)
        assert_close(
            party.loadings_, np.corrcoef(table.T, party.scores_.T)[: table.shape[1], table.shape[1] :], RESULT_BAR
        )


def test_the_scores_are_those_of_scikit_learn_but_for_sign_and_scale():
    X, Y = drawn(n=400)
    found = fitted([X, Y], n_components=2)
    twin = CCA(n_components=2, scale=True, max_iter=20000, tol=digits_lost(1)).fit(X, Y)
    for own, theirs in zip(found.parties_, twin.transform(X, Y), strict=True):
        alike = [abs(np.corrcoef(own.scores_[:, j], theirs[:, j])[0, 1]) for j in range(2)]
        assert_close(alike, np.ones(2), STATISTIC_BAR)  # scikit-learn iterates


def test_tests_are_wilks_raos_and_bartletts():
    X, Y = drawn()
    found = fitted([X, Y])
    rho, n, p, q = found.correlations_, 200, 4, 3
    for i, test in enumerate(found.tests_):
        wilks = np.prod(1 - rho[i:] ** 2)
        assert_each_close(test.wilks, wilks, STATISTIC_BAR)
        a, b = p - i, q - i
        t = np.sqrt((a * a * b * b - 4) / (a * a + b * b - 5)) if a * a + b * b > 5 else 1.0
        df1, df2 = a * b, (n - 1.5 - (p + q) / 2) * t - a * b / 2 + 1
        F = (1 - wilks ** (1 / t)) / wilks ** (1 / t) * df2 / df1
        assert_each_close([test.f, test.df1, test.df2], [F, df1, df2], STATISTIC_BAR)
        assert_each_close(test.f_p, stats.f.sf(F, df1, df2), STATISTIC_BAR)
        chi2 = -(n - 1 - (p + q + 1) / 2) * np.log(wilks)
        assert_each_close([test.chi2, test.chi2_p], [chi2, stats.chi2.sf(chi2, a * b)], STATISTIC_BAR)
    assert found.tests_[0].f_p < REJECTED
    assert found.tests_[-1].f_p > ACCEPTED


def test_few_variables_have_the_same_first_correlations_and_no_tests():
    X, Y = drawn()
    found = fitted([X, Y], n_components=1)
    assert_close(found.correlations_, fitted([X, Y]).correlations_[:1], VALUES_BAR)
    assert not hasattr(found, "tests_")
    assert "needs all 3 correlations, 1 were asked for" in found.no_tests_


def test_columns_that_depend_on_others_are_left_out_and_the_ranks_are_found():
    X, Y = drawn()
    wide = np.column_stack((Y, Y[:, 0] - 2 * Y[:, 1], np.full(len(Y), 3.0)))
    found = fitted([X, wide])
    assert [party.rank_ for party in found.parties_] == [4, 3]
    assert_close(found.correlations_, fitted([X, Y]).correlations_, VALUES_BAR)
    assert_each_close(found.tests_[0].f_p, fitted([X, Y]).tests_[0].f_p, STATISTIC_BAR)


@pytest.mark.parametrize(
    ("rows", "scheme", "expected"), [(200, "auto", Scheme.MASK), (9, "auto", Scheme.SUM), (200, "sum", Scheme.SUM)]
)
def test_both_families_give_the_same_numbers(rows, scheme, expected):
    tables = drawn((5, 5), n=rows)
    found = fitted(tables, masks=Masks(scheme=scheme))
    assert found.plan_.scheme is expected
    assert found.plan_.mode is (Mode.B if expected is Scheme.SUM else None)
    rho = np.linalg.svd(orthonormal(tables[0]).T @ orthonormal(tables[1]), compute_uv=False)
    assert_close(found.correlations_, rho, VALUES_BAR)


def test_several_parties_have_the_common_variables_of_the_sum_of_their_projections():
    tables = drawn((4, 3, 2))
    found = fitted(tables)
    projections = sum(Q @ Q.T for Q in map(orthonormal, tables))
    values, vectors = np.linalg.eigh(projections)
    assert_close(found.correlations_, values[::-1][:2] / 3, VALUES_BAR)
    assert_close(np.abs(vectors[:, ::-1][:, :2].T @ found.U_), np.eye(2), RESULT_BAR)
    for X, party in zip(tables, found.parties_, strict=True):
        centred = X - X.mean(axis=0)
        assert_close(party.scores_, centred @ np.linalg.lstsq(centred, found.U_, rcond=None)[0], RESULT_BAR)
    assert "of two tables" in found.no_tests_


@pytest.mark.parametrize("widths", [(4, 3), (4, 3, 2)])
def test_the_common_variables_of_new_rows_are_the_same_sum_over_parties(widths):
    tables = drawn(widths)
    found = fitted(tables)
    assert_close(found.transform(tables), found.U_, RESULT_BAR)
    assert_close(found.transform(np.hstack(tables)[:9]), found.U_[:9], RESULT_BAR)
    assert_close(found.variates(tables[1][:5], 1), found.parties_[1].scores_[:5], RESULT_BAR)
    with pytest.raises(ShapeError):
        found.variates(tables[0], 1)
    with pytest.raises(ConfigError, match="between 0"):
        found.variates(tables[0], 7)


@pytest.mark.filterwarnings("ignore:party 1 and party 2 bring the same table")
def test_what_cannot_be_computed_is_refused():
    X, Y = drawn()
    with pytest.raises(ConfigError, match="split over the parties"):
        FederatedCCA(split="horizontal").fit([X, X])
    with pytest.raises(ConfigError, match="between 1 and 3"):
        fitted([X, Y], n_components=4)
    with pytest.raises(ConstantData, match="no column of this party varies"):
        fitted([X, np.ones((200, 2))])
    with pytest.raises(ConfigError, match="fedsvd-lab"):
        fitted([X, Y], masks=Masks(scheme="paper"))


def test_it_is_cloned_and_works_in_a_pipeline():
    tables = np.hstack(drawn((4, 4)))
    pipeline = make_pipeline(StandardScaler(), FederatedCCA(2))
    assert_close(clone(pipeline).fit_transform(tables), pipeline.fit(tables).transform(tables), RESULT_BAR)
    assert pipeline[-1].get_feature_names_out().tolist() == ["federatedcca0", "federatedcca1"]
