"""Behind one entry point every library gives NumPy's and SciPy's answers, and no input is changed."""

import warnings

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import tolerances
from tests.tolerances import assert_close, product

from fedsvd.errors import ConfigError, NumericalError
from fedsvd.linalg import backend, householder

LAYOUTS = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "rows of a wider array": lambda A: np.concatenate((A, A), axis=1)[:, : A.shape[1]],
    "every second row": lambda A: np.repeat(A, 2, axis=0)[::2],
    "backwards": lambda A: np.ascontiguousarray(A[::-1])[::-1],
}
layout = pytest.mark.parametrize("arrange", LAYOUTS.values(), ids=LAYOUTS.keys())


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def triangle(n, lower=False):
    R = np.triu(normal(n, n, n)) + 3 * np.sqrt(n) * np.eye(n)
    return np.ascontiguousarray(R.T) if lower else R


def reflectors(n, k, seed=0):
    """V, tau and the product H_1 ... H_k by its definition, one explicit reflector after another."""
    V = np.tril(normal(seed, n, k))
    np.fill_diagonal(V, 1.0)
    tau = 2.0 / np.sum(V * V, axis=0)
    H = np.eye(n)
    for v, t in zip(V.T, tau, strict=True):
        H = H @ (np.eye(n) - t * np.outer(v, v))
    return V, tau, H


class Kept:
    """Arrays in a library, and what they held before."""

    def __init__(self, library, *arrays):
        self.before = [A.copy() for A in arrays]
        self.arrays = [library.array(A) for A in arrays]
        self._library = library

    def expect_unchanged(self):
        for A, before in zip(self.arrays, self.before, strict=True):
            np.testing.assert_array_equal(self._library.numpy(A), before)


# The entry point itself.


def test_numpy_arrays_belong_to_numpy_and_others_to_their_own_library(library):
    assert backend.namespace(np.zeros(1), np.zeros(2)) is np
    found = backend.namespace(library.array([1.0]), library.array([2.0]))
    assert library.name.replace("-", "_") in found.__name__


def test_arrays_of_two_libraries_are_refused_in_one_operation(foreign):
    with pytest.raises(ConfigError, match="different libraries"):
        backend.namespace(np.eye(2), foreign.array(np.eye(2)))
    with pytest.raises(ConfigError, match="different libraries"):
        backend.solve_triangular(foreign.array(np.eye(2)), np.eye(2))


@pytest.mark.parametrize("thing", [[1.0], 3.0, "matrix"], ids=str)
def test_what_is_not_an_array_is_refused(thing):
    with pytest.raises(ConfigError, match="not an array"):
        backend.namespace(thing)


def test_numbers_cross_into_a_library_and_back_unchanged(library):
    A = normal(1, 3, 4)
    there = backend.like(A, library.array([0.0]))
    np.testing.assert_array_equal(library.numpy(there), A)
    np.testing.assert_array_equal(backend.to_numpy(there), A)
    assert isinstance(backend.to_numpy(there), np.ndarray)


def test_read_only_panels_cross_without_a_warning(library):
    A = normal(1, 3, 4)
    A.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(library.numpy(backend.like(A, library.array([0.0]))), A)


# Norms.


@pytest.mark.parametrize("scale", [0.0, 1e-320, 1e-200, 1.0, 1e200])
def test_norms_are_safe_from_overflow_and_underflow_of_the_squares(scale, library):
    A = normal(2, 7, 5)
    lengths = np.sqrt(np.sum(A * A, axis=0))
    # Denormal numbers have fewer digits, and one step of them is the most exact that there is.
    close = {"rtol": 1e-3 if scale == 1e-320 else tolerances.digits_lost(1), "atol": 1e-322}
    got = backend.norm(library.array(A * scale))
    np.testing.assert_allclose(got, np.sqrt(np.sum(lengths**2)) * scale, **close)
    columns = library.numpy(backend.column_norms(library.array(A * scale)))
    np.testing.assert_allclose(columns, lengths * scale, **close)


def test_columns_of_different_scales_have_their_own_norms(library):
    A = normal(3, 6, 3) * np.array([1e-200, 0.0, 1e200])
    got = library.numpy(backend.column_norms(library.array(A)))
    np.testing.assert_allclose(got, [scipy.linalg.norm(column) for column in A.T], rtol=tolerances.digits_lost(1))


def test_a_norm_of_nothing_is_zero_and_of_nonsense_is_nonsense(library):
    assert backend.norm(library.array(np.zeros((0, 3)))) == 0.0
    assert backend.column_norms(library.array(np.zeros((0, 3)))).shape == (3,)
    assert np.isnan(backend.norm(library.array([[1.0, np.nan]])))
    assert backend.norm(library.array([[1.0, -np.inf]])) == np.inf


# Factorisations.


@layout
@pytest.mark.parametrize("shape", [(1, 1), (9, 4), (4, 9), (200, 130), (6, 6)], ids=str)
def test_the_triangular_factor_alone_is_that_of_a_whole_qr(shape, arrange, library):
    A = arrange(normal(4, *shape))
    kept = Kept(library, A)
    R = library.numpy(backend.qr_r(*kept.arrays))
    expected = np.linalg.qr(A)[1]
    assert R.shape == expected.shape
    np.testing.assert_array_equal(R, np.triu(R))
    np.testing.assert_allclose(
        np.abs(R), np.abs(expected), rtol=0, atol=tolerances.product(max(shape)) * np.linalg.norm(A, 2)
    )
    kept.expect_unchanged()


def test_no_rows_have_an_empty_triangular_factor():
    assert backend.qr_r(np.zeros((0, 3))).shape == (0, 3)


def test_qr_and_svd_rebuild_the_matrix(library):
    A = normal(5, 12, 7)
    Q, R = map(library.numpy, backend.qr(library.array(A)))
    U, sigma, Vt = map(library.numpy, backend.svd(library.array(A)))
    bound = tolerances.product(12) * np.linalg.norm(A, 2)
    np.testing.assert_allclose(Q @ R, A, rtol=0, atol=bound)
    np.testing.assert_allclose(U * sigma @ Vt, A, rtol=0, atol=bound)
    for thin in (Q.T @ Q, U.T @ U, Vt @ Vt.T):
        np.testing.assert_allclose(thin, np.eye(7), rtol=0, atol=tolerances.orthogonal(12))
    expected = scipy.linalg.svdvals(A)
    np.testing.assert_allclose(sigma, expected, rtol=0, atol=bound)


def test_an_svd_that_does_not_converge_is_a_numerical_error():
    with pytest.raises(NumericalError, match="did not converge"):
        backend.svd(np.full((3, 3), np.nan))


@layout
def test_cholesky_is_the_upper_factor(arrange, library):
    A = normal(6, 8, 20)
    G = arrange(A @ A.T)
    kept = Kept(library, G)
    S = library.numpy(backend.cholesky(*kept.arrays))
    tolerances.assert_close(S, scipy.linalg.cholesky(G), tolerances.digits_lost(3))
    np.testing.assert_array_equal(S, np.triu(S))
    kept.expect_unchanged()


@pytest.mark.parametrize(
    "G",
    [np.diag([1.0, -1e-3, 1.0]), np.ones((3, 3)) - np.eye(3), np.full((3, 3), np.nan)],
    ids=["negative", "mixed", "nan"],
)
def test_cholesky_of_what_is_not_positive_definite_is_none(G, library):
    assert backend.cholesky(library.array(G)) is None


@layout
def test_gram_is_the_product_with_the_transpose(arrange, library):
    Z = arrange(normal(7, 5, 30))
    tolerances.assert_close(library.numpy(backend.gram(library.array(Z))), Z @ Z.T, tolerances.digits_lost(3))


@layout
def test_a_gram_matrix_is_added_to_another_and_its_upper_triangle_is_right(arrange, library):
    X, K = arrange(normal(7, 5, 30)), np.asfortranarray(np.triu(normal(8, 5, 5)))
    kept = Kept(library, X, K)
    panel, before = kept.arrays
    for got, expected in ((backend.add_gram(None, panel), X @ X.T), (backend.add_gram(before, panel), K + X @ X.T)):
        tolerances.assert_close(np.triu(library.numpy(got)), np.triu(expected), tolerances.digits_lost(3))
    kept.expect_unchanged()


@pytest.mark.parametrize(
    "sign, shift, definite", [(1, -0.9, True), (1, -1.1, False), (-1, 3.1, True), (-1, 2.9, False), (1, np.nan, False)]
)
def test_a_shifted_matrix_is_definite_on_one_side_of_its_eigenvalues(sign, shift, definite, library):
    Q = np.linalg.qr(normal(9, 3, 3))[0]
    K = Q * np.array([1.0, 2.0, 3.0]) @ Q.T
    assert backend.is_definite(library.array(np.asfortranarray(K)), sign, shift) is definite


# Triangular products.


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("arrange_B", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("arrange_R", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_triangular_solves_are_right_in_every_memory_order(lower, transposed, arrange_R, arrange_B, library):
    R, B = arrange_R(triangle(6, lower)), arrange_B(normal(8, 6, 9))
    kept = Kept(library, R, B)
    got = library.numpy(backend.solve_triangular(*kept.arrays, lower=lower, transposed=transposed))
    expected = np.linalg.solve(R.T if transposed else R, B)
    tolerances.assert_close(got, expected, tolerances.digits_lost(4))
    kept.expect_unchanged()


@pytest.mark.parametrize("columns", [0, 1])
def test_triangular_solves_take_no_column_and_one(columns, library):
    R, B = triangle(4), normal(9, 4, columns)
    got = library.numpy(backend.solve_triangular(library.array(R), library.array(B)))
    np.testing.assert_allclose(got, np.linalg.solve(R, B), rtol=tolerances.digits_lost(4))


@layout
def test_triangular_products_are_products(arrange, library):
    S, R = triangle(6), arrange(np.triu(normal(10, 6, 6)))
    kept = Kept(library, S, R)
    tolerances.assert_close(library.numpy(backend.multiply_triangular(*kept.arrays)), S @ R, tolerances.digits_lost(3))
    kept.expect_unchanged()


# Reflectors.


@layout
@pytest.mark.parametrize("side", ["L", "R"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("n, k", [(1, 1), (5, 2), (7, 7), (150, 140)])
def test_products_with_reflectors_are_those_with_the_explicit_matrix(n, k, side, transposed, arrange, library):
    V, tau, H = reflectors(n, k)
    X = arrange(normal(11, n, 4) if side == "L" else normal(11, 4, n))
    kept = Kept(library, X)
    got = library.numpy(
        householder.reflect(library.array(V), library.array(tau), *kept.arrays, side=side, transposed=transposed)
    )
    H = H.T if transposed else H
    np.testing.assert_allclose(got, H @ X if side == "L" else X @ H, rtol=0, atol=tolerances.product(n, 4))
    kept.expect_unchanged()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("side", ["L", "R"])
@pytest.mark.parametrize("transposed", [False, True])
def test_reflectors_applied_piece_by_piece_are_the_same_reflectors(side, transposed, order, monkeypatch):
    """An interruption is heard between the pieces; there are seven of them here, the last one narrower."""
    V, tau, H = reflectors(6, 4)
    calls, at_once = [], householder.ormqr_at_once
    monkeypatch.setattr(householder, "LONGEST_CALL", 0.0)
    monkeypatch.setattr(householder, "NARROWEST", 3)
    monkeypatch.setattr(householder, "ormqr_at_once", lambda *how: calls.append(True) or at_once(*how))
    X = np.random.default_rng(1).normal(size=(6, 20) if side == "L" else (20, 6))
    X = np.asarray(X, order=order)
    before = X.copy()
    got = householder.reflect(V, tau, X, side=side, transposed=transposed)
    G = H.T if transposed else H
    assert_close(got, G @ X if side == "L" else X @ G, product(20), np.linalg.norm(X))
    np.testing.assert_array_equal(X, before)
    assert len(calls) == 7


def test_what_stands_on_and_above_the_diagonal_of_the_reflectors_is_not_read(library):
    V, tau, H = reflectors(6, 3)
    noisy = V + np.triu(normal(12, 6, 3))
    X = normal(13, 6, 2)
    got = householder.reflect(library.array(noisy), library.array(tau), library.array(X), side="L", transposed=False)
    np.testing.assert_allclose(library.numpy(got), H @ X, rtol=0, atol=tolerances.product(6, 4))


def test_no_reflector_and_no_column_change_nothing():
    X = normal(14, 4, 3)
    np.testing.assert_array_equal(householder.reflect(np.zeros((4, 0)), np.zeros(0), X, side="L", transposed=False), X)
    V, tau, _ = reflectors(4, 2)
    assert householder.reflect(V, tau, X[:, :0], side="L", transposed=False).shape == (4, 0)


# The discrete cosine transform.


@layout
@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 100, 257])
def test_the_cosine_transform_is_scipys_both_ways(n, arrange, library):
    X = arrange(normal(15, n, 3))
    kept = Kept(library, X)
    forward = library.numpy(backend.dct(*kept.arrays))
    np.testing.assert_allclose(forward, scipy.fft.dct(X, axis=0, norm="ortho"), rtol=0, atol=tolerances.product(n))
    back = library.numpy(backend.dct(*kept.arrays, inverse=True))
    np.testing.assert_allclose(back, scipy.fft.idct(X, axis=0, norm="ortho"), rtol=0, atol=tolerances.product(n))
    kept.expect_unchanged()


@pytest.mark.parametrize("inverse", [False, True])
def test_the_cosine_transform_of_no_column_is_no_column(inverse, library):
    assert library.numpy(backend.dct(library.array(np.zeros((5, 0))), inverse=inverse)).shape == (5, 0)


@settings(max_examples=30)
@given(n=st.integers(1, 300), columns=st.integers(1, 4))
def test_the_cosine_transform_undoes_itself(library, n, columns):
    X = normal(n, n, columns)
    back = backend.dct(backend.dct(library.array(X)), inverse=True)
    np.testing.assert_allclose(library.numpy(back), X, rtol=0, atol=tolerances.product(n, 2))


def test_the_cosine_transform_is_the_matrix_of_its_definition(library):
    n = 16
    j, k = np.arange(n), np.arange(n)[:, None]
    C = np.sqrt(2.0 / n) * np.cos(np.pi * (j + 0.5) * k / n)
    C[0] /= np.sqrt(2.0)
    np.testing.assert_allclose(
        library.numpy(backend.dct(library.array(np.eye(n)))), C, rtol=0, atol=tolerances.product(n)
    )


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("power", [0, 3, 9, 14], ids=lambda power: f"condition 1e{power}")
def test_a_solve_cut_into_triangles_leaves_no_more_than_rounding(library, lower, transposed, power):
    """Triangles are inverted where that is safe; the residual must not show where it is not."""
    n, c = 300, 400
    # Columns that depend on one another, not only of different sizes: scaling alone must not save the day.
    Q, _ = np.linalg.qr(normal(1, n, n))
    R = np.linalg.qr((Q * 10.0 ** -np.linspace(0, power, n)) @ np.linalg.qr(normal(2, n, n))[0])[1]
    R = np.ascontiguousarray(R.T) if lower else R
    B = normal(3, n, c)
    X = library.numpy(backend.solve_triangular(library.array(R), library.array(B), lower=lower, transposed=transposed))
    A = R.T if transposed else R
    # Entry by entry, as Higham (Accuracy and Stability, theorem 8.5) has it for substitution.
    bound = tolerances.product(n) * (np.abs(A) @ np.abs(X) + np.abs(B))
    assert np.all(np.abs(A @ X - B) <= bound)
