"""Who left between two times, as an owner plays it: which record is alone in a bin is known from how it was laid."""

import numpy as np
import pytest

from fedsvd.audit.openings_table import OpenedTable, Stop
from fedsvd.audit.openings_times import departures, moved_edges, three_groups
from fedsvd.errors import ConfigError
from fedsvd.policy.rules import Policy


def table(times, events):
    return OpenedTable(("age", "died"), np.column_stack((np.arange(len(times)), events)), {}, "months", times, ())


def cohort(alone):
    """90 records: bins with ten of each of three parties, and of the last party these, each in a bin of its own."""
    times = np.tile(np.repeat([3.5, 13.5, 23.5], 10), 3)
    times[-len(alone) or len(times) :] = alone
    return table(times, np.ones(90))


@pytest.mark.parametrize("alone", [[], [30.5], [27.5, 30.5, 39.5]])
def test_exact_counts_give_those_who_left_alone_and_ask_and_fives_give_none(alone):
    exact, rounded = departures(cohort(alone), Policy(), "died")
    assert (exact.read, exact.of) == (len(alone), 60)
    assert rounded.read == 0
    assert ("cells" in exact.verdict.rules) == bool(alone)
    assert "cells" not in rounded.verdict.rules


def test_what_is_censored_at_an_edge_left_after_it():
    made = cohort([30.0, 39.5])
    made.X[-2:, 1] = 0.0
    assert next(departures(made, Policy(), "died")).read == 2


def test_an_owner_who_stops_nothing_is_told_so():
    exact, _ = departures(cohort([30.5]), Policy.permissive(), "died")
    assert (exact.read, exact.verdict.stop) == (1, Stop.NOT)


def test_a_column_of_events_that_is_none_is_an_error():
    with pytest.raises(ConfigError, match="no column of numbers 'ill'"):
        list(departures(cohort([]), Policy(), "ill"))
    with pytest.raises(ConfigError, match="neither 0 nor 1"):
        list(departures(cohort([]), Policy(), "age"))


def followed(alone):
    """420 records, of each party ten events and ten ends at each of seven times; these events are elsewhere."""
    times = np.resize([2.0, 4.0, 8.0, 12.0, 14.0, 18.0, 21.0], 420)
    events = (np.arange(420) // 7 % 2).astype(float)
    late = np.flatnonzero((times == 21.0) & (events == 1.0))[-len(alone) or len(times) :]
    times[late] = alone
    return table(times, events)


@pytest.mark.parametrize(("alone", "read"), [([], 0), ([12.5], 1), ([12.5, 18.5], 2), ([12.5, 12.5], 0)])
def test_two_studies_with_a_time_moved_give_the_one_who_left_between_and_the_second_asks(alone, read):
    found = moved_edges(followed(alone), Policy(openings="any"), "died")
    assert (found.studies, found.read, found.of) == (2, read, 280)
    assert found.verdict.stop is (Stop.ASKS if read else Stop.NOT_JUDGED)
    assert ("next to those of an earlier study" in found.verdict.text) == bool(read)


def test_two_studies_of_an_owner_who_stops_nothing_are_not_stopped():
    assert moved_edges(followed([12.5]), Policy.permissive(), "died").verdict.stop is Stop.NOT


def of_levels(alone):
    """2,100 records of three levels at every time; of the last party's these of the first level are elsewhere.

    Five of each other level are at 12.25.
    """
    number = np.arange(2100)
    times = np.resize([2.0, 4.0, 8.0, 12.0, 14.0, 18.0, 21.0], 2100)
    events, level = (number // 7 % 2).astype(float), number // 14 % 3.0
    late = (times == 14.0) & (events == 1.0) & (number >= 1400)
    for other, at in ((0.0, alone), (1.0, [12.25] * 5), (2.0, [12.25] * 5)):
        times[np.flatnonzero(late & (level == other))[: len(at)]] = at
    return OpenedTable(("died", "arm"), np.column_stack((events, level)), {}, "months", times, ())


@pytest.mark.parametrize("alone", [[], [12.25]])
def test_three_studies_by_levels_give_the_one_of_a_level_who_left_between_and_the_third_asks(alone):
    (found,) = three_groups(of_levels(alone), Policy(openings="any"), "died")
    assert (found.studies, found.read, found.of) == (3, len(alone), 1400)
    assert found.verdict.stop is (Stop.ASKS if alone else Stop.NOT_JUDGED)
    assert ("next to those of an earlier study" in found.verdict.text) == bool(alone)


def test_columns_of_two_levels_or_of_many_make_no_three_groups():
    assert list(three_groups(followed([12.5]), Policy(), "died")) == []
