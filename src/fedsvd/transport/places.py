"""Places for calls that wait, and which callers are there.

A call that waits holds a thread of the CSP. Threads are divided: some for callers that only show that they are
there, some for members that wait for messages, for members' questions and for all others', and of these a few to any
one caller. What finds no place is answered at once, or put off; the threads that are left carry frames.

A member holds one call open from its start to its end, which does nothing else. When its process dies the connection
closes and that call breaks off; when it stands still, nothing comes over any connection of it (``connections.py``).
Both are noticed whatever the member did at the time.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar

Caller = str
T = TypeVar("T")


class Places:
    """Places for calls of one kind: ``most`` in all, ``of_one`` caller."""

    def __init__(self, most: int, of_one: int) -> None:
        self._most, self._of_one = most, of_one
        self._taken = Counter[Caller]()
        self._lock = threading.Lock()

    @contextmanager
    def place(self, caller: Caller) -> Iterator[bool]:
        """Whether there was a place; it is given back at the end."""
        with self._lock:
            free = self._taken.total() < self._most and self._taken[caller] < self._of_one
            self._taken[caller] += int(free)
        try:
            yield free
        finally:
            with self._lock:
                self._taken[caller] -= int(free)
                if not self._taken[caller]:
                    del self._taken[caller]


class Presence:
    """Which callers are there: each holds a call open for as long as it is.

    ``quiet_since`` says of a caller since when nothing has come from it, or None.
    """

    def __init__(self, quiet_since: Callable[[Caller], float | None] = lambda caller: None) -> None:
        self._quiet_since = quiet_since
        self._lock = threading.Lock()
        self._here: dict[Caller, set[threading.Event]] = {}
        self._lost: dict[Caller, float] = {}  # when the last call of a caller broke off, and no other came since
        self._stopped = False

    def stay(self, caller: Caller, broke_off: threading.Event, seconds: float) -> None:
        """Hold a call for so long, or until it breaks off."""
        with self._lock:
            if self._stopped or broke_off.is_set():
                return
            self._here.setdefault(caller, set()).add(broke_off)
            self._lost.pop(caller, None)
        broke_off.wait(seconds)
        with self._lock:
            self._forget(caller, broke_off)

    def broke_off(self, caller: Caller, call: threading.Event) -> None:
        """The connection of a call that was held has closed."""
        with self._lock:
            held = self._forget(caller, call)
            if held and caller not in self._here and not self._stopped:
                self._lost[caller] = self._quiet_since(caller) or monotonic()
        call.set()

    def heard(self, caller: Caller) -> None:
        """A caller has asked something: one whose connection closed is back, and is missed from now on."""
        with self._lock:
            if caller in self._lost:
                self._lost[caller] = monotonic()

    def stop(self) -> None:
        """No call is held any more."""
        with self._lock:
            self._stopped = True
            calls = [call for held in self._here.values() for call in held]
        for call in calls:
            call.set()

    def here(self, caller: Caller) -> bool:
        """Whether a caller holds a call open."""
        with self._lock:
            return caller in self._here

    def lost_at(self, caller: Caller) -> float | None:
        """When a caller was last heard, if its last call broke off or it stands still; None for all others."""
        with self._lock:
            return self._lost.get(caller) or (self._quiet_since(caller) if caller in self._here else None)

    def lost(self, callers: Mapping[Caller, T]) -> dict[T, float]:
        """The same of those among these callers that are not there any more, under other names."""
        return _known({name: self.lost_at(caller) for caller, name in callers.items()})

    def still(self, callers: Mapping[Caller, T]) -> dict[T, float]:
        """Since when nothing has come from those that stand still, or whose line does."""
        with self._lock:
            here = {name: caller for caller, name in callers.items() if caller in self._here}
            return _known({name: self._quiet_since(caller) for name, caller in here.items()})

    def _forget(self, caller: Caller, call: threading.Event) -> bool:
        held = self._here.get(caller, set())
        known = call in held
        held.discard(call)
        if not held:
            self._here.pop(caller, None)
        return known


def _known(found: Mapping[T, float | None]) -> dict[T, float]:
    return {name: since for name, since in found.items() if since is not None}
