"""Concordant pairs are those that are found pair by pair, with ties, weights and entries."""

import numpy as np
import pytest
from tests.tolerances import RESULT_BAR, assert_close

from fedsvd.statistics.concordance import concordant_pairs


def pair_by_pair(eta, time, event, weights, entry):
    concordant = pairs = 0.0
    for i in np.flatnonzero(event):
        at_risk = ((time > time[i]) | ((time == time[i]) & (event == 0))) & (entry < time[i])
        for j in np.flatnonzero(at_risk):
            pairs += weights[i] * weights[j]
            concordant += weights[i] * weights[j] * ((eta[i] > eta[j]) + 0.5 * (eta[i] == eta[j]))
    return concordant, pairs


@pytest.mark.parametrize("seed", range(8))
def test_pairs_are_those_of_a_count_one_by_one(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 60))
    eta, time = rng.normal(size=n).round(1), rng.integers(1, 10, n).astype(float)
    event, weights = (rng.random(n) < 0.6).astype(float), rng.integers(1, 4, n).astype(float)
    entry = time - rng.integers(1, 9, n)
    found = concordant_pairs(eta, time, event, weights=weights, entry=entry)
    assert_close(found, pair_by_pair(eta, time, event, weights, entry), RESULT_BAR)


def test_four_records_by_hand():
    # Events at 1 and 2; pairs (1, 2), (1, 2'), (1, 3), (2, 2'), (2, 3): the record censored at 2 outlives the event.
    time, event = np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 1.0, 0.0, 0.0])
    assert concordant_pairs(np.array([4.0, 3.0, 3.0, 5.0]), time, event) == (2.5, 5.0)


def test_no_events_have_no_pairs_and_predictions_that_are_all_equal_half_of_them():
    time = np.arange(5.0)
    assert concordant_pairs(time, time, np.zeros(5)) == (0.0, 0.0)
    assert concordant_pairs(np.zeros(5), time, np.ones(5)) == (5.0, 10.0)
