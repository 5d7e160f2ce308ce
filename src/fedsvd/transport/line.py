"""Calls to the CSP over several TLS connections, repeated until they get through.

One connection cannot fill a fast path with a long delay, so calls go over several, each over the one with least to do.
Every call may be repeated, so the answer to any trouble is to call again, until nothing has got through for longer than
``patience``: time out on lack of progress, never on total duration.
"""

import heapq
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, Generic, TypeVar

import grpc

from fedsvd.errors import MalformedFrame, NotAuthenticated, PeerLost, TimedOut
from fedsvd.transport.calls import ASK, BUSY, DIALLING_OPTIONS, METHODS
from fedsvd.wire.frame import FRAME

T = TypeVar("T")

_LONGEST_CALL = 60.0
_LONGEST_QUESTION = 20.0
_PAUSES = (0.05, 2.0)  # seconds before a call is repeated: at first, and at most
_CALLS = 2  # at once, over each connection
_TRANSIENT = {
    BUSY,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
}


@dataclass(frozen=True, repr=False)
class Dialling:
    """How to reach the CSP: address, our PEM key and certificate, the federation's CA."""

    address: str
    key: bytes
    certificate: bytes
    ca: bytes
    channels: int = 4
    patience: float = 120.0
    frame: int = FRAME
    held: int = 64 << 20  # bytes queued before ``send`` waits, and heard before no more are fetched


@dataclass(order=True)
class _Flight(Generic[T]):
    """One call on its way; those that began first are repeated first."""

    place: int
    item: T = field(compare=False)
    body: bytes = field(compare=False)
    channel: int = field(compare=False, default=-1)
    call: Any = field(compare=False, default=None)


class Line:
    """Connections to the CSP."""

    def __init__(self, dialling: Dialling) -> None:
        self._patience = dialling.patience
        self._stopped = threading.Event()
        credentials = grpc.ssl_channel_credentials(dialling.ca, dialling.key, dialling.certificate)
        self._channels = [
            grpc.secure_channel(dialling.address, credentials, DIALLING_OPTIONS) for _ in range(dialling.channels)
        ]
        self._methods = [{name: channel.unary_unary(name) for name in METHODS} for channel in self._channels]
        self._busy = [0] * dialling.channels  # calls on their way
        self._lock = threading.Lock()
        self.most = _CALLS * dialling.channels  # calls of one stream on their way

    def call(self, method: str, body: bytes, patience: float | None = None) -> bytes:
        """The answer to one call."""
        return next(self.stream(method, [body], lambda it: it, patience))[1]

    def stream(
        self, method: str, items: Iterable[T], body: Callable[[T], bytes], patience: float | None = None
    ) -> Iterator[tuple[T, bytes]]:
        """Every item with the answer to its call, as answers come in; a few calls are on their way at any time."""
        return _Stream(self, method, body, self._patience if patience is None else patience).run(items)

    def launch(self, method: str, flight: "_Flight[T]", timeout: float, landed: Callable[[], None]) -> None:
        """Send a call on its way, not over the connection that it failed on; ``landed`` is told when it is over."""
        with self._lock:
            self.expect_up()
            usable = [which for which in range(len(self._busy)) if which != flight.channel] or [flight.channel]
            flight.channel = min(usable, key=self._busy.__getitem__)
            self._busy[flight.channel] += 1
        try:
            flight.call = self._methods[flight.channel][method].future(flight.body, timeout=timeout)
        except ValueError:  # the channel was closed a moment ago
            raise _hung_up() from None
        flight.call.add_done_callback(lambda _: self._land(flight.channel, landed))

    def _land(self, channel: int, landed: Callable[[], None]) -> None:
        with self._lock:
            self._busy[channel] -= 1
        landed()

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
        with self._lock:
            self._stopped.set()
        for channel in self._channels:
            channel.close()


class _Stream(Generic[T]):
    """Calls of one method, a window of them at a time; one at a time while there is trouble."""

    def __init__(self, line: Line, method: str, body: Callable[[T], bytes], patience: float) -> None:
        self._line = line
        self._method = method
        self._body = body
        self._patience = patience
        # Twice within our patience, so that a call that is stuck is tried over another connection before we give up.
        self._timeout = max(min(_LONGEST_CALL, patience / 2), _LONGEST_QUESTION if method == ASK else 0.0)
        self._window = line.most
        self._pause = _PAUSES[0]
        self._resume = 0.0  # when calls may be made again
        self._trouble = False
        self._progress = monotonic()
        self._flying: dict[int, _Flight[T]] = {}
        self._again: list[_Flight[T]] = []
        self._landed: queue.SimpleQueue[_Flight[T]] = queue.SimpleQueue()

    def run(self, items: Iterable[T]) -> Iterator[tuple[T, bytes]]:
        coming = enumerate(items)
        try:
            while True:
                self._launch(coming)
                if not self._flying and not self._again:
                    return
                flight = self._next_to_land()
                if flight is not None and self._well(flight):
                    yield flight.item, flight.call.result()
        finally:
            for flight in self._flying.values():
                flight.call.cancel()

    def _launch(self, coming: Iterator[tuple[int, T]]) -> None:
        """Fill the window: what must be repeated first, then what is new."""
        while len(self._flying) < (1 if self._trouble else self._window) and monotonic() >= self._resume:
            if self._again:
                flight = heapq.heappop(self._again)
            elif (fresh := next(coming, None)) is not None:
                flight = _Flight(*fresh, self._body(fresh[1]))
            else:
                return
            self._line.launch(self._method, flight, self._timeout, partial(self._landed.put, flight))
            self._flying[flight.place] = flight

    def _next_to_land(self) -> _Flight[T] | None:
        """The next call that is over; None when calls may be made again before one is."""
        pause = self._resume - monotonic()
        if not self._flying:
            self._line.pause(max(pause, 0.0))
            return None
        try:
            flight = self._landed.get(timeout=pause if pause > 0 else 2 * self._timeout + 5)
        except queue.Empty:
            if pause > 0:
                return None
            raise self._given_up("calls do not end") from None
        del self._flying[flight.place]
        return flight

    def _well(self, flight: _Flight[T]) -> bool:
        """Whether a call was answered; if not, it is made again, or nothing can help and this raises."""
        status, text, now = flight.call.code(), str(flight.call.details() or ""), monotonic()
        if status is grpc.StatusCode.OK:
            self._progress, self._trouble, self._pause = now, False, _PAUSES[0]
            self._window = min(self._window + 1, self._line.most)
            return True
        self._line.expect_up()
        _refuse(status, text)
        if status is BUSY:
            self._progress = now  # the CSP answers; it has its hands full
        if status is grpc.StatusCode.DEADLINE_EXCEEDED:
            self._window = max(1, self._window // 2)  # a thin line cannot carry so many in time
        if now - self._progress >= self._patience:
            raise self._given_up(text)
        if now >= self._resume:
            self._resume = min(now + self._pause, self._progress + self._patience)
            self._pause = min(2 * self._pause, _PAUSES[1])
        self._trouble = True
        heapq.heappush(self._again, flight)
        return False

    def _given_up(self, text: str) -> TimedOut:
        return TimedOut(
            f"nothing got through to the CSP for {self._patience:.0f} s ({text[:200]})",
            "check network, certificate and CSP: fedsvd doctor",
        )


# What gRPC says when TLS here refuses the CSP, or cannot begin; when the CSP refuses us it says only "closed".
_UNTRUSTED = ("CERTIFICATE_VERIFY_FAILED", "Hostname Verification", "security handshaker")


def _refuse(status: grpc.StatusCode, text: str) -> None:
    """Raise, unless calling again can help."""
    if status is grpc.StatusCode.UNAVAILABLE and any(sign in text for sign in _UNTRUSTED):
        raise NotAuthenticated(
            "the CSP's certificate is not one for this address and federation, or our key is not our certificate's",
            "compare address, clock and kit: fedsvd doctor",
        )
    if status is grpc.StatusCode.PERMISSION_DENIED:
        raise NotAuthenticated(_without_code(text))
    if status is grpc.StatusCode.FAILED_PRECONDITION:
        raise PeerLost(_without_code(text))
    if status not in _TRANSIENT:
        raise MalformedFrame(_without_code(text))


def _hung_up() -> PeerLost:
    return PeerLost("the line was hung up")


def _without_code(text: str) -> str:
    """The fault in a status text, without the code it starts with."""
    return text.partition(": ")[2].partition(". Fix:")[0] or text
