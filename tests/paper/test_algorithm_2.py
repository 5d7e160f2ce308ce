"""Algorithm 2: block-diagonal orthogonal matrices in O(n), cut so that no block is too narrow (C2, ADR 0003)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import tolerances
from tests.explicit import seed

from fedsvd.linalg.windows import block_sizes
from fedsvd.randomness.keystream import Keystream
from fedsvd_lab.published.block_diagonal import efficient_orthogonal
from fedsvd_lab.published.block_masks import LeftBlocks


def sizes_of_the_paper(n, b):
    """``b' = min(b, n - i)`` until i = n, as printed."""
    sizes, i = [], 0
    while i < n:
        sizes.append(min(b, n - i))
        i += sizes[-1]
    return sizes


@settings(max_examples=50)
@given(n=st.integers(1, 60), b=st.integers(1, 70))
def test_it_is_orthogonal_and_zero_outside_its_blocks(n, b):
    Q = efficient_orthogonal(n, b, Keystream(seed(n))).explicit()
    np.testing.assert_allclose(Q.T @ Q, np.eye(n), rtol=0, atol=tolerances.orthogonal(n))
    owner = np.repeat(np.arange(len(block_sizes(n, b))), block_sizes(n, b))
    same_block = owner[:, None] == owner
    assert np.all(Q[~same_block] == 0.0)
    assert np.all(Q[same_block] != 0.0)


@settings(max_examples=100)
@given(n=st.integers(1, 3000), b=st.integers(1, 400))
def test_blocks_are_the_papers_where_b_divides_n_and_wider_elsewhere(n, b):
    ours, theirs = block_sizes(n, b), sizes_of_the_paper(n, b)
    if n % b == 0 or n < b:
        assert list(ours) == theirs
    else:
        assert min(theirs) == n % b < b <= min(ours)


@pytest.mark.parametrize("n, b", [(1001, 1000), (9, 4), (7, 3)])
def test_the_papers_last_block_may_be_one_wide_and_hides_nothing_but_a_sign(n, b):
    theirs = sizes_of_the_paper(n, b)
    assert theirs[-1] == 1
    X = np.random.default_rng(n).normal(size=(n, 3))
    P_last = efficient_orthogonal(1, b, Keystream(seed(n)))
    np.testing.assert_array_equal(np.abs(P_last.left(X[-1:])), np.abs(X[-1:]))

    P = LeftBlocks(n, seed(n), b)
    assert min(rows.stop - rows.start for rows in P.windows) >= b
    assert np.abs(np.abs(P.left(X)) - np.abs(X)).min(axis=1).max() > 1e-3
    assert np.all(np.abs(np.abs(P.left(X)) - np.abs(X)).max(axis=1) > 1e-3), "no row passes unchanged"


def test_it_takes_a_number_of_normals_linear_in_n():
    """O(n b) for n at fixed b, where one dense matrix would take O(n^2)."""

    class Counting(Keystream):
        drawn = 0

        def normal(self, shape):
            normals = super().normal(shape)
            self.drawn += normals.size
            return normals

    counts = []
    for n in (320, 640, 1280):
        stream = Counting(seed(1))
        efficient_orthogonal(n, 32, stream)
        counts.append(stream.drawn)
    assert counts == [n // 32 * 32 * 33 // 2 for n in (320, 640, 1280)]


def test_a_product_touches_each_slice_once_and_no_zero():
    """Eq. 5: block j of the product is P_j X_j."""
    Q = efficient_orthogonal(10, 3, Keystream(seed(2)))
    X = np.random.default_rng(3).normal(size=(10, 4))
    start = 0
    for block in Q.blocks:
        expected = block.explicit() @ X[start : start + block.n]
        np.testing.assert_allclose(Q.left(X)[start : start + block.n], expected, rtol=0, atol=tolerances.product(10, 2))
        start += block.n
    assert start == 10
