"""The engine of a role: the table permits, the handler decides, and everything else aborts once."""

from enum import Enum, auto

import pytest

from fedsvd.errors import FedSVDError, LocalProtocolError, NumericalError, PeerLost, RepeatedShare
from fedsvd.protocol.machine import Abort, Machine, Send, table
from fedsvd.protocol.messages import Aborted, Begin, Finished, Ready
from fedsvd.protocol.parties import CSP, TA, Party, Role, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Item, Scheme, Split, Task, Trust
from fedsvd.tasks.declared import declared
from fedsvd.types import Digest, SessionId

PLAN = SessionPlan(
    SessionId("s"),
    Task.SVD,
    Split.VERTICAL,
    Scheme.MASK,
    Trust.PEERS,
    m=3,
    counts=(2, 2),
    release=(Item.COMPONENTS,),
    **declared(Task.SVD).facts(Split.VERTICAL),
)


class State(Enum):
    NEW = auto()
    OPEN = auto()
    DONE = auto()
    ABORTED = auto()


class Toy(Machine):
    """A role of two states, to try the engine on."""

    STATES = State

    def __init__(self, me: Party = CSP) -> None:
        super().__init__(me, PLAN)
        self.heard: list[Party] = []

    def _on_ready(self, sender, message):
        if sender in self.heard:
            raise RepeatedShare(f"{sender} again")
        self.heard.append(sender)
        return State.OPEN, (Send(sender, Finished(PLAN.digest)),)

    def _on_finished(self, sender, message):
        return State.NEW, ()

    def _on_begin(self, sender, message):
        return State.DONE, ()

    TABLE = table(
        (State.NEW, Ready, Role.USER, _on_ready, {State.OPEN}),
        (State.OPEN, Ready, Role.USER, _on_ready, {State.OPEN}),
        (State.OPEN, Finished, Role.USER, _on_finished, {State.DONE}),
        (State.OPEN, Begin, Role.CSP, _on_begin, {State.DONE}),
    )


def ready(digest=PLAN.digest):
    return Ready(digest)


def test_a_listed_message_goes_to_its_handler_and_leads_on():
    machine = Toy()
    (effect,) = machine.receive(user(1), ready())
    assert (effect.to, type(effect.message)) == (user(1), Finished)
    assert machine.state is State.OPEN
    assert not machine.over


@pytest.mark.parametrize("sender", [TA, CSP, user(3), user(0), Party(Role.TA, 1)])
def test_only_parties_of_the_plan_are_heard(sender):
    machine = Toy()
    (abort,) = machine.receive(sender, ready())
    assert abort.error.code == "FSVD-411"
    assert machine.heard == []


def test_its_own_role_is_heard_from_itself_alone():
    one = Toy(user(1))
    assert one.receive(user(1), ready())
    assert isinstance(one.receive(user(2), ready())[0], Abort)


def test_what_a_handler_refuses_aborts():
    machine = Toy()
    machine.receive(user(1), ready())
    (abort,) = machine.receive(user(1), ready())
    assert isinstance(abort.error, RepeatedShare)
    assert (machine.state, machine.stage, machine.failure) == (State.ABORTED, "OPEN", abort.error)
    assert machine.over


def test_a_handler_that_leads_astray_is_our_own_defect():
    machine = Toy()
    machine.receive(user(1), ready())
    (abort,) = machine.receive(user(1), Finished(PLAN.digest))
    assert type(abort.error) is LocalProtocolError
    assert "_on_finished led to NEW" in str(abort.error)


def test_the_digest_is_compared_before_anything_else():
    machine = Toy()
    for message in (ready(Digest("other")), Aborted(Digest("other"), "FSVD-1", "x")):
        (abort,) = Toy().receive(user(1), message)
        assert abort.error.code == "FSVD-413"
    assert machine.state is State.NEW


def test_a_peers_abort_is_passed_on_with_its_stage_and_code():
    machine = Toy()
    (abort,) = machine.receive(user(2), Aborted(PLAN.digest, "FSVD-305", "factorising"))
    fix = "the log of that role says why: ask its owner, then resume the job"
    assert str(abort.error) == f"FSVD-415: user 2 stopped in factorising with FSVD-305. Fix: {fix}"


def test_the_runtime_may_report_a_failure_once():
    machine = Toy()
    (abort,) = machine.fail(PeerLost("user 2 is gone"))
    assert abort.error.code == "FSVD-501"
    assert machine.fail(NumericalError("later")) == ()
    assert isinstance(machine.failure, PeerLost)


def test_a_session_that_is_done_hears_nothing():
    machine = Toy()
    machine.receive(user(1), ready())
    machine.receive(CSP, Begin(PLAN.digest))
    assert machine.over
    assert machine.receive(user(1), ready()) == ()
    assert machine.state is State.DONE


def test_errors_that_are_not_ours_are_not_swallowed():
    class Broken(Toy):
        def _boom(self, sender, message):
            raise ZeroDivisionError

        TABLE = table((State.NEW, Ready, Role.USER, _boom, {State.OPEN}))

    with pytest.raises(ZeroDivisionError):
        Broken().receive(user(1), ready())
    assert not issubclass(ZeroDivisionError, FedSVDError)


def test_one_thing_is_permitted_once():
    row = (State.NEW, Ready, Role.USER, lambda machine, sender, message: (State.OPEN, ()), {State.OPEN})
    with pytest.raises(LocalProtocolError, match="two rows for NEW, Ready, user"):
        table(row, row)


def test_a_role_shows_who_it_is_and_where_it_stands():
    assert repr(Toy()) == "Toy(CSP, NEW)"
