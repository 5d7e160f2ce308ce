"""One screen says one thing of the joint Gram matrix: what is opened, what is asked and what a mode says agree."""

import pytest
from tests.protocol.cases import CASES

from fedsvd.cli.approve import question
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.rules import Policy, findings
from fedsvd.protocol.openings import opened
from fedsvd.protocol.steps import What

DETERMINED = "does not determine"
HELD = "All parties will hold the joint Gram matrix"
PRODUCTS = {What.GRAM, What.PRODUCTS, What.VECTORS, What.COEFFICIENTS, What.CANONICAL, What.COMPONENTS}


@pytest.mark.parametrize("k", [pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("name", CASES)
def test_a_plan_says_one_thing_of_the_joint_gram_matrix(name, k):
    plan = CASES[name](k).assemble().plan
    lines, found = what_each_role_learns(plan), opened(plan)
    pooled = next((line for line in lines if "pool what they see" in line), "")
    asked = question([], plan)
    if (
        What.INFORMATION in found and What.TABLE not in found
    ):  # a model's information is no Gram matrix, and a regression's has few digits
        assert "digits" in pooled
        assert "digits" in asked
        assert plan.glm is None or "Gram" not in pooled + asked
    elif not found & PRODUCTS:  # neither are counts and sums
        assert "Gram" not in pooled + asked
    # Where parties open a sum, the CSP adds nothing to what one of them knows; where the CSP does, it adds all.
    if plan.mode is not None and found & {What.GRAM, What.INFORMATION, What.PRODUCTS}:
        assert "that party alone" in pooled
    elif "Gram" in pooled:
        assert "alone" not in pooled
    held = any(HELD in line for line in lines)
    said = [str(each) for each in findings(plan, Policy()) if DETERMINED in str(each)]
    assert held or not said  # what a release does not determine is said of what is held beyond it
