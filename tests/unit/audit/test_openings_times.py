"""Who left between two times, as an owner plays it: which record is alone in a bin is known from how it was laid."""

import numpy as np
import pytest

from fedsvd.audit.openings_table import OpenedTable, Stop
from fedsvd.audit.openings_times import departures
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
