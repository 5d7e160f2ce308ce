"""Ordinal models: a user that steers thresholds and effects to one record is refused at home, and what is stated."""

import numpy as np
import pytest
from tests.adversary.steering import steered

from fedsvd.data.open import open_source
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.rules import Policy
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.tasks import Family, Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user import ordinal
from fedsvd.statistics.ordinal import OrdinalRecords
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import plan_for
from fedsvd.studies.study import Study
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
ABOUT = ModelPlan(Family.ORDINAL, "logit", classes=3, digits=Digits.TABLE)


def patients(rows=(120, 90, 100), seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 3)) for n in rows]
    hidden = [own @ [0.6, -0.4, 0.2] + rng.logistic(size=len(own)) for own in X]
    return X, [np.digitize(u, [-0.7, 0.7]).astype(float)[:, None] for u in hidden]


def planned(X, labels):
    parties = [PartyData(open_source(own), y) for own, y in zip(X, labels, strict=True)]
    return plan_for(Study(Task.ORDINAL, targets=1, glm=ABOUT), parties, Seed(bytes(32)))[0].plan, parties


def test_one_to_four_own_records_of_a_class_ask():
    X, labels = patients()
    labels[1][:, 0] = np.where(labels[1][:, 0] == 2, 1, labels[1][:, 0])
    labels[1][:3, 0] = 2
    plan, parties = planned(X, labels)
    judged = Policy(openings="any")
    found = [[each.rule for each in home_findings(plan, party, judged)] for party in parties]
    assert found == [[], ["classes"], []]


def test_what_is_seen_is_stated():
    learned = " ".join(what_each_role_learns(planned(*patients())[0]))
    assert "how many rows each class has" in learned
    assert "tests at home that none of its records stands out" in learned


def largest_part(monkeypatch, seed, tested=True):
    """Of one record of another user, where user 1 steers to effects far from all others' records."""
    X, labels = patients(seed=seed)
    others = [OrdinalRecords(own, y[:, 0], 3, "logit") for own, y in zip(X[1:], labels[1:], strict=True)]
    federation, aim = (
        Federation(X, Task.ORDINAL, Split.HORIZONTAL, labels=labels, glm=ABOUT),
        [9.0, 7.0, -8.0, -0.5, 0.5],
    )
    return steered(monkeypatch, ordinal, "RecordsHome", np.array(aim), others, federation.run, tested)


@pytest.mark.parametrize("seed", range(3))
def test_a_false_score_that_steers_to_one_record_is_refused_at_home(monkeypatch, seed):
    assert largest_part(monkeypatch, seed) < 0.8


def test_without_home_tests_it_would_show_one_record(monkeypatch):
    assert max(largest_part(monkeypatch, seed, tested=False) for seed in range(3)) > 0.8
