"""What may come next in a session: the automaton over the steps of a plan, and what it refuses."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsvd.errors import ConfigError, LocalProtocolError
from fedsvd.protocol.played import Pair, Played
from fedsvd.protocol.steps import (
    SUMS,
    PlannedStep,
    StepKind,
    bound,
    from_user_1,
    listed,
    maybe,
    repeat,
    step_of,
    total,
    wide,
)

EVALUATED = (repeat("evaluation", 3, wide("totals", 4), maybe("it fell", total("gram", 6), from_user_1("answer", 8))),)
EXCHANGED = {"sets": ((Pair(1, 10, True), Pair(2, 20, True)), (Pair(1, 11, False),))}


def played(steps, *names, exchanges=None):
    found = Played(steps, exchanges or {})
    for name in names:
        found.advance((*SUMS, StepKind.FROM_USER_1), name)
    return found


def test_steps_are_played_in_their_order():
    steps = (bound("bound"), total("norm", 1), from_user_1("answer", 8))
    played(steps, "bound", "norm", "answer").expect_end()


@pytest.mark.parametrize("names", [("norm",), ("bound", "bound"), ("bound", "answer"), ("bound", "norm", "norm")])
def test_what_is_not_next_is_refused(names):
    with pytest.raises(LocalProtocolError):
        played((bound("bound"), total("norm", 1), from_user_1("answer", 8)), *names)


def test_a_session_that_stops_before_its_last_step_is_refused():
    with pytest.raises(LocalProtocolError, match="norm"):
        played((bound("bound"), total("norm", 1)), "bound").expect_end()


@pytest.mark.parametrize(
    "names",
    [
        (),
        ("totals 1",),
        ("totals 1", "gram 1", "answer 1"),
        ("totals 1", "totals 2", "gram 2", "answer 2", "totals 3"),
    ],
)
def test_rounds_are_as_many_as_are_needed_and_each_may_leave_out_what_the_data_decides(names):
    played(EVALUATED, *names).expect_end()


@pytest.mark.parametrize(
    "names",
    [
        ("totals 2",),
        ("gram 1",),
        ("totals 1", "gram 1", "totals 2"),
        ("totals 1", "gram 2"),
        ("totals 1", "totals 2", "totals 3", "totals 4"),
    ],
)
def test_a_round_out_of_turn_and_one_too_many_are_refused(names):
    with pytest.raises(LocalProtocolError):
        played(EVALUATED, *names)


RESUMED = (bound("held"), replace(EVALUATED[0], resumes=True), wide("end", 1))


@pytest.mark.parametrize(
    "names", [("end",), ("totals 1", "end"), ("totals 2", "gram 2", "answer 2", "totals 3", "end")]
)
def test_a_repetition_that_may_be_resumed_begins_with_any_round_and_goes_on_in_turn(names):
    played(RESUMED, "held", *names).expect_end()


@pytest.mark.parametrize(
    "names",
    [("totals 4",), ("totals 0",), ("gram 2",), ("totals 2", "totals 2"), ("totals 1", "totals 3"), ("totals x",)],
)
def test_a_resumed_round_that_there_is_not_and_one_out_of_turn_are_refused(names):
    with pytest.raises(LocalProtocolError):
        played(RESUMED, "held", *names)


def test_each_direction_of_an_exchange_has_its_own_order():
    gives, takes = EXCHANGED["sets"]
    steps = (PlannedStep("sets", StepKind.EXCHANGE), total("norm", 1))
    for order in ((*gives, *takes), (*takes, *gives), (gives[0], takes[0], gives[1])):
        found = Played(steps, EXCHANGED)
        for pair in order:
            found.exchange(pair)
        found.advance(SUMS, "norm")


@pytest.mark.parametrize("pair", [Pair(2, 20, True), Pair(1, 9, True), Pair(1, 10, False), Pair(2, 11, False)])
def test_a_sealed_message_to_another_user_or_of_another_length_is_refused(pair):
    with pytest.raises(LocalProtocolError):
        Played((PlannedStep("sets", StepKind.EXCHANGE),), EXCHANGED).exchange(pair)


def test_an_exchange_is_not_left_before_it_is_over():
    found = Played((PlannedStep("sets", StepKind.EXCHANGE), total("norm", 1)), EXCHANGED)
    found.exchange(EXCHANGED["sets"][0][0])
    with pytest.raises(LocalProtocolError):
        found.advance(SUMS, "norm")


def bodies():
    names = st.sampled_from(["mean", "norm", "energy", "eigen"])
    sums = st.builds(wide, names, st.integers(1, 9))
    inner = st.lists(sums, min_size=1, max_size=3)
    maybes = inner.map(lambda body: maybe("why", *body))
    repeats = st.tuples(st.integers(1, 3), inner).map(lambda pair: repeat("round", pair[0], *pair[1]))
    return st.lists(st.one_of(sums, maybes, repeats), min_size=1, max_size=5).map(tuple)


@given(bodies())
def test_every_listed_step_in_order_is_a_session(steps):
    """All bodies, all rounds: what the CSP sets up sums for can be played as it is listed."""
    found = Played(steps, {})
    for step in listed(steps):
        found.advance(SUMS, step.name)
    found.expect_end()
    assert [step.name for step in found.steps] == [step.name for step in listed(steps)]


@given(bodies())
def test_steps_are_restored_from_their_fields(steps):
    from dataclasses import asdict

    assert tuple(step_of(asdict(step)) for step in steps) == steps


@pytest.mark.parametrize("wrong", [{"name": ""}, {"size": 0}, {"times": 0}, {"kind": StepKind.MAYBE}])
def test_a_step_without_a_name_a_size_or_a_body_is_none(wrong):
    with pytest.raises(ConfigError):
        PlannedStep(**{"name": "norm", "kind": StepKind.TOTAL, **wrong})
