"""What inference reveals is in the ledger, and how many degrees of freedom it needs is a rule of the policy."""

import pytest

from fedsvd.errors import ReleaseRefused
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.policy_file import read_policy
from fedsvd.policy.rules import Policy, findings
from fedsvd.protocol.tasks import Item, Mode, Task
from fedsvd.studies.planning import Study, guard, plan_study
from fedsvd.tasks.declared import declared
from fedsvd.types import SessionId

INFERENCE = (*declared(Task.LR).released, Item.INFERENCE)


def planned(features=20, counts=(100, 100, 100), release=INFERENCE, **options):
    study = Study(Task.LR, targets=1, release=release, **options)
    identities = tuple(f"{i:064x}" for i in range(len(counts)))
    return plan_study(study, features, counts, SessionId("0" * 32), identities).plan


def rules(plan, policy=None):
    return {finding.rule for finding in findings(plan, policy or Policy())}


def test_the_ledger_says_who_holds_the_joint_gram_matrix_and_how_much_freedom_is_left():
    plan = planned()
    text = "\n".join(what_each_role_learns(plan))
    assert plan.mode is Mode.A
    assert "All parties will hold the joint Gram matrix of features and labels (21 x 21)" in text
    assert "standard errors, tests and intervals of all coefficients from that matrix" in text
    assert "300 records less 21 coefficients leave n - p = 279" in text
    assert "n - p" not in "\n".join(what_each_role_learns(planned(release=None)))


@pytest.mark.parametrize(
    ("features", "intercept", "below"), [(289, True, False), (290, True, True), (290, False, False)]
)
def test_fewer_records_beyond_the_coefficients_than_asked_for_are_below_the_policy(features, intercept, below):
    plan = planned(features, centre=intercept)
    assert ("freedom" in rules(plan)) == below
    assert "freedom" not in rules(planned(features, centre=intercept, release=None))
    assert "freedom" not in rules(plan, Policy(least_freedom=0))


def test_without_freedom_the_finding_says_that_the_fit_is_the_labels():
    (finding,) = (each for each in findings(planned(299), Policy()) if each.rule == "freedom")
    assert "n - p = 0, 10 are asked for" in finding.text
    assert "the fit is the labels themselves" in finding.text
    with pytest.raises(ReleaseRefused, match="n - p = 0"):
        guard(planned(299), Policy(enforce=True))


def test_inference_is_a_full_output_with_the_rules_of_one():
    assert rules(planned(counts=(150, 150))) == {"parties"}
    assert rules(planned(counts=(150, 150, 99))) == {"records"}
    assert rules(planned()) == set()


def test_consent_is_asked_where_the_release_does_not_determine_the_gram_matrix():
    (finding,) = findings(planned(alpha=1.0), Policy())
    assert finding.rule == "mode"
    assert "a ridge leaves no standard errors" in finding.text
    assert findings(planned(alpha=1.0), Policy(consent_to_gram=True)) == ()


def test_the_rule_is_a_line_of_the_policy_file(tmp_path):
    (tmp_path / "policy.toml").write_text("least_freedom = 50\n")
    policy = read_policy(tmp_path / "policy.toml")
    assert policy.least_freedom == 50
    assert "freedom" in rules(planned(260), policy)


def ledger(**options):
    return "\n".join(what_each_role_learns(planned(**options)))


def test_clusters_ask_for_four_parties():
    release = (*INFERENCE, Item.ROBUST)
    three, four = (planned(counts=(100,) * k, release=release, robust="cluster") for k in (3, 4))
    assert rules(three) == {"clusters"}
    assert rules(four) == set()
    assert rules(three, Policy(parties_for_clusters=3)) == set()
    assert "clusters" not in rules(planned(release=release, robust="HC3"))
    with pytest.raises(ReleaseRefused, match="three parties compute each other's sums of scores"):
        guard(three, Policy(enforce=True))


def test_the_ledger_says_what_robust_errors_open():
    release = (*INFERENCE, Item.ROBUST)
    text = ledger(release=release, robust="HC1")
    assert "the joint sum of squared scores (21 x 21)" in text
    assert "a record whose residual e dwarfs all others shows its features" in text
    own = "Clusters are each party's own: a name at two parties is two."
    assert own in ledger(release=release, robust="cluster")
    assert "how many there are; names of clusters are not sent" in ledger(release=release, robust="cluster")


def test_the_ledger_says_what_weights_and_refinement_open():
    assert "the sum of all weights, and of their logarithms" in ledger(weighted=True)
    assert "Where features are nearly dependent, two sums" in ledger()
    assert "nearly dependent" not in ledger(features=2000, counts=(2000, 2000, 2000)), (
        "beyond 1,024 features none is planned"
    )
    columns = planned(counts=(3, 4), features=500, release=None, split="vertical", label_user=1, weighted=True)
    assert "Every party has the weights of all rows" in "\n".join(what_each_role_learns(columns))


@pytest.mark.parametrize(
    ("by", "said"), [("loo", "squared errors of rows left out for each"), ("gcv", "penalties from")]
)
def test_a_ridge_path_asks_for_consent_to_hold_the_gram_matrix(by, said):
    release = (*declared(Task.LR).released, Item.RIDGE_PATH)
    plan = planned(release=release, alphas=(0.1, 1.0), chosen_by=by)
    (finding,) = findings(plan, Policy())
    assert (finding.rule, plan.mode) == ("mode", Mode.A)
    assert "a ridge is chosen among 2" in finding.text
    assert findings(plan, Policy(consent_to_gram=True)) == ()
    text = "\n".join(what_each_role_learns(plan))
    assert "the coefficients of all 2 penalties" in text
    assert said in text


def test_clusters_are_a_line_of_the_policy_file(tmp_path):
    (tmp_path / "policy.toml").write_text("parties_for_clusters = 6\n")
    assert read_policy(tmp_path / "policy.toml").parties_for_clusters == 6
