"""Propensity weights: what the other party reads of a record that outweighs its group, of two trimmings, of two views.

Sums with weights are of each group. With two parties the other one has them less its own part: the weighted mean of a
group in which one record has most of the weight is that record's row.
"""

import numpy as np
import pytest
from tests.adversary.test_memory_of_tables import ROWS, clinic, hospitals, lay, played, records
from tests.propensity_data import by_site, covariates

from fedsvd.data.open import open_source
from fedsvd.errors import NotConverged
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.opened_columns import OpenedColumns
from fedsvd.policy.rules import Policy
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.openings import expected_bits
from fedsvd.protocol.propensity import TRIMS
from fedsvd.protocol.tasks import Family, Item, Robust, Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user import propensity
from fedsvd.service.records import JobState
from fedsvd.statistics.propensity import left_out, own_moments
from fedsvd.studies.opened_before import Before, study_columns
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import plan_for
from fedsvd.studies.study import Study
from fedsvd.tasks.options import completed
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning", "ignore:events")
RELEASE = (Item.COEFFICIENTS, Item.INFERENCE, Item.ROBUST)
SIZES = (400, 260, 60)


def patients(sizes=SIZES, seed=0, columns=3, slope=0.6):
    """Covariates, and outcome with treatment, of parties of these sizes."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, columns)) for n in sizes]
    treated = [(rng.random(len(own)) < 1.0 / (1.0 + np.exp(-slope * own[:, 0]))).astype(float) for own in X]
    y = [own[:, 1] + who + rng.normal(size=len(own)) for own, who in zip(X, treated, strict=True)]
    return X, [np.column_stack(each) for each in zip(y, treated, strict=True)]


def about(effect="gaussian"):
    beside = ("treatment", "event") if effect == "cox" else ("treatment",)
    counts = {"least_class": 10, "least_events": 5}
    return ModelPlan(Family.PROPENSITY, "logit", digits=Digits.TABLE, effect=effect, beside=beside, **counts)


def planned(X, labels, effect="gaussian", **options):
    """The plan that the product makes of these tables, and the parties."""
    parties = [PartyData(open_source(own), y) for own, y in zip(X, labels, strict=True)]
    study = Study(
        Task.PROPENSITY,
        release=RELEASE,
        glm=about(effect),
        targets=about(effect).labels,
        robust=Robust.HC0,
        options=completed(Task.PROPENSITY, tuple(options.items())),
    )
    return plan_for(study, parties, Seed(bytes(32)))[0].plan, parties


def verdicts(X, labels, effect="gaussian"):
    """Of every party: the rules that ask or refuse, with their words."""
    plan, parties = planned(X, labels, effect)
    judged = Policy(openings="any")  # how many bits are opened is judged apart
    return [[(each.rule, each.text) for each in home_findings(plan, own, judged)] for own in parties]


def run(X, labels, estimand, trim=0.0):
    options = {"estimand": estimand, "stabilised": False, "trim": trim}
    return Federation(
        X,
        Task.PROPENSITY,
        Split.HORIZONTAL,
        labels=labels,
        glm=about(),
        robust="HC0",
        release=RELEASE,
        options=tuple(sorted(options.items())),
    ).run()


# --- a record that outweighs its group --------------------------------------------------------------------------------


def outweighed():
    """At the small party one treated record whose score is near 0: by ATE it has most of the weight of the treated."""
    X, labels = patients(slope=1.5)
    X[2][0] = (-3.0, 2.5, -2.0)
    labels[2][0, 1] = 1.0
    return X, labels


def test_without_the_limit_the_weighted_mean_of_a_group_is_one_persons_row(monkeypatch):
    """The two others together have the small party's sums. Home tests of the second model come after the balance."""
    (X, labels), weights, opened = outweighed(), {}, []

    def never(own, treated, of_person):
        weights[len(own)] = own
        return False

    def recorded(*asked):
        opened.append(asked)
        return plain(*asked)

    plain = propensity.Balance.of
    monkeypatch.setattr(propensity, "stands_out", never)
    monkeypatch.setattr(propensity.Balance, "of", recorded)
    with pytest.raises(NotConverged):
        run(X, labels, "ATE")
    *_, joint, _, sums, centre = opened[0]
    own, treated = weights[SIZES[2]], labels[2][:, 1] == 1.0
    assert own[0] > 0.5 * own[treated].sum()
    others = [own_moments(X[j] - centre, labels[j][:, 1], weights[SIZES[j]])[1, 1, 0] for j in (0, 1)]
    weight = sums[0, 1] - sum(weights[SIZES[j]][labels[j][:, 1] == 1.0].sum() for j in (0, 1))
    read = centre + (joint[1, 1, 0] - sum(others)) / weight
    plain_mean = X[2][treated].mean(axis=0)
    assert np.linalg.norm(read - X[2][0]) < 0.5 * np.linalg.norm(plain_mean - X[2][0])


def test_a_record_of_the_small_party_ends_the_study_of_all_with_the_same_words():
    X, labels = outweighed()
    with pytest.raises(NotConverged, match="more than 20% of a group's weight at a party"):
        run(X, labels, "ATE")
    results = run(X, labels, "overlap")  # whose weights are bounded
    for own, y in zip(results, labels, strict=True):
        weights = own.own["propensity"][:, 1]
        for group in (0.0, 1.0):
            assert weights[y[:, 1] == group].max() <= 0.2 * weights[y[:, 1] == group].sum()


def test_nothing_with_a_weight_is_opened_before_every_party_has_tested_its_own(monkeypatch):
    """The powers of two of the weights come first: a party that fails the test sends the one beyond all others."""
    asked, plain = [], propensity.DigitsSession.total

    def recorded(self, name, *rest):
        asked.append(name)
        return (yield from plain(self, name, *rest))

    monkeypatch.setattr(propensity.DigitsSession, "total", recorded)
    with pytest.raises(NotConverged):
        run(*outweighed(), "ATE")
    assert asked
    assert not {"weights", "balance"} & set(asked)
    assert not any(name.startswith("outcome") for name in asked)


# --- two studies of one table -----------------------------------------------------------------------------------------


def test_two_limits_of_trimming_differ_in_five_own_records_where_two_persons_lie_between():
    """Smokers who quit, at three sites: 1 and 2 of the treated lie between the limits at two of them."""
    X, labels = by_site("nhefs", *covariates("nhefs")), by_site("nhefs", "gaussian", "treated")
    untrimmed, trimmed = (run(X, labels, "ATE", trim) for trim in (0.0, 0.1))
    between = set()
    for one, other, y in zip(untrimmed, trimmed, labels, strict=True):
        score, weights = one.own["propensity"].T
        few = {np.count_nonzero((np.minimum(score, 1.0 - score) < 0.1) & (y[:, 1] == group)) for group in (0.0, 1.0)}
        between |= few
        out = other.own["propensity"][:, 1] == 0.0
        assert (weights > 0.0).all()
        assert all(np.count_nonzero(out & (y[:, 1] == group)) not in (1, 2, 3, 4) for group in (0.0, 1.0))
    assert {1, 2} <= between, "as the limit alone would have it"


def test_a_person_between_two_limits_would_be_read_from_the_sums_of_weights():
    """By limits alone: what two studies opened of the treated differs in one person's weight, which is its score."""
    rng = np.random.default_rng(1)
    score, treated = np.append(rng.uniform(0.2, 0.8, 60), 0.07), np.append(rng.integers(0, 2, 60), 1).astype(float)
    every = np.where(treated == 1.0, 1.0 / score, 0.0)
    alone = np.minimum(score, 1.0 - score) < 0.1
    assert 1.0 / (every.sum() - every[~alone].sum()) == pytest.approx(0.07)
    assert np.count_nonzero(left_out(score, treated, TRIMS, 5)) == 5


def test_a_second_weighting_of_a_table_is_another_study_until_it_is_too_much():
    X, labels = patients()
    opened, rules = OpenedColumns().after(SIZES[0]), []
    for number, estimand in enumerate(("overlap", "ATE", "ATT", "overlap") * 4):
        plan, parties = planned(X, labels, estimand=estimand, trim=TRIMS[number // 4])
        rows = np.arange(SIZES[0])
        found = home_findings(plan, parties[0], Policy(answered=("few",)), Before(opened, rows))
        rules.append({each.rule for each in found if each.below})
        opened = opened.after(SIZES[0]).with_study(str(number), study_columns(plan, parties[0]), rows)
    assert not rules[0]
    assert rules[-1], "the bits of all weightings are added up"


def test_a_person_who_is_withdrawn_between_two_studies_takes_others_along(tmp_path):
    study = {"task": "propensity", "label": "cost", "treatment": "sex", "components": None}
    with hospitals(tmp_path) as (federation, csp):
        first, why = played(federation, csp, "before", **study)
        assert first.state is JobState.DONE, why
        lay(federation, "a", clinic(1).drop(index=7))
        second, why = played(federation, csp, "after", **study)
        assert second.state is JobState.DONE, why
        assert records(federation, first) == ROWS
        assert records(federation, second) <= ROWS - 5


# --- who is asked -----------------------------------------------------------------------------------------------------


def test_all_stages_are_in_the_plan_and_their_bits_are_added():
    X, labels = patients()
    plan, _ = planned(X, labels)
    score = ModelPlan(Family.BINOMIAL, "logit", digits=Digits.TABLE, least_class=10, least_events=5)
    parties = [PartyData(open_source(own), y[:, 1:]) for own, y in zip(X, labels, strict=True)]
    released = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE)
    alone = plan_for(Study(Task.GLM, release=released, glm=score, targets=1), parties, Seed(bytes(32)))[0].plan
    assert expected_bits(plan) > expected_bits(alone) + 8 * 16 * 3
    learned = " ".join(what_each_role_learns(plan))
    assert "A record's propensity score and weight stay with its party" in learned
    assert "the joint sum of squared scores (2 x 2)" in learned


def test_fewer_than_ten_of_a_group_ask_since_one_may_have_more_than_a_fifth():
    X, labels = patients()
    labels[2][:, 1] = np.arange(SIZES[2]) < 7
    own = verdicts(X, labels)
    assert "classes" in {rule for rule, _ in own[2]}
    assert not own[0]
    assert any("one of these may have more than a fifth" in text for _, text in own[2])


@pytest.mark.parametrize("effect", ["binomial", "cox"])
def test_one_to_four_events_of_a_group_ask(effect):
    X, labels = patients()
    event = [(np.arange(len(y)) % 2).astype(float) for y in labels]
    treated = np.flatnonzero(labels[1][:, 1] == 1.0)
    event[1][treated] = 0.0
    event[1][treated[:3]] = 1.0
    if effect == "cox":
        labels = [np.column_stack((np.exp(y[:, 0]), y[:, 1], e)) for y, e in zip(labels, event, strict=True)]
    else:
        labels = [np.column_stack((e, y[:, 1])) for y, e in zip(labels, event, strict=True)]
    own = verdicts(X, labels, effect)
    assert [("classes" in {rule for rule, _ in each}) for each in own] == [False, True, False]


def test_fewer_than_fifty_events_ask_where_the_other_party_alone_sees_their_sum():
    X, labels = patients((200, 120))
    labels = [np.column_stack((np.exp(y[:, 0]), y[:, 1], np.arange(len(y)) % 4 == 0)).astype(float) for y in labels]
    assert "classes" in {rule for rule, _ in verdicts(X, labels, "cox")[1]}
