"""Negative binomial models: a user that steers coefficients to one record is refused at home."""

import numpy as np
import pytest
from tests.adversary.steering import steered

from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.tasks import Family, Split, Task
from fedsvd.roles.user import negative_binomial
from fedsvd.statistics.negative_binomial import CountRecords
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
ABOUT = ModelPlan(Family.NEGATIVE_BINOMIAL, "log", digits=Digits.TABLE)
AIM = np.array([-7.0, 3.0, 2.0, -3.0, 6.0])  # means near zero but for one record, and hardly any overdispersion


def patients(rows=(120, 90, 100), seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 3)) for n in rows]
    means = [np.exp(0.8 + own @ [0.3, -0.2, 0.1]) for own in X]
    return X, [rng.poisson(mu * rng.gamma(2.0, 0.5, len(mu))).astype(float)[:, None] for mu in means]


def largest_part(monkeypatch, seed, tested=True):
    """Of one record of another user, where user 1 steers to means near zero but for one record."""
    X, labels = patients(seed=seed)
    others = [CountRecords(own, y[:, 0], True) for own, y in zip(X[1:], labels[1:], strict=True)]
    federation = Federation(X, Task.GLM, Split.HORIZONTAL, labels=labels, glm=ABOUT, centre=True)
    return steered(monkeypatch, negative_binomial, "RecordsHome", AIM, others, federation.run, tested)


@pytest.mark.parametrize("seed", range(3))
def test_a_false_score_that_steers_to_one_record_is_refused_at_home(monkeypatch, seed):
    assert largest_part(monkeypatch, seed) < 0.8


def test_without_home_tests_it_would_show_one_record(monkeypatch):
    assert max(largest_part(monkeypatch, seed, tested=False) for seed in range(3)) > 0.8
