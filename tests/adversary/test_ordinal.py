"""Ordinal models: a user that steers thresholds and effects to one record is refused at home, and what is stated."""

from contextlib import suppress

import numpy as np
import pytest

from fedsvd.data.open import open_source
from fedsvd.errors import NotConverged, Separated
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.rules import Policy
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.tasks import Family, Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user import ordinal
from fedsvd.roles.user.home import FEW
from fedsvd.roles.user.records import RecordsHome
from fedsvd.statistics.newton_requests import Asked, Point
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


class Liar(RecordsHome):
    """User 1 sends a first score that leads to effects far from all others' records, and a deviance that allows it."""

    aim = np.array([9.0, 7.0, -8.0, -0.5, 0.5])
    others = ()

    def __init__(self, work, records):
        super().__init__(work, records)
        self.lies, self.scores = work.i == 0, 0

    def values(self, asked):
        found = super().values(asked)
        if not self.lies or asked.of != "score":
            return found
        self.scores += 1
        found = found.copy()
        if self.scores == 1:
            own = super().values(Asked("information", asked.units, asked.at))
            H = np.zeros((5, 5))
            H[np.triu_indices(5)] = 2.6 * own
            H += np.triu(H, 1).T
            found[2:] += H @ (self.aim - asked.at.beta)
        else:
            at = Point(asked.at.beta, asked.at.centre, information=False)
            found[0] = 20.0 - sum(records.part(at).deviance for records in self.others)
        return found


class Trusting(Liar):
    """The same among users that make no home test."""

    def stands_out(self, at):
        return False

    def beyond(self, at, dispersion):
        return False


def steered(monkeypatch, home, seed):
    """The largest part of one record of another user in an information matrix that was opened."""
    X, labels = patients(seed=seed)
    others = [OrdinalRecords(own, y[:, 0], 3, "logit") for own, y in zip(X[1:], labels[1:], strict=True)]
    monkeypatch.setattr(ordinal, "RecordsHome", home)
    monkeypatch.setattr(home, "others", others)
    seen, plain = [], ordinal.fit_by_digits

    def recorded(*asked, **settings):
        steps = plain(*asked, **settings)
        request = next(steps)
        while True:
            answer = yield request
            if isinstance(request, Asked) and request.of in ("information", "table"):
                seen.append(request.at)
            try:
                request = steps.send(answer)
            except StopIteration as end:
                return end.value

    monkeypatch.setattr(ordinal, "fit_by_digits", recorded)
    with suppress(NotConverged, Separated):  # or a later honest score leads back
        Federation(X, Task.ORDINAL, Split.HORIZONTAL, labels=labels, glm=ABOUT).run()
    largest = 0.0
    for records in others:
        for at in seen:
            values, vectors = np.linalg.eigh(records.part(at).information)
            kept = values > FEW * values[-1]
            largest = max(largest, records.largest_part(at, vectors[:, kept] / np.sqrt(values[kept])))
    return largest


@pytest.mark.parametrize("seed", range(3))
def test_a_false_score_that_steers_to_one_record_is_refused_at_home(monkeypatch, seed):
    assert steered(monkeypatch, Liar, seed) < 0.8


def test_without_home_tests_it_would_show_one_record(monkeypatch):
    assert max(steered(monkeypatch, Trusting, seed) for seed in range(3)) > 0.8
