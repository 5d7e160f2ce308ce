"""Cox models: what one event shows of a person, what times show, and a user that steers coefficients to one record."""

import numpy as np
import pytest
from tests.adversary.steering import recording, steered
from tests.tolerances import PRINTED_BAR, STATISTIC_BAR, assert_close

from fedsvd.data.open import open_source
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.rules import Policy
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.tasks import Family, Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user import cox
from fedsvd.statistics.cox import Cohort
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import plan_for
from fedsvd.studies.study import Study
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
ABOUT = ModelPlan(Family.COX, "log", ties="efron", digits=Digits.TABLE)


def patients(rows=(120, 90, 100), seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 3)) for n in rows]
    times = [rng.exponential(np.exp(-own @ [0.6, -0.4, 0.2])) for own in X]
    return X, [np.column_stack((t, rng.random(len(t)) < 0.7)) for t in times]


def planned(X, labels):
    """The plan that the product makes of these tables, and the parties."""
    parties = [PartyData(open_source(own), y) for own, y in zip(X, labels, strict=True)]
    return plan_for(Study(Task.COX, targets=2, glm=ABOUT), parties, Seed(bytes(32)))[0].plan, parties


def verdicts(X, labels):
    """Of every party: the rules that ask or refuse."""
    plan, parties = planned(X, labels)
    judged = Policy(openings="any")  # how many bits are opened is judged apart
    found = [home_findings(plan, party, judged) for party in parties]
    return [[(each.rule, "refused" if each.below else "asks") for each in own] for own in found]


def scores_of(X, labels, monkeypatch):
    """The last score that is opened, in which all digits of a step are, and user 1's own part of it."""
    seen = []

    def see(request, answer):
        if request.of == "score":
            seen.append((request.at.beta, answer.values))

    recording(monkeypatch, cox, see)
    Federation(X, Task.COX, Split.HORIZONTAL, labels=labels, glm=ABOUT).run()
    beta, values = seen[-1]
    own = Cohort(X[0], labels[0][:, 0], labels[0][:, 1]).evaluate(beta, information=False)
    return beta, values[2:] - own.score


def test_with_two_parties_one_event_shows_that_persons_row_less_a_mean_and_its_owner_is_asked(monkeypatch):
    X, labels = patients((120, 90))
    labels[1][:, 1] = 0.0
    person = int(np.argsort(labels[1][:, 0])[5])
    labels[1][person, 1] = 1.0
    beta, others = scores_of(X, labels, monkeypatch)
    at_risk = X[1][labels[1][:, 0] >= labels[1][person, 0]]
    mean = np.average(at_risk, axis=0, weights=np.exp(at_risk @ beta))
    assert np.abs(others - (X[1][person] - mean)).max() < PRINTED_BAR
    assert verdicts(X, labels)[1] == [("classes", "asks")]


@pytest.mark.parametrize(("rows", "events", "asked"), [((120, 90), 40, True), ((120, 90, 80), 40, False)])
def test_fewer_than_fifty_events_ask_where_the_other_party_alone_sees_their_sum(rows, events, asked):
    X, labels = patients(rows)
    labels[1][:, 1] = np.arange(90) < events
    assert verdicts(X, labels)[1] == ([("classes", "asks")] if asked else [])


def test_one_to_four_events_or_non_events_ask_and_none_do_not():
    X, labels = patients()
    labels[0][:, 1], labels[1][:, 1], labels[2][:, 1] = 0.0, np.arange(90) < 4, np.arange(100) >= 3
    assert verdicts(X, labels) == [[], [("classes", "asks")], [("classes", "asks")]]


def test_a_party_of_few_records_is_asked():
    X, labels = patients((120, 90, 15))
    assert [rule for rule, _ in verdicts(X, labels)[2]] == ["few"]


def test_sums_depend_on_the_order_of_a_sites_times_and_on_nothing_else_of_them():
    X, labels = patients()
    time, event = labels[0].T
    beta = np.array([0.3, -0.1, 0.2])
    plain = Cohort(X[0], time, event).evaluate(beta, information=True)
    moved = Cohort(X[0], np.exp(3.0 * time) - 1000.0, event).evaluate(beta, information=True)
    assert plain.deviance == moved.deviance
    assert (plain.score == moved.score).all()
    assert (plain.information == moved.information).all()


def test_what_stays_at_home_and_what_is_seen_is_stated():
    learned = " ".join(what_each_role_learns(planned(*patients())[0]))
    assert "times, risk sets, ties and its baseline hazard stay with it" in learned
    assert "how many events there are in all" in learned
    assert "how many pairs of records can be compared inside sites" in learned
    assert "the mean of each column" not in learned


def largest_part(monkeypatch, seed, tested=True):
    """Of one record of another user, where user 1 steers to coefficients far from all others' records."""
    X, labels = patients(seed=seed)
    cohorts = [Cohort(own, *y.T) for own, y in zip(X[1:], labels[1:], strict=True)]
    federation = Federation(X, Task.COX, Split.HORIZONTAL, labels=labels, glm=ABOUT)
    return steered(monkeypatch, cox, "CoxHome", np.array([9.0, 7.0, -8.0]), cohorts, federation.run, tested)


@pytest.mark.parametrize("seed", range(4))
def test_a_false_score_that_steers_to_one_record_is_refused_at_home(monkeypatch, seed):
    assert largest_part(monkeypatch, seed) < 0.8


def test_without_home_tests_it_is_not(monkeypatch):
    assert largest_part(monkeypatch, 0, tested=False) > 0.8


# --- a risk set of one ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_a_record_that_is_alone_at_risk_adds_nothing_to_score_or_information(ties):
    """Who enters a site after all others left it, and dies there, is compared with no one but itself."""
    rng = np.random.default_rng(11)
    n, beta = 60, np.array([0.4, -0.7, 0.2])
    time, event, entry = rng.uniform(1.0, 5.0, n), (rng.random(n) < 0.7).astype(float), np.zeros(n)
    time[-1], event[-1], entry[-1] = 9.0, 1.0, 6.0
    parts = []
    for seed in range(3):
        X = np.random.default_rng(5).normal(size=(n, 3))
        X[-1] = np.random.default_rng(seed).normal(0.0, 3.0, 3)
        parts.append(Cohort(X, time, event, entry=entry, efron=ties == "efron").evaluate(beta, information=True))
    without = Cohort(X[:-1], time[:-1], event[:-1], entry=entry[:-1], efron=ties == "efron")
    expected = without.evaluate(beta, information=True)
    for part in parts:
        assert_close(part.score, expected.score, STATISTIC_BAR)
        assert_close(part.information, expected.information, STATISTIC_BAR)
        assert_close(part.deviance, expected.deviance, STATISTIC_BAR)
