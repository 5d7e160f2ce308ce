"""A mask stands over a whole side, whatever its length; the paper's blocks are near-equal, and none is too narrow."""

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
    smooth_length,
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


@settings(max_examples=100)
@given(form=st.sampled_from(Form), n=st.integers(1, 60), b=st.integers(1, 20))
def test_rows_are_mixed_all_together_but_for_the_papers_blocks(form, n, b):
    windows = cut_side(form, n, b)
    np.testing.assert_array_equal(np.concatenate([np.arange(n)[rows] for rows in windows]), np.arange(n))
    assert tuple(size(rows) for rows in windows) == (block_sizes(n, b) if form is Form.BLOCKS else (n,))


@pytest.mark.parametrize("form", [Form.HAAR, Form.MIXING])
def test_no_length_makes_a_second_window(form):
    assert cut_side(form, 50_000_000) == (slice(0, 50_000_000),)
    assert len(cut_columns(form, (7, 1_000_000, 3))) == 1


def test_a_smooth_length_is_the_largest_with_factors_up_to_seven():
    def rest(n):
        for prime in (2, 3, 5, 7):
            while n % prime == 0:
                n //= prime
        return n

    smooth = [n for n in range(1, 5000) if rest(n) == 1]
    for n in (*range(1, 400), 4099, 4999):
        assert smooth_length(n) == max(length for length in smooth if length <= n)
    assert smooth_length(5_000_011) == 5_000_000
    with pytest.raises(ConfigError, match="at least 1"):
        smooth_length(0)


# Columns.


@settings(max_examples=100)
@given(form=st.sampled_from(Form), widths=splits, b=st.integers(1, 20))
def test_slices_partition_each_users_columns_and_outputs_those_of_y(form, widths, b):
    windows = cut_columns(form, widths, b)
    for i, n_i in enumerate(widths):
        covered = np.concatenate([np.arange(n_i)[window.columns[i]] for window in windows])
        np.testing.assert_array_equal(covered, np.arange(n_i))
    covered = np.concatenate([np.arange(sum(widths))[window.outputs] for window in windows])
    np.testing.assert_array_equal(covered, np.arange(sum(widths)))
    for window in windows:
        assert window.width == sum(counts(window)) > 0
        places = np.concatenate([np.arange(window.width)[window.place(i)] for i in range(len(widths))])
        np.testing.assert_array_equal(places, np.arange(window.width))


@pytest.mark.parametrize("form", [Form.HAAR, Form.MIXING])
def test_all_users_columns_are_mixed_together(form):
    (window,) = cut_columns(form, (7, 1, 12), 5)
    assert window.columns == (slice(0, 7), slice(0, 1), slice(0, 12))
    assert window.outputs == slice(0, 20)


def test_a_block_of_the_paper_may_straddle_users_or_lie_inside_one():
    """C3: the second block is shared, the others lie inside one user's columns."""
    windows = cut_columns(Form.BLOCKS, (6, 14), 4)
    assert [counts(window) for window in windows] == [[4, 0], [2, 2], [0, 4], [0, 4], [0, 4]]
    assert [window.place(1) for window in windows[:2]] == [slice(4, 4), slice(2, 4)]


# What is checked on entry.


def test_sizes_that_make_no_sense_are_refused():
    for n, b in ((0, 1), (1, 0), (-3, 2), (3, -2)):
        with pytest.raises(ConfigError, match="n >= 1 and b >= 1"):
            block_sizes(n, b)
    for widths in ((), (0,), (3, 0), (3, -1)):
        with pytest.raises(ConfigError, match="at least one column"):
            cut_columns(Form.HAAR, widths)
