"""Means in the unit of the joint norm: exact but for what is below their steps, against rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from tests.tolerances import EPS

from fedsvd.protocol.steps import FINE_STEP
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.roles.user.fixed_means import divided, pieces
from fedsvd.secagg import words128
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


def numbers(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=count) * 10.0 ** rng.uniform(-12, 12, count)


@pytest.mark.parametrize("n", [1, 3, 1_000_003, (1 << 31) - 1])
def test_pieces_add_up_and_are_multiplied_exactly(n):
    values = np.concatenate((numbers(200), [0.0, 1.0, -5e-324, 2.0**900]))
    found = pieces(values)
    for j, value in enumerate(values.tolist()):
        assert sum(Fraction(float(piece[j])) for piece in found) == Fraction(value)
        assert all(Fraction(float(n * piece[j])) == n * Fraction(float(piece[j])) for piece in found)


@pytest.mark.parametrize("n", [1, 7, 1_000_003])
@pytest.mark.parametrize("unit", [-300, 0, 400])
def test_a_total_is_divided_to_the_last_of_its_steps(n, unit):
    rng = np.random.default_rng(n)
    integers = [int(rng.integers(1 << 62)) << int(rng.integers(0, 50)) for _ in range(50)]
    integers = [(-1) ** j * (value + j) for j, value in enumerate(integers)] + [0, 1, -1]
    mean, rest = divided(words128.from_integers(integers), unit, n)
    for value, high, low in zip(integers, mean.tolist(), rest.tolist(), strict=True):
        exact = Fraction(value) * Fraction(2) ** (unit - FINE_STEP) / n
        assert abs(Fraction(high) + Fraction(low) - exact) <= Fraction(EPS) ** 2 * abs(exact)


def test_means_of_a_session_are_right_where_they_are_far_from_zero_and_where_features_differ():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 30)) * np.logspace(0, -9, 30) + np.where(np.arange(30) % 3, 0.0, 1e6)
    released = (Item.COMPONENTS, Item.SPECTRUM, Item.MEAN, Item.OWN_PART)
    parts = [X[:9], X[9:30], X[30:]]
    federation = Federation(parts, Task.PCA, Split.HORIZONTAL, scheme="steps", components=2, release=released)
    found = federation.run()[0]
    for j in range(30):
        exact = sum(map(Fraction, X[:, j].tolist())) / 40
        off = abs(Fraction(float(found.mean[j])) - exact)
        # Noise of every user is below n_i 2^-49 times its deviation, or 8 times what its mean is off its first entry;
        # and a step is 2^-100 of a power of two that is at most 2^9 times the joint norm.
        steps = Fraction(2) ** -90 * Fraction(float(np.linalg.norm(X)))
        assert off <= Fraction(EPS) * (abs(exact) + 64 * Fraction(float(np.ptp(X[:, j])))) + steps
    assert [step.name for step in federation.plan.steps[:2]] == ["range", "mean"]
