"""The mixing mask: signs and DCT twice, then two rounds of a permutation of all rows and Haar blocks (6.1)."""

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from tests import tolerances
from tests.explicit import seed

from fedsvd.errors import ShapeError
from fedsvd.linalg.windows import block_sizes
from fedsvd.masks import permute
from fedsvd.masks.permute import HaarBlocks, Mixing, groups_of_blocks
from fedsvd.randomness.keystream import Keystream
from fedsvd_lab.published.block_diagonal import efficient_orthogonal


def dct_of(n, rows):
    """The orthonormal DCT-II of these rows, the identity elsewhere."""
    C = np.eye(n)
    C[rows, rows] = scipy.fft.dct(np.eye(rows.stop - rows.start), axis=0, norm="ortho")
    return C


def smooth(n):
    def rest(length):
        for prime in (2, 3, 5, 7):
            while length % prime == 0:
                length //= prime
        return length

    return max(length for length in range(1, n + 1) if rest(length) == 1)


def by_parts(n, b, whole):
    """The matrix as the specification writes it, every factor drawn and written out by itself."""
    L = smooth(n)
    P = np.eye(n)
    for number, rows in enumerate((slice(0, L), slice(n - L, n))):
        P = dct_of(n, rows) @ np.diag(Keystream(whole.derive("signs", number)).signs(n)) @ P
    for t in range(2):
        P = P[Keystream(whole.derive("order", t)).permutation(n)]
        P = efficient_orthogonal(n, b, Keystream(whole.derive("blocks", t))).explicit() @ P
    return P


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 60), b=st.integers(1, 20))
def test_it_is_the_product_of_its_parts(n, b):
    expected = by_parts(n, b, seed())
    np.testing.assert_allclose(Mixing(n, b, seed()).explicit(), expected, rtol=0, atol=tolerances.product(n, 8))


@pytest.mark.parametrize("n", [1, 2, 13, 97, 211])
def test_it_is_orthogonal_for_prime_sizes_too(n):
    P = Mixing(n, 16, seed(n)).explicit()
    assert np.abs(P.T @ P - np.eye(n)).max() < tolerances.ORTHOGONAL_BAR


def test_parts_cross_into_the_library_of_the_data(foreign):
    theirs = Mixing(23, 4, seed(), foreign.array([0.0]))
    ours = Mixing(23, 4, seed())
    np.testing.assert_allclose(
        foreign.numpy(theirs.explicit()), ours.explicit(), rtol=0, atol=tolerances.product(23, 8)
    )
    X = np.random.default_rng(0).normal(size=(23, 3))
    np.testing.assert_allclose(
        foreign.numpy(theirs.left_t(foreign.array(X))), ours.left_t(X), rtol=0, atol=tolerances.product(23, 8)
    )


def test_what_is_not_stored_is_drawn_again_alike():
    X = np.random.default_rng(1).normal(size=(60, 2))
    stored, fresh = Mixing(60, 7, seed(3)), Mixing(60, 7, seed(3), keep=False)
    for _ in range(2):
        np.testing.assert_array_equal(fresh.left(X), stored.left(X))
        np.testing.assert_array_equal(fresh.left_t(X), stored.left_t(X))
    assert not fresh.drawn
    assert not fresh.blocks[0].drawn
    assert stored.blocks[0].drawn


def test_rows_of_whole_blocks_are_turned_without_the_others():
    B = Mixing(60, 7, seed(3)).blocks[1]
    X = np.random.default_rng(1).normal(size=(60, 2))
    whole = B.left(X)
    for first, rows in groups_of_blocks(B.starts, 20):
        np.testing.assert_array_equal(B.left(X[rows], first), whole[rows])
        np.testing.assert_allclose(B.left_t(whole[rows], first), X[rows], rtol=0, atol=tolerances.product(8, 2))
    with pytest.raises(ShapeError, match="whole blocks"):
        B.left(X[:9])


@settings(max_examples=50)
@given(n=st.integers(1, 300), b=st.integers(1, 40), rows=st.integers(1, 200))
def test_groups_are_whole_blocks_in_order_and_within_the_rows_asked_for(n, b, rows):
    starts = (0, *np.cumsum(block_sizes(n, b)).tolist())
    groups = groups_of_blocks(starts, rows)
    assert [row for _, part in groups for row in range(part.start, part.stop)] == list(range(n))
    for first, part in groups:
        assert part.start == starts[first]
        assert part.stop in starts
        assert part.stop - part.start <= max(rows, max(block_sizes(n, b)))


def test_every_row_is_spread_over_the_whole_side():
    """One row goes everywhere with entries of size sqrt(log n / n); bare blocks leave it within b places."""
    n, b = 1024, 16
    P = Mixing(n, b, seed(1)).explicit()
    assert np.abs(P).max() < 6.0 / np.sqrt(n)
    for energy in ((P**2).reshape(n // b, b, n).sum(axis=1), (P**2).reshape(n, n // b, b).sum(axis=2)):
        # A tile of a Haar matrix has this much: n energy is chi-square with b degrees of freedom, nearly.
        assert chi2(b).ppf(tolerances.REJECTED) < n * energy.min() < n * energy.max() < chi2(b).isf(tolerances.REJECTED)
    blocks = efficient_orthogonal(n, b, Keystream(seed(1))).explicit()
    assert np.count_nonzero(blocks[:, 0]) == b


def test_a_constant_and_an_alternating_column_are_spread_too():
    n = 1024
    waves = np.stack([np.ones(n), np.resize([1.0, -1.0], n), np.cos(np.pi * 7 * (np.arange(n) + 0.5) / n)], axis=1)
    masked = Mixing(n, 16, seed(2)).left(waves / np.linalg.norm(waves, axis=0))
    assert np.abs(masked).max() < 6.0 / np.sqrt(n)


def test_inputs_are_not_changed_and_other_sizes_are_refused():
    P = Mixing(6, 2, seed())
    X = np.ones((6, 6))
    P.left(X), P.left_t(X), P.right(X), P.right_t(X)
    assert np.all(X == 1.0)
    for product, shape in ((P.left, (5, 2)), (P.left_t, (7, 2)), (P.right, (2, 5)), (P.right_t, (2, 7))):
        with pytest.raises(ShapeError):
            product(np.ones(shape))


@pytest.mark.parametrize("keep", [True, False])
def test_fewer_blocks_from_the_same_place_are_the_same_blocks(foreign, keep, monkeypatch):
    """Rows go up all at once and come back in panels: groups drawn for the one serve the other."""
    monkeypatch.setattr(permute, "TOGETHER", 3)
    widths, place = (8, 8, 8, 7, 7, 7, 7), foreign.array([0.0])
    there = HaarBlocks(widths, seed(3), place, keep=keep)
    here = HaarBlocks(widths, seed(3))
    X = np.random.default_rng(3).normal(size=(sum(widths), 5))
    expected = here.left(X)
    bound = tolerances.product(8, 8)
    np.testing.assert_allclose(foreign.numpy(there.left(foreign.array(X))), expected, rtol=0, atol=bound)
    for first, last in ((0, 2), (0, 5), (2, 4), (4, 7), (6, 7)):
        rows = slice(there.starts[first], there.starts[last])
        found = foreign.numpy(there.left(foreign.array(X[rows]), first))
        np.testing.assert_allclose(found, expected[rows], rtol=0, atol=bound)
        back = foreign.numpy(there.left_t(foreign.array(expected[rows]), first))
        np.testing.assert_allclose(back, X[rows], rtol=0, atol=2 * bound)
