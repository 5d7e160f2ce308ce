"""Gram matrices of columns are the same by any threads; solved columns are orthonormal at any condition."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests import tolerances
from tests.tolerances import assert_close
from tests.unit.linalg.streaming_cases import CASES

from fedsvd.linalg import solved_columns
from fedsvd.linalg.solved_columns import SolvedColumns, gram_of_columns, multiply, prepared
from fedsvd.linalg.streaming_factor import StreamingFactor

CONDITIONS = (20.0, 1e3, 1e8, 1e13)


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"])
def each(request, monkeypatch):
    """None, or ``map`` over three threads of which every matrix has its share."""
    if request.param == 1:
        yield None
        return
    monkeypatch.setattr(solved_columns, "available", lambda: request.param)
    monkeypatch.setattr(solved_columns, "IN_THREAD", 1 << 12)
    with ThreadPoolExecutor(request.param) as pool:
        yield lambda work, pieces: list(pool.map(work, pieces))


def conditioned(m, n, condition, seed=0):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(m, m)))[0]
    return Q * np.geomspace(1.0, 1.0 / condition, m) @ rng.normal(size=(m, n))


def kept(X, panel, each=None):
    solved = SolvedColumns(X.shape[0], X.shape[1])
    factor = StreamingFactor(X.shape[0], each, solved=solved)
    for start in range(0, X.shape[1], panel):
        factor.update_columns(X[:, start : start + panel])
    return factor, solved.of(factor.factor())


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("solves", [False, True])
@pytest.mark.parametrize(("m", "n"), [(3, 1), (40, 3000), (530, 2200)])
def test_the_gram_matrix_of_columns_is_that_of_all_of_them_centred_and_solved(m, n, solves, shifted, order, each):
    rng = np.random.default_rng(1)
    X = np.array(rng.normal(size=(m, n)) + 3.0, order=order)
    shift = rng.normal(size=(m, 1)) if shifted else None
    Y = np.vstack((np.ones((1, n)), X - shift)) if shifted else X
    R = np.triu(rng.normal(size=(len(Y), len(Y)))) / len(Y) + 2.0 * np.eye(len(Y)) if solves else None
    Y = np.linalg.solve(R.T, Y) if solves else Y
    Z = np.empty(Y.shape, order="F") if solves else None
    found = gram_of_columns(X, each, shift=shift, R=R, Z=Z)
    expected = Y @ Y.T
    assert_close(np.triu(found), np.triu(expected), tolerances.gram(n) * 4, np.linalg.norm(expected, 2))
    if solves:
        assert_close(Z, Y, tolerances.product(len(Y), 4))


def test_columns_are_multiplied_where_they_lie_or_elsewhere_or_centred(each):
    rng = np.random.default_rng(2)
    X, shift = np.asfortranarray(rng.normal(size=(520, 1700))), rng.normal(size=(520, 1))
    for rows in (3, 520):
        W, out = rng.normal(size=(rows, 520)), np.empty((rows, 1700))
        multiply(W, X, out, each)
        assert_close(out, W @ X, tolerances.product(520))
        multiply(W, X, out, each, shift)
        assert_close(out, W @ (X - shift), tolerances.product(520))
    over = X.copy(order="F")
    multiply(W, over, over, each)
    assert_close(over, W @ X, tolerances.product(520))


@pytest.mark.parametrize("order", "CF")
def test_columns_are_prepared_as_they_lie(order):
    X = np.array(np.random.default_rng(3).normal(size=(4, 9)), order=order)
    found = prepared(X, np.arange(4.0)[:, None])
    np.testing.assert_array_equal(found, np.vstack((np.ones((1, 9)), X - np.arange(4.0)[:, None])))
    assert found.T.flags.c_contiguous == (order == "F")
    assert prepared(X, None) is X


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("panel", [60, 700, 4000])
def test_solved_columns_are_orthonormal_rows_of_the_data_at_any_condition(condition, panel, each):
    m, n = 50, 4000
    X = conditioned(m, n, condition)
    factor, solved = kept(X, panel, each)
    R = factor.factor()
    Q = solved.times(np.eye(m), each)
    assert np.linalg.norm(Q @ Q.T - np.eye(m), 2) < tolerances.product(n)
    assert np.linalg.norm(X - R.T @ Q, 2) < tolerances.FACTOR_BAR * np.linalg.norm(X, 2)
    # What they are for: one solve with the final factor is not orthonormal.
    direct = np.linalg.solve(R.T, X)
    assert np.linalg.norm(direct @ direct.T - np.eye(m), 2) < condition * tolerances.product(n)
    if condition > 1e6:
        assert np.linalg.norm(direct @ direct.T - np.eye(m), 2) > tolerances.digits_lost(4)


@pytest.mark.parametrize("rows", [1, 20, 50])
def test_vectors_are_made_of_them_in_one_product(rows, each):
    X = conditioned(50, 3000, 1e5)
    factor, solved = kept(X, 800, each)
    U, sigma, Vt = np.linalg.svd(factor.factor().T)
    found = solved.times(Vt[:rows], each)
    assert found.shape == (rows, 3000)
    assert_close((U[:, :rows] * sigma[:rows]).T @ X, sigma[:rows, None] ** 2 * found, tolerances.FACTOR_BAR * 50)
    assert np.linalg.norm(found @ found.T - np.eye(rows), 2) < tolerances.product(3000)


@pytest.mark.parametrize("name", ["gaussian", "rank 3", "every feature twice", "features never seen"])
def test_of_columns_that_come_another_way_nothing_is_kept_and_the_factor_is_the_same(name):
    X = CASES[name]
    factor, solved = kept(X, 60)
    assert solved is None
    plain = StreamingFactor(X.shape[0])
    for start in range(0, X.shape[1], 60):
        plain.update_columns(X[:, start : start + 60])
    assert factor.route == plain.route
    assert_close(factor.factor(), plain.factor(), tolerances.FACTOR_BAR)


def test_a_jump_in_scale_or_too_few_columns_leave_nothing():
    X = conditioned(30, 2000, 1e3)
    assert kept(np.hstack((X, 1e6 * X)), 500)[1] is None
    assert kept(X[:, :20], 20)[1] is None
    solved = SolvedColumns(30, 2001)
    factor = StreamingFactor(30, solved=solved)
    factor.update_columns(X)
    assert solved.of(factor.factor()) is None
    assert repr(solved) == "SolvedColumns(width=30, count=2001)"


@pytest.mark.parametrize("n", [50, 4000])
def test_a_factor_takes_a_shift_off_by_itself(n, each):
    rng = np.random.default_rng(5)
    for X in (rng.normal(size=(20, n)) + 100.0, conditioned(20, n, 1e6) + 5.0):
        shift = X[:, :5].mean(axis=1)[:, None]
        factor = StreamingFactor(21, each, shift=shift)
        for start in range(0, n, 700):
            factor.update_columns(X[:, start : start + 700])
        Y = np.vstack((np.ones((1, n)), X - shift))
        largest = np.linalg.norm(Y, 2)
        found, expected = (np.linalg.svd(A, compute_uv=False) for A in (factor.factor(), Y))
        assert_close(found, expected, tolerances.FACTOR_BAR, largest)
