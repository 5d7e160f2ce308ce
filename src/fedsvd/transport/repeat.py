"""Calls that survive a bad network: a window of them at a time, each made again until it is answered.

The answer to any trouble is to call again, one at a time while it lasts, until nothing has got through for longer than
``patience``: time out on lack of progress, never on total duration. Calls are made by threads, each waiting for its
own, because gRPC's futures take half as much processor time again; a single call is made by the caller's own thread.
"""

import heapq
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from time import monotonic
from typing import Generic, TypeVar

import grpc

from fedsvd.errors import MalformedFrame, NotAuthenticated, OtherVersion, PeerLost, TimedOut
from fedsvd.transport.calls import BUSY, UNTRUSTED
from fedsvd.transport.pace import Pace

T = TypeVar("T")

_PAUSES = (0.05, 2.0)  # seconds before a call is repeated: at first, and at most
_SHORT = 0.025  # seconds of a call over a short line
_TRANSIENT = {
    BUSY,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
}


@dataclass(frozen=True, repr=False)
class Landed:
    """How one call ended: over which connection, with which status, and the answer or the reason."""

    channel: int
    status: grpc.StatusCode
    answer: bytes = b""
    text: str = ""


Attempt = Callable[[bytes, int], Landed]  # a body, and the connection to avoid


@dataclass(order=True, repr=False)
class _Flight(Generic[T]):
    """One call; those that began first are repeated first."""

    place: int
    item: T = field(compare=False)
    body: bytes = field(compare=False, default=b"")
    failed_on: int = field(compare=False, default=-1)


class Repeating(Generic[T]):
    """Calls of one kind, for one item after the other."""

    def __init__(
        self,
        attempt: Attempt,
        body: Callable[[T], bytes],
        pause: Callable[[float], None],
        patience: float,
        window: range,
        pace: Pace | None = None,
    ) -> None:
        self._attempt = attempt
        self._body = body
        self._wait = pause
        self._patience = patience
        self._most = window[-1]
        self._pace = pace
        self._lock = threading.Condition()  # guards what follows
        self._coming: Iterator[tuple[int, T]] = iter(())
        self._again: list[_Flight[T]] = []
        self._flying = 0
        self._threads = 0
        self._several = False
        self._window = window[0]
        self._pause = _PAUSES[0]
        self._resume = 0.0  # when calls may be made again
        self._trouble = False
        self._progress = monotonic()
        self._over = False
        self._answers: queue.SimpleQueue[tuple[T, bytes] | Exception | None] = queue.SimpleQueue()

    def run(self, items: Iterable[T]) -> Iterator[tuple[T, bytes]]:
        """Every item with its answer, as answers come in."""
        coming = iter(items)
        first = list(islice(coming, 2))
        self._coming = enumerate(chain(first, coming))
        self._several = len(first) == 2
        if self._several:
            self._hire()
        else:
            self._threads = 1
            self._work()
        try:
            while (answer := self._answers.get()) is not None:
                if isinstance(answer, Exception):
                    raise answer
                yield answer
        finally:
            with self._lock:
                self._over = True
                self._lock.notify_all()

    def _hire(self) -> None:
        self._threads += 1
        threading.Thread(target=self._work, daemon=True, name="calls").start()

    def _work(self) -> None:
        """Make calls until there are no more to be made."""
        try:
            while (flight := self._take()) is not None:
                flight.body = flight.body or self._body(flight.item)
                started = monotonic()
                landed = self._attempt(flight.body, flight.failed_on)
                self._land(flight, landed, monotonic() - started)
        except Exception as error:  # whatever it is, the thread that waits for answers must get it
            self._answers.put(error)
        finally:
            with self._lock:
                self._threads -= 1
                if not self._threads:
                    self._answers.put(None)

    def _take(self) -> _Flight[T] | None:
        """The next call, when one may be made: what must be repeated first, then what is new."""
        while True:
            with self._lock:
                pause = self._resume - monotonic()
                if self._over:
                    return None
                if pause <= 0 and self._flying < (1 if self._one_at_a_time else self._window):
                    return self._launch()
                if pause <= 0:
                    self._lock.wait(1.0)
                    continue
            self._wait(pause)

    @property
    def _one_at_a_time(self) -> bool:
        return self._trouble or (self._pace is not None and self._pace.thin)

    def _launch(self) -> _Flight[T] | None:
        if self._again:
            flight = heapq.heappop(self._again)
        elif (fresh := next(self._coming, None)) is not None:
            flight = _Flight(*fresh)
        else:
            return None
        self._flying += 1
        if self._several and self._flying == self._threads < self._most:
            self._hire()
        return flight

    def _land(self, flight: _Flight[T], landed: Landed, took: float) -> None:
        """An answer is handed on; a failure is repeated, or nothing can help and this raises."""
        with self._lock:
            self._flying -= 1
            self._lock.notify_all()
            now = monotonic()
            if landed.status is grpc.StatusCode.OK:
                self._progress, self._trouble, self._pause = now, False, _PAUSES[0]
                # Many calls at once fill a long line; over a short one they only get in each other's way, and a thin
                # one could not carry them in time.
                if _SHORT < took < self._patience / 16:
                    self._window = min(self._window + 1, self._most)
                if self._pace is not None:
                    self._pace.took(max(len(flight.body), len(landed.answer)), took)
                self._answers.put((flight.item, landed.answer))
                return
            _refuse(landed)
            self._weigh(landed, now)
            flight.failed_on = landed.channel
            heapq.heappush(self._again, flight)

    def _weigh(self, landed: Landed, now: float) -> None:
        """When to call again, if we still have patience."""
        if landed.status is BUSY:
            self._progress = now  # the CSP answers; it has its hands full
        if landed.status is grpc.StatusCode.DEADLINE_EXCEEDED:
            self._window = max(1, self._window // 2)  # a thin line cannot carry this many in time
            if self._pace is not None:
                self._pace.failed()
        if now - self._progress >= self._patience:
            raise TimedOut(
                f"nothing got through to the CSP for {self._patience:.0f} s ({landed.text[:200]})",
                "check network, certificate and CSP: fedsvd doctor",
            )
        self._trouble = True
        if now >= self._resume:
            self._resume = min(now + self._pause, self._progress + self._patience)
            self._pause = min(2 * self._pause, _PAUSES[1])


def _refuse(landed: Landed) -> None:
    """Raise, unless calling again can help."""
    status, text = landed.status, landed.text
    if status is grpc.StatusCode.PERMISSION_DENIED:
        raise NotAuthenticated(*_said(text))
    if status is grpc.StatusCode.FAILED_PRECONDITION:
        raise PeerLost(*_said(text))
    if status is grpc.StatusCode.INVALID_ARGUMENT and text.startswith(OtherVersion.code):
        fault, fix = _said(text)
        raise OtherVersion(fault, fix or "run one version at the CSP and at all members")
    if status not in _TRANSIENT:
        raise MalformedFrame(*_said(text))
    if status is grpc.StatusCode.UNAVAILABLE and any(sign in text for sign in UNTRUSTED):
        raise NotAuthenticated(
            "the CSP's certificate is not one for this address and federation, or our key is not our certificate's",
            "compare address, clock and kit: fedsvd doctor",
        )


def _said(text: str) -> tuple[str, str]:
    """Fault and fix in a status text, without the code it starts with: the CSP knows what the caller may do."""
    fault, _, fix = text.partition(": ")[2].partition(". Fix: ")
    return fault or text, fix
