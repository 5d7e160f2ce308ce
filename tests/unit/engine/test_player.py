"""One role over one transport: it hears, decides and does; every end is told to the others, and none is silent."""

from collections import deque
from enum import Enum, auto

import pytest

from fedsvd.engine.player import Player, accounts
from fedsvd.errors import (
    ConfigError,
    LocalProtocolError,
    MalformedFrame,
    NotFinite,
    NumericalError,
    PeerAborted,
    PeerLost,
    PlanMismatch,
    TimedOut,
    UnexpectedMessage,
)
from fedsvd.protocol.machine import Compute, Computed, Finish, Machine, Send, table
from fedsvd.protocol.messages import Aborted, BatchRequest, Begin, Finished, Ready
from fedsvd.protocol.parties import CSP, Party, Role, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Item, Scheme, Split, Task, Trust
from fedsvd.tasks.declared import declared
from fedsvd.transport.metered import Meter, Metered
from fedsvd.types import Digest, SessionId

PLAN = SessionPlan(
    SessionId("5e" * 16),
    Task.SVD,
    Split.VERTICAL,
    Scheme.MASK,
    Trust.PEERS,
    3,
    (2, 2),
    (Item.COMPONENTS,),
    **declared(Task.SVD).facts(Split.VERTICAL),
)
ONE, TWO = user(1), user(2)


class State(Enum):
    NEW = auto()
    WORKING = auto()
    DONE = auto()
    ABORTED = auto()


class Host(Machine):
    """A CSP of this test: hears Ready from both users, computes, sends both a request, hears Finished, is done."""

    STATES = State

    def __init__(self, work=lambda: 42) -> None:
        super().__init__(CSP, PLAN)
        self._work = work
        self._heard: set[Party] = set()

    def _on_ready(self, sender, message):
        self._heard.add(sender)
        return State.NEW if len(self._heard) < 2 else State.WORKING, self._compute()

    def _compute(self):
        return (Compute("thinking", self._work),) if len(self._heard) == 2 else ()

    def _on_computed(self, value):
        sends = tuple(Send(party, BatchRequest(PLAN.digest, value)) for party in (ONE, TWO))
        return State.WORKING, sends

    def _on_finished(self, sender, message):
        self._heard.discard(sender)
        return (State.WORKING, ()) if self._heard else (State.DONE, (Finish("all are done"),))

    TABLE = table(
        (State.NEW, Ready, Role.USER, _on_ready, {State.NEW, State.WORKING}),
        (State.WORKING, Computed, Role.CSP, _on_computed, {State.WORKING}),
        (State.WORKING, Finished, Role.USER, _on_finished, {State.WORKING, State.DONE}),
    )


class Guest(Machine):
    """A user of this test: says Ready, hears a request, says Finished, is done with the number it heard."""

    STATES = State

    def __init__(self, me: Party = ONE) -> None:
        super().__init__(me, PLAN)

    def _on_begin(self, sender, message):
        return State.WORKING, (Send(CSP, Ready(PLAN.digest)),)

    def _on_request(self, sender, message):
        return State.DONE, (Send(CSP, Finished(PLAN.digest)), Finish(message.batch))

    TABLE = table(
        (State.NEW, Begin, Role.USER, _on_begin, {State.WORKING}),
        (State.WORKING, BatchRequest, Role.CSP, _on_request, {State.DONE}),
    )


class Script:
    """A transport that delivers what a test wrote down, raises what it wrote down, and remembers what was said."""

    def __init__(self, *coming, lost: tuple[Party, ...] = (), error=None) -> None:
        self._coming = deque(coming)
        self._lost = lost
        self._error = error or PeerLost("hung up")
        self.said: list[tuple[Party, object]] = []

    def send(self, to, message) -> None:
        if to in self._lost:
            raise self._error
        self.said.append((to, message))

    def receive(self, wait: float = 0.0):
        if not self._coming:
            raise TimedOut("the script is over")
        delivery = self._coming.popleft()
        if isinstance(delivery, Exception):
            raise delivery
        return delivery

    def close(self) -> None:
        pass

    def kinds(self) -> list[tuple[Party, str]]:
        return [(to, type(message).__name__) for to, message in self.said]

    def told(self) -> list[tuple[Party, str, str]]:
        """Who was told of an end, with code and stage: there is nothing else to a message."""
        return [(to, m.code, m.stage) for to, m in self.said if isinstance(m, Aborted)]


READY = [(ONE, Ready(PLAN.digest)), (TWO, Ready(PLAN.digest))]
DONE = [(ONE, Finished(PLAN.digest)), (TWO, Finished(PLAN.digest))]


def test_a_host_plays_to_the_end_and_keeps_its_result():
    script = Script(READY[0], None, READY[1], *DONE)
    played = Player(Host(), script).play()
    assert played.result == "all are done"
    assert script.kinds() == [(ONE, "BatchRequest"), (TWO, "BatchRequest")]
    assert [message.batch for _, message in script.said] == [42, 42]


def test_a_guest_begins_by_itself_and_a_host_waits():
    script = Script((CSP, BatchRequest(PLAN.digest, 7)))
    assert Player(Guest(), script).play().result == 7
    assert script.kinds() == [(CSP, "Ready"), (CSP, "Finished")]


def test_stages_are_watched_and_timed():
    stages = []
    played = Player(Host(), Script(*READY, *DONE), watch=stages.append).play()
    assert stages == ["working", "thinking", "done"]
    assert set(played.seconds) == {"new", "thinking", "working"}
    assert all(spent >= 0 for spent in played.seconds.values())


def test_stages_that_were_over_before_the_session_are_counted_and_the_others_come_after_them():
    played = Player(Host(), Script(*READY, *DONE), before={"reading": 100.0, "sorting": 20.0}).play()
    assert (played.seconds["reading"], played.seconds["sorting"]) == (100.0, 20.0)
    assert (played.began["reading"], played.began["sorting"]) == (0.0, 100.0)
    assert all(began >= 120.0 for stage, began in played.began.items() if stage in ("new", "thinking", "working"))


def test_while_nothing_is_said_it_is_asked_whether_that_lasts_too_long():
    asked = []

    def alive() -> None:
        asked.append(len(asked))
        if len(asked) == 4:
            raise TimedOut("user 2 has been silent for 120 s")

    script = Script(READY[0], None, None, None, None, None)
    with pytest.raises(TimedOut, match="user 2"):
        Player(Host(), script, alive=alive).play()
    assert asked == [0, 1, 2, 3]
    expected = ("FSVD-502", "new")
    assert script.told() == [(ONE, *expected), (TWO, *expected)]


@pytest.mark.parametrize(
    "error", [MalformedFrame("not well-formed"), PeerLost("user 1 has hung up"), TimedOut("nothing got through")]
)
def test_what_the_transport_raises_ends_the_session_and_is_told(error):
    script = Script(READY[0], error)
    with pytest.raises(type(error)) as raised:
        Player(Host(), script).play()
    assert raised.value is error
    assert script.told() == [(party, error.code, "new") for party in (ONE, TWO)]


def test_a_guest_tells_the_host_alone():
    script = Script(MalformedFrame("not well-formed"))
    with pytest.raises(MalformedFrame):
        Player(Guest(), script).play()
    assert script.told() == [(CSP, "FSVD-414", "working")]


def test_a_guest_that_was_told_does_not_tell_the_host_again():
    script = Script((CSP, Aborted(PLAN.digest, "FSVD-300", "factorising")))
    with pytest.raises(PeerAborted, match="stopped in factorising with FSVD-300"):
        Player(Guest(), script).play()
    assert script.kinds() == [(CSP, "Ready")]


def test_a_host_that_was_told_tells_the_others():
    script = Script(READY[0], (TWO, Aborted(PLAN.digest, "FSVD-201", "reading")))
    with pytest.raises(PeerAborted):
        Player(Host(), script).play()
    assert [(to, code) for to, code, _ in script.told()] == [(ONE, "FSVD-415"), (TWO, "FSVD-415")]


def test_what_is_wrong_with_a_guests_own_data_stays_with_it():
    class Reader(Guest):
        def _on_begin(self, sender, message):
            raise NotFinite("3 entries are missing, the first in column 'hiv_status'", "fill them in")

        TABLE = table((State.NEW, Begin, Role.USER, _on_begin, {State.WORKING}))

    script = Script()
    with pytest.raises(NotFinite, match="hiv_status"):
        Player(Reader(), script).play()
    assert script.told() == [(CSP, "FSVD-201", "new")]


@pytest.mark.parametrize(
    ("delivery", "error"),
    [
        ((ONE, BatchRequest(PLAN.digest, 1)), UnexpectedMessage),
        ((user(3), Ready(PLAN.digest)), UnexpectedMessage),
        ((ONE, Ready(Digest("0" * 64))), PlanMismatch),
    ],
)
def test_what_the_table_does_not_permit_ends_the_session(delivery, error):
    script = Script(delivery)
    with pytest.raises(error):
        Player(Host(), script).play()
    assert [to for to, *_ in script.told()] == [ONE, TWO]


def test_a_computation_that_fails_ends_the_session():
    def work():
        raise NumericalError("lost its digits", "scale")

    script = Script(*READY)
    with pytest.raises(NumericalError):
        Player(Host(work), script).play()
    assert script.kinds() == [(ONE, "Aborted"), (TWO, "Aborted")]


def test_a_defect_of_ours_is_not_swallowed():
    def work():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Player(Host(work), Script(*READY)).play()


@pytest.mark.parametrize("error", [PeerLost("user 1 has hung up"), LocalProtocolError("not said between parties")])
def test_a_message_that_cannot_be_sent_ends_the_session_and_nothing_follows_it(error):
    script = Script(*READY, *DONE, lost=(ONE,), error=error)
    with pytest.raises(type(error)):
        Player(Host(), script).play()
    # The request to user 2 was meant for a session that had ended by then.
    assert script.kinds() == [(TWO, "Aborted")]


def test_an_end_that_nobody_heard_of_is_not_an_end():
    script = Script((CSP, BatchRequest(PLAN.digest, 7)))
    send = script.send

    def failing(to, message) -> None:
        if isinstance(message, Finished):
            raise PeerLost("the CSP is gone")
        send(to, message)

    script.send = failing
    with pytest.raises(PeerLost, match="gone"):
        Player(Guest(), script).play()


def test_who_asks_to_stop_is_obeyed_between_messages():
    def stop() -> None:
        raise ConfigError("the job was stopped", "resume it")

    script = Script(*READY, *DONE)
    with pytest.raises(ConfigError):
        Player(Host(), script, alive=stop).play()
    assert [(to, code) for to, code, _ in script.told()] == [(ONE, "FSVD-100"), (TWO, "FSVD-100")]


def test_accounts_name_links_and_stages():
    meter = Meter()
    played = Player(Guest(), Metered(Script((CSP, BatchRequest(PLAN.digest, 7))), ONE, meter)).play()
    found = accounts(ONE, meter, played)
    assert found.messages_by_link == {(ONE, CSP): 2}
    assert found.bytes_by_link == {(ONE, CSP): 64 + 64}
    assert set(found.seconds_by_stage) == {(ONE, "new"), (ONE, "working")}
    assert 0 <= found.began_by_stage[ONE, "new"] <= found.began_by_stage[ONE, "working"]
    assert found.bytes_by_kind == {(ONE, "Finished"): 64, (ONE, "Ready"): 64}
