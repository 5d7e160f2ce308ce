"""Counts in fives: closed under sums and differences, off by two records a party, and of persons."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedsvd.errors import ConfigError
from fedsvd.statistics.fives import cumulative, deviation, expect_grid, few_cells, fives, most_off

COUNTS = arrays(np.int64, st.integers(1, 12), elements=st.integers(0, 10_000))
PEOPLE = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50)), min_size=1, max_size=60)


@given(COUNTS, COUNTS, st.integers(1, 20))
def test_sums_and_differences_of_any_two_counts_are_0_or_at_least_the_least_count(one, other, least):
    length = min(len(one), len(other))
    a, b = fives(one[:length], least), fives(other[:length], least)
    for found in (a + b, np.abs(a - b), np.abs(a[:, None] - b), np.cumsum(a)):
        assert (found % least == 0.0).all()
        assert ((found == 0.0) | (found >= least)).all()


@given(COUNTS, st.integers(1, 20))
def test_a_rounded_count_is_off_by_at_most_half_a_step(counts, least):
    assert np.abs(fives(counts, least) - counts).max() <= most_off(least, 1)
    assert most_off(least, 7) == 7 * most_off(least, 1)


@given(COUNTS)
def test_a_staircase_stays_one(counts):
    assert (np.diff(fives(np.cumsum(counts))) >= 0.0).all()


def test_the_deviation_is_that_of_remainders_evenly_spread():
    every = np.arange(5000)
    spread = float(np.std(fives(every) - every))
    assert math.isclose(spread, deviation(5, 1))
    assert math.isclose(deviation(5, 8), 4.0)


@given(PEOPLE)
def test_persons_are_counted_once_however_many_rows_they_have(people):
    who, values = np.array([w for w, _ in people]), np.array([float(v) for _, v in people])
    edges = np.arange(0.0, 51.0, 10.0)
    found = cumulative(values, edges, who)
    assert found.tolist() == [len({w for w, v in people if v <= edge}) for edge in edges]
    again = cumulative(np.tile(values, 5), edges, np.tile(who, 5))  # five visits of one patient are one
    assert again.tolist() == found.tolist()


@given(st.lists(st.integers(-5, 60), max_size=40))
def test_a_cumulative_count_has_what_is_at_or_below_its_edge(values):
    edges = np.array([0.0, 7.0, 50.0])
    assert cumulative(np.array(values, dtype=float), edges).tolist() == [
        float(sum(v <= edge for v in values)) for edge in edges
    ]


def test_cells_of_one_to_four_are_counted():
    assert few_cells(np.array([4.0, 4.0, 9.0, 10.0])) == 2
    assert few_cells(np.array([[0.0, 5.0, 10.0], [1.0, 1.0, 4.0]])) == 2


@pytest.mark.parametrize("edges", [[], [1.0, 1.0], [2.0, 1.0], [0.0, np.inf], np.arange(201.0)])
def test_a_grid_has_rising_edges_and_at_most_two_hundred(edges):
    with pytest.raises(ConfigError, match=r"counts are (opened do not rise|to be opened at (0|201) times)"):
        expect_grid(np.array(edges))
