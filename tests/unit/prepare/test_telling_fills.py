"""Which fills can be told from entries: means of all digits, numbers that no entry is, decimals finer than entries."""

import numpy as np
import pytest

from fedsvd.data.open import open_source
from fedsvd.prepare.missing import Filled, filled_with_constant
from fedsvd.prepare.soft_impute import Completed, Completion
from fedsvd.prepare.telling_fills import telling_fills

rng = np.random.default_rng(5)
WHOLE = rng.integers(1, 10, 200).astype(float)


def table(column, gaps=1):
    """A column with gaps, and one without."""
    held = np.column_stack((column, WHOLE[: len(column)]))
    held[:gaps, 0] = np.nan
    return open_source(held)


def told(column, fill, decimals, gaps=1):
    fills = np.array([fill, 0.0])
    return bool(telling_fills(Filled(table(column, gaps), fills, decimals=decimals), 5))


@pytest.mark.parametrize(
    ("column", "fill", "decimals", "tells"),
    [
        (WHOLE, 5.01, {}, True),  # 5.01 x is whole for no x from 1 to 9
        (WHOLE, 5.0, {}, True),  # by chance: another mean would not be
        (WHOLE, 5.0, {"x0": 0}, False),
        (2.0 * WHOLE, 10.0, {"x0": 0}, True),  # even numbers: the mean may be odd
        (2.0 * WHOLE + 1.0, 10.0, {"x0": 0}, True),
        (10.0 * WHOLE, 53.0, {"x0": 0}, True),
        (WHOLE / 10.0, 0.5, {"x0": 1}, False),
        (WHOLE, 5.1, {"x0": 1}, True),  # whole numbers that the dictionary has in tenths
        (np.where(WHOLE > 8, 1.0, 0.0), 1.0, {"x0": 0}, False),
        (np.where(np.arange(200) < 4, 3.0, 0.0), 0.0, {"x0": 0}, False),  # rare values: what is filled in is 0
        (np.append(2.0 * WHOLE[:198], (3.0, 5.0)), 10.0, {"x0": 0}, True),  # two strays hide no grid
    ],
)
def test_means(column, fill, decimals, tells):
    assert told(column, fill, decimals) is tells


def test_columns_without_gaps_of_ones_own_tell_nothing():
    assert not told(WHOLE, 5.01, {}, gaps=0)


@pytest.mark.parametrize(("constant", "tells"), [(0.0, False), (3.0, False), (0.5, True), (1e9, True), (-1.0, True)])
def test_what_a_job_fills_gaps_with(constant, tells):
    assert bool(telling_fills(filled_with_constant(table(WHOLE), constant), 5)) is tells


def test_low_rank_imputation_is_judged_by_rows_that_take_the_means():
    base, nothing = table(WHOLE), np.zeros((2, 2))
    for alone, tells in ((np.array([[1.0, 0.0]]), ("x0",)), (np.zeros((0, 2)), ())):
        found = Completion(np.array([5.01, 5.0]), np.ones(2), nothing, alone)
        assert telling_fills(Completed(base, found), 5) == tells
    assert telling_fills(Completed(base, found, {"x0": 0}), 5) == ()
