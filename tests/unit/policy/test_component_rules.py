"""What rules for components, CCA and PCR show is in the ledger, and the counts that matter are rules of the policy."""

from dataclasses import replace

import pytest

from fedsvd.errors import ReleaseRefused
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.rules import Policy, findings
from fedsvd.policy.sent import leaves_each_site
from fedsvd.protocol.steps import StepKind, listed
from fedsvd.protocol.tasks import Item, Mode, Split, Task
from fedsvd.studies.planning import guard, plan_study
from fedsvd.studies.study import Study
from fedsvd.tasks.declared import declared
from fedsvd.types import SessionId

SPECTRUM = (*declared(Task.PCA).released, Item.SPECTRUM)


def planned(task, m, counts, **options):
    split = Split.VERTICAL if task is Task.CCA else Split.HORIZONTAL
    identities = tuple(f"{i:064x}" for i in range(len(counts)))
    return plan_study(Study(task, split, **options), m, counts, SessionId("0" * 32), identities).plan


def rules(plan, policy=None):
    return {finding.rule for finding in findings(plan, policy or Policy())}


def ledger(plan):
    return "\n".join(what_each_role_learns(plan))


def pca(rule, counts=(150, 150, 150)):
    return planned(Task.PCA, 20, counts, components_by=rule, release=SPECTRUM)


@pytest.mark.parametrize("rule", ["0.95", "mle", "gavish-donoho", "parallel"])
def test_a_rule_is_in_the_plan_and_the_ledger_and_is_a_full_output(rule):
    plan = pca(rule)
    assert plan.components_by == rule
    assert plan.components is None
    assert plan.mode is Mode.A
    assert "Every party gets U and S with 20 of 20 components" in ledger(plan)
    assert f"takes the first at home, as many as the rule says: {rule}" in ledger(plan)
    assert ("Gram matrices of tables whose columns every party permuted" in ledger(plan)) == (rule == "parallel")
    assert rules(pca(rule, (150, 150))) == {"parties"}
    assert rules(pca(rule, (150, 150, 99))) == {"records"}
    assert rules(plan) == set()
    assert rules(plan, Policy(most_components=10)) == {"components"}


def test_permuted_columns_of_a_handful_of_records_are_warned_of():
    (finding,) = findings(pca("parallel", (150, 150, 9)), Policy())
    assert "permuted columns can give the values of each column away" in finding.text
    (finding,) = findings(pca("mle", (150, 150, 9)), Policy())
    assert "permuted" not in finding.text


def test_the_ledger_of_canonical_correlations_says_what_each_party_computes_of_the_other():
    text = ledger(planned(Task.CCA, 500, (8, 1)))
    assert "Every party gets the first 1 canonical correlations" in text
    assert "With two parties, each can compute the other's scores of every record" in text
    assert "Party 2 has one column: the other can compute it but for its mean and its scale" in text
    assert "the CSP learns the first 1 canonical correlations" in text
    text = ledger(planned(Task.CCA, 500, (8, 3)))
    assert "Party 2 has 3 columns, and the other can compute the space that they span" in text
    assert "Party 1 has 8 columns" not in text
    few = ledger(planned(Task.CCA, 500, (8, 3), components=2))
    assert "the space that they span" not in few
    several = ledger(planned(Task.CCA, 500, (8, 3, 4)))
    assert "the sum of the others' scores of every record" in several


def test_two_parties_of_a_cca_ask_for_consent():
    plan = planned(Task.CCA, 5000, (100, 100))
    assert rules(plan) == {"parties"}
    assert rules(plan, Policy(consent_to_two=True)) == set()
    with pytest.raises(ReleaseRefused, match="either can compute the other's scores of every record"):
        guard(plan, Policy(enforce=True))


@pytest.mark.parametrize(
    ("counts", "components", "expected"),
    [
        ((150, 120, 130), None, set()),
        ((150, 99, 130), None, {"records"}),
        ((150, 99, 130), 5, set()),
        ((150, 9, 130), 5, {"records"}),
    ],
)
def test_all_variables_of_a_table_need_more_columns_than_a_few(counts, components, expected):
    assert rules(planned(Task.CCA, 5000, counts, components=components)) == expected


@pytest.mark.parametrize(("rows", "below"), [(411, False), (410, True), (300, True)])
def test_a_cca_needs_rows_beyond_its_columns(rows, below):
    plan = planned(Task.CCA, rows, (150, 120, 130))
    assert ("freedom" in rules(plan)) == below
    assert "freedom" not in rules(plan, Policy(least_freedom=0))


def test_a_regression_on_components_holds_the_joint_gram_matrix_by_consent():
    plan = planned(Task.PCR, 20, (150, 150, 150), components=3, targets=1)
    assert plan.mode is Mode.A
    text = ledger(plan)
    assert "All parties will hold the joint Gram matrix of features and labels (21 x 21)" in text
    assert "components of the features (the first 3)" in text
    assert rules(plan) == {"mode"}
    assert rules(plan, Policy(consent_to_gram=True)) == set()
    few = planned(Task.PCR, 20, (10, 10, 10), components=3, targets=1)
    assert {"records", "freedom"} <= rules(few, Policy(consent_to_gram=True))


def test_what_is_computed_from_the_joint_gram_matrix_alone_says_that_parties_hold_it():
    """A task that opens the matrix and sends nothing on: no sentence on vectors or coefficients names it then."""
    asked = planned(Task.PCR, 5, (150, 150, 150), components=2, targets=1)
    kept = tuple(step for step in asked.steps if step.kind is not StepKind.FROM_USER_1)
    alone = replace(asked, steps=kept)
    assert "the joint Gram matrix of features and labels (6 x 6)" in ledger(alone)
    assert any("from which it follows" in str(finding) for finding in findings(alone, Policy()))
    assert "mode" not in rules(alone, Policy(consent_to_gram=True))
    assert any("from party 1" in line for line in leaves_each_site(asked))
    assert not any("from party 1" in line for line in leaves_each_site(alone))


def test_a_policy_may_forbid_the_new_tasks():
    allowed = Policy(tasks=(Task.SVD, Task.PCA))
    assert "task" in rules(planned(Task.CCA, 500, (8, 3)), allowed)
    assert "task" in rules(planned(Task.PCR, 20, (150, 150), components=3, targets=1), allowed)


def test_what_a_cca_opens_to_show_the_order_is_in_its_ledger():
    plan = planned(Task.CCA, 500, (60, 60), components=2, mode=Mode.B, scheme="sum")
    assert any(step.name == "order 1" for step in listed(plan.steps))
    assert "every party sees the joint Gram matrix outside of U" in ledger(plan)
