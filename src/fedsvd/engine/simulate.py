"""Runs the roles of one session in one process: delivers messages, runs computations, keeps the clock.

The driver knows no mathematics. It takes the next delivery, hands it to the machine it is for, and does what the
machine's effects say, until every machine is done or one aborts; then all are told.

Parties that have something to do at the same moment do it side by side, a thread each, as they would on machines of
their own: nothing but messages passes between them, and messages wait until all have come to rest. A thread then has
one BLAS thread; a party alone has them all. Where deliveries are recorded or picked, they go one at a time.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

from fedsvd.engine.at_once import at_once
from fedsvd.errors import FedSVDError, PeerAborted, ProtocolError
from fedsvd.linalg import backend
from fedsvd.protocol.effects import Abort, Compute, Effect, Finish, Send
from fedsvd.protocol.machine import Machine
from fedsvd.protocol.messages import Aborted, Begin, Computed, Message
from fedsvd.protocol.parties import CSP, Party
from fedsvd.protocol.views import Views
from fedsvd.transport.loopback import Hub
from fedsvd.transport.metered import Meter, Metered


@dataclass
class Run:
    """What came of a session: results by party, what was counted, what was seen."""

    results: dict[Party, Any] = field(default_factory=dict)
    meter: Meter = field(default_factory=Meter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    began: dict[str, float] = field(default_factory=dict)  # when a stage was first entered, from the beginning
    views: Views | None = None


class Driver:
    """Drives the machines of one session over a hub."""

    def __init__(self, machines: Sequence[Machine], hub: Hub, record: bool = False, side_by_side: int = 1) -> None:
        self._machines = {machine.me: machine for machine in machines}
        self._hub = hub
        self._side_by_side = 1 if record else side_by_side
        self._held: dict[Party, list[tuple[Party, Message]]] = {}  # what parties at work side by side have said
        self.run_ = Run(views=Views() if record else None)
        self._zero = perf_counter()
        self._ends = {party: Metered(hub.end(party), party, self.run_.meter) for party in self._machines}

    def run(self) -> Run:
        """Drive until everybody is done; the error that stopped the session, if one did."""
        beginnings = [(me, me, Begin(machine.plan.digest)) for me, machine in self._machines.items() if me != CSP]
        for start in range(0, len(beginnings), self._side_by_side):
            self._deliver(beginnings[start : start + self._side_by_side])
        while deliveries := self._next():
            self._deliver(deliveries)
        self._raise_failure()
        return self.run_

    def _next(self) -> list[tuple[Party, Party, Message]]:
        """The next delivery, or one each for as many parties as work side by side."""
        if self._side_by_side == 1:
            delivery = self._hub.pop()
            if delivery is not None and self.run_.views is not None:
                origin, to, message = delivery
                self.run_.views.record(to, origin, message)
            return [] if delivery is None else [delivery]
        parties = [party for party in self._machines if self._hub.waiting(party)][: self._side_by_side]
        return [delivery for party in parties if (delivery := self._hub.pop(party)) is not None]

    def _deliver(self, deliveries: Sequence[tuple[Party, Party, Message]]) -> None:
        if len(deliveries) > 1:
            held: dict[Party, list[tuple[Party, Message]]] = {to: [] for _, to, _ in deliveries}
            self._held = held
            with backend.one_thread():
                at_once([partial(self._hear, self._machines[to], origin, said) for origin, to, said in deliveries])
            self._held = {}
            for origin, messages in held.items():
                for to, message in messages:
                    self._ends[origin].send(to, message)
            return
        for origin, to, message in deliveries:
            self._hear(self._machines[to], origin, message)

    def _send(self, origin: Party, to: Party, message: Message) -> None:
        if origin in self._held:
            self._held[origin].append((to, message))
        else:
            self._ends[origin].send(to, message)

    def _hear(self, machine: Machine, speaker: Party, message: Message) -> None:
        stage = machine.state.name.lower()
        effects = self._timed(machine, stage, lambda: machine.receive(speaker, message))
        self._do(machine, effects)

    def _do(self, machine: Machine, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case Send(to, message):
                    self._send(machine.me, to, message)
                case Finish(result):
                    self.run_.results[machine.me] = result
                case Compute(label, work):
                    self._compute(machine, label, work)
                case Abort(error):
                    self._tell(machine, error)

    def _compute(self, machine: Machine, label: str, work: Any) -> None:
        try:
            value = self._timed(machine, label, work)
        except FedSVDError as error:
            self._do(machine, machine.fail(error))
            return
        self._hear(machine, machine.me, Computed(machine.plan.digest, label, value))

    def _tell(self, machine: Machine, error: FedSVDError) -> None:
        """Tell the others why: a user tells the CSP, the CSP tells everybody."""
        message = Aborted(machine.plan.digest, error.code, machine.stage.lower())
        others = [party for party in self._machines if party != machine.me]
        for party in others if machine.me == CSP else [CSP]:
            self._send(machine.me, party, message)

    def _timed(self, machine: Machine, stage: str, work: Any) -> Any:
        started = perf_counter()
        try:
            return work()
        finally:
            key = f"{machine.me.name}: {stage}"
            self.run_.seconds[key] += perf_counter() - started
            self.run_.began.setdefault(key, started - self._zero)

    def _raise_failure(self) -> None:
        failures = [machine.failure for machine in self._machines.values() if machine.failure is not None]
        if failures:
            # The first cause, not its echo at the other parties.
            raise next((error for error in failures if not isinstance(error, PeerAborted)), failures[0])
        waiting = [str(machine) for machine in self._machines.values() if not machine.over]
        if waiting:
            raise ProtocolError(f"the session fell silent with {', '.join(waiting)}")
