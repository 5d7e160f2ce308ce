"""Making sure that it is the CSP: a member asks for its certificate, looks at it, and takes no other from then on.

That TLS finds the operator's signature is not enough: the operator could sign a second CSP, and a revoked one was
signed, too. gRPC does not show a client what certificate the server came with. So the CSP is asked for it, over a first
connection that only the signature speaks for; the owner's pins, the list of revocations and the clock judge it; and all
further connections trust this one certificate and nothing else. Whoever answered with a certificate without having its
key is found out there and then, by TLS itself.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

import grpc

from fedsvd.errors import NotAuthenticated
from fedsvd.transport.calls import DIALLING_OPTIONS, GREET, METHODS, UNTRUSTED
from fedsvd.wire.frame import FRAME

_CHECK_HOLDS = 1.0  # seconds


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
    held: int = 64 << 20  # bytes queued before ``send`` waits, and heard before no more are fetched
    known: "Known" = field(default_factory=lambda: Known())  # all lines made from here ask but once


@dataclass
class Known:
    """The CSP's certificate, in PEM, once it has been met."""

    csp: bytes = b""


class Unmet(Exception):
    """A call that was not answered: gRPC's status, and what it says of the reason."""

    def __init__(self, status: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text

    @property
    def untrusted(self) -> bool:
        """Whether TLS here refused the other end."""
        return self.status is grpc.StatusCode.UNAVAILABLE and any(sign in self.text for sign in UNTRUSTED)


class Connection:
    """One TLS connection that trusts these roots."""

    def __init__(self, dialling: Dialling, roots: bytes) -> None:
        credentials = grpc.ssl_channel_credentials(roots, dialling.key, dialling.certificate)
        self._channel = grpc.secure_channel(dialling.address, credentials, DIALLING_OPTIONS)
        self._methods = {name: self._channel.unary_unary(name) for name in METHODS}

    def call(self, method: str, body: bytes, timeout: float) -> bytes:
        """The answer, or ``Unmet``."""
        try:
            answer: bytes = self._methods[method](body, timeout=timeout)
            return answer
        except grpc.RpcError as error:
            raise Unmet(error.code(), str(error.details() or "")) from None
        except ValueError:  # closed a moment ago
            raise Unmet(grpc.StatusCode.CANCELLED, "the connection was closed") from None

    def close(self) -> None:
        """Hang up; calls on their way are given up."""
        self._channel.close()


class Meeting:
    """The connections to a CSP that has been looked at."""

    def __init__(self, dialling: Dialling) -> None:
        self.csp = b""  # its certificate, in PEM
        self._dialling = dialling
        self._one_at_a_time = threading.Lock()
        self._lock = threading.Lock()  # guards what follows, and is never held while somebody waits
        self._first: Connection | None = None
        self._connections: list[Connection] = []
        self._looked = 0.0  # when
        self._keyless = b""  # the certificate of which the other end turned out not to have the key
        self._ended = False

    def call(self, number: int, method: str, body: bytes, timeout: float) -> bytes:
        """The answer to one call over one of the connections, or ``Unmet``."""
        connection = self._met(number, timeout)
        try:
            return connection.call(method, body, timeout)
        except Unmet as trouble:
            if not trouble.untrusted:
                raise
            self._part(connection)  # renewed, or never the CSP's: ask once more
            raise Unmet(trouble.status, "the CSP came with another certificate") from None

    def end(self) -> None:
        """Hang up, in the middle of a greeting if it must be."""
        with self._lock:
            self._ended = True
            going = [*self._connections, *([] if self._first is None else [self._first])]
        for connection in going:
            connection.close()

    def _met(self, number: int, timeout: float) -> Connection:
        """A connection to a CSP that was looked at within the last second."""
        with self._one_at_a_time:
            with self._lock:
                known, late = list(self._connections), monotonic() - self._looked > _CHECK_HOLDS
            if not known:
                known = self._meet(timeout)
            elif late:
                self._look(self.csp)
            return known[number]

    def _meet(self, timeout: float) -> list[Connection]:
        shown = self._dialling.known.csp or self._greeted(timeout)
        self._look(shown)
        keyless, self._keyless = self._keyless, b""
        if shown == keyless:
            raise NotAuthenticated(
                f"whoever answers at {self._dialling.address} shows the CSP's certificate and does not have its key",
                "somebody may be posing as the CSP: ask its operator",
            )
        made = [Connection(self._dialling, shown) for _ in range(self._dialling.channels)]
        with self._lock:
            self.csp = self._dialling.known.csp = shown
            self._connections = made
            ended = self._ended
        if ended:
            self.end()
        return made

    def _greeted(self, timeout: float) -> bytes:
        """What the CSP says its certificate is, over a connection that the operator's signature alone speaks for."""
        first = Connection(self._dialling, self._dialling.ca)
        with self._lock:
            self._first = first
            ended = self._ended
        try:
            if ended:
                raise Unmet(grpc.StatusCode.CANCELLED, "the line was hung up")
            return first.call(GREET, b"", timeout)
        finally:
            with self._lock:
                self._first = None
            first.close()

    def _look(self, certificate: bytes) -> None:
        self._dialling.expect_csp(certificate)
        with self._lock:
            self._looked = monotonic()

    def _part(self, connection: Connection) -> None:
        """Forget a CSP whose connections do not come about."""
        with self._lock:
            if connection not in self._connections:
                return  # somebody else did
            going, self._connections, self._keyless = self._connections, [], self.csp
            self._dialling.known.csp = b""
        for each in going:
            each.close()
