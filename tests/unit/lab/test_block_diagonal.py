"""A block-diagonal product is the product with the dense matrix, without its zeros (eq. 5 of the paper)."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import tolerances

from fedsvd.errors import ShapeError
from fedsvd.linalg.householder import draw
from fedsvd_lab.published.block_diagonal import BlockDiagonal


def blocks(sizes, on=None):
    stream = np.random.default_rng(sum(sizes)).standard_normal
    return BlockDiagonal(tuple(draw(size, stream, on) for size in sizes))


def dense(sizes):
    return scipy.linalg.block_diag(*(block.explicit() for block in blocks(sizes).blocks))


@settings(max_examples=25)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5), columns=st.integers(1, 4))
def test_products_from_both_sides_and_both_ways_are_those_of_the_dense_matrix(library, sizes, columns):
    Q, D = blocks(sizes, library.array([0.0])), dense(sizes)
    n = sum(sizes)
    assert Q.n == n
    X = np.random.default_rng(n).normal(size=(n, columns))
    tolerance = tolerances.product(n, 2)
    np.testing.assert_allclose(library.numpy(Q.explicit()), D, rtol=0, atol=tolerance)
    np.testing.assert_allclose(library.numpy(Q.left(library.array(X))), D @ X, rtol=0, atol=tolerance)
    np.testing.assert_allclose(library.numpy(Q.left_t(library.array(X))), D.T @ X, rtol=0, atol=tolerance)
    np.testing.assert_allclose(library.numpy(Q.right(library.array(X.T))), X.T @ D, rtol=0, atol=tolerance)
    np.testing.assert_allclose(library.numpy(Q.right_t(library.array(X.T))), X.T @ D.T, rtol=0, atol=tolerance)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_product_is_a_new_array_and_leaves_its_input_alone(order):
    Q = blocks([2, 3])
    X = np.ones((5, 5), order=order)
    for product in (Q.left, Q.left_t, Q.right, Q.right_t):
        assert not np.shares_memory(product(X), X)
        assert np.all(X == 1.0)


def test_products_of_whole_numbers_keep_their_fractions():
    """An output in the type of its input would cut them off without a word."""
    Q, D, X = blocks([2, 3]), dense([2, 3]), np.arange(25).reshape(5, 5)
    assert X.dtype.kind == "i"
    for got, expected in ((Q.left(X), D @ X), (Q.left_t(X), D.T @ X), (Q.right(X), X @ D), (Q.right_t(X), X @ D.T)):
        np.testing.assert_allclose(got, expected, rtol=0, atol=25 * tolerances.product(5, 2))


def test_blocks_touch_only_their_own_rows():
    Q = blocks([2, 3])
    X = np.zeros((5, 1))
    X[0] = 1.0
    assert np.all(Q.left(X)[2:] == 0.0)
    assert np.all(Q.left_t(X)[2:] == 0.0)


def test_a_factor_of_another_size_is_refused():
    Q = blocks([2, 3])
    for product, shape in ((Q.left, (4, 2)), (Q.left_t, (6, 2)), (Q.right, (2, 4)), (Q.right_t, (2, 6))):
        with pytest.raises(ShapeError, match="expected"):
            product(np.ones(shape))
