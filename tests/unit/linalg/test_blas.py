"""SciPy's BLAS on arrays as they lie, against NumPy's own products; and the threads that both have."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.linalg
from tests import tolerances

from fedsvd.linalg import backend, blas, pools


def _laid_out(rows, columns, seed):
    """The same kind of matrix in every layout: by rows, by columns, part of a larger one of either, with gaps."""
    draw = np.random.default_rng(seed).standard_normal
    yield draw((rows, columns))
    yield np.asfortranarray(draw((rows, columns)))
    yield draw((rows + 3, columns + 4))[1 : rows + 1, 2 : columns + 2]
    yield np.asfortranarray(draw((rows + 3, columns + 4)))[1 : rows + 1, 2 : columns + 2]
    yield draw((2 * rows, 2 * columns))[::2, ::2]
    yield draw((rows, columns))[::-1, ::-1]


SHAPES = [(1, 1, 1), (3, 4, 5), (1, 7, 2), (7, 1, 3), (5, 6, 1), (20, 30, 10)]


def test_scipy_publishes_the_routines_in_the_form_that_is_known_here():
    assert blas.found()


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_a_product_is_numpys_in_every_layout(m, k, n):
    for A in _laid_out(m, k, 1):
        for B in _laid_out(k, n, 2):
            tolerances.assert_close(
                blas.gemm(A, B), A @ B, tolerances.product(k, 4), np.linalg.norm(A) * np.linalg.norm(B)
            )


@pytest.mark.parametrize(("m", "k"), [(1, 1), (3, 4), (1, 7), (7, 1), (20, 30)])
def test_a_product_with_a_vector_is_numpys_in_every_layout(m, k):
    x, out = np.random.default_rng(7).standard_normal((k, 3))[:, 1], np.zeros((m, 2))
    for A in _laid_out(m, k, 1):
        blas.gemv(A, x, out[:, 1])
        size = np.linalg.norm(A) * np.linalg.norm(x)
        tolerances.assert_close(out[:, 1], A @ x, tolerances.product(k, 4), size)
        assert not out[:, 0].any()


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_a_long_product_with_few_vectors_is_numpys(columns):
    for A in _laid_out(4000, 300, 1):
        B = np.random.default_rng(2).standard_normal((columns, 300)).T
        size = np.linalg.norm(A) * np.linalg.norm(B)
        tolerances.assert_close(backend.matmul(A, B), A @ B, tolerances.product(300, 4), size)


def test_a_norm_is_numpys_in_every_layout_and_at_every_size():
    for shape in ((3, 5), (2000, 700)):
        for A in _laid_out(*shape, 1):
            for factor in (1.0, 1e-200, 1e200):
                size = np.linalg.norm(A) * factor
                tolerances.assert_close(backend.norm(A * factor), size, tolerances.product(A.size, 4), size)
                part = np.full((shape[0] + 1, shape[1] + 1), np.nan)
                part[1:, 1:] = A * factor
                tolerances.assert_close(backend.norm(part[1:, 1:]), size, tolerances.product(A.size, 4), size)


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_a_product_is_written_into_part_of_an_array_and_nowhere_else(m, k, n):
    A, B = next(_laid_out(m, k, 3)), next(_laid_out(k, n, 4))
    size = np.linalg.norm(A) * np.linalg.norm(B)
    for order in "CF":
        larger = np.asarray(np.random.default_rng(5).standard_normal((m + 2, n + 2)), order=order)
        before = larger.copy()
        blas.gemm(A, B, larger[1:-1, 1:-1])
        tolerances.assert_close(larger[1:-1, 1:-1], A @ B, tolerances.product(k, 4), size)
        blas.gemm(A, B, larger[1:-1, 1:-1], add=True)
        tolerances.assert_close(larger[1:-1, 1:-1], 2 * (A @ B), tolerances.product(k, 8), size)
        larger[1:-1, 1:-1] = before[1:-1, 1:-1]
        np.testing.assert_array_equal(larger, before)


@pytest.mark.parametrize(("m", "k"), [(1, 1), (4, 9), (9, 4), (30, 20)])
def test_a_gram_matrix_has_the_upper_triangle_of_numpys(m, k):
    for X in _laid_out(m, k, 6):
        size = np.linalg.norm(X) ** 2
        tolerances.assert_close(np.triu(blas.syrk(X)), np.triu(X @ X.T), tolerances.product(k, 4), size)
        tolerances.assert_close(blas.syrk(X, lower=True), np.tril(X @ X.T), tolerances.product(k, 4), size)
        K = np.asfortranarray(np.eye(m))
        tolerances.assert_close(
            np.triu(blas.syrk(X, K)), np.triu(np.eye(m) + X @ X.T), tolerances.product(k, 4), size + 1
        )
        tolerances.assert_close(backend.gram(X), X @ X.T, tolerances.product(k, 4), size)


def test_a_large_gram_matrix_is_symmetric_to_the_last_bit():
    G = backend.gram(np.random.default_rng(7).standard_normal((1100, 3)))
    np.testing.assert_array_equal(G, G.T)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_triangular_solve_is_scipys_in_every_layout(lower, transposed):
    for R in _laid_out(6, 6, 8):
        R[np.diag_indices(6)] += 9.0  # well conditioned
        for B in _laid_out(6, 4, 9):
            before = B.copy()
            expected = scipy.linalg.solve_triangular(R, B, trans=int(transposed), lower=lower)
            tolerances.assert_close(
                blas.trsm(R, B, lower=lower, transposed=transposed), expected, tolerances.digits_lost(2)
            )
            np.testing.assert_array_equal(B, before)
            blas.trsm(R, B, lower=lower, transposed=transposed, out=B)
            tolerances.assert_close(B, expected, tolerances.digits_lost(2))


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (3, 5), (40, 40)])
def test_an_svd_multiplies_back_in_every_layout(shape):
    for A in _laid_out(*shape, 10):
        before = A.copy()
        U, sigma, Vt, info = blas.gesdd(A)
        assert info == 0
        tolerances.assert_close((U * sigma) @ Vt, A, tolerances.digits_lost(2), np.linalg.norm(A))
        tolerances.assert_close(sigma, np.linalg.svd(A, compute_uv=False), tolerances.digits_lost(2))
        np.testing.assert_array_equal(A, before)


def test_a_limit_ends_with_its_block_whatever_stands_inside():
    before = [library.num_threads for library in pools.loaded_libraries()]
    with pools.one_pool():
        assert pools.threads() == max(library.num_threads for library in pools.computing_libraries())
        assert all(
            library.num_threads == 1
            for library in pools.loaded_libraries()
            if library not in pools.computing_libraries()
        )
        with pools.one_thread():
            assert pools.threads() == 1
    assert [library.num_threads for library in pools.loaded_libraries()] == before


def test_limits_that_end_in_another_order_leave_no_trace():
    before = [library.num_threads for library in pools.loaded_libraries()]
    first, second = pools.one_pool(1), pools.one_thread()
    first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    assert pools.threads() == 1
    second.__exit__(None, None, None)
    assert [library.num_threads for library in pools.loaded_libraries()] == before


def test_limits_of_many_threads_at_once_all_end():
    """How many threads OpenBLAS then says it has depends on which thread asks (seen with 0.3.30 and 0.3.31)."""

    def often(number):
        for _ in range(200):
            with pools.one_thread() if number % 2 else pools.one_pool(1 + number % 3):
                pass

    before = pools.threads()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(often, range(16)))
    pools.follow()
    assert pools.threads() == before
