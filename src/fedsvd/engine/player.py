"""One role of one session over a transport: the loop that a process of its own runs.

It hears, lets the machine decide, and does what the effects say. While a computation runs, the transport's own threads
keep the line alive; while nobody speaks, ``alive`` is asked whether the silence has lasted too long. The loop ends when
the machine does, well or badly, and the others are told before the line is hung up.
"""

import logging
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from fedsvd.engine.memory import peak_memory
from fedsvd.errors import FedSVDError, PeerAborted
from fedsvd.protocol.effects import Abort, Compute, Effect, Finish, Send
from fedsvd.protocol.machine import Machine
from fedsvd.protocol.messages import Aborted, Begin, Computed, Message
from fedsvd.protocol.parties import CSP, Party
from fedsvd.transport.base import Transport
from fedsvd.transport.metered import Meter

_log = logging.getLogger(__name__)
_TURN = 0.5  # seconds between looks at the clock while nothing is said

Watch = Callable[[str], None]  # told the stage whenever it changes


@dataclass
class Played:
    """What came of a role's session."""

    result: Any = None
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    began: dict[str, float] = field(default_factory=dict)  # when a stage was first entered, from the beginning


class Player:
    """Plays one machine over one transport."""

    def __init__(
        self,
        machine: Machine,
        transport: Transport,
        *,
        watch: Watch | None = None,
        alive: Callable[[], None] | None = None,
    ) -> None:
        self._machine = machine
        self._transport = transport
        self._watch = watch or (lambda stage: None)
        self._alive = alive or (lambda: None)
        self._played = Played()
        self._zero = perf_counter()
        self._unsaid: FedSVDError | None = None
        self._heard: deque[tuple[Party, Message]] = deque()  # what is to be taken in next

    def play(self) -> Played:
        """Play to the end; raises what stopped the session, if something did."""
        machine = self._machine
        if machine.me != CSP:
            self._heard.append((machine.me, Begin(machine.plan.digest)))
        while not machine.over:
            # A message, or what was computed, may be as large as the memory allows: nothing here refers to one once it
            # is taken in, so that it is gone before the next computation begins.
            while self._heard:
                self._do(self._hear(*self._heard.popleft()))
            if machine.over:
                break
            try:
                self._alive()
                self._listen()
            except FedSVDError as error:
                self._do(machine.fail(error))
                break
        failure = machine.failure or self._unsaid
        if failure is not None:
            raise failure
        return self._played

    def _listen(self) -> None:
        """Wait a moment for the next message."""
        if (arrived := self._transport.receive(_TURN)) is not None:
            self._heard.append(arrived)

    def _hear(self, speaker: Party, message: Message) -> tuple[Effect, ...]:
        """Take a message in; what is to be done then."""
        before = self._machine.state.name
        effects: tuple[Effect, ...] = self._timed(before.lower(), lambda: self._machine.receive(speaker, message))
        after = self._machine.state.name
        if after != before:
            _log.info(
                "session=%s role=%s %s->%s on=%s",
                self._machine.plan.session[:8],
                self._machine.me.name,
                before,
                after,
                type(message).__name__,
            )
            self._watch(after.lower())
        return effects

    def _do(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            # What was meant for a session that has failed meanwhile is not said after its end.
            if self._machine.failure is not None and not isinstance(effect, Abort):
                return
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(to, message):
                self._say(to, message)
            case Finish(result):
                self._played.result = result
            case Compute(label, work):
                self._compute(label, work)
            case Abort(error):
                self._tell(error)

    def _say(self, to: Party, message: Message) -> None:
        try:
            self._transport.send(to, message)
        except FedSVDError as error:
            # A role that has just come to its end cannot fail any more; but nobody heard of that end.
            self._unsaid = self._unsaid or error
            self._do(self._machine.fail(error))

    def _compute(self, label: str, work: Callable[[], Any]) -> None:
        self._watch(label)
        try:
            value = self._timed(label, work)
        except FedSVDError as error:
            self._do(self._machine.fail(error))
            return
        self._heard.append((self._machine.me, Computed(self._machine.plan.digest, label, value)))

    def _tell(self, error: FedSVDError) -> None:
        """Tell the others why, if they can still be reached: a user tells the CSP, the CSP tells everybody."""
        machine = self._machine
        _log.error("session=%s role=%s %s", machine.plan.session[:8], machine.me.name, error)
        told = isinstance(error, PeerAborted) and machine.me != CSP
        others = [party for party in machine.plan.parties if party != CSP] if machine.me == CSP else [CSP]
        for party in () if told else others:
            try:
                self._transport.send(party, Aborted(machine.plan.digest, error.code, machine.stage.lower()))
            except FedSVDError:
                continue

    def _timed(self, stage: str, work: Callable[[], Any]) -> Any:
        started = perf_counter()
        try:
            return work()
        finally:
            self._played.seconds[stage] += perf_counter() - started
            self._played.began.setdefault(stage, started - self._zero)


def shared_accounts(meter: Meter) -> dict[str, dict[str, Any]]:
    """What a role sent on every link: what follows from the plan, and so may be told to the others."""
    return {
        "bytes_by_link": {" -> ".join(link): count for link, count in sorted(meter.sent_bytes.items())},
        "messages_by_link": {" -> ".join(link): count for link, count in sorted(meter.messages.items())},
        "bytes_by_kind": {": ".join(key): count for key, count in sorted(meter.kinds.items())},
    }


def accounts(me: Party, meter: Meter, played: Played) -> dict[str, dict[str, Any]]:
    """The same, and how long each stage took: that shows how a party's data was computed with, and stays there."""
    return {
        **shared_accounts(meter),
        "seconds_by_stage": {f"{me.name}: {stage}": spent for stage, spent in played.seconds.items()},
        "began_by_stage": {f"{me.name}: {stage}": began for stage, began in played.began.items()},
        "peak_memory": {me.name: peak_memory()},
    }
