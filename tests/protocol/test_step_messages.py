"""The messages that follow from the steps of a plan are those of a session, one by one."""

import warnings
from collections import Counter
from dataclasses import replace

import pytest
from tests.protocol.cases import CASES, FREE, lr_vertical

from fedsvd.cost import traffic
from fedsvd.cost.traffic import Expected, full_rank, messages_of
from fedsvd.errors import PrivacyWarning
from fedsvd.protocol.messages import Solution, size
from fedsvd.protocol.parties import user
from fedsvd.protocol.tasks import Scheme


def counted(messages):
    """How often each message goes from whom to whom, by its kind, its sum and its bytes."""
    found = Counter()
    for origin, to, message, times in messages:
        found[origin, to, type(message).__name__, getattr(message, "name", ""), size(message)] += times
    return found


def decided_by_data(session):
    """The rank that the CSP found, and the iterations that a model took."""
    ranks = [message.rank for *_, message in session.sent if isinstance(message, Solution)]
    expected = Expected(ranks[0] if ranks else full_rank(session.plan))
    models = getattr(session.results[user(1)], "models", None)
    if session.plan.scheme is Scheme.STEPS:
        names = session.machines[user(1)].played
        crossed = Counter(int(name.rsplit(" ", 1)[1]) for name in names if "cross" in name)
        return replace(expected, passes=tuple(crossed[step] for step in range(len(crossed))))
    return expected if session.plan.glm is None else replace(expected, iterations=models[0].iterations)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", [name for name in CASES if name not in FREE])
def test_the_messages_of_a_session_follow_from_the_steps_of_its_plan(name, k):
    warnings.simplefilter("ignore", PrivacyWarning)
    session = CASES[name](k)
    session.run()
    planned = counted(messages_of(session.plan, decided_by_data(session)))
    assert planned == counted((*sent, 1) for sent in session.sent)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", FREE)
def test_no_message_is_sent_that_the_steps_of_a_plan_do_not_have(name, k, monkeypatch):
    """Where the data decides which steps are played, each of them is one of the plan, of its length."""
    warnings.simplefilter("ignore", PrivacyWarning)
    session = CASES[name](k)
    session.run()
    plan, expected = session.plan, decided_by_data(session)
    every = [set() for _ in range(plan.glm.evaluations)]
    monkeypatch.setattr(traffic, "evaluations_of", lambda *_: iter(every))
    planned = counted(messages_of(plan, expected))
    assert not counted((*sent, 1) for sent in session.sent) - planned


def test_a_step_that_is_left_out_of_the_plan_leaves_out_its_messages():
    plan = lr_vertical().assemble().plan
    without = replace(plan, steps=tuple(step for step in plan.steps if step.name != "intercept"))
    expected = Expected(full_rank(plan))
    lost = counted(messages_of(plan, expected)) - counted(messages_of(without, expected))
    assert {(kind, name) for _, _, kind, name, _ in lost} == {("SumShare", "intercept"), ("SumReply", "intercept")}
    assert lost.total() == 2 * plan.k
