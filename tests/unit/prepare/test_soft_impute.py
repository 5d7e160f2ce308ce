"""Low-rank imputation by sums equals soft-impute on the joint table, written here from the paper with an SVD."""

import numpy as np
import pytest
from tests.tolerances import assert_close, digits_lost

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, NotConverged
from fedsvd.prepare.soft_impute import Contribution, Imputed, expect_settled, shrinkage, start, step


def reference(X, fills, penalty, iterations):
    """Algorithm 1 of Mazumder, Hastie and Tibshirani on the joint table."""
    missing = np.isnan(X)
    Z = np.where(missing, fills, X)
    for _ in range(iterations):
        U, s, Vt = np.linalg.svd(Z, full_matrices=False)
        Z = np.where(missing, (U * np.maximum(s - penalty, 0)) @ Vt, X)
    return Z


@pytest.fixture(params=[1 << 20, 20], ids=["one panel", "many panels"])
def table(request, monkeypatch):
    monkeypatch.setattr("fedsvd.prepare.derived.PANEL_CELLS", request.param)
    rng = np.random.default_rng(8)
    whole = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 9)) + 0.01 * rng.normal(size=(40, 9))
    X = whole.copy()
    X[rng.random(X.shape) < 0.15] = np.nan
    return whole, X


def imputed(X, penalty, iterations):
    sources = [open_source(part) for part in np.split(X, [11, 25])]
    fills = np.nanmean(X, axis=0)
    states, parts = zip(*(start(source, fills) for source in sources), strict=True)
    for _ in range(iterations):
        joint = Contribution.of_vector(np.sum([part.vector() for part in parts], axis=0), X.shape[1])
        W = shrinkage(joint.gram, penalty)
        states, parts = zip(*(step(s, state, W) for s, state in zip(sources, states, strict=True)), strict=True)
    joint = Contribution.of_vector(np.sum([part.vector() for part in parts], axis=0), X.shape[1])
    return [Imputed(source, state) for source, state in zip(sources, states, strict=True)], joint


def test_every_iterate_is_that_of_the_joint_table(table):
    _, X = table
    for iterations in (1, 2, 7):
        expected = reference(X, np.nanmean(X, axis=0), 0.7, iterations)
        tables, _ = imputed(X, 0.7, iterations)
        found = np.vstack([each.rows(0, each.shape[0]) for each in tables])
        assert_close(found, expected, digits_lost(3))


def test_it_settles_and_comes_nearer_to_the_truth_than_means(table):
    whole, X = table
    tables, joint = imputed(X, 0.3, 200)
    expect_settled(joint, 0.001, 200)
    found = np.vstack([each.rows(0, each.shape[0]) for each in tables])
    missing = np.isnan(X)
    means = np.broadcast_to(np.nanmean(X, axis=0), X.shape)
    assert np.linalg.norm((found - whole)[missing]) < 0.2 * np.linalg.norm((means - whole)[missing])


def test_rows_and_columns_in_any_order_are_those_of_the_filled_table(table):
    _, X = table
    (first, *_), _ = imputed(X, 0.7, 3)
    whole = first.rows(0, 11)
    np.testing.assert_array_equal(first.columns(2, 5), whole[:, 2:5])
    np.testing.assert_array_equal(first.reordered([7, 2, 2]).rows(0, 3), whole[[7, 2, 2]])


def test_one_that_still_moves_and_a_penalty_of_zero_are_refused(table):
    _, X = table
    _, joint = imputed(X, 0.3, 2)
    with pytest.raises(NotConverged, match="2 iterations"):
        expect_settled(joint, 0.0001, 2)
    with pytest.raises(ConfigError, match="penalty"):
        shrinkage(np.eye(2), 0.0)
