"""Reflectors drawn without a factorisation are Haar-random orthogonal matrices, and multiply as such.

The law is compared with the exact one of an entry (its square is Beta distributed) and, where no simple one is known,
with QR of Gaussian matrices made unique by a positive diagonal. Leaving out the sign fix must be noticed.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binomtest, ks_2samp, kstest
from tests import tolerances

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.linalg import householder
from fedsvd.linalg.householder import Reflectors, draw

N, DRAWS = 6, 3000


def normals(seed):
    return np.random.default_rng(seed).standard_normal


def by_definition(n, seed):
    """``H_0 ... H_{n-1} D`` from its reflectors, one explicit matrix after another."""
    stream = normals(seed)
    Q, signs = np.eye(n), np.empty(n)
    for k in range(n):
        x = stream(n - k)
        signs[k] = -np.copysign(1.0, x[0])
        v = np.zeros(n)
        v[k:] = x
        v[k] += np.copysign(np.linalg.norm(x), x[0])
        Q = Q @ (np.eye(n) - 2 * np.outer(v, v) / (v @ v))
    return Q * signs


def without_signs(Q):
    return Reflectors(Q.n, Q.blocks, np.ones(Q.n))


@pytest.fixture(scope="module")
def drawn():
    stream = normals(1)
    return [draw(N, stream) for _ in range(DRAWS)]


@pytest.fixture(scope="module")
def haar(drawn):
    return np.stack([Q.explicit() for Q in drawn])


@pytest.fixture(scope="module")
def unfixed(drawn):
    return np.stack([without_signs(Q).explicit() for Q in drawn])


@pytest.fixture(scope="module")
def by_qr():
    Q, R = np.linalg.qr(np.random.default_rng(2).normal(size=(DRAWS, N, N)))
    return Q * np.sign(np.diagonal(R, axis1=1, axis2=2))[:, None, :]


def entry_law(entries):
    """p-value of one entry of each matrix against its law: symmetric, with a Beta(1/2, (n-1)/2) square."""
    law = beta(0.5, (N - 1) / 2)
    return kstest(entries, lambda x: 0.5 + 0.5 * np.sign(x) * law.cdf(x * x)).pvalue


def angles(matrices):
    """The largest angle of every matrix but the trivial 0 and pi, and all angles of all matrices."""
    turned = np.abs(np.angle(np.linalg.eigvals(matrices)))
    inner = np.where((turned > tolerances.digits_lost(10)) & (turned < np.pi - tolerances.digits_lost(10)), turned, 0.0)
    return inner.max(axis=1), turned.ravel()


def rotation(seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(N, N)))[0]


# The law.


@pytest.mark.parametrize("row, column", [(0, 0), (0, N - 1), (N - 1, 0), (N - 1, N - 1), (2, 3)])
def test_every_entry_has_the_haar_law(row, column, haar):
    assert entry_law(haar[:, row, column]) > tolerances.ACCEPTED


@pytest.mark.parametrize("row, column", [(0, 0), (N - 1, N - 1), (2, 3)])
def test_after_a_fixed_rotation_on_either_side_the_law_is_the_same(row, column, haar):
    A = rotation(3)
    assert entry_law((A @ haar)[:, row, column]) > tolerances.ACCEPTED
    assert entry_law((haar @ A)[:, row, column]) > tolerances.ACCEPTED


def test_entries_traces_and_angles_agree_with_qr_of_gaussian_matrices(haar, by_qr):
    assert ks_2samp(haar[:, 1, 2], by_qr[:, 1, 2]).pvalue > tolerances.ACCEPTED
    for power in (1, 2, 3):
        ours, theirs = (np.trace(np.linalg.matrix_power(Q, power), axis1=1, axis2=2) for Q in (haar, by_qr))
        assert ks_2samp(ours, theirs).pvalue > tolerances.ACCEPTED
    for ours, theirs in zip(angles(haar), angles(by_qr), strict=True):
        assert ks_2samp(ours, theirs).pvalue > tolerances.ACCEPTED


def test_traces_are_the_same_after_a_fixed_rotation(haar, by_qr):
    ours = np.trace(rotation(4) @ haar, axis1=1, axis2=2)
    assert ks_2samp(ours, np.trace(by_qr, axis1=1, axis2=2)).pvalue > tolerances.ACCEPTED


def test_determinants_are_plus_and_minus_one_equally_often(haar):
    determinants = np.linalg.det(haar)
    np.testing.assert_allclose(np.abs(determinants), 1.0, rtol=tolerances.digits_lost(3))
    assert binomtest(int(np.sum(determinants > 0)), DRAWS).pvalue > tolerances.ACCEPTED


def test_without_the_sign_fix_the_same_tests_reject(unfixed, by_qr):
    assert entry_law(unfixed[:, 0, 0]) < tolerances.REJECTED
    ours, theirs = (np.trace(Q, axis1=1, axis2=2) for Q in (unfixed, by_qr))
    assert ks_2samp(ours, theirs).pvalue < tolerances.REJECTED
    assert ks_2samp(angles(unfixed)[1], angles(by_qr)[1]).pvalue < tolerances.REJECTED
    rotated = np.trace(rotation(4) @ unfixed, axis1=1, axis2=2)
    assert ks_2samp(rotated, ours).pvalue < tolerances.REJECTED


def test_an_orthogonal_matrix_of_size_one_is_a_fair_sign():
    stream = normals(5)
    signs = np.array([draw(1, stream).explicit()[0, 0] for _ in range(DRAWS)])
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert binomtest(int(np.sum(signs > 0)), DRAWS).pvalue > tolerances.ACCEPTED


# The matrix.


@settings(max_examples=25)
@given(n=st.integers(1, 20), seed=st.integers(0, 2**32 - 1))
def test_it_is_the_product_of_its_reflectors_and_signs(n, seed):
    Q = draw(n, normals(seed))
    np.testing.assert_allclose(Q.explicit(), by_definition(n, seed), rtol=0, atol=tolerances.product(n, n))


@settings(max_examples=25)
@given(n=st.integers(1, 20), seed=st.integers(0, 2**32 - 1))
def test_it_is_the_unique_qr_of_the_gaussian_matrix_whose_columns_its_normals_finish(n, seed):
    """Algorithm 1: column k of the Gaussian matrix, after the earlier reflectors, ends in the k-th run of normals."""
    stream, above = normals(seed), normals(seed + 1)
    G, H = np.empty((n, n)), np.eye(n)
    for k in range(n):
        x = stream(n - k)
        G[:, k] = H @ np.concatenate((above(k), x))
        v = np.concatenate((np.zeros(k), x))
        v[k] += np.copysign(np.linalg.norm(x), x[0])
        H = H @ (np.eye(n) - 2 * np.outer(v, v) / (v @ v))
    expected, R = np.linalg.qr(G)
    expected *= np.sign(np.diagonal(R))
    # QR of an ill-conditioned G knows its last columns that much less well.
    np.testing.assert_allclose(
        draw(n, normals(seed)).explicit(), expected, rtol=0, atol=tolerances.product(n, n) * np.linalg.cond(G)
    )


@pytest.mark.parametrize("n", [1, 2, 3, 64, 300, 1023, 1024, 1025, 1200])
def test_it_is_orthogonal_to_rounding_also_across_the_border_of_a_block(n):
    Q = draw(n, normals(n)).explicit()
    assert Q.shape == (n, n)
    assert np.abs(Q.T @ Q - np.eye(n)).max() < tolerances.ORTHOGONAL_BAR
    first = normals(n)(n)
    np.testing.assert_allclose(Q[:, 0], first / np.linalg.norm(first), rtol=0, atol=tolerances.product(n))


def test_where_the_blocks_are_cut_does_not_matter(monkeypatch):
    whole = draw(23, normals(6)).explicit()
    for block in (1, 2, 5, 22, 23, 24):
        monkeypatch.setattr(householder, "REFLECTORS", block)
        Q = draw(23, normals(6))
        assert len(Q.blocks) == -(-23 // block)
        np.testing.assert_allclose(Q.explicit(), whole, rtol=0, atol=tolerances.product(23, 4))
        np.testing.assert_allclose(Q.left_t(whole), np.eye(23), rtol=0, atol=tolerances.product(23, 4))


@pytest.mark.parametrize("n", [1, 2, 7, 40, 1100])
def test_products_from_both_sides_and_both_ways_are_those_of_the_matrix(n, library):
    stream = normals(7)
    Q = draw(n, stream, library.array(np.zeros(1)))
    dense = draw(n, normals(7)).explicit()
    np.testing.assert_allclose(library.numpy(Q.explicit()), dense, rtol=0, atol=tolerances.product(n, 4))
    X = np.random.default_rng(8).normal(size=(n, 3))
    Xt = np.ascontiguousarray(X.T)
    for got, expected in (
        (Q.left(library.array(X)), dense @ X),
        (Q.left_t(library.array(X)), dense.T @ X),
        (Q.right(library.array(Xt)), Xt @ dense),
        (Q.right_t(library.array(Xt)), Xt @ dense.T),
    ):
        np.testing.assert_allclose(library.numpy(got), expected, rtol=0, atol=tolerances.product(n, 4))


def test_a_product_does_not_change_its_input():
    Q = draw(50, normals(9))
    for X in (np.ones((50, 4)), np.asfortranarray(np.ones((50, 4)))):
        Q.left(X), Q.left_t(X), Q.right(X.T), Q.right_t(X.T)
        assert np.all(X == 1.0)


def test_it_takes_one_normal_for_each_entry_of_a_triangle():
    counts, stream = [], normals(10)

    def counting(count):
        counts.append(count)
        return stream(count)

    draw(1500, counting)
    assert sum(counts) == 1500 * 1501 // 2


def test_one_seed_is_one_matrix_and_another_seed_another():
    first, again, other = (draw(5, normals(seed)).explicit() for seed in (11, 11, 12))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1


def test_columns_of_a_long_matrix_are_spread_evenly():
    """A block border that fell out of the mixing would leave zeros."""
    Q = draw(1100, normals(13)).explicit()
    for start, stop in pairwise((0, 1024, 1100)):
        share = np.mean(Q[start:stop] ** 2, axis=0) * 1100
        assert 0.5 < share.min() < share.max() < 2.0


@pytest.mark.parametrize("n", [0, -1])
def test_a_matrix_without_rows_is_refused(n):
    with pytest.raises(ConfigError, match="n >= 1"):
        draw(n, normals(0))


def test_a_factor_of_another_size_is_refused_and_repr_shows_no_number():
    Q = draw(3, normals(0))
    for product, X in ((Q.left, np.ones((4, 3))), (Q.left_t, np.ones((4, 3))), (Q.right, np.ones((3, 4)))):
        with pytest.raises(ShapeError):
            product(X)
    assert repr(Q) == "Reflectors(n=3)"


SHAPES = {
    "dense": lambda X: X,
    "upper triangular": np.triu,
    "a row above a triangle": lambda X: np.triu(X, k=-1),
    "zero rows below": lambda X: np.vstack((np.triu(X[:-20]), np.zeros((20, X.shape[1])))) if len(X) > 20 else 0.0 * X,
    "zeros": np.zeros_like,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("n", "columns"), [(7, 7), (300, 300), (300, 140), (1100, 1050)])
@pytest.mark.parametrize("threads", [1, 3])
def test_products_of_some_reflectors_multiply_as_lapack_does(threads, n, columns, shape, monkeypatch):
    Q, X = draw(n, normals(5), columns=columns), SHAPES[shape](normals(6)((n, 160)))
    monkeypatch.setattr(householder, "WORTH_THREADS", np.inf)
    expected = Q.left(X)
    monkeypatch.setattr(householder, "WORTH_THREADS", 1)
    monkeypatch.setattr(householder, "available", lambda: threads)
    before = X.copy()
    with ThreadPoolExecutor(threads) as pool:
        left, right = Q.left(X, pool.map), Q.right_t(X.T, pool.map)
    scale = max(np.linalg.norm(X, axis=0).max(), 1.0)
    tolerances.assert_close(left, expected, tolerances.orthogonal(n), scale=scale)
    np.testing.assert_array_equal(right, left.T)
    np.testing.assert_array_equal(X, before)
    tolerances.assert_close(Q.left_t(left), X, tolerances.orthogonal(n), scale=scale)
