"""Negative binomial models: a user that steers coefficients to one record is refused at home."""

from contextlib import suppress

import numpy as np
import pytest
from tests.adversary.test_ordinal import Liar, Trusting

from fedsvd.errors import NotConverged, Separated
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.tasks import Family, Split, Task
from fedsvd.roles.user import negative_binomial
from fedsvd.roles.user.home import FEW
from fedsvd.statistics.negative_binomial import CountRecords
from fedsvd.statistics.newton_requests import Asked, Point
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
ABOUT = ModelPlan(Family.NEGATIVE_BINOMIAL, "log", digits=Digits.TABLE)
AIM = np.array([-7.0, 3.0, 2.0, -3.0, 6.0])  # means near zero but for one record, and hardly any overdispersion


def patients(rows=(120, 90, 100), seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 3)) for n in rows]
    means = [np.exp(0.8 + own @ [0.3, -0.2, 0.1]) for own in X]
    return X, [rng.poisson(mu * rng.gamma(2.0, 0.5, len(mu))).astype(float)[:, None] for mu in means]


def steered(monkeypatch, home, seed):
    """The largest part of one record of another user in an information matrix that was opened."""
    X, labels = patients(seed=seed)
    others = [CountRecords(own, y[:, 0], True) for own, y in zip(X[1:], labels[1:], strict=True)]
    monkeypatch.setattr(negative_binomial, "RecordsHome", home)
    monkeypatch.setattr(home, "others", others)
    monkeypatch.setattr(home, "aim", AIM)
    seen, plain = [], negative_binomial.fit_by_digits

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

    monkeypatch.setattr(negative_binomial, "fit_by_digits", recorded)
    with suppress(NotConverged, Separated):
        Federation(X, Task.GLM, Split.HORIZONTAL, labels=labels, glm=ABOUT, centre=True).run()
    largest = 0.0
    for records in others:
        for at in seen:
            here = Point(at.beta, at.centre, information=True, expected=True)
            values, vectors = np.linalg.eigh(records.part(here).information[:4, :4])
            kept = values > FEW * values[-1]
            largest = max(largest, records.largest_part(here, vectors[:, kept] / np.sqrt(values[kept])))
    return largest


@pytest.mark.parametrize("seed", range(3))
def test_a_false_score_that_steers_to_one_record_is_refused_at_home(monkeypatch, seed):
    assert steered(monkeypatch, Liar, seed) < 0.8


def test_without_home_tests_it_would_show_one_record(monkeypatch):
    assert max(steered(monkeypatch, Trusting, seed) for seed in range(3)) > 0.8
