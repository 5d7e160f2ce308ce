"""Survival curves: what counts and comparisons say of single records, on the plans that the product makes."""

import numpy as np
import pytest

from fedsvd import FederatedKaplanMeier
from fedsvd.data.open import open_source
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Task
from fedsvd.randomness.seed import Seed
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import plan_for
from fedsvd.studies.study import Study
from fedsvd.tasks.options import completed

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
EDGES = [float(edge) for edge in range(1, 25)]


def patients(rows=(120, 90), seed=0):
    rng = np.random.default_rng(seed)
    times = [np.minimum(np.ceil(rng.exponential(10.0, n)), 24.0) for n in rows]
    return times, [(rng.random(len(own)) < 0.7).astype(float) for own in times]


def opened_of_the_other(times, events, **asked):
    """What user 1 of two computes of user 2's counts: the totals less its own part, as it rounded that."""
    joint = FederatedKaplanMeier(EDGES, **asked).fit(None, times, events).counts_[0]
    return joint[:-1] - counted(times[0], events[0], 1 if asked.get("counts") == "exact" else 5)


def counted(time, event, least=5):
    """Cumulative events and departures, in multiples."""
    events = np.searchsorted(np.sort(time[event == 1.0]), EDGES, side="right")
    gone = events + np.searchsorted(np.sort(time[event == 0.0]), EDGES, side="left")
    return least * np.rint(np.concatenate((events, gone)) / least)


def verdicts(times, events, groups=None, **asked):
    """Of each party: the rules that ask or refuse, on the plan of the product."""
    columns = [times, events] if groups is None else [times, events, groups]
    tables = [np.column_stack(own) for own in zip(*columns, strict=True)]
    names = '["a", "b"]' if groups is not None else "[]"
    options = completed(Task.SURVIVAL, (("times", str(EDGES)), ("groups", names), *asked.items()))
    parties = [PartyData(open_source(own)) for own in tables]
    plan = plan_for(Study(Task.SURVIVAL, options=options), parties, Seed(bytes(32)))[0].plan
    found = [home_findings(plan, party, Policy(openings="any")) for party in parties]
    return [
        [(each.rule, "asks" if each.asks else "refused") for each in own if each.asks or each.below] for own in found
    ]


def test_with_two_parties_exact_counts_show_who_left_between_two_times_and_the_owner_is_asked():
    times, events = patients()
    D, others = len(EDGES), opened_of_the_other(times, events, counts="exact")
    bins = np.diff(others[D : 2 * D], prepend=0.0)
    assert bins.tolist() == np.diff(counted(times[1], events[1], 1)[D:], prepend=0).tolist()
    assert ((bins > 0) & (bins < 5)).any()  # a few persons, at one month each
    assert ("cells", "asks") in verdicts(times, events, counts="exact")[1]


def test_exact_departures_less_exact_events_are_ends_of_follow_up_and_few_of_them_ask():
    # In every month five events or none, and in one of them eight departures: three whose follow-up ended.
    months = np.repeat(np.arange(1.0, 13.0), 5)
    time, event = np.concatenate((months, np.full(3, 6.5))), np.concatenate((np.ones(60), np.zeros(3)))
    others = opened_of_the_other([time, time], [event, event], counts="exact")
    D = len(EDGES)
    steps = np.diff(others.reshape(2, D), axis=1, prepend=0.0)
    assert all(step == 0 or step >= 5 for step in steps.ravel())
    assert (steps[1] - steps[0]).max() == 3.0
    assert ("cells", "asks") in verdicts([time, time], [event, event], counts="exact")[1]
    assert verdicts([months] * 2, [np.ones(60)] * 2, counts="exact") == [[], []]


def test_counts_of_a_cause_ask_where_few_own_events_are_of_it():
    months = np.repeat(np.arange(1.0, 13.0), 10)
    even, rare = np.tile([1.0, 2.0], 60), np.ones(120)
    rare[[3, 40]] = 2.0
    asked = {"counts": "exact", "causes": '["1", "2"]'}
    assert verdicts([months] * 2, [even] * 2, **asked) == [[], []]
    assert ("cells", "asks") in verdicts([months] * 2, [even, rare], **asked)[1]


def test_in_fives_every_step_of_the_other_party_is_0_or_at_least_five():
    times, events = patients()
    D, others = len(EDGES), opened_of_the_other(times, events)
    for staircase in (others[:D], others[D : 2 * D]):
        steps = np.diff(staircase, prepend=0.0)
        assert ((steps == 0.0) | (steps >= 5.0)).all()
    assert verdicts(times, events) == [[], []]


def test_in_fives_who_knows_all_records_but_one_places_it_in_a_window():
    rng = np.random.default_rng(3)
    times, events = patients((120, 60), seed=3)
    widths = []
    seen = opened_of_the_other(times, events)
    for person in rng.choice(60, 12, replace=False):
        known = np.delete(times[1], person), np.delete(events[1], person)
        fits = [
            month
            for month in EDGES
            if np.array_equal(counted(np.append(known[0], month), np.append(known[1], events[1][person])), seen)
        ]
        assert times[1][person] in fits
        widths.append(len(fits))
    assert np.median(widths) >= 3.0  # with exact counts the window is one bin


def test_two_row_sets_that_differ_in_one_person_may_differ_in_a_word_and_this_is_stated():
    times, events = patients()
    differing = 0
    for person in range(20):
        fewer = [times[0], np.delete(times[1], person)], [events[0], np.delete(events[1], person)]
        differing += not np.array_equal(opened_of_the_other(times, events), opened_of_the_other(*fewer))
    assert differing > 10  # rounding is no noise: row sets stay the dictionary's views


def test_a_comparison_asks_where_a_group_or_the_events_of_a_party_are_few():
    times, events = patients((120, 90, 100))
    groups = [np.arange(len(own)) % 2.0 for own in times]
    assert verdicts(times, events, groups) == [[], [], []]
    few = [events[0], np.concatenate(([1.0], np.zeros(89))), events[2]]
    assert verdicts(times, few, groups)[1] == [("classes", "asks")]
    alone = [groups[0], np.concatenate((np.ones(3), np.zeros(87))), groups[2]]
    assert verdicts(times, events, alone)[1] == [("classes", "asks")]


def test_a_comparison_depends_on_the_order_of_a_sites_times_and_on_nothing_else_of_them():
    times, events = patients((120, 90, 100))
    groups = [np.arange(len(own)) % 2 for own in times]
    found = FederatedKaplanMeier(EDGES, digits="more").fit(None, times, events, groups)
    other = [times[0], times[1] ** 1.1, 1.0 + times[2] ** 0.9]
    again = FederatedKaplanMeier(EDGES, digits="more").fit(None, other, events, groups)
    assert round(found.test_.statistic, 9) == round(again.test_.statistic, 9)


def test_the_approval_says_what_is_counted_and_how_far_totals_are_off():
    times, events = patients((120, 90, 100))
    plan = FederatedKaplanMeier(EDGES).fit(None, times, events).plan_
    said = " ".join(what_each_role_learns(plan))
    assert "rounds its own counts to multiples of 5 at home" in said
    assert "off by at most 6 records" in said
