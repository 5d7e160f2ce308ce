"""What a party sees of its own rows equals statsmodels' influence on the same rows."""

import numpy as np
import pytest
import statsmodels.api as sm
from tests.tolerances import STATISTIC_BAR, assert_close, assert_each_close

from fedsvd.errors import ShapeError
from fedsvd.statistics.diagnostics import own_rows
from fedsvd.statistics.inference import infer
from fedsvd.statistics.undefined import EXACT_FIT


def drawn(n=80, seed=21):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X @ [1.0, 0.0, -1.0] + rng.normal(size=n), rng.uniform(0.5, 2.0, size=n)


def joint(X, y, weights=None):
    root = np.ones(len(y)) if weights is None else np.sqrt(weights)
    M = np.column_stack((np.ones(len(y)), X, y)) * root[:, None]
    return infer(np.linalg.qr(M, mode="r"), len(y))[0]


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_have_the_influence_that_statsmodels_gives_them(weighted):
    X, y, weights = drawn()
    w = weights if weighted else np.ones(len(y))
    model, own = joint(X, y, w), slice(10, 40)
    expected = sm.OLS(y * np.sqrt(w), sm.add_constant(X) * np.sqrt(w)[:, None]).fit(method="qr").get_influence()
    found = own_rows(model, X[own], y[own], weights=w[own])
    assert_each_close(found.leverage, expected.hat_matrix_diag[own], STATISTIC_BAR)
    assert_close(found.residuals, expected.resid[own], STATISTIC_BAR)
    assert_close(found.standardised, expected.resid_studentized_internal[own], STATISTIC_BAR)
    assert_close(found.cooks, expected.cooks_distance[0][own], STATISTIC_BAR)


def test_a_column_that_is_there_twice_changes_no_leverage_and_a_perfect_fit_has_no_distance():
    X, y, _ = drawn()
    twice = np.column_stack((X, X[:, 0]))
    found = own_rows(joint(twice, y), twice, y)
    assert_each_close(found.leverage, own_rows(joint(X, y), X, y).leverage, STATISTIC_BAR)
    assert_close(found.fitted, sm.OLS(y, sm.add_constant(X)).fit().fittedvalues, STATISTIC_BAR)
    assert own_rows(joint(X, np.zeros(len(y))), X, np.zeros(len(y))).cooks == EXACT_FIT
    with pytest.raises(ShapeError):
        own_rows(joint(X, y), X[:, :2], y)
