"""The role tables are the law: every (state, message, sender) they do not list aborts and changes nothing.

No triple is left out. For every state that a role can be in, a real session is stopped there, and every kind of message
is said to it by every party and by a stranger, with content that was valid where it was said first.
"""

from collections import defaultdict
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.engine.simulate import Simulation
from fedsvd.errors import LocalProtocolError, PeerAborted, PlanMismatch, UnexpectedMessage
from fedsvd.protocol import messages, relayed
from fedsvd.protocol.machine import Abort, Computed
from fedsvd.protocol.messages import Aborted, Begin, Message, SumShare
from fedsvd.protocol.parties import CSP, TA, Party, user
from fedsvd.protocol.sums import order_sums, planned_sums
from fedsvd.protocol.tasks import Item, Scheme, Task
from fedsvd.roles import trusted_authority
from fedsvd.roles.service_provider import role as service_provider
from fedsvd.roles.user import role as user_role
from fedsvd.testing.federation import shuffled, starving
from fedsvd.transport.loopback import Hub
from fedsvd.types import Digest

from .cases import CASES, LEAST, Federation
from .stage import held, in_state, stop

KINDS = [kind for kind in vars(messages).values() if isinstance(kind, type) and issubclass(kind, Message)]
KINDS.remove(Message)
ROLES = {
    "ta": (trusted_authority.TrustedAuthority, trusted_authority.State, TA),
    "csp": (service_provider.ServiceProvider, service_provider.State, CSP),
    "user 1": (user_role.User, user_role.State, user(1)),
    "user 2": (user_role.User, user_role.State, user(2)),
}
LIVE = [
    (name, state)
    for name, (_, states, _) in ROLES.items()
    for state in states
    if state.name not in ("DONE", "ABORTED")
    and (name, state.name) not in {("user 1", "RELAYING")}  # user 1 decides, the others wait
]
OUTSIDE = user(3)  # all these federations have two users
SENDERS = (CSP, TA, user(1), user(2), OUTSIDE)


@contextmanager
def gathering(so: bool):
    """Rounds of messages to all are handed out together, as among many users."""
    usual, relayed.GATHERED_FROM = relayed.GATHERED_FROM, 2 if so else relayed.GATHERED_FROM
    try:
        yield
    finally:
        relayed.GATHERED_FROM = usual


@cache
def spoken() -> dict[type[Message], Message]:
    """One message of every kind, as it was said in some session."""
    found: dict[type[Message], Message] = {
        Begin: Begin(Digest("")),
        Aborted: Aborted(Digest(""), "FSVD-300", "aggregating"),
    }
    for name in (*LEAST, "gathered"):
        with gathering(name == "gathered"):
            federation = CASES["svd" if name == "gathered" else name]()
            federation.run()
        for _, _, message in federation.sent:
            found.setdefault(type(message), message)
    assert set(found) == set(KINDS)
    return found


@cache
def with_a_ta_first() -> list[str]:
    """All cases, of each trust the least set first: it has every state, so that few sessions are played to the end."""
    return sorted(CASES, key=lambda name: (CASES[name]().assemble().plan.trust.value, name not in LEAST))


@cache
def reaching(party: Party, state) -> str:
    """A case in which ``party`` is in ``state``, about to hear something; with a TA where there can be one."""
    return next(name for name in with_a_ta_first() if stop(CASES[name](), in_state(party, state)) is not None)


def stopped_in(party: Party, state) -> Federation:
    """Such a federation, stopped there."""
    federation = CASES[reaching(party, state)]()
    assert stop(federation, in_state(party, state)) is not None
    return federation


def listed(machine, sender: Party, kind: type[Message]) -> bool:
    """Whether the table and the plan permit it: written a second time, from the law and not from the engine."""
    if sender not in machine.plan.parties or (sender.role == machine.me.role and sender != machine.me):
        return False
    return any(
        row.state is machine.state and row.message is kind and row.sender is sender.role
        for row in machine.TABLE.values()
    )


@pytest.mark.parametrize(("name", "state"), LIVE, ids=lambda value: getattr(value, "name", value))
def test_what_the_table_does_not_list_aborts_and_changes_nothing(name, state):
    federation = stopped_in(ROLES[name][2], state)
    machine = federation.machines[ROLES[name][2]]
    before, refused = held(machine), 0
    for kind in KINDS:
        for sender in SENDERS:
            if listed(machine, sender, kind):
                continue
            effects = machine.receive(sender, replace(spoken()[kind], plan=machine.plan.digest))
            (abort,) = effects
            assert isinstance(abort, Abort)
            assert type(abort.error) is (PeerAborted if kind is Aborted else UnexpectedMessage)
            assert machine.failure is abort.error
            assert machine.stage == state.name
            assert machine.state.name == "ABORTED"
            assert held(machine) == before, f"{kind.__name__} from {sender} changed something"
            refused += 1
            machine.state, machine.failure = state, None  # as if nothing had been said
    rows = sum(row.state is state for row in machine.TABLE.values())
    assert refused >= len(KINDS) * len(SENDERS) - 2 * rows


@pytest.mark.parametrize(("name", "state"), LIVE, ids=lambda value: getattr(value, "name", value))
def test_a_value_that_no_computation_of_this_state_has_aborts_and_changes_nothing(name, state):
    federation = stopped_in(ROLES[name][2], state)
    machine = federation.machines[ROLES[name][2]]
    if any(row.state is state and row.message is Computed for row in machine.TABLE.values()):
        return
    before = held(machine)
    (abort,) = machine.computed(np.zeros(3))
    assert type(abort.error) is LocalProtocolError
    assert held(machine) == before


def test_no_message_stands_for_a_value():
    assert not issubclass(Computed, Message)
    assert not any(issubclass(kind, Computed) for kind in KINDS)


@pytest.mark.parametrize(("name", "state"), LIVE, ids=lambda value: getattr(value, "name", value))
def test_another_plan_aborts_whatever_is_said(name, state):
    federation = stopped_in(ROLES[name][2], state)
    machine = federation.machines[ROLES[name][2]]
    before = held(machine)
    for kind in KINDS:
        for sender in SENDERS:
            (abort,) = machine.receive(sender, replace(spoken()[kind], plan=Digest("0" * 64)))
            assert type(abort.error) is PlanMismatch
            assert held(machine) == before
            machine.state, machine.failure = state, None


@pytest.mark.parametrize("name", ROLES)
@pytest.mark.parametrize("end", ["DONE", "ABORTED"])
def test_a_session_that_is_over_hears_nothing(name, end):
    federation = CASES["svd dealt by the TA"]()
    federation.run()
    machine = federation.machines[ROLES[name][2]]
    assert machine.state.name == "DONE"
    if end == "ABORTED":
        machine = federation.assemble().machines[[CSP, TA, user(1), user(2)].index(ROLES[name][2])]
        machine.fail(UnexpectedMessage("the peer is gone"))
    before, failure = held(machine), machine.failure
    for kind in KINDS:
        for sender in SENDERS:
            for digest in (machine.plan.digest, Digest("0" * 64)):
                assert machine.receive(sender, replace(spoken()[kind], plan=digest)) == ()
    assert machine.fail(UnexpectedMessage("again")) == ()
    assert (machine.state.name, machine.failure, held(machine)) == (end, failure, before)


@settings(max_examples=60)
@given(data=st.data())
def test_a_message_said_again_or_elsewhere_never_gets_past_the_table(data):
    """At any moment of any session, any message of any other session, from any party."""
    federation = CASES[data.draw(st.sampled_from(sorted(CASES)), label="case")]()
    party = data.draw(st.sampled_from(federation.assemble().plan.parties), label="role")
    nth, count = data.draw(st.integers(0, 8), label="moment"), -1

    def when(machine, sender, message):
        nonlocal count
        count += machine.me == party
        return count == nth

    if stop(federation, when) is None:
        return
    machine = federation.machines[party]
    before, state = held(machine), machine.state
    kind = data.draw(st.sampled_from(KINDS), label="message")
    sender = data.draw(st.sampled_from(SENDERS), label="sender")
    permitted, over = listed(machine, sender, kind), machine.over
    effects = machine.receive(sender, replace(spoken()[kind], plan=machine.plan.digest))
    if over:
        assert (effects, machine.state) == ((), state)
    elif not permitted:
        assert [type(effect) for effect in effects] == [Abort]
        assert held(machine) == before
    else:
        row = machine.TABLE[state, kind, sender.role]
        assert machine.state in row.leads_to or machine.state.name == "ABORTED"


@cache
def transitions(names: tuple[str, ...]) -> dict:
    """What happened in sessions of these cases, in several orders: row to states it led to."""
    seen = defaultdict(set)
    for case, make in [*((name, CASES[name]) for name in names), ("in parts", CASES["svd"])]:
        whole, relayed.PART = relayed.PART, 64 if case == "in parts" else relayed.PART
        for k, pick in ((2, None), (3, shuffled(1)), (3, starving(TA)), (3, starving(user(1))), (2, starving(user(2)))):
            federation = make(k)

            watched = federation.assemble

            def assembled(watched=watched, seen=seen):
                session = watched()
                for machine in session.machines:
                    _watch(machine, seen)
                return session

            federation.assemble = assembled
            federation.run(*(() if pick is None else (pick,)))
        relayed.PART = whole
    for case in ("svd opened by the CSP", "match by hashes"):
        with gathering(True):
            session = CASES[case](3).assemble()
            for machine in session.machines:
                _watch(machine, seen)
            Simulation(session.machines, Hub(shuffled(1))).run()
    for case in ("svd", "pca opened by the users"):
        session = CASES[case](3).assemble()
        for machine in session.machines:
            _watch(machine, seen)
        Simulation(session.machines, Hub(starving(user(2))), deferred=True).run()
    return seen


def _watch(machine, seen):
    hear, take = machine.receive, machine.computed

    def receive(sender, message):
        key = type(machine), machine.state, type(message), sender.role
        effects = hear(sender, message)
        seen[key].add(machine.state)
        return effects

    def computed(value):
        key = type(machine), machine.state, Computed, machine.me.role
        effects = take(value)
        seen[key].add(machine.state)
        return effects

    machine.receive, machine.computed = receive, computed


@pytest.mark.parametrize("names", [LEAST, pytest.param(tuple(CASES), marks=pytest.mark.full)], ids=["least", "all"])
def test_every_row_is_reached_and_leads_everywhere_it_says_and_nowhere_else(names):
    """By the cases of ``make test`` alone, too: none that leaves it takes a row that they do not take."""
    observed, declared = defaultdict(dict), defaultdict(dict)
    for (role, *key), states in transitions(names).items():
        observed[role.__name__][tuple(key)] = states
    for role, _, _ in ROLES.values():
        declared[role.__name__] = {key: set(row.leads_to) for key, row in role.TABLE.items()}
    assert observed == declared


def test_the_least_cases_have_every_task_family_mode_split_trust_and_alignment_of_all():
    def had(names):
        plans = [CASES[name]().assemble().plan for name in names]
        return {
            *(plan.task for plan in plans),
            *((plan.scheme, plan.mode) for plan in plans),
            *((plan.task, plan.split) for plan in plans),
            *(plan.trust for plan in plans),
            *(plan.align for plan in plans),
            *(plan.glm.family for plan in plans if plan.glm is not None),
        }

    assert had(LEAST) == had(CASES)
    assert set(Task) <= had(LEAST)


def test_every_state_is_entered_by_some_row_and_left_by_some_row():
    for role, states, _ in ROLES.values():
        rows = role.TABLE.values()
        entered = {state for row in rows for state in row.leads_to}
        left = {row.state for row in rows}
        assert set(states) - entered == {states["NEW"], states["ABORTED"]} or states["NEW"] in entered
        assert set(states) - left == {states["DONE"], states["ABORTED"]}


@pytest.mark.parametrize("case", CASES)
def test_the_sums_of_a_session_are_those_of_its_plan_in_their_order(case):
    """But for one, whose length follows from the rank that the CSP itself has found; a model takes what it needs.

    Nor is the space outside of U searched where the trace shows that little is there.
    """
    federation = CASES[case]()
    federation.run()
    expected = [
        (planned.name, batch) for planned in planned_sums(federation.plan) for batch in range(len(planned.batches))
    ]
    shapes = {
        (planned.name, batch): planned.shape(batch)
        for planned in planned_sums(federation.plan)
        for batch in range(len(planned.batches))
    }
    for party in federation.plan.users:
        shares = [message for origin, message in federation.views.of(CSP, SumShare) if origin == party]
        asked = [(share.name, share.batch) for share in shares if share.name != "null space"]
        spared = {planned.name for planned in order_sums(federation.plan)}
        spared = spared if federation.plan.releases(Item.SPECTRUM) else set()
        plan = federation.plan
        needless = plan.glm is not None or plan.few_digits or plan.scheme is Scheme.STEPS
        assert asked == [pair for pair in expected if pair in asked or not (needless or pair[0] in spared)]
        assert all(
            share.payload.shape == shapes[share.name, share.batch] for share in shares if share.name != "null space"
        )
        assert all(share.tag.shape == (3,) for share in shares)
        # Without a sum commitments go to all users, sealed.
        assert [bool(share.commitment) for share in shares] == [number == 0 for number in range(len(shares))]


def test_a_handler_that_leads_where_its_row_does_not_aborts():
    federation = CASES["svd"]()
    machine = federation.assemble().machines[1]
    row = machine.TABLE[machine.state, Begin, machine.me.role]
    astray = replace(row, leads_to=frozenset({machine.STATES["WAITING"]}))
    machine.TABLE = {**machine.TABLE, (row.state, row.message, row.sender): astray}
    (abort,) = machine.receive(machine.me, Begin(machine.plan.digest))
    assert abort.error.code == "FSVD-401"
    assert "KEYS" in str(abort.error)


def test_every_message_is_frozen_and_names_its_plan_first():
    for kind in KINDS:
        assert fields(kind)[0].name == "plan"
        assert kind.__dataclass_params__.frozen
