"""Low-rank imputation by sums equals soft-impute on the joint table, written here from the paper with an SVD."""

import json

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal
from tests.tolerances import assert_close, digits_lost

import fedsvd
from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, NotConverged
from fedsvd.prepare.recipe import of_record
from fedsvd.prepare.rule import LowRank, Rule, planned_steps
from fedsvd.prepare.script import play_together, prepare, prepared_again
from fedsvd.prepare.soft_impute import from_triangle, numbers_of_a_round, shrinkage
from fedsvd.randomness.seed import Seed

PERMISSIVE = fedsvd.Policy.permissive()


def reference(X, share, iterations=2000):
    """Algorithm 1 of Mazumder, Hastie and Tibshirani on the standardised joint table, until it does not move."""
    means, deviations, missing = np.nanmean(X, axis=0), np.nanstd(X, axis=0), np.isnan(X)
    standard = (X - means) / deviations
    Z = np.nan_to_num(standard)
    penalty = share * np.linalg.svd(Z, compute_uv=False)[0]
    for _ in range(iterations):
        U, s, Vt = np.linalg.svd(Z, full_matrices=False)
        Z = np.where(missing, (U * np.maximum(s - penalty, 0)) @ Vt, standard)
    return means + deviations * Z


@pytest.fixture(params=[1 << 20, 20], ids=["one panel", "many panels"])
def table(request, monkeypatch):
    monkeypatch.setattr("fedsvd.prepare.derived.PANEL_CELLS", request.param)
    rng = np.random.default_rng(8)
    whole = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 9)) * np.logspace(-2, 2, 9) + 5.0
    X = whole.copy()
    X[rng.random(X.shape) < 0.15] = np.nan
    return whole, X


def completed(X, minimum=1, **how):
    parts, rule = np.split(X, [11, 25]), Rule(low_rank=LowRank(**how), minimum=minimum)
    return parts, rule, play_together([prepare(open_source(part), rule, Seed(bytes(32))) for part in parts])


def rows_of(found):
    return np.vstack([each.table.rows(0, each.table.shape[0]) for each in found])


@pytest.mark.parametrize("penalty", [0.3, 0.1])
def test_rows_are_completed_as_soft_impute_of_the_joint_table_does_when_it_has_settled(table, penalty):
    _, X = table
    _, rule, found = completed(X, penalty=penalty, rounds=150)
    rows, expected = rows_of(found), reference(X, penalty)
    for column in range(9):
        assert_close(rows[:, column], expected[:, column], digits_lost(7))
    assert_array_equal(rows[~np.isnan(X)], X[~np.isnan(X)])
    assert [step.name for step in planned_steps(rule, 9)][-2:] == ["low rank, round 150", "low rank, moved"]
    assert found[0].recipe.joint.missing == int(np.isnan(X).sum())


def many_columns(records=90, columns=40, factors=4):
    """Columns of four factors and noise, so that four singular values are above a fifth of the largest."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(records, factors)) @ rng.normal(size=(factors, columns))
    X += 0.2 * rng.normal(size=X.shape) + 5.0
    X[rng.random(X.shape) < 0.05] = np.nan
    return X


def test_many_columns_are_completed_alike_by_products_with_few_directions():
    X = many_columns()
    _, rule, found = completed(X, penalty=0.2, rounds=60, rank=4)
    assert_close(rows_of(found), reference(X, 0.2, 300), digits_lost(4))
    rounds = [step for step in planned_steps(rule, 40) if step.name.startswith("low rank, round")]
    assert len(rounds) == 60 + 7
    assert {step.size for step in rounds} == {40 * (4 + 8)}


def test_sessions_complete_many_columns_alike_dense_or_sparse():
    """With the sixteen bits of a number that rounds open."""
    X = many_columns()
    words = {"missing": "low-rank", "penalty": 0.2, "minimum": 1, "rank": 4, "rounds": 15}
    for kind in (np.asarray, scipy.sparse.csr_array):
        tables = fedsvd.prepared([kind(part) for part in np.split(X, [40, 60])], policy=PERMISSIVE, **words)
        found = np.vstack([each.rows(0, each.shape[0]) for each in tables])
        assert_close(found, reference(X, 0.2, 300), digits_lost(10))


def test_a_rank_that_is_too_low_is_refused():
    with pytest.raises(NotConverged, match="more than 3 singular values"):
        completed(many_columns(), penalty=0.2, rank=3)


def test_directions_are_for_tables_whose_gram_matrix_is_longer():
    assert [numbers_of_a_round(columns, 4) for columns in (9, 23, 24, 40)] == [45, 276, 24 * 12, 40 * 12]
    assert numbers_of_a_round(40) == 820


def test_they_come_nearer_to_the_truth_than_means(table):
    whole, X = table
    rows = rows_of(completed(X, penalty=0.02, rounds=60)[2])
    means = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    apart = [np.linalg.norm((each - whole) / np.nanstd(X, axis=0)) for each in (rows, means)]
    assert apart[0] < 0.2 * apart[1]


def test_new_rows_are_completed_with_what_the_last_round_left(table):
    _, X = table
    parts, rule, found = completed(X, penalty=0.1, rounds=60)
    recipe = of_record(json.loads(json.dumps(found[1].recipe.record())))
    again = prepared_again(open_source(parts[1][3:8]), rule, recipe)
    for column in range(9):
        assert_close(again.table.rows(0, 5)[:, column], found[1].table.rows(3, 8)[:, column], digits_lost(2))


def test_rows_and_columns_in_any_order_are_those_of_the_filled_table(table):
    first = completed(table[1], penalty=0.1, rounds=60)[2][0].table
    whole = first.rows(0, 11)
    assert_array_equal(first.columns(2, 5), whole[:, 2:5])
    assert_close(first.reordered([7, 2, 2]).rows(0, 3), whole[[7, 2, 2]], digits_lost(2))


def test_a_table_without_gaps_stays_as_it_is():
    X = np.random.default_rng(1).normal(size=(40, 4))
    assert_array_equal(rows_of(completed(X)[2]), X)


def test_one_that_still_moves_and_a_penalty_of_zero_are_refused(table):
    with pytest.raises(NotConverged, match="2 rounds"):
        completed(table[1], penalty=0.001, rounds=2)
    with pytest.raises(ConfigError, match="penalty"):
        shrinkage(np.ones(2), np.eye(2), 0.0)
    whole = np.arange(9.0).reshape(3, 3) + np.arange(9.0).reshape(3, 3).T
    assert_array_equal(from_triangle(whole[np.triu_indices(3)], 3), whole)


def test_patterns_of_gaps_that_few_own_rows_have_take_the_means(table):
    """At their own party: another one's rows with the same gaps do not count."""
    _, X = table
    parts, _, found = completed(X, penalty=0.1, rounds=60, minimum=2)
    means = np.nanmean(X, axis=0)
    seen = 0
    for part, each in zip(parts, found, strict=True):
        gaps, rows = np.isnan(part), each.table.rows(0, len(part))
        _, which, counts = np.unique(gaps, axis=0, return_inverse=True, return_counts=True)
        few = gaps & (counts[np.ravel(which)] < 2)[:, None]
        assert_close(rows[few], np.broadcast_to(means, part.shape)[few], digits_lost(3))
        completed_rows = gaps & ~few
        assert not np.any(rows[completed_rows] == np.broadcast_to(means, part.shape)[completed_rows])
        seen += int(few.sum())
    assert 0 < seen < int(np.isnan(X).sum())
