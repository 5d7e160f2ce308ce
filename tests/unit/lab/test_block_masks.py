"""The paper's masks: blocks partition rows and columns, may straddle users, and each follows from its seed alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import explicit, tolerances
from tests.explicit import seed

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.linalg.windows import block_sizes
from fedsvd_lab.published.block_masks import PAPER_BLOCK, LeftBlocks, RightBlocks, cut_columns, cut_rows

WIDTHS = (7, 1, 12, 3)
splits = st.lists(st.integers(1, 30), min_size=1, max_size=5).map(tuple)


def counts(window):
    """How many columns of each user meet in a block."""
    return [own.stop - own.start for own in window.columns]


@settings(max_examples=100)
@given(n=st.integers(1, 60), b=st.integers(1, 20))
def test_rows_are_cut_into_blocks(n, b):
    windows = cut_rows(n, b)
    np.testing.assert_array_equal(np.concatenate([np.arange(n)[rows] for rows in windows]), np.arange(n))
    assert tuple(rows.stop - rows.start for rows in windows) == block_sizes(n, b)


@settings(max_examples=100)
@given(widths=splits, b=st.integers(1, 20))
def test_slices_partition_each_users_columns_and_outputs_those_of_y(widths, b):
    windows = cut_columns(widths, b)
    for i, n_i in enumerate(widths):
        covered = np.concatenate([np.arange(n_i)[window.columns[i]] for window in windows])
        np.testing.assert_array_equal(covered, np.arange(n_i))
    covered = np.concatenate([np.arange(sum(widths))[window.outputs] for window in windows])
    np.testing.assert_array_equal(covered, np.arange(sum(widths)))
    for window in windows:
        assert window.width == sum(counts(window)) > 0
        places = np.concatenate([np.arange(window.width)[window.place(i)] for i in range(len(widths))])
        np.testing.assert_array_equal(places, np.arange(window.width))


def test_a_block_may_straddle_users_or_lie_inside_one():
    """C3: the second block is shared, the others lie inside one user's columns."""
    windows = cut_columns((6, 14), 4)
    assert [counts(window) for window in windows] == [[4, 0], [2, 2], [0, 4], [0, 4], [0, 4]]
    assert [window.place(1) for window in windows[:2]] == [slice(4, 4), slice(2, 4)]


def test_both_are_orthogonal_and_products_are_those_of_the_explicit_matrix():
    P, Q = LeftBlocks(25, seed(1), 4), RightBlocks(WIDTHS, seed(2), 4)
    dense_P, dense_Q = explicit.left(P), explicit.right(Q)
    assert np.abs(dense_P.T @ dense_P - np.eye(25)).max() < tolerances.ORTHOGONAL_BAR
    assert np.abs(dense_Q.T @ dense_Q - np.eye(23)).max() < tolerances.ORTHOGONAL_BAR
    X = np.random.default_rng(3).normal(size=(25, 3))
    np.testing.assert_allclose(P.left(X), dense_P @ X, rtol=0, atol=tolerances.product(25, 8))
    np.testing.assert_allclose(P.left_t(X), dense_P.T @ X, rtol=0, atol=tolerances.product(25, 8))
    offsets = np.cumsum([0, *WIDTHS])
    for w, window in enumerate(Q.windows):
        for i, own in enumerate(window.columns):
            Q_iw = dense_Q[offsets[i] + own.start : offsets[i] + own.stop, window.outputs]
            np.testing.assert_allclose(Q.rows(w, i), Q_iw, rtol=0, atol=tolerances.product(23, 8))


@pytest.mark.parametrize("made", [lambda: LeftBlocks(24, seed(1), 4), lambda: RightBlocks((16, 16), seed(2), 8)])
def test_blocks_of_one_size_differ_and_none_needs_the_others(made):
    mask = made()
    blocks = [mask.window(w).explicit() for w in range(len(mask.windows))]
    assert len({len(block) for block in blocks}) == 1
    for w, block in enumerate(blocks):
        np.testing.assert_array_equal(made().window(w).explicit(), block)
        assert all(np.abs(block - other).max() > 0.1 for other in blocks[:w])


def test_a_block_of_q_is_drawn_at_every_use_unless_it_is_kept():
    kept, fresh = RightBlocks(WIDTHS, seed(2), 4, keep=True), RightBlocks(WIDTHS, seed(2), 4)
    assert kept.window(0) is kept.window(0)
    assert fresh.window(0) is not fresh.window(0)


def test_the_width_is_the_papers_unless_asked_and_no_seed_is_shown():
    assert len(LeftBlocks(5000, seed()).windows) == 5000 // PAPER_BLOCK
    assert repr(LeftBlocks(25, seed(12345), 4)) == "LeftBlocks(m=25, windows=6)"
    assert repr(RightBlocks(WIDTHS, seed(12345), 4)) == "RightBlocks(n=23, users=4, windows=5)"


def test_sizes_that_make_no_sense_are_refused():
    for widths in ((), (0,), (3, 0), (3, -1)):
        with pytest.raises(ConfigError, match="at least one column"):
            cut_columns(widths, 4)
    with pytest.raises(ConfigError, match=">= 1"):
        LeftBlocks(0, seed(), 4)
    with pytest.raises(ShapeError):
        LeftBlocks(25, seed(), 4).left(np.ones((24, 2)))
