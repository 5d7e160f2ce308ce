"""Blocks of a side are near-equal, and none is too narrow; lengths of transforms are smooth."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.errors import ConfigError
from fedsvd.linalg.windows import MIXING_BLOCK, block_sizes, block_width, smooth_length

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


def test_a_block_width_is_the_usual_one_unless_asked():
    assert block_width(0) == MIXING_BLOCK
    assert block_width(70) == 70


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


# What is checked on entry.


def test_sizes_that_make_no_sense_are_refused():
    for n, b in ((0, 1), (1, 0), (-3, 2), (3, -2)):
        with pytest.raises(ConfigError, match="n >= 1 and b >= 1"):
            block_sizes(n, b)
