"""Counts of cases and controls along a model's linear predictor: what they say of single records, and who is asked.

A linear predictor is a column that the study makes. A user that knows all records but one reads that one from a few
models with exact counts, and comes near to it with counts in fives: so every study with such counts asks every owner,
and what it opened counts in the next.
"""

from itertools import combinations, product

import numpy as np
import pytest
from tests.adversary.test_memory_of_tables import ROWS, clinic, hospitals, lay, played, records

from fedsvd import FederatedLogisticRegression
from fedsvd.data.open import open_source
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.opened_columns import OpenedColumns
from fedsvd.policy.rules import Policy, findings
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.tasks import Family, Item, Task
from fedsvd.randomness.seed import Seed
from fedsvd.service.records import JobState
from fedsvd.studies.opened_before import Before, study_columns
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import plan_for
from fedsvd.studies.study import Study
from fedsvd.tasks.options import completed

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning", "ignore:events")
AGES, STAGES = range(40, 80), range(4)
CANDIDATES = np.array([*product(AGES, (0, 1), (0, 1), (0, 1), STAGES)], dtype=float)
RELEASED = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE)


def people(rng, n):
    X = np.column_stack((rng.integers(40, 80, n), rng.integers(0, 2, (n, 3)), rng.integers(0, 4, n))).astype(float)
    eta = -0.6 + 0.04 * (X[:, 0] - 60) + X[:, 1:] @ [0.5, -0.6, 0.3, 0.2]
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float)


def counted(y, eta, edges, least):
    """Own counts as a party rounds them, written down once more."""
    own = [[np.count_nonzero(eta[y == label] <= edge) for edge in (*edges, np.inf)] for label in (1.0, 0.0)]
    return least * np.rint(np.array(own) / least)


def plan_of(parties, roc=5):
    about = ModelPlan(Family.BINOMIAL, "logit", least_class=10, least_events=5, digits=Digits.TABLE)
    released = (*RELEASED, Item.QUALITY, Item.ROC) if roc else RELEASED
    options = completed(Task.GLM, (("roc", roc),))
    study = Study(Task.GLM, release=released, glm=about, targets=1, options=options)
    return plan_for(study, parties, Seed(bytes(32)))[0].plan


def own_tables(sizes, seed=0, columns=slice(None)):
    rng = np.random.default_rng(seed)
    found = [people(rng, n) for n in sizes]
    return [PartyData(open_source(X[:, columns]), y[:, None]) for X, y in found]


def rules(found):
    return [(each.rule, "asks" if each.asks else "refused") for each in found if each.asks or each.below]


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(1)
    return people(rng, 150), people(rng, 120)


@pytest.mark.parametrize("least", [1, 5])
def test_with_two_parties_the_others_counts_follow_and_in_fives_every_step_is_0_or_at_least_five(sites, least):
    (X, y), (theirs, outcome) = sites
    model = FederatedLogisticRegression(roc=least).fit([X, theirs], [y, outcome])
    joint = np.stack((model.roc_.cases, model.roc_.controls))
    others = joint - counted(y, model.decision_function(X), model.roc_.edges, least)
    assert others.tolist() == counted(outcome, model.decision_function(theirs), model.roc_.edges, least).tolist()
    steps = np.diff(others, axis=1, prepend=0.0)
    few = (steps > 0.0) & (steps < 5.0)
    assert few.any() == (least == 1)


def who_is_left(sites, person, models, least):
    """Records of user 2 that one who knows all the others of it cannot tell from this one, after each model."""
    (X, y), (theirs, outcome) = sites
    known, left, found = np.arange(len(theirs)) != person, np.ones(len(CANDIDATES), bool), []
    for columns, model in models:

        def linear(rows, columns=columns, model=model):
            return model.decision_function(rows[:, columns])

        edges = (*model.roc_.edges, np.inf)
        joint = np.stack((model.roc_.cases, model.roc_.controls))
        others = (joint - counted(y, linear(X), model.roc_.edges, least))[int(outcome[person] == 0.0)]
        alike = known & (outcome == outcome[person])
        below = (linear(theirs[alike])[:, None] <= edges).sum(axis=0)
        guessed = least * np.rint((below + (linear(CANDIDATES)[:, None] <= edges)) / least)
        left &= (guessed == others).all(axis=1)
        found.append(int(left.sum()))
    return found


@pytest.mark.parametrize("least", [1, 5])
def test_many_models_of_slightly_different_columns_place_a_record_among_few(sites, least):
    """A known leak: of 1,280 possible records exact counts of six models leave one, fives of sixteen at most ten."""
    subsets = [[*range(5)], *map(list, combinations(range(5), 4)), *map(list, combinations(range(5), 3))]
    subsets = subsets[:6] if least == 1 else subsets
    models = [
        (
            columns,
            FederatedLogisticRegression(roc=least).fit([X[:, columns] for X, _ in sites], [y for _, y in sites]),
        )
        for columns in subsets
    ]
    left = np.array([who_is_left(sites, person, models, least) for person in range(6)])
    assert (left > 0).all()  # the record itself is never excluded
    assert (left[:, -1] == 1).all() if least == 1 else (left[:, -1] <= 10).all()
    if least == 5:
        assert np.median(left[:, 0]) > 100  # one model leaves hundreds


def test_two_row_sets_that_differ_in_one_person_differ_in_a_count_for_most_persons(sites):
    """Rounding is no noise: row sets stay the dictionary's views, and memory holds single records back."""
    (X, y), (theirs, outcome) = sites
    model = FederatedLogisticRegression(roc=5).fit([X, theirs], [y, outcome])
    eta, edges = model.decision_function(theirs), model.roc_.edges
    every = counted(outcome, eta, edges, 5)
    differ = [
        not np.array_equal(every, counted(np.delete(outcome, person), np.delete(eta, person), edges, 5))
        for person in range(len(theirs))
    ]
    assert 0.5 < np.mean(differ) <= 1.0


# --- who is asked -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("least", [5, 1])
def test_every_owner_is_asked_however_many_records_it_has(least):
    parties = own_tables((4000, 3000, 5000))
    plan, without = plan_of(parties, least), plan_of(parties, roc=0)
    for party in parties:
        assert rules(home_findings(plan, party, Policy())) == [("roc", "asks")]
        assert rules(home_findings(plan, party, Policy(answered=("roc",)))) == []
        assert rules(home_findings(without, party, Policy())) == []
    (asked,) = (each for each in home_findings(plan, parties[0], Policy()) if each.asks)
    assert ("rounded to multiples of 5" in asked.text) == (least == 5)
    learned = " ".join(what_each_role_learns(plan))
    assert ("off by at most 6 records" in learned) == (least == 5)


def test_counts_in_smaller_multiples_than_an_owner_asks_for_are_refused():
    parties = own_tables((4000, 3000, 5000))
    plan = plan_of(parties, roc=3)
    assert "least_count" in {each.rule for each in findings(plan, Policy()) if each.below}


def test_what_such_studies_opened_counts_in_the_next_until_it_is_too_much():
    """Each is asked about; that they are many is what bits held see."""
    subsets = [list(each) for each in combinations(range(5), 4)] + [list(each) for each in combinations(range(5), 3)]

    def refused_at(roc):
        opened = OpenedColumns().after(700)
        for number, columns in enumerate(subsets):
            parties = own_tables((700, 500, 600), columns=columns)
            plan, rows = plan_of(parties, roc=roc), np.arange(700)
            found = rules(home_findings(plan, parties[0], Policy(answered=("roc", "few")), Before(opened, rows)))
            if any(verdict == "refused" for _, verdict in found):
                return number
            opened = opened.after(700).with_study(str(number), study_columns(plan, parties[0]), rows)
        return len(subsets)

    assert refused_at(5) < refused_at(0)


# --- between institutions ---------------------------------------------------------------------------------------------


def ranked(federation, csp, name):
    study = {"task": "glm", "family": "binomial", "label": "sex", "roc": 5, "components": None}
    return played(federation, csp, name, prepare={"columns": ["age", "bmi", "sbp"]}, **study)


def test_a_study_with_such_counts_waits_for_a_person_and_peers_learn_no_reason(tmp_path):
    with hospitals(tmp_path) as (federation, csp):
        job, why = ranked(federation, csp, "asked")
        assert job.state is JobState.BROKEN
        assert {failure.code for failure in job.failures} == {"FSVD-110"}
        assert not any(failure.text for failure in job.failures), "peers learn a code"
        assert "roc: how many of your cases and controls" in why


def test_a_person_who_is_withdrawn_between_two_such_studies_takes_others_along(tmp_path):
    with hospitals(tmp_path, answered=("roc",)) as (federation, csp):
        first, why = ranked(federation, csp, "before")
        assert first.state is JobState.DONE, why
        lay(federation, "a", clinic(1).drop(index=7))
        second, why = ranked(federation, csp, "after")
        assert second.state is JobState.DONE, why
        assert records(federation, first) == ROWS
        assert records(federation, second) <= ROWS - 5
