"""Few records that counts of several studies tell apart: against every linear combination and every table of counts."""

from itertools import combinations, product

import numpy as np
import pytest
from tests.tolerances import SEVEN_DIGITS

from fedsvd.statistics.isolated import MOST_BINS, Counted, isolated

LEAST = 5


def one(sets, least=1):
    """A study that counts these sets of records, each by itself."""
    return [Counted(np.where(each, 0, 1), 1, least) for each in np.atleast_2d(sets)]


def by_hand(before, now, sizes):
    """Unions of atoms of 1 to 4 records whose indicator is in the span of all sets, and in that of neither part."""
    found = np.zeros(len(sizes), bool)

    def inside(sets, wanted):
        return np.linalg.matrix_rank(np.vstack((sets, wanted))) == np.linalg.matrix_rank(sets)

    every = np.vstack((before, now))
    given = [inside(every, each) for each in np.eye(len(sizes))]
    for length in range(1, LEAST):
        for some in combinations(range(len(sizes)), length):
            if length > 1 and any(given[j] for j in some):
                continue  # the rest of it is given too, and is looked at by itself
            wanted = np.isin(np.arange(len(sizes)), some).astype(float)
            if (
                0 < wanted @ sizes < LEAST
                and inside(every, wanted)
                and not (inside(before, wanted) or inside(now, wanted))
            ):
                found |= wanted > 0
    return found


@pytest.mark.parametrize("seed", range(40))
def test_sets_of_few_records_in_the_span_are_found_as_ranks_find_them(seed):
    rng = np.random.default_rng(seed)
    atoms = np.unique(rng.integers(0, 2, (8, 7)), axis=0)
    atoms = atoms[atoms[:, :4].any(axis=1) & atoms[:, 4:].any(axis=1)]
    sizes = rng.choice([1, 2, 4, 6, 11], len(atoms))
    records = np.repeat(np.arange(len(atoms)), sizes)
    sets = atoms.T.astype(float)
    found = isolated(one(sets[:4][:, records] > 0), one(sets[4:][:, records] > 0), LEAST)
    singles = by_hand(sets[:4], sets[4:], sizes)
    assert set(records[found]) <= set(np.flatnonzero(sizes < LEAST))
    assert set(np.flatnonzero(singles)) <= set(records[found]), "no set is missed"
    if not singles.any():
        assert not found.any()


def tables(words, atoms, most):
    """All whole numbers of records of each atom that agree with what was opened."""
    for counts in product(range(most + 1), repeat=atoms):
        x = np.array(counts)
        if all(shown == (least * np.rint(row @ x / least)) for row, shown, least in words):
            yield x


@pytest.mark.parametrize("seed", range(12))
def test_rounded_counts_next_to_exact_ones_leave_one_number_where_no_other_table_has_the_same_counts(seed):
    """Four atoms: what is found has one value in all tables that open the same numbers."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, 4)
    atoms = np.repeat(np.arange(4), sizes)
    exact, rounded = np.array([[1, 1, 1, 0]]), np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 1]])
    words = [(row, row @ sizes, 1) for row in exact] + [(row, 5 * np.rint(row @ sizes / 5), 5) for row in rounded]
    found = isolated(one(exact[:, atoms] > 0), one(rounded[:, atoms] > 0, 5), LEAST)
    every = np.array([*tables(words, 4, int(sizes.max()) + 4)])
    for atom in np.unique(atoms[found]):
        assert any(
            len(np.unique(every[:, list(union)].sum(axis=1))) == 1
            for length in range(1, 5)
            for union in combinations(range(4), length)
            if atom in union and sizes[list(union)].sum() < LEAST
        )
    for atom in np.flatnonzero(sizes < LEAST):  # a count of its own that is pinned down is found
        if len(np.unique(every[:, atom])) == 1 and atom == 0:
            assert found[atoms == atom].all()


def test_four_groups_of_two_are_read_from_five_rounded_counts():
    """0, 0, 0, 0 and 10 of all: each has at most two, and all at least eight."""
    group = np.repeat(np.arange(4), 2)
    of_groups = one(group == np.arange(4)[:, None], 5)
    assert isolated(one(np.ones(8, bool), 5), of_groups, LEAST).all()
    more = np.append(group, 0)
    of_groups = one(more == np.arange(4)[:, None], 5)
    assert not isolated(one(np.ones(9, bool), 5), of_groups, LEAST).any(), "nine: 5, 0, 0, 0 and 10 have other tables"


def drawn(seed, records, edges, groups=2, least=1):
    """Counts of events and departures in groups, of two studies with times of their own."""
    rng = np.random.default_rng(seed)
    time, event, group = (
        rng.integers(0, 10 * edges, records),
        rng.integers(0, 2, records),
        rng.integers(0, groups, records),
    )
    studies = []
    for count in (edges, edges + 1):
        first = np.searchsorted(np.linspace(0.0, 9.0 * edges, count), time)
        kinds = [(group == g) & kind for g in range(groups) for kind in (event == 1, event >= 0)]
        studies.append([Counted(np.where(kind, first, count), count, least) for kind in kinds])
    return studies


def test_thousands_of_classes_are_judged_by_themselves():
    """A patient of its own day each: most share all their bins with others, and few days lie between two edges."""
    before, now = (Counted(np.arange(1600) // 5 * 5 % divided, 2000) for divided in (1600, 1595))
    assert not isolated([before], [now], LEAST).any(), "fives of records, alike"
    every_day = Counted(np.arange(1600), 1600)
    assert not isolated([every_day], [every_day], LEAST).any(), "the same counts again say nothing new"
    by_tens, moved = (Counted((np.arange(6000) + more) // 10, 601) for more in (0, 3))
    between = np.arange(6000) % 10 >= 7
    assert np.array_equal(isolated([by_tens], [moved], LEAST)[:-3], between[:-3]), "three of each ten"


@pytest.mark.parametrize("seed", range(6))
def test_classes_that_are_found_are_those_that_least_squares_gives(seed):
    """Every class of few records, against a solution with all bins of both studies and of each."""
    before, now = drawn(seed, 400, 12)
    codes = np.column_stack([np.minimum(each.first, each.edges) for each in (*before, *now)])
    _, one_of, of, sizes = np.unique(codes, axis=0, return_index=True, return_inverse=True, return_counts=True)

    def bins(counts):
        return np.vstack(
            [np.minimum(each.first, each.edges)[one_of] == j for each in counts for j in range(each.edges)]
        )

    def given(counts, wanted):
        sets = bins(counts).astype(float)
        return np.abs(sets.T @ np.linalg.lstsq(sets.T, wanted, rcond=None)[0] - wanted).max() < SEVEN_DIGITS

    found = isolated(before, now, LEAST)
    for place in np.flatnonzero(sizes < LEAST):
        wanted = np.eye(len(sizes))[place]
        if given([*before, *now], wanted) and not given(before, wanted) and not given(now, wanted):
            assert found[of.ravel() == place].all()
    assert found.any()


def test_counts_with_too_many_bins_show_every_record_of_few():
    rng = np.random.default_rng(0)
    places = [rng.integers(0, 900, 3000) for _ in range(6)]
    before, now = [[Counted(each, 900) for each in some] for some in (places[:3], places[3:])]
    assert MOST_BINS < 6 * 900
    assert isolated(before, now, LEAST).all()
