"""Bits opened against bits held: verdicts of plans, with counts and entropies that were computed by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from fedsvd.data.arrays import ArraySource
from fedsvd.policy.bits_held import Earlier, OwnBits, balance, bit_findings, most_bits
from fedsvd.policy.rules import ANY, Policy
from fedsvd.protocol.held import decided, held_bits
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.openings import expected_bits
from fedsvd.protocol.tasks import Family, Item, Split, Task
from fedsvd.studies.own_bits import findings_of_bits, measured_bits
from fedsvd.studies.parties import PartyData
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId

TABLE = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE)
ROBUST = (*TABLE, Item.ROBUST)
LOGIT = ModelPlan(Family.BINOMIAL, "logit", classes=2, digits=Digits.TABLE)


def planned(task, m, counts, **keys):
    labelled = {"targets": 1} if task in (Task.LR, Task.GLM) else {}
    return plan_study(Study(task, Split.HORIZONTAL, **labelled | keys), m, counts, SessionId("00" * 16)).plan


def party(rows, labels=None, names=None):
    own = None if labels is None else np.asarray(labels, dtype=float).reshape(len(rows), -1)
    return PartyData(ArraySource(np.asarray(rows, dtype=float), names), labels=own)


def verdict(found):
    return "refused" if any(each.below for each in found) else "asks" if found else "fine"


# --- what is opened ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "numbers"),
    [
        (planned(Task.LR, 10, (150, 150, 142), release=TABLE), 11 + 66),  # means, Gram matrix of ten columns and label
        (planned(Task.LR, 10, (150, 150, 142), release=ROBUST, robust="HC3"), 11 + 66 + 66),  # and of eleven scores
        (planned(Task.PCA, 13, (60, 60, 58)), 13 + 78 + 1),  # means, 13 orthonormal columns, the variance
        (planned(Task.SVD, 30, (200, 200, 169)), 465),  # a Gram matrix, from which all follows
    ],
)
def test_bits_of_a_study_are_those_of_its_free_numbers(plan, numbers):
    assert 53 * numbers <= expected_bits(plan) <= 53 * numbers + 60


def test_bits_of_a_mixed_model_are_those_of_subjects_with_all_their_rows():
    """Sex does not change in a person, and counts once; the number of visits is 4, so that a quarter of the rows are
    records, each with the bits of four years of visits."""
    about = ModelPlan(Family.MIXED, "identity", digits=Digits.TABLE)
    plan = planned(Task.MIXED, 2, (400, 400, 200), glm=about, targets=2)
    person = np.repeat(np.arange(100), 4)
    rows = np.column_stack((np.arange(100)[person] % 2, np.tile(np.arange(4), 100)))
    own = measured_bits(plan, party(rows, np.column_stack((np.arange(400.0), person)), ("sex", "year")))
    assert own.rows_each == 4.0
    assert own.columns["sex"] == pytest.approx(1.0, abs=0.01)
    assert own.columns["year"] == pytest.approx(4 * 2.0, abs=0.05)
    found = balance(plan, own)
    assert found.outside == (400 + 200) // 4
    assert found.held == pytest.approx(held_bits(150, own.record))


def test_bits_of_models_are_the_formulas_of_the_specification():
    counts = (150, 100, 100)
    assert expected_bits(planned(Task.GLM, 8, counts, glm=LOGIT)) == 160 * 9 + 24 * 90 + 200
    every = replace(LOGIT, digits=Digits.ALL)
    assert expected_bits(planned(Task.GLM, 8, counts, glm=every)) == 53 * 8 * 55


# --- verdicts ---------------------------------------------------------------------------------------------------------

PLAN = planned(Task.GLM, 8, (150, 100, 100), glm=LOGIT)  # opens 3,800 bits


def test_records_outside_are_those_without_the_largest_other_party():
    assert balance(PLAN, OwnBits(150, {"x": 20.0})).outside == 250
    assert balance(PLAN, OwnBits(100, {"x": 20.0})).outside == 200
    assert balance(PLAN, OwnBits(100, {"x": 20.0})).held == held_bits(200, 20.0)


@pytest.mark.parametrize(("ratio", "said"), [(1.49, "fine"), (1.51, "asks"), (2.99, "asks"), (3.01, "refused")])
def test_numbers_are_judged_by_the_ratio(ratio, said):
    low, high = 10.0, 60.0
    for _ in range(60):
        h = (low + high) / 2.0
        low, high = (h, high) if 3800.0 / held_bits(200, h) > ratio else (low, h)
    assert verdict(bit_findings(PLAN, OwnBits(100, {"x": h}), Policy())) == said


@pytest.mark.parametrize(("rare", "said"), [(0, "fine"), (1, "asks"), (20, "asks"), (21, "refused")])
def test_columns_of_few_values_are_judged_by_rare_patterns(rare, said):
    own = OwnBits(100, {"x": 6.0}, few=("sex", "hiv"), listed=True, rare=rare)
    found = bit_findings(PLAN, own, Policy())
    assert verdict(found) == said
    if rare:
        assert f"{rare} of your 100 records are in combinations of fewer than 5" in found[0].text
        assert "'sex', 'hiv'" in found[0].text


def test_few_values_that_hold_more_than_is_opened_are_fine_whatever_their_patterns():
    plan = planned(Task.GLM, 8, (2122, 2122, 2122), glm=LOGIT)
    assert verdict(bit_findings(plan, OwnBits(2122, {"x": 17.0}, listed=True, rare=2000), Policy())) == "fine"


def test_patterns_that_no_one_can_list_are_judged_by_the_ratio():
    """300 genotypes: that each record is the only one of its kind says nothing."""
    plan = planned(Task.PCA, 300, (240, 240, 240), components=2)
    assert verdict(bit_findings(plan, OwnBits(240, {"x": 300.0}, listed=True, rare=240), Policy())) == "fine"


def test_earlier_studies_of_the_same_columns_count():
    own, same = OwnBits(100, {"x": 10.0, "z": 15.0}), Earlier(3800, {"x": 10.0})
    assert verdict(bit_findings(PLAN, own, Policy())) == "fine"
    assert verdict(bit_findings(PLAN, own, Policy(), [same])) == "asks"
    assert verdict(bit_findings(PLAN, own, Policy(), [same] * 4)) == "refused"


def test_earlier_studies_of_other_columns_count_with_what_these_hold():
    """20,000 bits of 200 other columns are no more than those hold; of one more column they would be too many."""
    own = OwnBits(100, {"x": 10.0, "z": 15.0})
    wide = {f"x{j}": 8.0 for j in range(200)}
    assert verdict(bit_findings(PLAN, own, Policy(), [Earlier(20_000, wide)])) == "fine"
    assert verdict(bit_findings(PLAN, own, Policy(), [Earlier(20_000, {"w": 8.0})])) == "refused"


def test_a_policy_may_allow_any_opening():
    own = OwnBits(100, {"x": 2.0}, listed=True, rare=100)
    assert verdict(bit_findings(PLAN, own, Policy())) == "refused"
    assert bit_findings(PLAN, own, Policy(openings=ANY)) == ()


PER_RECORD = {
    "CCA by the CSP": Study(Task.CCA, Split.VERTICAL),
    "CCA by the users": Study(Task.CCA, Split.VERTICAL, components=1, scheme="sum", mode="A"),
    "predictions": Study(Task.PREDICT, Split.VERTICAL, targets=1, label_user=1),
}


@pytest.mark.parametrize("study", PER_RECORD.values(), ids=PER_RECORD)
def test_a_number_for_each_record_always_asks_and_names_columns_of_few_values(study):
    plan = plan_study(study, 400, (2, 3), SessionId("00" * 16)).plan
    rng = np.random.default_rng(2)
    rows = np.column_stack((rng.integers(0, 2, 400), rng.normal(size=400)))
    found = findings_of_bits(plan, party(rows, names=("hiv", "weight")), Policy())
    assert verdict(found) == "asks"
    assert "'hiv'" in found[0].text
    assert "weight" not in found[0].text


# --- measured at home -------------------------------------------------------------------------------------------------


def test_labels_are_columns_where_products_of_scores_are_opened():
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 10, (100, 1)), rng.integers(0, 10, 100)
    plain = measured_bits(planned(Task.LR, 1, (100, 100, 100), release=TABLE), party(x, y))
    robust = measured_bits(planned(Task.LR, 1, (100, 100, 100), release=ROBUST, robust="HC0"), party(x, y))
    assert plain.rare == 0
    assert robust.rare > 80
    assert math.isclose(robust.record, plain.record + 3.3, abs_tol=0.2)


def test_diabetes_is_fine_at_three_sites():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    plan = planned(Task.LR, 10, (148, 147, 147), release=TABLE)
    assert findings_of_bits(plan, party(X[:148], y[:148]), Policy()) == ()


def test_a_few_rows_of_numbers_are_no_columns_of_few_values():
    rng = np.random.default_rng(4)
    plan = planned(Task.LR, 3, (17, 17, 17), release=TABLE)
    own = measured_bits(plan, party(rng.normal(size=(17, 3)), rng.normal(size=17)))
    assert not own.listed
    assert own.record == 24.0


# --- digits -----------------------------------------------------------------------------------------------------------


def test_auto_takes_all_digits_where_they_are_a_quarter_of_what_is_held_and_else_fewer():
    about = replace(LOGIT, digits=Digits.AUTO)
    for counts, described, digits in (
        ((10**6, 10**6, 10**6), 60.0, Digits.ALL),  # 23,320 of 100 million bits
        ((1000, 1000, 1000), 12.0, Digits.TABLE),
        ((2000, 2000, 2000), 16.0, Digits.MORE),
        ((150, 100, 100), None, Digits.TABLE),
    ):
        assert decided(about, 8, True, counts, described).digits is digits
    assert decided(about, 8189, True, (150, 100, 100)).digits is Digits.TABLE
    assert decided(about, 8190, True, (150, 100, 100)).digits is Digits.ALL  # 128 x 8,193 words are more than one batch
    quarter = 0.25 * held_bits(4000, 16.0)
    assert 160 * 9 + 29 * 90 + 200 <= quarter < 53 * 8 * 55


# --- what a party lets a session open ---------------------------------------------------------------------------------


def test_a_party_ends_a_session_where_its_verdict_would_have_been_another():
    """350 records, of which 200 are outside of the largest: 3 times held, or what is expected where that is more."""
    plan, policy = planned(Task.GLM, 4, (150, 100, 100), glm=LOGIT), Policy()
    expected = 160 * 5 + 24 * 30 + 200
    numbers = OwnBits(100, {"a": 8.0, "b": 8.0, "c": 1.0, "d": 1.0})
    held = held_bits(200, 18.0)
    assert math.isclose(most_bits(plan, numbers, policy), 3.0 * held)
    assert 3.0 * held > expected
    assert math.isclose(most_bits(plan, numbers, policy, [Earlier(1000, {})]), 3.0 * held - 1000)
    assert most_bits(plan, numbers, policy, [Earlier(10**6, {})]) == expected
    assert most_bits(plan, numbers, replace(policy, openings=ANY)) == math.inf
    assert most_bits(planned(Task.SVD, 4, (150, 100, 100)), numbers, policy) == math.inf  # nothing is found on the way
    many = planned(Task.GLM, 4, (9000, 9000, 9000), glm=LOGIT)
    codes = OwnBits(9000, {"a": 4.0, "b": 4.0, "c": 4.0, "d": 4.0}, listed=True, rare=3)
    assert math.isclose(most_bits(many, codes, policy), held_bits(18_000, 16.0))
    assert most_bits(many, replace(codes, rare=0), policy) == math.inf
    released = replace(codes, records=100, columns=dict.fromkeys("abcd", 3.0))  # which was asked about, or refused
    assert most_bits(plan, released, policy) == math.inf


def test_numbers_of_labels_are_granted_besides_what_is_judged():
    plan = planned(Task.LR, 4, (150, 100, 100), release=TABLE, digits=Digits.TABLE)
    own = OwnBits(100, {"a": 8.0, "b": 8.0, "c": 1.0, "d": 1.0})
    assert math.isclose(most_bits(plan, own, Policy()), 3.0 * held_bits(200, 18.0) + (32 + 80 * 5 + 40))
