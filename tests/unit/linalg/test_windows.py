"""Sides are cut into near-equal windows; a window of columns mixes all users, and no block is too narrow to hide."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.errors import ConfigError
from fedsvd.linalg.windows import (
    MIXING_BLOCK,
    PAPER_BLOCK,
    Form,
    block_sizes,
    block_width,
    cut_columns,
    cut_side,
    window_count,
)

splits = st.lists(st.integers(1, 30), min_size=1, max_size=5).map(tuple)


def size(run):
    return run.stop - run.start


def counts(window):
    """How many columns of each user meet in a window."""
    return [size(own) for own in window.columns]


# Block sizes (C2).


@settings(max_examples=300)
@given(n=st.integers(1, 5000), b=st.integers(1, 6000))
def test_blocks_fill_n_are_near_equal_and_none_is_narrower_than_asked(n, b):
    sizes = block_sizes(n, b)
    assert sum(sizes) == n
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= min(b, n)
    assert max(sizes) < 2 * b or n < b
    assert len(sizes) == max(1, n // b), "and no fewer blocks than that"


@pytest.mark.parametrize(
    "n, b, sizes",
    [
        (1, 1, (1,)),
        (1001, 1000, (1001,)),
        (7, 3, (4, 3)),
        (9, 3, (3, 3, 3)),
        (2, 5, (2,)),
        (11, 4, (6, 5)),
        (5, 1, (1,) * 5),
    ],
)
def test_blocks_of_known_sizes(n, b, sizes):
    assert block_sizes(n, b) == sizes


def test_block_widths_are_the_forms_own_unless_asked():
    assert block_width(Form.BLOCKS, 0) == PAPER_BLOCK
    assert block_width(Form.MIXING, 0) == MIXING_BLOCK
    assert block_width(Form.BLOCKS, 70) == 70


# Rows.


@pytest.mark.parametrize("n, limit, count", [(1, 1, 1), (10, 10, 1), (11, 10, 2), (30, 10, 3), (31, 10, 4)])
def test_windows_are_as_few_as_the_limit_allows(n, limit, count):
    assert window_count(n, limit) == count


@settings(max_examples=100)
@given(form=st.sampled_from(Form), n=st.integers(1, 60), limit=st.integers(1, 70), b=st.integers(1, 20))
def test_windows_of_rows_follow_one_another_near_equal_and_within_the_limit(form, n, limit, b):
    windows = cut_side(form, n, b, limit)
    np.testing.assert_array_equal(np.concatenate([np.arange(n)[rows] for rows in windows]), np.arange(n))
    sizes = [size(rows) for rows in windows]
    assert max(sizes) - min(sizes) <= 1
    if form is Form.HAAR:
        assert sizes == [n]
    elif form is Form.MIXING:
        assert max(sizes) <= limit
        assert len(sizes) == -(-n // limit)
    else:
        assert tuple(sizes) == block_sizes(n, b)


# Columns.


@settings(max_examples=100)
@given(form=st.sampled_from(Form), widths=splits, limit=st.integers(1, 60), b=st.integers(1, 20))
def test_slices_partition_each_users_columns_and_outputs_those_of_y(form, widths, limit, b):
    windows = cut_columns(form, widths, b, limit)
    for i, n_i in enumerate(widths):
        covered = np.concatenate([np.arange(n_i)[window.columns[i]] for window in windows])
        np.testing.assert_array_equal(covered, np.arange(n_i))
    covered = np.concatenate([np.arange(sum(widths))[window.outputs] for window in windows])
    np.testing.assert_array_equal(covered, np.arange(sum(widths)))
    for window in windows:
        assert window.width == sum(counts(window)) > 0
        places = np.concatenate([np.arange(window.width)[window.place(i)] for i in range(len(widths))])
        np.testing.assert_array_equal(places, np.arange(window.width))


@settings(max_examples=100)
@given(widths=splits, limit=st.integers(1, 60))
def test_a_mixing_window_takes_the_same_fraction_of_every_user(widths, limit):
    windows = cut_columns(Form.MIXING, widths, 0, limit)
    count = len(windows)
    if count > min(widths):
        return  # somebody has fewer columns than there are windows
    for w, window in enumerate(windows):
        for n_i, own in zip(widths, window.columns, strict=True):
            assert (own.start, own.stop) == (w * n_i // count, (w + 1) * n_i // count)
            assert own.stop > own.start, "no window is without a user"


@settings(max_examples=100)
@given(widths=splits, limit=st.integers(6, 60))
def test_mixing_windows_keep_to_the_limit_and_are_as_few_as_can_be(widths, limit):
    windows = cut_columns(Form.MIXING, widths, 0, limit)
    assert max(window.width for window in windows) <= limit
    assert len(windows) <= -(-sum(widths) // (limit - len(widths)))


def test_odd_columns_of_two_users_do_not_push_a_window_over_the_limit():
    """Two windows of (9, 11) columns would hold 9 and 11."""
    assert [window.width for window in cut_columns(Form.MIXING, (9, 11), 0, 10)] == [6, 7, 7]


def test_one_column_users_share_the_last_window_whatever_the_limit():
    assert [window.width for window in cut_columns(Form.MIXING, (1,) * 30, 0, 10)] == [30]


def test_a_haar_mask_has_one_window_with_everybodys_columns():
    (window,) = cut_columns(Form.HAAR, (7, 1, 12), 0, 5)
    assert window.columns == (slice(0, 7), slice(0, 1), slice(0, 12))
    assert window.outputs == slice(0, 20)


def test_a_block_of_the_paper_may_straddle_users_or_lie_inside_one():
    """C3: the second block is shared, the others lie inside one user's columns."""
    windows = cut_columns(Form.BLOCKS, (6, 14), 4)
    assert [counts(window) for window in windows] == [[4, 0], [2, 2], [0, 4], [0, 4], [0, 4]]
    assert [window.place(1) for window in windows[:2]] == [slice(4, 4), slice(2, 4)]


# The door.


def test_sizes_that_make_no_sense_are_refused():
    for n, b in ((0, 1), (1, 0), (-3, 2), (3, -2)):
        with pytest.raises(ConfigError, match="n >= 1 and b >= 1"):
            block_sizes(n, b)
    for n, limit in ((0, 5), (5, 0), (-1, 5)):
        with pytest.raises(ConfigError, match="window limit"):
            window_count(n, limit)
    for widths in ((), (0,), (3, 0), (3, -1)):
        with pytest.raises(ConfigError, match="at least one column"):
            cut_columns(Form.HAAR, widths)
