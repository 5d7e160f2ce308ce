"""Runs the roles of one session in one process: delivers messages, runs computations, keeps the clock.

The driver knows no mathematics. It takes the next delivery, hands it to the machine it is for, and does what the
machine's effects say, until every machine is done or one aborts; then it tells everybody.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from fedsvd.errors import (
    FedSVDError,
    NumericalError,
    PeerAborted,
    ProtocolError,
    RowsDiffer,
    ShapeError,
    TransportError,
)
from fedsvd.protocol.effects import Abort, Compute, Effect, Finish, Send
from fedsvd.protocol.machine import Machine
from fedsvd.protocol.messages import Aborted, Begin, Computed, Message
from fedsvd.protocol.parties import CSP, Party
from fedsvd.protocol.views import Views
from fedsvd.transport.loopback import Hub
from fedsvd.transport.metered import Meter, Metered

# What a peer did, and what was computed together, may be said to all. Errors of a party's own data, disk or settings
# name its columns, rows and files, which concern nobody else: of these the others hear the code.
_ALOUD = (ProtocolError, NumericalError, ShapeError, RowsDiffer, TransportError)


def aloud(error: FedSVDError) -> str:
    """What the other parties are told of an error beside its code."""
    return error.fault if isinstance(error, _ALOUD) else "the reason stays where it happened"


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

    def __init__(self, machines: Sequence[Machine], hub: Hub, record: bool = False) -> None:
        self._machines = {machine.me: machine for machine in machines}
        self._hub = hub
        self.run_ = Run(views=Views() if record else None)
        self._zero = perf_counter()
        self._ends = {party: Metered(hub.end(party), party, self.run_.meter) for party in self._machines}

    def run(self) -> Run:
        """Drive until everybody is done; the error that stopped the session, if one did."""
        for machine in self._machines.values():
            if machine.me != CSP:
                self._hear(machine, machine.me, Begin(machine.plan.digest))
        while (delivery := self._hub.pop()) is not None:
            origin, to, message = delivery
            if self.run_.views is not None:
                self.run_.views.record(to, origin, message)
            self._hear(self._machines[to], origin, message)
        self._raise_failure()
        return self.run_

    def _hear(self, machine: Machine, speaker: Party, message: Message) -> None:
        stage = machine.state.name.lower()
        effects = self._timed(machine, stage, lambda: machine.receive(speaker, message))
        self._do(machine, effects)

    def _do(self, machine: Machine, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case Send(to, message):
                    self._ends[machine.me].send(to, message)
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
        message = Aborted(machine.plan.digest, error.code, machine.stage.lower(), aloud(error))
        others = [party for party in self._machines if party != machine.me]
        for party in others if machine.me == CSP else [CSP]:
            self._ends[machine.me].send(party, message)

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
