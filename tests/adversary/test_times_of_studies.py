"""A series of studies that counts over time: one edge is moved, and who left between both is the difference."""

import json

import numpy as np
import pytest
from tests.tolerances import SEVEN_DIGITS

from fedsvd import FederatedCox, FederatedKaplanMeier
from fedsvd.data.open import open_source
from fedsvd.policy.opened_columns import OpenedColumns
from fedsvd.policy.rules import Policy
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.tasks import Family, Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.studies.opened_before import Before, study_columns
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import plan_for
from fedsvd.studies.study import Study
from fedsvd.tasks.options import completed

pytestmark = pytest.mark.filterwarnings("ignore")
FIRST, MOVED = [6.0, 12.0, 18.0], [6.0, 12.5, 18.0]


def patients(between=1):
    """Three unequal parties: at seven times ten and more of each leave, half of them by the event.

    Of the last party's events these are moved to 12.25.
    """
    rng = np.random.default_rng(4)
    X = [rng.normal(size=(n, 2)).round(2) for n in (280, 210, 140)]
    times = [np.resize([2.0, 4.0, 8.0, 11.0, 14.0, 17.0, 21.0], len(own)) for own in X]
    events = [(np.arange(len(own)) // 7 % 2).astype(float) for own in X]
    late = np.flatnonzero((times[2] == 14.0) & (events[2] == 1.0))[:between]
    times[2][late] = 12.25
    return X, times, events, late


def curves(times, events, edges, counts="exact", groups=None):
    """The plan of survival curves that the product makes, and its parties."""
    columns = [times, events] if groups is None else [times, events, groups]
    names = "[]" if groups is None else '["a", "b"]'
    options = completed(Task.SURVIVAL, (("times", json.dumps(edges)), ("counts", counts), ("groups", names)))
    parties = [PartyData(open_source(np.column_stack(own))) for own in zip(*columns, strict=True)]
    return plan_for(Study(Task.SURVIVAL, options=options), parties, Seed(bytes(32)))[0].plan, parties


def binned(X, times, events, edges):
    """The same of a Cox model with one baseline in bins."""
    about = ModelPlan(Family.COX, "cloglog", ties="efron", bins=len(edges), digits=Digits.TABLE, beside=("event",))
    options = completed(Task.COX, (("baseline", "bins"), ("times", json.dumps(edges))))
    labels = [np.column_stack(own) for own in zip(times, events, strict=True)]
    parties = [PartyData(open_source(own), labels=y) for own, y in zip(X, labels, strict=True)]
    study = Study(Task.COX, Split.HORIZONTAL, targets=2, glm=about, options=options)
    return plan_for(study, parties, Seed(bytes(32)))[0].plan, parties


def after(*studies, at=2):
    """What the party ``at`` remembers of these."""
    opened = OpenedColumns()
    for number, (plan, parties) in enumerate(studies):
        rows = np.arange(parties[at].table.shape[0])
        found = study_columns(plan, parties[at])
        opened = opened if found is None else opened.after(len(rows)).with_study(str(number), found, rows)
    return Before(opened, np.arange(studies[0][1][at].table.shape[0]))


def asked(study, before=None, at=2):
    found = home_findings(study[0], study[1][at], Policy(openings="any"), before)
    return [each.text for each in found if each.rule == "cells" and each.asks]


def test_two_curves_with_one_edge_moved_show_one_patient_and_the_second_study_asks_its_owner():
    _, times, events, late = patients()
    counted = [
        FederatedKaplanMeier(edges, counts="exact").fit(None, times, events).counts_[0] for edges in (FIRST, MOVED)
    ]
    assert (counted[1] - counted[0])[:6].tolist() == [0.0, 1.0, 0.0] * 2, "one event, one departure, after 12"
    assert len(late) == 1
    first, moved = curves(times, events, FIRST), curves(times, events, MOVED)
    assert [asked(first), asked(moved)] == [[], []], "by itself neither shows anyone"
    (text,) = asked(moved, after(first))
    assert text.startswith("1 of 3 times next to those of an earlier study hold 1 to 4 of your records")
    assert text.endswith("Researchers can take the times of the earlier study")
    assert [asked(moved, after(first, at=at), at) for at in (0, 1)] == [[], []], "of whom no one left there"


@pytest.mark.parametrize("between", [0, 1, 4, 5])
def test_of_the_records_between_two_edges_none_or_five_are_fine(between):
    _, times, events, _ = patients(between)
    first, moved = curves(times, events, FIRST), curves(times, events, MOVED)
    assert bool(asked(moved, after(first))) == (0 < between < 5)
    assert asked(first, after(first)) == [], "the same study again"


def of_three_arms(between=1):
    """Arms a, b, c at one party: this many of a and five of b and of c leave between 12 and 12.5."""
    _, *both, _ = patients(0)
    times, events = ([np.tile(own, 6) for own in each] for each in both)
    arms = [np.arange(len(own)) // 14 % 3.0 for own in times]
    late = times[2] == 14.0
    for arm, some in enumerate((between, 5, 5)):
        chosen = np.flatnonzero(late & (arms[2] == arm))[:some]
        assert len(chosen) == min(some, (late & (arms[2] == arm)).sum())
        times[2][chosen], events[2][chosen] = 12.25, 1.0
    return times, events, arms


def test_three_studies_by_different_groups_show_one_patient_that_no_two_of_them_show():
    """a or not up to 12, b or not and c or not up to 12.5: a and b together, less b, less a before."""
    times, events, arms = of_three_arms()
    pairs = [[(own == arm).astype(float) for own in arms] for arm in range(3)]
    edges = ([6.0, 12.0, 18.0], [6.0, 12.5, 18.0], [6.0, 12.5, 18.0])
    fitted = [
        FederatedKaplanMeier(at, counts="exact").fit(None, times, events, group=group).counts_
        for at, group in zip(edges, pairs, strict=True)
    ]
    left = [np.asarray(each)[:, 3:6] for each in fitted]  # by group 0, 1: who left up to each time
    a_before, b_after, ab_after = left[0][1, 1], left[1][1, 1], left[2][0, 1]
    assert ab_after - b_after - a_before == 1.0, "one of a left between 12 and 12.5"
    studies = [curves(times, events, at, groups=group) for at, group in zip(edges, pairs, strict=True)]
    assert not any("earlier" in text for text in asked(studies[1], after(studies[0])))
    assert not any("earlier" in text for text in asked(studies[2], after(studies[0])))
    assert not any("earlier" in text for text in asked(studies[2], after(studies[1])))
    assert any("earlier" in text for text in asked(studies[2], after(*studies[:2])))
    times, events, arms = of_three_arms(between=0)
    studies = [curves(times, events, at, groups=group) for at, group in zip(edges, pairs, strict=True)]
    assert not any("earlier" in text for text in asked(studies[2], after(*studies[:2])))


def test_counts_in_fives_next_to_exact_ones_leave_one_number_and_the_second_study_asks():
    """Exact events and departures up to 12, both in fives up to 12.5: one event is the only number that fits both."""
    shown = {}
    for before in range(5):  # remainders of departures and of events up to 12
        for censored in range(5):
            _, times, events, late = patients()
            early = np.flatnonzero((times[2] == 8.0) & (events[2] == 1.0))
            times[2][early[:before]] = 17.0
            early = np.flatnonzero((times[2] == 8.0) & (events[2] == 0.0))
            times[2][early[:censored]] = 17.0
            own = [(times[2] <= 12.0) & kind for kind in (events[2] == 1.0, events[2] >= 0.0)]
            known = [int(each.sum()) for each in own]
            words = [5 * round((each + len(late)) / 5) for each in known]
            fits = [
                (d, c)
                for d in range(9)
                for c in range(9)
                if [5 * round((known[0] + d) / 5), 5 * round((known[1] + d + c) / 5)] == words
            ]
            exact, rounded = curves(times, events, FIRST), curves(times, events, MOVED, "fives")
            for first, second in ((exact, rounded), (rounded, exact)):
                asks = any("earlier" in text for text in asked(second, after(first)))
                if len({d for d, _ in fits}) == 1:
                    assert asks, (before, censored)
                shown[before, censored] = asks
    assert any(shown.values())
    assert not all(shown.values()), "most pairs of studies are fine"


def test_what_is_opened_in_fives_has_no_such_difference():
    _, times, events, _ = patients()
    first, moved = (curves(times, events, edges, "fives") for edges in (FIRST, MOVED))
    assert asked(moved, after(first)) == []
    counted = [FederatedKaplanMeier(edges).fit(None, times, events).counts_[0] for edges in (FIRST, MOVED)]
    assert not np.any((counted[1] - counted[0]) % 5.0)


def test_an_edge_moves_between_a_curve_and_a_model_and_between_groups_and_all():
    X, times, events, _ = patients()
    model, curve = binned(X, times, events, MOVED), curves(times, events, FIRST)
    assert len(asked(model, after(curve))) == len(asked(model)) + 1
    assert asked(curves(times, events, MOVED), after(binned(X, times, events, FIRST)))
    groups = [np.arange(len(own)) // 14 % 2.0 for own in times]
    of_groups = curves(times, events, MOVED, groups=groups)
    assert len(asked(of_groups, after(curve))) == len(asked(of_groups)) + 1


def test_who_is_censored_at_an_edge_left_before_it_in_bins_and_after_it_in_curves():
    X, times, events, late = patients()
    times[2][late], events[2][late] = 12.0, 0.0
    curve, model = curves(times, events, FIRST), binned(X, times, events, FIRST)
    assert asked(curve) == []
    assert asked(curve, after(model)), "the difference of both is that patient"


def test_coefficients_of_two_fits_in_bins_say_the_hazard_of_the_one_who_left_between():
    """What no rounding of sums hides: events = exp(a) S0 in each bin, before and after its edge is moved."""
    X, times, events, late = patients()
    at_risk, hazards = [], []
    for edges in (FIRST, MOVED):
        model = FederatedCox(ties="breslow", baseline="bins", times=edges, digits="table").fit(X, times, events)
        at_risk.append(model.common_hazard_[:, 2])
        hazards.append(model)
    assert (at_risk[1] - at_risk[0]).tolist() == [0.0, 0.0, -1.0], "one left between 12 and 12.5"
    model = hazards[1]
    a = model.inference_[0].coefficients[2:]
    exposed = model.common_hazard_[:, 1] * np.exp(-a)
    gone = [own > 12.5 for own in times]
    known = sum(np.exp(own[left] @ model.coef_).sum() for own, left in zip(X, gone, strict=True))
    assert abs(exposed[2] / known - 1.0) < SEVEN_DIGITS
    first, moved = binned(X, times, events, FIRST), binned(X, times, events, MOVED)
    assert any("next to those of an earlier study" in text for text in asked(moved, after(first)))
    assert "baseline" in {each.rule for each in home_findings(moved[0], moved[1][2], Policy()) if each.asks}
    assert len(late) == 1


def test_a_model_that_has_the_time_among_its_columns_is_no_count_over_time():
    X, times, events, _ = patients()
    plan, parties = binned(X, times, events, FIRST)
    stored = study_columns(plan, parties[2])
    assert (stored.counted, stored.grid.edges, stored.labels) == (2, (6.0, 12.0, 18.0), 1)
    opened = after((plan, parties)).columns
    (study,) = opened.studies.values()
    assert (len(study.features), len(study.labels), len(study.counted)) == (2, 1, 2)
    assert opened.without("0").names == ()
