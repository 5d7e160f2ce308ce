"""Table 1 of small groups: what means, deviations and quartiles leave of a handful of ages, and of a group of five."""

from itertools import combinations_with_replacement

import numpy as np
import pandas as pd
import pytest
from tests.tolerances import SEVEN_DIGITS

from fedsvd import FederatedTable, Policy, Simulation
from fedsvd.protocol.model import FEWEST_MOMENTS
from fedsvd.protocol.table import FEWEST_QUANTILES
from fedsvd.statistics.newton import NOISE

pytestmark = pytest.mark.filterwarnings("ignore")
ANY = Simulation(policy=Policy.permissive())
LOW, HIGH = 40, 80
AGES = """
[columns.age]
range = [40, 80]
decimals = 0
[columns.ward]
levels = ["a", "b"]
"""


@pytest.fixture
def dictionary(tmp_path):
    path = tmp_path / "dictionary.toml"
    path.write_text(AGES, encoding="utf-8")
    return path


def hospitals(mine, theirs, seed=0):
    """Ward a has these ages at each of two hospitals, and ward b 120."""
    rng = np.random.default_rng(seed)
    frames = []
    for few in (mine, theirs):
        age = np.concatenate((few, rng.integers(LOW, HIGH + 1, 120)))
        frames.append(pd.DataFrame({"age": age.astype(float), "ward": ["a"] * len(few) + ["b"] * 120}))
    return frames


def left(frames, path, digits):
    """Multisets of the other hospital's five ages in ward a that fit the table, and the true one among them."""
    found = FederatedTable("ward", columns=["age"], dictionary=path, digits=digits, federation=ANY).fit(frames)
    age = found.description_.of("age")
    n, mean, sd = (float(each[0]) for each in (age.present, age.mean, age.sd))
    mine, theirs = (frame.age[frame.ward == "a"].to_numpy() for frame in frames)
    sums = [n * mean - mine.sum(), (n - 1) * sd**2 + n * mean**2 - np.square(mine).sum()]
    every = np.array([*combinations_with_replacement(range(LOW, HIGH + 1), len(theirs))])
    middle, reach = (LOW + HIGH) / 2, (HIGH - LOW) / 2
    bits = {"table": 10, "more": 44}[digits]
    most = 2 * (NOISE + 0.5) * n * 2.0**-bits  # rounding and noise of both
    first = np.abs(every.sum(axis=1) - sums[0])
    of_squares = np.square(every - middle).sum(axis=1) - (sums[1] - 2 * middle * sums[0] + len(theirs) * middle**2)
    fits = (first <= most * reach + SEVEN_DIGITS) & (np.abs(of_squares) <= most * reach**2 + SEVEN_DIGITS)
    true = (every == np.sort(theirs)).all(axis=1)
    assert fits[true].all(), "the attack is right: the true ages are among those that it leaves"
    return int(fits.sum()), len(every)


def test_sums_of_ten_bits_leave_thousands_of_multisets_of_five_ages_and_exact_ones_hundreds(dictionary):
    """The attack on exact sums of whole-number ages: both moments, less the own ones."""
    rng = np.random.default_rng(3)
    frames = hospitals(rng.integers(LOW, HIGH, 7), rng.integers(LOW, HIGH, 5))
    few, every = left(frames, dictionary, "table")
    exact, _ = left(frames, dictionary, "more")
    assert few > 1000
    assert exact < 300
    assert few > 10 * exact
    assert every > 1e6


def test_below_ten_records_no_sum_is_opened(dictionary):
    frames = hospitals(np.array([]), np.array([41, 52, 63, 64, 75, 50, 60, 70, 55.0]))
    age = (
        FederatedTable("ward", columns=["age"], dictionary=dictionary, federation=ANY)
        .fit(frames)
        .description_.of("age")
    )
    assert age.present[0] == FEWEST_MOMENTS - 1
    assert np.isnan([age.mean[0], age.sd[0]]).all()


@pytest.mark.parametrize("counts", ["fives", "exact"])
def test_of_a_group_of_five_no_quartile_is_opened_whatever_counts_are_asked_for(dictionary, counts):
    """Joint quartiles of five records are records; so are those of 39, less 34 that one knows."""
    for mine in (5, FEWEST_QUANTILES - 6):
        frames = hospitals(np.random.default_rng(1).integers(LOW, HIGH, mine), np.array([41, 52, 63, 64, 75]))
        table = FederatedTable("ward", columns=["age"], dictionary=dictionary, counts=counts, federation=ANY)
        age = table.fit(frames).description_.of("age")
        assert not age.grid[0].any()
        assert np.isnan(age.quantiles[:, 0]).all()
        assert age.grid[1].any()


def test_exact_grids_would_show_five_patients_among_forty_one_knows_and_fives_leave_windows(dictionary):
    """One who knows its own 45 of the ward subtracts them: exact counts are the other five ages, fives one step."""
    theirs = np.array([41, 52, 63, 64, 75.0])
    frames = hospitals(np.random.default_rng(1).integers(LOW, HIGH, 45), theirs)
    mine = frames[0].age[frames[0].ward == "a"].to_numpy()
    edges = np.arange(LOW, HIGH + 1)
    own = np.array([(mine <= edge).sum() for edge in edges])
    grids = {}
    for counts in ("exact", "fives"):
        table = FederatedTable("ward", columns=["age"], dictionary=dictionary, counts=counts, federation=ANY)
        grids[counts] = table.fit(frames).description_.of("age").grid[0]
    read = edges[np.diff(grids["exact"] - own, prepend=0.0) > 0]
    assert np.array_equal(read, theirs), "all five, to the year: such counts ask their owner"
    steps = np.diff(grids["fives"] - 5 * np.rint(own / 5), prepend=0.0)
    assert sorted(set(steps)) == [0.0, 5.0]
    assert edges[steps > 0] == theirs[2], "where the third of five is passed, and of the others nothing"
