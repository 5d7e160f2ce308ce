"""The table of own columns, from the own block of the inverse Gram matrix, is the own part of statsmodels' table."""

from itertools import pairwise

import numpy as np
import pytest
from tests.tolerances import STATISTIC_BAR, assert_each_close
from tests.unit.statistics.tables import assert_table_of, fitted

from fedsvd.statistics.inference import Totals
from fedsvd.statistics.own_block import OwnBlock, infer_own, joined
from fedsvd.statistics.table import model_from, values
from fedsvd.statistics.undefined import OWN_BLOCK, RANK_LOST

EDGES = (0, 3, 4, 7)


def data(n=90):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n, EDGES[-1])) + 1.0
    return X, X @ rng.normal(size=EDGES[-1]) + rng.normal(size=n)


def own_tables(X, y, rank=EDGES[-1]):
    centred = X - X.mean(axis=0)
    inverse = np.linalg.inv(centred.T @ centred)
    w = np.linalg.lstsq(centred, y - y.mean())[0]
    left = float(np.sum((y - y.mean() - centred @ w) ** 2))
    sums = Totals(len(y), left, float(np.sum((y - y.mean()) ** 2)), float(np.sum((centred @ w) ** 2)))
    mean = X.mean(axis=0)
    variance = 1.0 / len(y) + float(mean @ inverse @ mean)
    intercept = float(y.mean() - mean @ w)
    for start, stop in pairwise(EDGES):
        own = slice(start, stop)
        norms = np.sum(centred[:, own] ** 2, axis=0)
        block = OwnBlock(inverse[own, own], norms, variance, EDGES[-1], rank, 2.0)
        yield infer_own(block, w[own], intercept, sums)


def test_the_tables_of_all_parties_one_below_the_other_are_the_joint_one():
    X, y = data()
    assert_table_of(joined(tuple(own_tables(X, y))), fitted(X, y), columns_split=True)


def test_each_party_has_the_joint_statistics_and_its_own_rows():
    X, y = data()
    expected = fitted(X, y)
    for model, (start, stop) in zip(own_tables(X, y), pairwise(EDGES), strict=True):
        rows = [0, *range(start + 1, stop + 1)]
        assert_each_close(model.standard_errors, expected.bse[rows], STATISTIC_BAR)
        assert_each_close(model.r2, expected.rsquared, STATISTIC_BAR)
        assert np.isnan(model.covariance[0, 1:]).all(), "the intercept's covariances need the others' blocks"
        assert model.root == OWN_BLOCK


def test_where_rank_is_lost_nothing_is_printed_of_single_coefficients():
    for model in own_tables(*data(), rank=6):
        assert model.standard_errors == model.vif == RANK_LOST
        assert model.df_residual == 90 - 7


@pytest.mark.parametrize("number", [0, 2])
def test_a_table_that_was_written_is_read_back(number):
    model = list(own_tables(*data()))[number]
    again = model_from(values(model), model.coefficients, True, model.covariance, model.vif)
    assert_each_close(again.standard_errors, model.standard_errors, STATISTIC_BAR)
    assert again.root == OWN_BLOCK
