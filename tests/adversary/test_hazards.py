"""What a Cox model opens after its fit says of single records: consecutive exposures, and scores by a clock."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from tests.tolerances import SCHOENFELD_BAR, SEVEN_DIGITS

from fedsvd import FederatedCox
from fedsvd.data.open import open_source
from fedsvd.policy.rules import Policy, findings
from fedsvd.statistics.cox import Cohort
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.parties import PartyData

pytestmark = pytest.mark.filterwarnings("ignore")
PATTERNS = np.array(list(product([0.0, 1.0], repeat=4)))


def patients(n=150, leave=1, seed=0):
    """Two parties of four 0/1 columns, at each of which ``leave`` records leave at every time."""
    rng = np.random.default_rng(seed)
    X = [rng.integers(0, 2, (n, 4)).astype(float) for _ in range(2)]
    lived = [rng.exponential(50.0 * np.exp(-own @ [0.5, -0.3, 0.8, 0.2])) for own in X]
    times = [1.0 + np.argsort(np.argsort(own)) // leave for own in lived]
    return X, times, [(rng.random(n) < 0.8).astype(float) for _ in X]


def exposures(X, times, events):
    """What the other party adds between two times: as user 1 of two computes it, and as it is."""
    edges = np.unique(times[1])
    model = FederatedCox(baseline="common", times=edges).fit(X, times, events)
    own, other = (Cohort(*each).exposure(model.coef_, edges) for each in zip(X, times, events, strict=True))
    return model, model.common_hazard_[:, 2] - own, other


def rules_of(model, X, times, events):
    party = PartyData(open_source(X), labels=np.column_stack((times, events)))
    found = [*findings(model.plan_, Policy()), *home_findings(model.plan_, party, Policy(openings="any"))]
    return {each.rule for each in found if each.asks}


def test_where_one_record_leaves_at_a_time_exact_exposures_read_it_few_bits_some_and_its_owner_is_asked_twice():
    X, times, events = patients()
    model, seen, exact = exposures(X, times, events)
    hazards = np.exp(PATTERNS @ model.coef_)
    truth = X[1][np.argsort(times[1])][:-1]

    def read(exposed):
        left = np.argmin(np.abs((exposed[:-1] - exposed[1:])[:, None] - hazards), axis=1)
        return np.mean((PATTERNS[left] == truth).all(axis=1))

    assert read(exact) == 1.0, "149 of 149 single leavers"
    assert read(seen) < 0.5, "of 12 bits a third"
    assert {"baseline", "cells"} <= rules_of(model, X[1], times[1], events[1])


def test_of_bins_with_five_departures_thousands_of_multisets_remain_and_the_owner_is_asked_once():
    X, times, events = patients(leave=5)
    model, seen, exact = exposures(X, times, events)
    hazards = np.exp(PATTERNS @ model.coef_)
    sums = np.array([hazards[list(places)].sum() for places in combinations_with_replacement(range(16), 5)])
    noise = np.std(seen - exact)
    remaining = [np.mean(np.abs(sums - (seen[b] - seen[b + 1])) < 3.0 * np.sqrt(2.0) * noise) for b in range(20)]
    assert np.median(remaining) * len(sums) > 1000.0
    assert rules_of(model, X[1], times[1], events[1]) & {"baseline", "cells"} == {"baseline"}


@pytest.mark.parametrize("clock", ["km", "rank"])
def test_by_a_clock_of_own_records_sums_depend_on_the_order_of_a_sites_times_and_on_nothing_else_of_them(clock):
    X, times, events = patients(90, leave=2)
    found = FederatedCox(schoenfeld=clock).fit(X, times, events).zph()
    moved = [times[0] ** 1.3, 5.0 + 2.0 * times[1]]
    again = FederatedCox(schoenfeld=clock).fit(X, moved, events).zph()
    assert np.max(np.abs(found["chisq"] - again["chisq"])) < SCHOENFELD_BAR


def test_with_two_parties_few_events_ask_whether_a_clock_is_summed_or_not():
    X, times, events = patients(90, leave=2)
    events[1] = np.zeros(90)
    events[1][3] = 1.0
    model = FederatedCox(schoenfeld="identity").fit(X, times, events)
    assert "classes" in rules_of(model, X[1], times[1], events[1])


# --- a baseline of all parties in bins --------------------------------------------------------------------------------


def test_coefficients_of_bins_say_which_patterns_five_leavers_have_and_every_owner_is_asked():
    """Whatever digits sums have: the equation of a bin is events = exp(a) S0, and a is known to ten digits."""
    X, times, _ = patients(100, leave=5)
    edges = np.arange(1.0, 13.0)
    model = FederatedCox(ties="breslow", baseline="bins", times=edges, digits="table").fit(X, times, [np.ones(100)] * 2)
    b, a = model.coef_, model.inference_[0].coefficients[4:]
    S0 = model.common_hazard_[:, 1] * np.exp(-a)
    own, other = ((each[:, None] >= edges).T @ np.exp(rows @ b) for each, rows in zip(times, X, strict=True))
    sums = np.exp(PATTERNS @ b)[list(combinations_with_replacement(range(16), 5))].sum(axis=1)

    def read(seen, slack):
        return np.mean([np.count_nonzero(np.abs(sums + step) < slack) == 1 for step in np.diff(seen)])

    assert read(S0 - own, SEVEN_DIGITS) == 1.0, "11 of 11 multisets of five"
    assert np.max(np.abs(S0 - own - other)) < SEVEN_DIGITS
    assert "baseline" in rules_of(model, X[1], times[1], np.ones(100))


def test_within_sites_no_equation_is_of_one_bin():
    X, times, _ = patients(100, leave=5)
    model = FederatedCox(ties="breslow", digits="table").fit(X, times, [np.ones(100)] * 2)
    assert len(model.inference_[0].coefficients) == 4
    assert "baseline" not in rules_of(model, X[1], times[1], np.ones(100))
