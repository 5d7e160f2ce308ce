"""What steps declare that they open is what a session opens, and what is said of it follows from that alone."""

import ast
import inspect
import warnings
from dataclasses import replace

import pytest
from tests.protocol.cases import CASES, FREE, pca, predict, svd
from tests.protocol.test_step_messages import decided_by_data

from fedsvd.cost.traffic import expected_steps
from fedsvd.errors import PrivacyWarning
from fedsvd.policy import learned, sent, sentences
from fedsvd.policy.rules import what_each_role_learns
from fedsvd.protocol.messages import SumReply
from fedsvd.protocol.openings import NUMBER, Opening, Per, To, opened, openings, totals
from fedsvd.protocol.parties import user
from fedsvd.protocol.steps import SUMS, StepKind, What, listed, wide
from fedsvd.protocol.tasks import Mode


def most(plan):
    return totals(openings(plan, listed(plan.steps)))


@pytest.mark.parametrize("name", list(CASES))
def test_every_sum_says_what_it_opens_but_for_words_that_are_uniform(name):
    steps = listed(CASES[name]().assemble().plan.steps)
    silent = [step.name for step in steps if step.kind in SUMS and step.kind is not StepKind.SHARED and not step.what]
    assert silent == []


@pytest.mark.parametrize("name", [name for name in CASES if name not in FREE])
def test_numbers_that_a_user_opens_are_those_that_its_steps_declare(name):
    """Counted in the replies that user 1 received; each row of a payload is one number, or a flag.

    A bound of a foreign task is declared as one number, the class that its flags show. So is each size of a model by
    few digits: 128 flags of powers of two.
    """
    warnings.simplefilter("ignore", PrivacyWarning)
    session = CASES[name]()
    session.run()
    steps = [step for step in expected_steps(session.plan, decided_by_data(session)) if step.kind in SUMS]
    shared = {step.name for step in steps if step.kind is StepKind.SHARED}
    declared = sum(each.numbers for each in openings(session.plan, steps) if each.to is To.USERS)
    replies = [m for _, to, m in session.sent if isinstance(m, SumReply) and to == user(1) and m.name not in shared]
    private = {step.name for step in steps if step.to}
    classes = {step.name for step in steps if step.what is What.DECLARED and step.kind is StepKind.BOUND}
    sizes = {step.name for step in steps if step.what is What.SIZES}
    rows = [(reply.name, len(reply.payload)) for reply in replies if reply.name not in private]
    numbers = [1 if name in classes else count // 128 if name in sizes else count for name, count in rows]
    assert declared == sum(numbers)


@pytest.mark.parametrize("name", FREE)
def test_sums_that_the_data_asks_for_are_as_long_as_their_steps(name):
    warnings.simplefilter("ignore", PrivacyWarning)
    session = CASES[name]()
    session.run()
    evaluations = [step for step in session.plan.steps if step.body]  # one of each model of the study
    sizes = {(step.name, step.size) for evaluation in evaluations for step in listed(evaluation.body)}
    lengths = {name for name, _ in sizes}
    replies = [m for _, to, m in session.sent if isinstance(m, SumReply) and to == user(1)]
    played = [(reply.name.rsplit(" ", 1)[0], len(reply.payload)) for reply in replies]
    found = [(name, length) for name, length in played if name in lengths]
    assert len(found) > 10
    assert set(found) <= sizes


@pytest.mark.parametrize("name", list(CASES))
def test_what_is_expected_is_never_more_than_the_most(name):
    warnings.simplefilter("ignore", PrivacyWarning)
    session = CASES[name]()
    session.run()
    plan, bound = session.plan, most(session.plan)
    for key, (_, bits) in totals(openings(plan, expected_steps(plan, decided_by_data(session)))).items():
        assert bits <= bound[key][1]


def test_in_mode_a_users_open_a_triangle_and_the_csp_nothing():
    plan = svd().assemble().plan
    assert plan.mode is Mode.A
    found = most(plan)
    assert found[What.GRAM, To.USERS] == (4 * 5 // 2, 10 * NUMBER)
    assert not any(to is To.CSP for _, to in found)


def test_in_mode_b_the_csp_sees_ratios_and_no_user_the_gram_matrix():
    found = most(pca().assemble().plan)
    assert found[What.RATIOS, To.CSP][0] == 4
    assert What.GRAM not in {what for what, _ in found}
    assert found[What.VECTORS, To.USERS] == (4 * 2, 8 * NUMBER)


def test_scores_are_of_records_and_go_to_one_user():
    plan = predict().assemble().plan
    assert Opening(What.SCORES, To.ONE, 5, NUMBER, Per.RECORD) in list(openings(plan, listed(plan.steps)))


def test_what_follows_from_a_gram_matrix_opens_no_more():
    plan = svd().assemble().plan
    assert most(plan)[What.VECTORS, To.USERS][1] == 0


def test_a_sentence_follows_from_a_step_whatever_the_task():
    """An SVD whose plan also sums means is said to show them."""
    plan = svd().assemble().plan
    more = replace(plan, steps=(wide("mean", plan.m, What.MEAN), *plan.steps))
    mean = "Every party learns the joint mean of each of the 4 features."
    assert mean not in what_each_role_learns(plan)
    assert mean in what_each_role_learns(more)
    assert opened(more) - opened(plan) == {What.MEAN}


@pytest.mark.parametrize("module", [sentences, learned, sent])
def test_no_sentence_asks_for_a_task(module):
    asked = [node.attr for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Attribute)]
    assert "task" not in asked
