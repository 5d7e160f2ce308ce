"""Calls to the CSP over TLS connections that are pinned to its certificate, repeated until they get through.

That TLS finds the operator's signature is not enough: the operator could sign a second CSP, and a revoked one was
signed, too. gRPC does not show a client what certificate the server came with. So the CSP is asked for it, over a first
connection that only the signature vouches for; the owner's pins, the list of revocations and the clock judge it; and
all further connections trust this one certificate and nothing else. A server that shows a certificate
without having its key fails there, in TLS itself.

One connection cannot fill a fast path with a long delay, so calls go over several, each over the one with least to do.
Every call may be repeated; how, and for how long, is in ``repeat.py``.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import TypeVar

import grpc

from fedsvd.errors import NotAuthenticated, PeerLost
from fedsvd.transport.calls import ASK, DIALLING_OPTIONS, GREET, LONGEST_STAY, METHODS, STAY, UNTRUSTED
from fedsvd.transport.pace import Pace
from fedsvd.transport.repeat import Landed, Repeating
from fedsvd.wire.frame import FRAME

T = TypeVar("T")

_CHECK_HOLDS = 1.0  # seconds
_MOST_CALLS = 2  # at once, over each connection
_LONGEST_CALL = 60.0
_LONGEST_ANSWER = {ASK: 20.0, STAY: LONGEST_STAY + 20.0}


@dataclass(frozen=True, repr=False)
class Dialling:
    """How to reach the CSP: address, our PEM key and certificate, the federation's CA, and who the CSP must be.

    ``expect_csp`` raises ``NotAuthenticated`` for a certificate, in PEM, that is not the CSP's, or not any more.
    """

    address: str
    key: bytes
    certificate: bytes
    ca: bytes
    expect_csp: Callable[[bytes], object]
    channels: int = 4
    patience: float = 120.0
    frame: int = FRAME
    held: int = 64 << 20  # bytes queued before ``send`` waits, and received before no more are fetched
    known: "Known" = field(default_factory=lambda: Known())  # all connections made from here ask but once


@dataclass
class Known:
    """The CSP's certificate, in PEM, once it is known."""

    csp: bytes = b""


class CallFailed(Exception):
    """A call that was not answered: gRPC's status, and what it says of the reason."""

    def __init__(self, status: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text

    @property
    def untrusted(self) -> bool:
        """Whether TLS here refused the other end."""
        return self.status is grpc.StatusCode.UNAVAILABLE and any(sign in self.text for sign in UNTRUSTED)


class TlsChannel:
    """One TLS connection that trusts these roots."""

    def __init__(self, dialling: Dialling, roots: bytes) -> None:
        credentials = grpc.ssl_channel_credentials(roots, dialling.key, dialling.certificate)
        self._channel = grpc.secure_channel(dialling.address, credentials, DIALLING_OPTIONS)
        self._methods = {name: self._channel.unary_unary(name) for name in METHODS}

    def call(self, method: str, body: bytes, timeout: float) -> bytes:
        """The answer, or ``CallFailed``."""
        try:
            answer: bytes = self._methods[method](body, timeout=timeout)
            return answer
        except grpc.RpcError as error:
            raise CallFailed(error.code(), str(error.details() or "")) from None
        except ValueError:  # closed a moment ago
            raise CallFailed(grpc.StatusCode.CANCELLED, "the connection was closed") from None

    def close(self) -> None:
        """Close; calls on their way are given up."""
        self._channel.close()


class PinnedChannels:
    """The channels to a CSP whose certificate has passed the owner's checks."""

    def __init__(self, dialling: Dialling) -> None:
        self.csp = b""  # its certificate, in PEM
        self._dialling = dialling
        self._connecting = threading.Lock()
        self._lock = threading.Lock()  # guards what follows, and is never held during a call
        self._first: TlsChannel | None = None
        self._open: list[TlsChannel] = []
        self._checked_at = 0.0  # when
        self._keyless = b""  # the certificate of which the other end turned out not to have the key
        self._ended = False

    def call(self, number: int, method: str, body: bytes, timeout: float) -> bytes:
        """The answer to one call over one of the connections, or ``CallFailed``."""
        channel = self._checked(number, timeout)
        try:
            return channel.call(method, body, timeout)
        except CallFailed as trouble:
            if not trouble.untrusted:
                raise
            self._drop(channel)  # renewed, or never the CSP's: ask once more
            raise CallFailed(trouble.status, "the CSP came with another certificate") from None

    def end(self) -> None:
        """Close, while it is being asked for its certificate if it must be."""
        with self._lock:
            self._ended = True
            going = [*self._open, *([] if self._first is None else [self._first])]
        for channel in going:
            channel.close()

    def _checked(self, number: int, timeout: float) -> TlsChannel:
        """A channel to a CSP whose certificate was checked within the last second."""
        with self._connecting:
            with self._lock:
                known, late = list(self._open), monotonic() - self._checked_at > _CHECK_HOLDS
            if not known:
                known = self._connect(timeout)
            elif late:
                self._check(self.csp)
            return known[number]

    def _connect(self, timeout: float) -> list[TlsChannel]:
        shown = self._dialling.known.csp or self._certificate_shown(timeout)
        self._check(shown)
        keyless, self._keyless = self._keyless, b""
        if shown == keyless:
            raise NotAuthenticated(
                f"the server at {self._dialling.address} shows the CSP's certificate and does not have its key",
                "another server may be posing as the CSP: ask its operator",
            )
        made = [TlsChannel(self._dialling, shown) for _ in range(self._dialling.channels)]
        with self._lock:
            self.csp = self._dialling.known.csp = shown
            self._open = made
            ended = self._ended
        if ended:
            self.end()
        return made

    def _certificate_shown(self, timeout: float) -> bytes:
        """What the CSP says its certificate is, over a connection that the operator's signature alone vouches for."""
        first = TlsChannel(self._dialling, self._dialling.ca)
        with self._lock:
            self._first = first
            ended = self._ended
        try:
            if ended:
                raise CallFailed(grpc.StatusCode.CANCELLED, "the connection was closed")
            return first.call(GREET, b"", timeout)
        finally:
            with self._lock:
                self._first = None
            first.close()

    def _check(self, certificate: bytes) -> None:
        self._dialling.expect_csp(certificate)
        with self._lock:
            self._checked_at = monotonic()

    def _drop(self, channel: TlsChannel) -> None:
        """Drop a CSP whose connections do not come about."""
        with self._lock:
            if channel not in self._open:
                return  # another thread did
            going, self._open, self._keyless = self._open, [], self.csp
            self._dialling.known.csp = b""
        for each in going:
            each.close()


class PinnedConnection:
    """Connections to the CSP, whose certificate the owner of this end knows and takes no other for."""

    def __init__(self, dialling: Dialling) -> None:
        self._patience = dialling.patience
        self._stopped = threading.Event()
        self._channels = PinnedChannels(dialling)
        self._busy = [0] * dialling.channels  # calls on their way
        self._lock = threading.Lock()

    @property
    def csp(self) -> bytes:
        """The CSP's certificate, in PEM; empty before the first call."""
        return self._channels.csp

    def call(self, method: str, body: bytes, patience: float | None = None) -> bytes:
        """The answer to one call."""
        ((_, answer),) = self.stream(method, [body], lambda it: it, patience)
        return answer

    def stream(
        self,
        method: str,
        items: Iterable[T],
        body: Callable[[T], bytes],
        patience: float | None = None,
        pace: Pace | None = None,
    ) -> Iterator[tuple[T, bytes]]:
        """Every item with the answer to its call, as answers come in.

        A few calls are on their way at any time, one where the line is thin; ``pace`` hears how long they took.
        """
        patience = self._patience if patience is None else patience
        # Twice within our patience, so that a call that is stuck is tried over another connection before we give up.
        timeout = max(min(_LONGEST_CALL, patience / 2), _LONGEST_ANSWER.get(method, 0.0))

        def attempt(body: bytes, failed_on: int) -> Landed:
            return self._attempt(method, body, failed_on, timeout)

        window = range(len(self._busy), _MOST_CALLS * len(self._busy) + 1)
        return Repeating(attempt, body, self.pause, patience, window, pace).run(items)

    def _attempt(self, method: str, body: bytes, failed_on: int, timeout: float) -> Landed:
        """One call, not over the connection that it failed on before if there are others."""
        with self._lock:
            usable = [which for which in range(len(self._busy)) if which != failed_on] or [failed_on]
            channel = min(usable, key=self._busy.__getitem__)
            self._busy[channel] += 1
        try:
            self.expect_up()
            answer = self._channels.call(channel, method, body, timeout)
            return Landed(channel, grpc.StatusCode.OK, answer)
        except CallFailed as trouble:
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
            raise _closed_here()

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the end of the connection."""
        self._stopped.wait(seconds)
        self.expect_up()

    def close(self) -> None:
        """Close; calls on their way are given up."""
        self._stopped.set()
        self._channels.end()


def _closed_here() -> PeerLost:
    return PeerLost("the connection was closed")
