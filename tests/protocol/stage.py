"""A session stopped at a chosen moment, and what a role holds at that moment, to compare with later."""

from collections.abc import Callable
from enum import Enum
from types import GeneratorType
from typing import Any

import numpy as np

from fedsvd.protocol.machine import Machine
from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.testing.federation import Federation

When = Callable[[Machine, Party, Message | None], bool]  # None: the value of its own computation
ENGINE = ("state", "failure", "stage")  # what an abort is allowed to change


class Stopped(Exception):
    """The moment has come; not a FedSVDError, so that nothing turns it into an abort."""

    def __init__(self, machine: Machine, sender: Party, message: Message | None) -> None:
        super().__init__(str(machine))
        self.machine, self.sender, self.message = machine, sender, message


def stop(federation: Federation, when: When) -> Stopped | None:
    """The first delivery that ``when`` approves of, not yet heard; None when the session ends without one."""

    def watch(machine: Machine) -> None:
        heard = machine.receive

        def receive(sender: Party, message: Message) -> Any:
            if when(machine, sender, message):
                raise Stopped(machine, sender, message)
            return heard(sender, message)

        taken = machine.computed

        def computed(value: Any) -> Any:
            if when(machine, machine.me, None):
                raise Stopped(machine, machine.me, None)
            return taken(value)

        machine.receive, machine.computed = receive, computed  # type: ignore[method-assign]

    assemble = federation.assemble

    def assembled() -> Any:
        session = assemble()
        for machine in session.machines:
            watch(machine)
        return session

    federation.assemble = assembled  # type: ignore[method-assign]
    try:
        federation.run()
    except Stopped as stopped:
        for machine in federation.machines.values():
            del machine.receive, machine.computed  # the class's own again
        return stopped
    finally:
        federation.assemble = assemble  # type: ignore[method-assign]
    return None


def in_state(party: Party, state: Enum) -> When:
    """``party`` is in ``state`` and about to hear something."""
    return lambda machine, sender, message: machine.me == party and machine.state is state


def about_to_hear(party: Party, kind: type[Message], nth: int = 0) -> When:
    """``party`` is about to hear its nth message of a kind."""
    count = -1

    def when(machine: Machine, sender: Party, message: Message | None) -> bool:
        nonlocal count
        count += machine.me == party and isinstance(message, kind)
        return count == nth

    return when


def held(machine: Machine) -> Any:
    """Everything a role holds, but for what an abort may change, as plain values that can be compared."""
    seen: dict[int, Any] = {}
    return [(name, _plain(value, seen)) for name, value in vars(machine).items() if name not in ENGINE]


def _plain(value: Any, seen: dict[int, Any]) -> Any:
    if isinstance(value, str | int | float | bytes | bool | slice | type(None)):
        return repr(value)
    if isinstance(value, SessionPlan):
        return value.digest  # frozen; what it has derived and kept may grow
    if isinstance(value, Party):
        return value.name  # likewise
    if id(value) in seen:
        return f"the {list(seen).index(id(value))}th"
    seen[id(value)] = value  # kept alive, so that its id stays its own
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return [(_plain(key, seen), _plain(item, seen)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(item, seen) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, GeneratorType):
        frame = value.gi_frame
        if frame is None:
            return None
        # From Python 3.13 on f_locals is a view of the frame, a new one at every look.
        return frame.f_lasti, _plain(value.gi_yieldfrom, seen), _plain(dict(frame.f_locals), seen)
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    inside = {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(value, "__dict__", {})
    ours = type(value).__module__.startswith("fedsvd")
    content = [(name, _plain(item, seen)) for name, item in inside.items()] if ours else id(value)
    return type(value).__qualname__, content
