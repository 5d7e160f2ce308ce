"""What the ledger says of the sum family is what docs/threat-model.md says, role by role."""

import pytest

from fedsvd.policy.learned import what_each_role_learns
from fedsvd.protocol.tasks import Item, Mode, Split, Task, Trust
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId


def told(task=Task.SVD, k=3, **options):
    study = Study(task, Split.HORIZONTAL, **options)
    members = k + (study.trust is Trust.AUTHORITY)
    identities = tuple(f"{i:064x}" for i in range(members))
    plan = plan_study(study, 20, (100,) * k, SessionId("0" * 32), identities).plan
    return plan, "\n".join(what_each_role_learns(plan))


def test_in_mode_a_the_csp_learns_shapes_and_the_parties_open_the_joint_gram_matrix():
    plan, text = told()
    assert plan.mode is Mode.A
    assert "nothing of the data" in text
    assert "ratios" not in text
    assert "All parties will hold the joint Gram matrix (20 x 20)" in text


def test_in_mode_b_the_csp_learns_ratios_and_no_party_the_joint_gram_matrix():
    plan, text = told(Task.PCA, components=3)
    assert plan.mode is Mode.B
    assert "ratios of the singular values; nothing else of the data" in text
    assert "the joint Gram matrix" not in text
    plan, text = told(Task.LR, targets=1)
    assert plan.mode is Mode.B
    assert "coefficients plus a secret shift" in text


@pytest.mark.parametrize(
    ("k", "left"),
    [(2, "which opens the totals: the Gram matrix of the other"), (3, "no single one while two of these")],
)
def test_a_coalition_with_the_csp_learns_a_sum_over_the_honest_and_may_alter_totals(k, left):
    _, text = told(k=k)
    assert left in text
    assert "lying together, they can alter totals" in text


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, "it adds nothing to this plan"),
        ({"components": 2}, "could compute the joint Gram matrix, and alter no sum"),
        ({"components": 2, "scheme": "mask"}, "could compute every party's Gram matrix, and alter no sum"),
    ],
)
def test_an_authority_with_the_csp_opens_what_the_csp_sees_and_forges_nothing(options, line):
    task = Task.PCA if options else Task.SVD
    _, text = told(task, trust=Trust.AUTHORITY, **options)
    assert line in text


def test_the_release_decides_who_opens_the_sum():
    plan, _ = told(release=(Item.COMPONENTS, Item.SPECTRUM))
    assert plan.mode is Mode.A
