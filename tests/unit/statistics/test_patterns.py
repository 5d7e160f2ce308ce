"""Entropies of columns and counts of patterns, against SciPy and counting by hand; bits held, against brute force."""

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy
from tests.tolerances import ACCEPTED, RESULT_BAR, assert_close

from fedsvd.protocol.held import held_bits
from fedsvd.statistics.patterns import column_bits, columns_of, evenly, in_rare_patterns, rank_share


def by_hand(column):
    return float(entropy(list(Counter(column.tolist()).values()), base=2))


def bits(column):
    """The same, and what so few rows do not show of it (Miller and Madow)."""
    return by_hand(column) + (len(set(column.tolist())) - 1) / (2 * len(column) * math.log(2))


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 9))
def test_values_and_entropies_are_those_of_counting(seed, n, values):
    rows = np.random.default_rng(seed).integers(0, values, (n, 4)).astype(float)
    found = columns_of(rows)
    for j in range(4):
        counted = Counter(rows[:, j].tolist())
        assert found.values[j] == len(counted)
        assert found.alone[j] == sum(times == 1 for times in counted.values())
        assert math.isclose(found.entropies[j], by_hand(rows[:, j]), abs_tol=RESULT_BAR)


def test_a_column_is_a_number_where_more_than_half_of_the_values_are_one_records():
    rows = np.column_stack((np.arange(16.0), np.arange(16.0) // 2, np.arange(16.0) % 2))
    found = columns_of(rows)
    assert found.numbers.tolist() == [True, False, False]
    assert found.few.tolist() == [False, True, True]
    assert found.bits[0] == 8.0
    assert_close(found.bits[1:], np.array([3.0 + 7 / (32 * math.log(2)), 1.0 + 1 / (32 * math.log(2))]), RESULT_BAR)


def test_few_rows_show_too_little_of_an_entropy_and_no_more_is_added_than_they_lack():
    rng = np.random.default_rng(8)
    shares = rng.dirichlet(np.full(40, 2.0))
    drawn = rng.choice(40, p=shares, size=(63, 300)).astype(float)
    found, true = columns_of(drawn), float(entropy(shares, base=2))
    assert found.entropies.mean() < found.bits.mean() < true
    assert true - found.bits.mean() < 0.5 * (true - found.entropies.mean())


def test_what_another_column_determines_is_counted_once():
    rng = np.random.default_rng(3)
    age = np.round(rng.normal(52, 14, 2000))
    weight = rng.normal(80, 10, 2000)
    stage = rng.integers(0, 3, 2000)
    sex = rng.integers(0, 2, 2000).astype(float)
    alone = bits(age) + by_hand(weight) + by_hand(stage) + bits(sex)
    rows = np.column_stack((age, age**2, np.log(weight), weight, stage == 1, stage == 2, sex, sex * age)).astype(float)
    names = ("age", "age2", "log(weight)", "weight", "stage[T.1]", "stage[T.2]", "sex", "sex:age")
    assert math.isclose(sum(column_bits(rows, names).values()), alone, rel_tol=RESULT_BAR)


def test_independent_columns_add_up():
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 2, (4000, 6)).astype(float)
    assert math.isclose(
        sum(column_bits(rows, tuple("abcdef")).values()), sum(bits(column) for column in rows.T), rel_tol=RESULT_BAR
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 80))
def test_patterns_are_counted_over_panels(seed, n):
    rows = np.random.default_rng(seed).integers(0, 3, (n, 3)) - 1.0
    rows[rows == 0.0] *= -1.0  # zeros of both signs are one value
    counted = Counter(tuple(row + 0.0) for row in rows.tolist() for row in [np.array(row)])
    assert in_rare_patterns(np.array_split(rows, 3)) == sum(times for times in counted.values() if times <= 4)


def test_persons_of_a_pattern_are_counted_and_not_their_rows():
    rows = np.repeat([[0.0], [1.0]], [12, 8], axis=0)
    assert in_rare_patterns([rows]) == 0
    assert in_rare_patterns([rows[:5], rows[5:]], np.concatenate((np.arange(12) % 6, np.arange(8) % 2))) == 8


def multiset_entropy(N, patterns):
    """Of N records drawn from so many patterns alike, by listing every sequence."""
    seen = Counter(tuple(sorted(Counter(drawn).items())) for drawn in product(range(patterns), repeat=N))
    return float(entropy(list(seen.values()), base=2))


@pytest.mark.parametrize(("N", "h"), [(1, 1), (2, 1), (4, 1), (8, 1), (2, 2), (4, 2), (6, 2), (3, 3), (5, 3)])
def test_bits_held_are_those_of_a_random_multiset(N, h):
    """N is certain there and Poisson here, which adds the entropy of N itself, no more."""
    found, listed = held_bits(N, h), multiset_entropy(N, 2**h)
    assert listed <= found <= listed + 0.5 * math.log2(2 * math.pi * math.e * (N + 1.0 / 12.0)) + RESULT_BAR


def test_bits_held_have_both_forms_of_the_page():
    for N, h in ((50, 20.0), (400, 30.0), (1000, 60.0)):
        far = N * h - math.lgamma(N + 1) / math.log(2.0)
        assert far < held_bits(N, h) < far + 10.0  # Stirling's formula: half of log2(2 pi N)
    assert 0.0 <= held_bits(1000, 64.0 - ACCEPTED) - held_bits(1000, 64.0) + 1000 * ACCEPTED < 10.0
    assert held_bits(0, 5.0) == 0.0
    assert held_bits(10**6, 18.0) > 700_000  # where N h - log2(N!) would be below 0


@given(st.integers(1, 5000), st.floats(0.0, 200.0))
def test_more_records_and_more_columns_hold_more(N, h):
    assert held_bits(N + 1, h) >= held_bits(N, h) - RESULT_BAR * N * (h + 1.0)
    assert held_bits(N, h + 1.0) >= held_bits(N, h)


def test_the_rank_of_dependent_columns_is_a_small_share():
    rng = np.random.default_rng(5)
    few = rng.normal(size=(400, 6)) @ rng.normal(size=(6, 60))
    assert rank_share(few) == pytest.approx(6 / 60, abs=1 / 60)
    assert rank_share(rng.normal(size=(4000, 60))) > 0.95
    assert rank_share(rng.normal(size=(30, 60))) > 0.9  # of the 29 that thirty rows can show


def test_rows_are_spread_over_the_table():
    assert evenly(10, 100) == (slice(0, 10),)
    runs = evenly(100_000, 1600)
    assert sum(run.stop - run.start for run in runs) == 1600
    assert runs[-1].start > 90_000
