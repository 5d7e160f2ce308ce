"""One role alone: a session is run once with everything recorded, and then one party lives through it again.

So a role's memory and time can be seen without the others' in the same process. What it hears is copied first, as if
it had just come in from a wire, and what it says is dropped. Memory is what becomes resident beyond what was there
before: the role's arrays, messages it holds and LAPACK's workspaces; its data lies in memory beforehand.
"""

import ctypes
import gc
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from fedsvd.protocol.machine import Abort, Compute, Effect, Machine
from fedsvd.protocol.messages import Begin, Computed, Message, Views
from fedsvd.protocol.parties import CSP, Party

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


def live(machine: Machine, heard: list[tuple[Party, Message]]) -> Life:
    """The role's session again, alone."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    life, base = Life(), _resident("VmRSS")

    def step(stage: str, work: Callable[[], Any]) -> Any:
        _RESET.write_text("5")
        started = perf_counter()
        value = work()
        life.seconds[stage] = life.seconds.get(stage, 0.0) + perf_counter() - started
        life.resident[stage] = max(life.resident.get(stage, 0), _resident("VmHWM") - base)
        return value

    if machine.me != CSP:
        heard = [(machine.me, Begin(machine.plan.digest)), *heard]
    for speaker, message in heard:
        _hear(machine, speaker, message, step)
    return life


def _hear(machine: Machine, speaker: Party, message: Message, step: Callable[..., Any]) -> None:
    state = machine.state.name.lower()
    effects = step(state, lambda: machine.receive(speaker, _copied(message)))
    _do(machine, effects, step)


def _do(machine: Machine, effects: tuple[Effect, ...], step: Callable[..., Any]) -> None:
    for effect in effects:
        match effect:
            case Compute(label, work):
                computed = Computed(machine.plan.digest, label, step(label, work))
                _do(machine, step(label, partial(machine.receive, machine.me, computed)), step)
            case Abort(error):
                raise error


def _copied(message: Message) -> Message:
    copies = {f.name: _copy(getattr(message, f.name)) for f in fields(message)}
    return replace(message, **copies)


def _copy(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    return tuple(_copy(item) for item in value) if isinstance(value, tuple) else value


def heard_by(views: Views, party: Party) -> list[tuple[Party, Message]]:
    return views.heard.get(party, [])


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
