"""Classes of records: whatever comes, goes or changes, studies tell no fewer than five records from the others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.policy.row_sets import corrected, newcomers, smallest_part, taken

LEAST = 5
ORDER = np.random.default_rng(7).permutation(200).astype(np.uint64)


def atoms(studies):
    """How many elements are in exactly the same studies, for every set of studies that occurs."""
    every = set().union(*studies)
    found = {}
    for element in every:
        where = tuple(element in study for study in studies)
        found[where] = found.get(where, 0) + 1
    return found.values()


@settings(deadline=None, max_examples=300)
@given(st.integers(5, 60), st.lists(st.sets(st.integers(0, 59)), min_size=1, max_size=8))
def test_no_two_studies_differ_by_fewer_than_five_records_however_they_choose_rows(size, choices):
    classes, order = np.zeros(size, np.int64), ORDER[:size]
    studies = [set(range(size))]
    for left_out in choices:
        wanted = np.array([record not in left_out for record in range(size)])
        classes, held = taken(classes, wanted, order, LEAST)
        assert not held[~wanted].any()
        studies.append(set(np.flatnonzero(held).tolist()))
    assert min(atoms(studies)) >= LEAST


@settings(deadline=None, max_examples=300)
@given(
    st.integers(20, 60),
    st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 59))), min_size=1, max_size=8),
    st.integers(0, 2**32 - 1),
)
def test_where_persons_have_several_records_five_persons_are_told_from_others(size, events, seed):
    classes, order, value = np.zeros(size, np.int64), ORDER[:size], np.zeros(size, int)
    person, current = np.random.default_rng(seed).integers(0, size // 2, size), np.zeros(size, int)
    person[:LEAST] = np.arange(LEAST)  # the first study has five persons
    studies = [{(record, 0) for record in range(size)}]
    for step, (corrects, records) in enumerate(events, start=1):
        some = np.array([record in records for record in range(size)])
        current[some] = step if corrects else current[some]
        classes, used = corrected(classes, current != value, order, LEAST, person)
        value[used] = current[used]
        classes, held = taken(classes, np.ones(size, bool) if corrects else ~some, order, LEAST, person)
        studies.append({(record, value[record]) for record in np.flatnonzero(held).tolist()})
    parts = {}
    for element in set().union(*studies):
        parts.setdefault(tuple(element in study for study in studies), set()).add(person[element[0]])
    assert min(map(len, parts.values())) >= LEAST


@settings(deadline=None, max_examples=300)
@given(
    st.integers(5, 60),
    st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 59))), min_size=1, max_size=8),
)
def test_corrections_and_choices_of_rows_together_leave_classes_of_five(size, events):
    """An element of a study is a record with its value there; values change with corrections that are used."""
    classes, order, value = np.zeros(size, np.int64), ORDER[:size], np.zeros(size, int)
    current = np.zeros(size, int)  # of the file
    studies = [{(record, 0) for record in range(size)}]
    for step, (corrects, records) in enumerate(events, start=1):
        some = np.array([record in records for record in range(size)])
        if corrects:
            current[some] = step
        classes, used = corrected(classes, current != value, order, LEAST)
        value[used] = current[used]
        classes, held = taken(classes, np.ones(size, bool) if corrects else ~some, order, LEAST)
        studies.append({(record, value[record]) for record in np.flatnonzero(held).tolist()})
    assert min(atoms(studies)) >= LEAST


def test_one_record_that_is_withdrawn_takes_four_with_it_and_always_the_same_ones():
    classes, wanted = np.zeros(40, np.int64), np.arange(40) != 7
    after, held = taken(classes, wanted, ORDER[:40], LEAST)
    assert held.sum() == 35
    assert not held[7]
    again, same = taken(after, wanted, ORDER[:40], LEAST)
    assert np.array_equal(held, same)
    assert np.array_equal(after, again)
    back, every = taken(after, np.ones(40, bool), ORDER[:40], LEAST)
    assert every.all()
    assert np.array_equal(back, after)


def test_a_class_of_nine_is_left_out_whole_where_one_of_it_is_withdrawn():
    classes = np.repeat([0, 1], [30, 9])
    wanted = np.arange(39) != 35
    after, held = taken(classes, wanted, ORDER[:39], LEAST)
    assert held[:30].all()
    assert not held[30:].any()
    assert np.array_equal(after, classes)


def test_five_corrections_are_used_and_four_wait():
    classes = np.zeros(40, np.int64)
    for count, expected in ((4, 0), (5, 5), (35, 35), (38, 35), (40, 40)):
        _, used = corrected(classes, np.arange(40) < count, ORDER[:40], LEAST)
        assert used.sum() == expected


@pytest.mark.parametrize(
    ("count", "known", "held"), [(4, 100, 0), (5, 100, 5), (3, 0, 3), (0, 100, 0)], ids=["few", "five", "first", "no"]
)
def test_new_records_wait_until_there_are_five(count, known, held):
    assert newcomers(count, known, LEAST) == held


def test_the_smallest_part_that_a_study_would_tell_from_others():
    classes = np.repeat([0, 1], [30, 10])
    assert smallest_part(classes, np.arange(40) != 3, LEAST) == 1
    assert smallest_part(classes, np.arange(40) < 33, LEAST) == 3
    assert smallest_part(classes, np.arange(40) < 30, LEAST) == 0
    assert smallest_part(classes, np.arange(40) < 25, LEAST) == 0
