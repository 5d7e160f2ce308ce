"""Robust errors of models: what one matrix of squared scores shows of a record or a cluster, and what is said of it."""

import numpy as np
import pytest
from tests.tolerances import PRINTED_BAR

from fedsvd.data.open import open_source
from fedsvd.errors import NotConverged
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.rules import Policy, findings
from fedsvd.protocol.messages import SumShare
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.tasks import LINKS, Family, Item, Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import plan_for
from fedsvd.studies.study import Study
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
RELEASE = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE, Item.ROBUST)


def counts(rows=(120, 90, 100), seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 3)) for n in rows]
    return X, [rng.poisson(np.exp(own @ [0.3, -0.2, 0.1])).astype(float)[:, None] for own in X]


def study(kind, digits, family=Family.POISSON):
    about = ModelPlan(family, LINKS[family][0], digits=digits)
    return {"glm": about, "release": RELEASE, "robust": kind}


def test_a_record_whose_residual_dwarfs_all_others_shows_its_features_in_all_digits_and_is_refused_by_few():
    X, y = counts()
    y[1][17] = 1e6
    federation = Federation(X, Task.GLM, Split.HORIZONTAL, labels=y, **study("HC0", Digits.ALL, Family.GAUSSIAN))
    model = federation.run()[0].models[0]
    bread = np.linalg.inv(model.naive)
    meat = bread @ model.covariance @ bread
    read = np.linalg.eigh(meat)[1][:, -1]
    assert np.abs(read[1:] / read[0] - X[1][17]).max() < 0.05, "users read it from what is released"
    with pytest.raises(NotConverged):
        Federation(X, Task.GLM, Split.HORIZONTAL, labels=y, **study("HC0", Digits.TABLE, Family.GAUSSIAN)).run()


def planned(X, y, kind, clusters=None):
    groups = clusters or [None] * len(X)
    parties = [PartyData(open_source(a), b, clusters=c) for a, b, c in zip(X, y, groups, strict=True)]
    asked = Study(Task.GLM, targets=1, **study(kind, Digits.TABLE))
    return plan_for(asked, parties, Seed(bytes(32)))[0].plan, parties


@pytest.mark.parametrize(
    ("codes", "asked"),
    [
        (lambda n: np.arange(n) % 5, False),
        (lambda n: np.arange(n) % 4, True),
        (lambda n: np.maximum(np.arange(n) - n // 2 - 5, 0), True),
    ],
)
def test_a_party_has_at_least_five_clusters_and_none_with_more_than_half_or_its_owner_is_asked(codes, asked):
    X, y = counts()
    groups = [np.arange(len(own)) % 9 for own in X]
    groups[1] = codes(len(X[1]))
    plan, parties = planned(X, y, "cluster", groups)
    rules = [[each.rule for each in home_findings(plan, own, Policy(openings="any"))] for own in parties]
    assert [("own clusters" in own) for own in rules] == [False, asked, False]


def test_three_parties_are_too_few_for_clusters_and_what_is_opened_is_said():
    X, y = counts()
    plan, _ = planned(X, y, "cluster", [np.arange(len(own)) % 9 for own in X])
    assert "clusters" in [each.rule for each in findings(plan, Policy())]
    learned = " ".join(what_each_role_learns(plan))
    assert "the joint sum of squared scores over clusters (4 x 4)" in learned
    assert "once for each model" in learned
    usual, _ = planned(X, y, "HC0")
    assert "x x^T times e^2" in " ".join(what_each_role_learns(usual))


def test_one_matrix_a_model_is_opened_and_it_is_that_of_the_joint_table():
    X, y = counts()
    federation = Federation(X, Task.GLM, Split.HORIZONTAL, labels=y, **study("HC0", Digits.TABLE))
    model = federation.run()[0].models[0]
    sums = [message.name for _, message in federation.views.of(CSP, SumShare)]
    opened = {name for name in sums if name.startswith("squares ") and "sizes" not in name}
    last = max(int(name.split()[1]) for name in sums if name.startswith("score "))
    assert {int(name.split()[2]) for name in opened} == {last}, "with the last evaluation alone"
    Z = np.column_stack((np.ones(310), np.concatenate(X)))
    mu = np.exp(Z @ model.coefficients)
    e = np.concatenate(y)[:, 0] - mu
    bread = np.linalg.inv(Z.T @ (mu[:, None] * Z))
    expected = bread @ (Z.T @ (np.square(e)[:, None] * Z)) @ bread
    assert np.abs(model.covariance - expected).max() < PRINTED_BAR * np.abs(expected).max()
