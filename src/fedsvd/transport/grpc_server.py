"""The listening end, at the CSP: rooms of links, one room to a session, behind mutual TLS.

A caller is who its certificate says it is, checked at every call, so that a revoked one stops at its next. What it may
push to or pull from is the room's roster. A call that cannot be answered changes nothing.
"""

import queue
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import Any, NoReturn

import grpc

from fedsvd.errors import FedSVDError, NotAuthenticated, PeerLost, TimedOut
from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import Party
from fedsvd.transport.calls import ASK, OPTIONS, PULL, PUSH, Wanted
from fedsvd.transport.links import Inbox, Outbox
from fedsvd.types import SessionId
from fedsvd.wire.codec import decode, encode
from fedsvd.wire.frame import decode_frame, encode_frame

Caller = str  # the identity in a certificate, e.g. "party/hospital-a"
Authenticate = Callable[[bytes], Caller]  # a peer's certificate in PEM to its identity, or NotAuthenticated
Answer = Callable[[Caller, bytes], bytes]

_LONGEST_WAIT = 20.0


@dataclass(frozen=True)
class Listening:
    """How the CSP listens: address, PEM key and certificate, the federation's CA."""

    address: str
    key: bytes
    certificate: bytes
    ca: bytes
    workers: int = 128


class Room:
    """The links of one session at the CSP."""

    def __init__(self, session: SessionId, roster: Mapping[Caller, Party], held: int) -> None:
        self.session = session
        self._roster = dict(roster)
        self._held = held
        self._changed = threading.Condition()
        self._inboxes = {party: Inbox(session) for party in roster.values()}
        self._outboxes = {party: Outbox(session) for party in roster.values()}
        self._arrived: queue.SimpleQueue[tuple[Party, Message] | FedSVDError] = queue.SimpleQueue()
        self._arrived_bytes = 0
        self.received = 0  # bytes of whole messages, for those who watch
        self._heard = dict.fromkeys(roster.values(), monotonic())
        self._open = True

    def party(self, caller: Caller) -> Party:
        if caller not in self._roster:
            raise NotAuthenticated(f"{caller} takes no part in this session")
        return self._roster[caller]

    def push(self, party: Party, body: bytes) -> bool:
        """Take a frame in; False when too much is waiting to be read."""
        with self._changed:
            if not self._open:
                raise PeerLost("the session is over")
            self._heard[party] = monotonic()
            if self._arrived_bytes > self._held:
                return False
            try:
                for whole in self._inboxes[party].add(decode_frame(body)):
                    self._arrived_bytes += len(whole)
                    self.received += len(whole)
                    self._arrived.put((party, decode(whole)))
            except FedSVDError as error:
                self._arrived.put(error)
                raise
        return True

    def pull(self, party: Party, wanted: Wanted) -> bytes:
        """The frame asked for, or nothing after the time asked for."""
        deadline = monotonic() + min(wanted.wait_ms / 1000, _LONGEST_WAIT)
        with self._changed:
            box = self._outboxes[party]
            box.acknowledge(wanted.below)
            self._changed.notify_all()
            while True:
                self._heard[party] = monotonic()
                if box.has(wanted.number):
                    frame = box.frame(wanted.number, wanted.part)
                    break
                if not self._open:
                    raise PeerLost("the session is over")
                if not self._changed.wait(deadline - monotonic()) and monotonic() >= deadline:
                    return b""
        return encode_frame(frame)

    # --- the CSP's own end ----------------------------------------------------------------------------------------

    def send(self, to: Party, message: Message) -> None:
        with self._changed:
            if not self._open:
                raise PeerLost("the session is over")
            self._outboxes[to].put(encode(message))
            self._changed.notify_all()

    def receive(self, wait: float = 0.0) -> tuple[Party, Message] | None:
        try:
            arrived = self._arrived.get(timeout=wait) if wait > 0 else self._arrived.get_nowait()
        except queue.Empty:
            return None
        if isinstance(arrived, FedSVDError):
            raise arrived
        with self._changed:
            self._arrived_bytes = 0 if self._arrived.empty() else self._arrived_bytes
        return arrived

    def expect_signs_of_life(self, patience: float, but: Collection[Party] = ()) -> None:
        """Raise ``TimedOut`` for a party that has not called for longer than this, unless it is done."""
        now = monotonic()
        for party, heard in self._heard.items():
            if now - heard > patience and party not in but:
                raise TimedOut(f"{party} has been silent for {now - heard:.0f} s", "check that party, then resume")

    def drain(self, patience: float) -> None:
        """Wait until everything sent has been fetched, as long as parties keep fetching."""
        deadline = monotonic() + patience
        with self._changed:
            left = sum(box.bytes for box in self._outboxes.values())
            while left and monotonic() < deadline:
                self._changed.wait(0.2)
                now = sum(box.bytes for box in self._outboxes.values())
                if now < left:
                    deadline = monotonic() + patience
                left = now

    def close(self) -> None:
        with self._changed:
            self._open = False
            self._changed.notify_all()


class Exchange:
    """The CSP's server: rooms for sessions, and one door for questions about jobs."""

    def __init__(self, listening: Listening, authenticate: Authenticate, answer: Answer, held: int = 256 << 20) -> None:
        self._authenticate = authenticate
        self._answer = answer
        self._held = held
        self._rooms: dict[SessionId, Room] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(listening.workers, thread_name_prefix="exchange")
        self._server = grpc.server(self._pool, options=[*OPTIONS, ("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((_Handlers({PUSH: self._push, PULL: self._pull, ASK: self._ask}),))
        credentials = grpc.ssl_server_credentials(
            [(listening.key, listening.certificate)], root_certificates=listening.ca, require_client_auth=True
        )
        self.port = self._server.add_secure_port(listening.address, credentials)
        if self.port == 0:
            raise PeerLost(f"cannot listen at {listening.address}", "choose another port, or stop what uses it")

    def start(self) -> None:
        self._server.start()

    def stop(self, grace: float = 2.0) -> None:
        """Hang up on everybody."""
        with self._lock:
            rooms = list(self._rooms.values())
        for room in rooms:
            room.close()
        self._server.stop(grace).wait()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def open(self, session: SessionId, roster: Mapping[Caller, Party]) -> Room:
        """A room for a session; a session id is never used twice."""
        with self._lock:
            if session in self._rooms:
                raise PeerLost("this session was opened before")
            room = self._rooms[session] = Room(session, roster, self._held)
        return room

    def _push(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        with _Refusing(context):
            caller = self._caller(context)
            frame = decode_frame(body)
            room = self._room(frame.session)
            if not room.push(room.party(caller), body):
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too much is waiting; push again")
        return b""

    def _pull(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        with _Refusing(context):
            caller = self._caller(context)
            wanted = Wanted.decode(body)
            room = self._room(wanted.session)
            return room.pull(room.party(caller), wanted)
        return b""

    def _ask(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        with _Refusing(context):
            return self._answer(self._caller(context), body)
        return b""

    def _room(self, session: SessionId) -> Room:
        with self._lock:
            room = self._rooms.get(session)
        if room is None:
            raise PeerLost("no such session")
        return room

    def _caller(self, context: grpc.ServicerContext) -> Caller:
        certificates = context.auth_context().get("x509_pem_cert", [])
        if not certificates:
            raise NotAuthenticated("a caller without a certificate")
        return self._authenticate(certificates[0])


class _Refusing:
    """Turns our errors into gRPC's status codes: code and text, never a traceback."""

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._context = context

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, FedSVDError):
            self._refuse(error)

    def _refuse(self, error: FedSVDError) -> NoReturn:
        status = {
            NotAuthenticated.code: grpc.StatusCode.PERMISSION_DENIED,
            PeerLost.code: grpc.StatusCode.FAILED_PRECONDITION,
        }.get(error.code, grpc.StatusCode.INVALID_ARGUMENT)
        self._context.abort(status, str(error))
        raise error


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, methods: dict[str, Callable[[bytes, grpc.ServicerContext], bytes]]) -> None:
        self._methods = {name: grpc.unary_unary_rpc_method_handler(method) for name, method in methods.items()}

    def service(self, details: Any) -> Any:
        return self._methods.get(details.method)
