"""Calls to the CSP over several TLS connections, repeated until they get through.

One connection cannot fill a fast path with a long delay, so calls go over several, each over the one with least to do.
Every call may be repeated; how, and for how long, is in ``repeat.py``. Who is at the other end is found out in
``meeting.py``.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import grpc

from fedsvd.errors import PeerLost
from fedsvd.transport.calls import ASK
from fedsvd.transport.meeting import Dialling as Dialling
from fedsvd.transport.meeting import Meeting, Unmet
from fedsvd.transport.repeat import Landed, Repeating

T = TypeVar("T")

_MOST_CALLS = 2  # at once, over each connection
_LONGEST_CALL = 60.0
_LONGEST_QUESTION = 20.0


class Line:
    """Connections to the CSP, whose certificate the owner of this end knows and takes no other for."""

    def __init__(self, dialling: Dialling) -> None:
        self._patience = dialling.patience
        self._stopped = threading.Event()
        self._meeting = Meeting(dialling)
        self._busy = [0] * dialling.channels  # calls on their way
        self._lock = threading.Lock()

    @property
    def csp(self) -> bytes:
        """The CSP's certificate, in PEM; empty before the first call."""
        return self._meeting.csp

    def call(self, method: str, body: bytes, patience: float | None = None) -> bytes:
        """The answer to one call."""
        ((_, answer),) = self.stream(method, [body], lambda it: it, patience)
        return answer

    def stream(
        self, method: str, items: Iterable[T], body: Callable[[T], bytes], patience: float | None = None
    ) -> Iterator[tuple[T, bytes]]:
        """Every item with the answer to its call, as answers come in; a few calls are on their way at any time."""
        patience = self._patience if patience is None else patience
        # Twice within our patience, so that a call that is stuck is tried over another connection before we give up.
        timeout = max(min(_LONGEST_CALL, patience / 2), _LONGEST_QUESTION if method == ASK else 0.0)

        def attempt(body: bytes, failed_on: int) -> Landed:
            return self._attempt(method, body, failed_on, timeout)

        window = range(len(self._busy), _MOST_CALLS * len(self._busy) + 1)
        return Repeating(attempt, body, self.pause, patience, window).run(items)

    def _attempt(self, method: str, body: bytes, failed_on: int, timeout: float) -> Landed:
        """One call, not over the connection that it failed on before if there are others."""
        with self._lock:
            usable = [which for which in range(len(self._busy)) if which != failed_on] or [failed_on]
            channel = min(usable, key=self._busy.__getitem__)
            self._busy[channel] += 1
        try:
            self.expect_up()
            answer = self._meeting.call(channel, method, body, timeout)
            return Landed(channel, grpc.StatusCode.OK, answer)
        except Unmet as trouble:
            self.expect_up()
            return Landed(channel, trouble.status, text=trouble.text)
        finally:
            with self._lock:
                self._busy[channel] -= 1

    @property
    def closed(self) -> bool:
        return self._stopped.is_set()

    def expect_up(self) -> None:
        if self.closed:
            raise _hung_up()

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the end of the line."""
        self._stopped.wait(seconds)
        self.expect_up()

    def close(self) -> None:
        """Hang up; calls on their way are given up."""
        self._stopped.set()
        self._meeting.end()


def _hung_up() -> PeerLost:
    return PeerLost("the line was hung up")
