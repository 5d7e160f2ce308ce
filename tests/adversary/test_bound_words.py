"""The OR of a bound shows the class, and not how many users reach it."""

import numpy as np
import pytest
import scipy.stats
from tests.tolerances import ACCEPTED, REJECTED

from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.secagg import bound
from fedsvd.secagg.words128 import add_into, to_integers

SESSIONS, USERS = 60, 4
REACHED = 70  # classes that a user "above" reaches in these sessions


def shares(above):
    """Per session, the words of four users, of whom this many are above."""
    rng = np.random.default_rng(above)
    for _ in range(SESSIONS):
        exponents = [bound.CLASSES[REACHED - 1] + 1] * above + [None] * (USERS - above)
        yield [bound.encode(power, Keystream(Seed(rng.bytes(32)))) for power in exponents]


def uniform(values, size):
    return scipy.stats.kstest(np.array([float(value) for value in values]) / size, "uniform").pvalue


@pytest.mark.parametrize("above", [1, 2, 3, 4])
def test_low_and_high_halves_of_the_total_are_uniform_however_many_are_above(above):
    low, high = [], []
    for words in shares(above):
        total = np.zeros_like(words[0])
        for payload in words:
            add_into(total, payload)
        assert not total[REACHED:, 0].any()
        low += total[:REACHED, 0].tolist()
        high += total[:, 1].tolist()
    assert uniform(low, 2.0**64) > ACCEPTED
    assert uniform(high, 2.0**64) > ACCEPTED


@pytest.mark.parametrize("above", [1, 2, 4])
def test_added_up_as_integers_they_would_show_how_many(above):
    """The mean, in units of half the range, is the number of users above."""
    sums = [
        sum(int(payload[row, 0]) for payload in words) / 2.0**63 for words in shares(above) for row in range(REACHED)
    ]
    assert abs(np.mean(sums) - above) < 0.05
    assert above == 1 or uniform([value % 2 for value in sums], 2.0) > ACCEPTED  # what wraps is uniform
    assert above == 1 or uniform(sums, 2.0) < REJECTED


def test_the_halves_above_no_class_say_nothing_of_who_sent_zeros():
    """A user without a number sends random high halves like everyone else."""
    words = bound.encode(None, Keystream(Seed(bytes(32))))
    assert not words[:, 0].any()
    assert len(set(words[:, 1].tolist())) == bound.LENGTH
    assert len(set(to_integers(words))) == bound.LENGTH
