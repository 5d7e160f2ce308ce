"""The player: plays one role of one session over one transport. The only place where effects are performed.

It receives a message, lets the role's state machine decide, and performs the effects the machine returns: sends
messages, runs computations, stores the result, announces an abort. It also times the stages and reports them. In a
process of its own a role is played by ``play``, to the end. Where all roles share a process (``simulate.py``) the
simulation decides whose turn it is and calls ``begin`` and ``receive``; what happens then is the same.

While a computation runs, the transport's own threads keep the connection alive; while nothing arrives, ``alive`` is
asked whether that has lasted too long. How an abort is announced: a user or the TA sends it to the CSP, the CSP to all;
it carries a code and a stage, never a text. A user that stopped because the CSP sent ``Aborted`` announces nothing.
"""

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from fedsvd.engine.memory import peak_memory
from fedsvd.errors import FedSVDError, PeerAborted
from fedsvd.protocol.certificate import Accounts
from fedsvd.protocol.machine import Abort, Compute, Effect, Finish, Machine, Send
from fedsvd.protocol.messages import Aborted, Begin, Message
from fedsvd.protocol.parties import CSP, Party
from fedsvd.storage.faults import of_machine
from fedsvd.transport.metered import Meter, Transport

_log = logging.getLogger(__name__)
logging.getLogger("fedsvd").addHandler(logging.NullHandler())  # a library prints nothing unless logging is set up
_POLL = 0.5  # seconds between calls of ``alive`` while nothing arrives

Watch = Callable[[str], None]  # called with the stage whenever it changes


@dataclass
class Played:
    """What came of a role's session, so far."""

    result: Any = None
    finished: bool = False
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    began: dict[str, float] = field(default_factory=dict)  # when a stage was first entered, in seconds from the start


class Player:
    """Plays one state machine over one transport.

    ``deliver`` is given the values of computations, as messages that must come back through ``receive``; without it
    the machine receives each at once. ``before`` are stages that were over before the session, and their seconds.
    """

    def __init__(
        self,
        machine: Machine,
        transport: Transport,
        *,
        watch: Watch | None = None,
        alive: Callable[[], None] | None = None,
        deliver: Callable[[Any], None] | None = None,
        before: Mapping[str, float] | None = None,
    ) -> None:
        self.machine = machine
        self.played = Played()
        self._transport = transport
        self._watch = watch or (lambda stage: None)
        self._alive = alive or (lambda: None)
        self._deliver = deliver
        self._stage = ""
        self._started = perf_counter() - sum((before or {}).values())
        for stage, seconds in (before or {}).items():
            self.played.began[stage] = sum(self.played.seconds.values())
            self.played.seconds[stage] = seconds
        self._not_sent: FedSVDError | None = None

    @property
    def failure(self) -> FedSVDError | None:
        """What stopped the session here, or prevented its end from being sent."""
        return self.machine.failure or self._not_sent

    def play(self) -> Played:
        """Play to the end; raises what stopped the session, if something did."""
        self.begin()
        while not self.machine.over:
            self._perform(self._wait())
        if self.failure is not None:
            raise self.failure
        return self.played

    def begin(self) -> None:
        """Start the session here; the CSP has nothing to begin with, and waits."""
        me = self.machine.me
        if me != CSP:
            self.receive(me, Begin(self.machine.plan.digest))

    def receive(self, sender: Party, message: Message) -> None:
        """Let the machine decide on a message, and perform all that follows from it."""
        self._perform(self._decide(sender, message))

    def computed(self, value: Any) -> None:
        """Let the machine decide on the value of its own computation, and perform all that follows from it."""
        self._perform(self._decide_on(value))

    def _wait(self) -> tuple[Effect, ...]:
        """What follows from the next message, or from there being no next one."""
        try:
            self._alive()
            arrived = self._transport.receive(_POLL)
        except FedSVDError as error:
            return self.machine.fail(error)
        return () if arrived is None else self._decide(*arrived)

    def _decide(self, sender: Party, message: Message) -> tuple[Effect, ...]:
        return self._moved(type(message).__name__, lambda: self.machine.receive(sender, message))

    def _decide_on(self, value: Any) -> tuple[Effect, ...]:
        return self._moved("Computed", lambda: self.machine.computed(value))

    def _moved(self, kind: str, decide: Callable[[], tuple[Effect, ...]]) -> tuple[Effect, ...]:
        """What follows from what arrived; a new state is logged."""
        machine, before = self.machine, self.machine.state.name
        effects: tuple[Effect, ...] = self._timed(before.lower(), decide)
        after = machine.state.name
        if after != before:
            session = machine.plan.session[:8]
            _log.info("session=%s role=%s %s->%s on=%s", session, machine.me.name, before, after, kind)
            self._enter(after.lower())
        return effects

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        """All effects in order, each followed at once by the effects that come of it."""
        # A queue and not a recursion: what an effect has computed with is free when the next one begins.
        pending = deque(effects)
        del effects
        while pending:
            effect = pending.popleft()
            # What was meant for a session that has failed since is not done after its end.
            if self.machine.failure is None or isinstance(effect, Abort):
                pending.extendleft(reversed(self._follow(effect)))

    def _follow(self, effect: Effect) -> tuple[Effect, ...]:
        match effect:
            case Send(to, message):
                return self._send(to, message)
            case Compute(label, work):
                return self._compute(label, work)
            case Finish(result):
                self.played.result, self.played.finished = result, True
            case Abort(error):
                self._announce(error)
        return ()

    def _send(self, to: Party, message: Message) -> tuple[Effect, ...]:
        try:
            self._transport.send(to, message)
        except FedSVDError as error:
            # A role that is done cannot fail any more; but the others do not know that it is done.
            self._not_sent = self._not_sent or error
            return self.machine.fail(error)
        return ()

    def _compute(self, label: str, work: Callable[[], Any]) -> tuple[Effect, ...]:
        self._enter(label)
        try:
            value = self._timed(label, work)
        except FedSVDError as error:
            return self.machine.fail(error)
        except (MemoryError, RuntimeError, OSError) as error:
            if (ours := of_machine(error)) is None:
                raise
            return self.machine.fail(ours)
        if self._deliver is None:
            return self._decide_on(value)
        self._deliver(value)
        return ()

    def _announce(self, error: FedSVDError) -> None:
        machine = self.machine
        _log.error("session=%s role=%s %s", machine.plan.session[:8], machine.me.name, error)
        if machine.me == CSP:
            others = [party for party in machine.plan.parties if party != CSP]
        else:
            others = [] if isinstance(error, PeerAborted) else [CSP]
        for party in others:
            try:
                self._transport.send(party, Aborted(machine.plan.digest, error.code, machine.stage.lower()))
            except FedSVDError:
                continue  # it cannot be reached any more

    def _enter(self, stage: str) -> None:
        if stage != self._stage:
            self._stage = stage
            self._watch(stage)

    def _timed(self, stage: str, work: Callable[[], Any]) -> Any:
        started = perf_counter()
        try:
            return work()
        finally:
            self.played.seconds[stage] += perf_counter() - started
            self.played.began.setdefault(stage, started - self._started)


def accounts(me: Party, meter: Meter, played: Played) -> Accounts:
    """What a role sent, and how long each stage took: that shows how its data was computed with, and stays with it."""
    return replace(
        meter.accounts(),
        seconds_by_stage={(me, stage): spent for stage, spent in played.seconds.items()},
        began_by_stage={(me, stage): began for stage, began in played.began.items()},
        peak_memory={me: peak_memory()},
    )
