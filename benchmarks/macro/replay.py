"""One role alone: a session is run once with everything recorded, and then one party plays its part of it again.

So a role's memory and time can be seen without the others' in the same process. What it receives is copied first, as if
it had just come in from a wire, and what it sends is dropped. Memory is what becomes resident beyond what was there
before: the role's arrays, messages it holds and LAPACK's workspaces; its data lies in memory beforehand.
"""

import ctypes
import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsvd.engine.player import Player
from fedsvd.engine.simulate import Simulation
from fedsvd.protocol.machine import Machine
from fedsvd.protocol.messages import Message, Views
from fedsvd.protocol.parties import CSP, Party
from fedsvd.randomness.seed import Seed
from fedsvd.storage.scratch import usual_scratch
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import assemble
from fedsvd.studies.study import Study
from fedsvd.transport.loopback import Hub, first_sent

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # mallopt's names for them


@dataclass
class Life:
    """What a role took: seconds by stage, and the most it had resident in each, in bytes."""

    seconds: dict[str, float] = field(default_factory=dict)
    resident: dict[str, int] = field(default_factory=dict)

    @property
    def memory(self) -> int:
        return max(self.resident.values(), default=0)

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def memory_of(study: Study, parties: Sequence[PartyData]) -> Iterator[tuple[Party, int]]:
    """The first user, the last user and the CSP, with the bytes each has resident at most when it lives alone."""
    seed, scratch = Seed(bytes(32)), usual_scratch()
    session = assemble(study, parties, seed, scratch)
    views = Simulation(session.machines, Hub(first_sent), record=True).run().views
    users, received = session.plan.users, Views() if views is None else views
    del session
    for party in (users[0], users[-1], CSP):
        machines = assemble(study, parties, seed, scratch).machines
        machine = next(machine for machine in machines if machine.me == party)
        del machines
        yield party, live(machine, received.received.get(party, [])).memory


class _Nowhere:
    """A transport whose messages reach no one."""

    def send(self, to: Party, message: Message) -> None:
        return None

    def receive(self, wait: float = 0.0) -> tuple[Party, Message] | None:
        return None

    def close(self) -> None:
        return None


def live(machine: Machine, received: list[tuple[Party, Message]]) -> Life:
    """The role's session again, alone."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    life, base, stage = Life(), _resident("VmRSS"), machine.state.name.lower()

    def measure(entered: str) -> None:
        nonlocal stage
        life.resident[stage] = max(life.resident.get(stage, 0), _resident("VmHWM") - base)
        stage = entered
        _RESET.write_text("5")

    _RESET.write_text("5")
    player = Player(machine, _Nowhere(), watch=measure)
    player.begin()
    for sender, message in received:
        player.receive(sender, _copied(message))
    measure(stage)
    if player.failure is not None:
        raise player.failure
    life.seconds.update(player.played.seconds)
    return life


def _copied(message: Message) -> Message:
    copies = {f.name: _copy(getattr(message, f.name)) for f in fields(message)}
    return replace(message, **copies)


def _copy(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    return tuple(_copy(item) for item in value) if isinstance(value, tuple) else value


def _resident(which: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(which):
            return 1024 * int(line.split()[1])
    return 0


def return_memory_at_once() -> None:
    """Arrays get pages of their own and give them back when they go: without it freed memory stays resident.

    To be called before anything large is allocated.
    """
    libc = ctypes.CDLL(None)
    libc.mallopt(_MMAP_THRESHOLD, 1 << 16)
    libc.mallopt(_TRIM_THRESHOLD, 1 << 16)
