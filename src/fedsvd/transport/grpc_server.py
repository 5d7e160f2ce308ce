"""The listening end, at the CSP: the links of every session, behind mutual TLS.

A caller is who its certificate says it is, checked at every call, so that a revoked one stops at its next; frames that
follow each other within a second are taken on one check. What a caller may push to or pull from is its roster.
A call that cannot be answered changes nothing.

Calls that wait hold a thread each. They may hold most of the threads, never all, and a caller its share of them
(``places.py``): beyond that a poll is answered at once and a question is put off, so that frames always get through.
All threads are started before the first call: one that could not be started later would leave a server without ears.
Connections are counted by caller, too (``connections.py``).
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import grpc

from fedsvd.errors import FedSVDError, NotAuthenticated, OutOfResources, PeerLost
from fedsvd.protocol.parties import Party
from fedsvd.transport.calls import (
    ASK,
    BUSY,
    GREET,
    JOIN,
    LEAVE,
    LISTENING_OPTIONS,
    LONGEST_STAY,
    PULL,
    PUSH,
    STAY,
    Joining,
    Leaving,
    Staying,
    Wanted,
    unbundle,
)
from fedsvd.transport.connections import Connections, OnExcess
from fedsvd.transport.links import MESSAGE_LIMIT
from fedsvd.transport.places import Places, Presence
from fedsvd.transport.session import Caller as Caller
from fedsvd.transport.session import SessionLinks as SessionLinks
from fedsvd.transport.workers import Workers
from fedsvd.types import SessionId
from fedsvd.wire.frame import session_of

Authenticate = Callable[[bytes], Caller]  # a peer's certificate in PEM to its identity, or NotAuthenticated
Answer = Callable[[Caller, bytes], bytes]
OnBreak = Callable[[Callable[[], None]], None]  # takes what to do if the caller is gone before the answer is there
Call = Callable[[bytes, Caller, OnBreak], bytes]

_KEEP_UNFETCHED = 600.0  # seconds after the end of a session
_LONGEST_STOP = 3.0  # seconds beyond the grace
_MOST_QUESTIONS = 8  # of one researcher at a time; its further ones are put off
_CHECK_HOLDS = 1.0  # seconds, for frames: to read lists and pins for each would cost a quarter of the speed
_STATUS = {
    NotAuthenticated.code: grpc.StatusCode.PERMISSION_DENIED,
    PeerLost.code: grpc.StatusCode.FAILED_PRECONDITION,
}


@dataclass(frozen=True)
class Listening:
    """How the CSP listens: address, PEM key and certificate, the federation's CA."""

    address: str
    key: bytes
    certificate: bytes
    ca: bytes
    workers: int = 384
    connections: int = 0  # at most, of all callers; 0 where nothing limits them


class Exchange:
    """The CSP's server: the links of all sessions, and one entry point for questions about jobs."""

    def __init__(
        self,
        listening: Listening,
        authenticate: Authenticate,
        answer: Answer,
        held: int = 256 << 20,
        on_excess: OnExcess = lambda caller, closed: None,
    ) -> None:
        self._answer = answer
        self._held = held
        self._sessions: dict[SessionId, SessionLinks] = {}
        self._over: set[SessionId] = set()
        self._lock = threading.Lock()
        # Of twelve threads, four for those who are there, four for polls, two for questions, and two that never wait.
        part = max(1, listening.workers // 12)
        self._stays = Places(4 * part, 4)
        self._polls = Places(4 * part, max(1, part))
        self._questions_of_members = Places(part, 16)
        self._questions_of_others = Places(part, _MOST_QUESTIONS)
        self._pool = Workers(listening.workers, "exchange")
        limit = [("grpc.max_allowed_incoming_connections", listening.connections)] if listening.connections else []
        self._server = grpc.server(self._pool, options=[*LISTENING_OPTIONS, *limit])
        self._workers = listening.workers
        self._certificate = listening.certificate
        calls = {
            GREET: self._greet,
            JOIN: self._join,
            PUSH: self._push,
            PULL: self._pull,
            LEAVE: self._leave,
            ASK: self._ask,
            STAY: self._stay,
        }
        self.port = self._bind(listening)
        self._connections = Connections(self.port, listening.connections, on_excess)
        self.presence = Presence(self._connections.quiet_since)
        self._server.add_generic_rpc_handlers((_Handlers(calls, authenticate, self._connections.called),))

    def _bind(self, listening: Listening) -> int:
        credentials = grpc.ssl_server_credentials(
            [(listening.key, listening.certificate)], root_certificates=listening.ca, require_client_auth=True
        )
        try:
            port = int(self._server.add_secure_port(listening.address, credentials))
        except RuntimeError:
            port = 0
        if port == 0:
            raise PeerLost(
                f"cannot listen at {listening.address}", "stop what uses its port, or name another: --address HOST:PORT"
            )
        return port

    def start(self) -> None:
        """Answer calls, once every thread that will is there."""
        try:
            self._pool.start()
        except RuntimeError:
            fix = "raise the limit: ulimit -u, or TasksMax"
            raise OutOfResources(f"{self._workers} threads cannot be started here", fix) from None
        threading.Thread(target=self._connections.watch, daemon=True, name="connections").start()
        self._server.start()

    def answers(self, seconds: float) -> bool:
        """Whether a thread that answers calls takes up a task within this number of seconds."""
        done = threading.Event()
        try:
            self._pool.submit(done.set)
        except RuntimeError:
            return False
        return done.wait(seconds)

    def stop(self, grace: float = 2.0) -> None:
        """Close the connections of all callers."""
        with self._lock:
            sessions = list(self._sessions.values())
        for links in sessions:
            links.close()
        self.presence.stop()
        self._connections.stop()
        # A call may sit in a slow disk; it is not waited for, or stopping could take as long as that.
        self._server.stop(grace).wait(grace + _LONGEST_STOP)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def open(self, session: SessionId, roster: Mapping[Caller, Party], longest: int = MESSAGE_LIMIT) -> SessionLinks:
        """The links of a session, whose messages have at most ``longest`` bytes; a session id is never used twice."""
        with self._lock:
            self._sweep()
            if session in self._sessions or session in self._over:
                raise PeerLost("this session was opened before", "resume the job, which opens a new one")
            links = self._sessions[session] = SessionLinks(session, roster, self._held, longest)
        return links

    # --- calls ----------------------------------------------------------------------------------------------------

    def _greet(self, body: bytes, caller: Caller, on_break: OnBreak) -> bytes:
        """Who we are, for callers who then take no other certificate than this one."""
        return self._certificate

    def _join(self, body: bytes, caller: Caller, on_break: OnBreak) -> bytes:
        joining = Joining.decode(body)
        links = self._links_of(joining.session)
        links.join(links.party(caller), joining)
        return b""

    def _push(self, body: bytes, caller: Caller, on_break: OnBreak) -> bytes:
        links = self._links_of(session_of(unbundle(body)[0]))
        if not links.push(links.party(caller), body):
            raise _Busy
        return b""

    def _pull(self, body: bytes, caller: Caller, on_break: OnBreak) -> bytes:
        wanted, call = Wanted.decode(body), object()
        links = self._links_of(wanted.session)
        party = links.party(caller)
        on_break(lambda: links.broke_off(party, call))
        with self._polls.place(caller) as free:
            return links.pull(party, wanted, free, call)

    def _leave(self, body: bytes, caller: Caller, on_break: OnBreak) -> bytes:
        leaving = Leaving.decode(body)
        links = self._links_of(leaving.session)
        links.leave(links.party(caller), leaving)
        return b""

    def _ask(self, body: bytes, caller: Caller, on_break: OnBreak) -> bytes:
        self.presence.heard(caller)
        places = self._questions_of_others if caller.startswith("researcher/") else self._questions_of_members
        with places.place(caller) as free:
            if not free:
                raise _Busy
            return self._answer(caller, body)

    def _stay(self, body: bytes, caller: Caller, on_break: OnBreak) -> bytes:
        staying, broke_off = Staying.decode(body), threading.Event()
        with self._stays.place(caller) as free:
            if not free:
                raise _Busy
            on_break(lambda: self.presence.broke_off(caller, broke_off))
            self.presence.stay(caller, broke_off, min(staying.wait_ms / 1000, LONGEST_STAY))
        return b""

    def _links_of(self, session: SessionId) -> SessionLinks:
        with self._lock:
            links = self._sessions.get(session)
            if links is None:
                raise PeerLost("the session is over" if session in self._over else "no such session")
        return links

    def _sweep(self) -> None:
        """Remove sessions that are over, once nothing is left in them to fetch or no member came for it."""
        for session, links in list(self._sessions.items()):
            if links.closed is not None and (links.fetched or monotonic() - links.closed > _KEEP_UNFETCHED):
                self._over.add(session)
                del self._sessions[session]


class _Busy(Exception):
    """The call changed nothing and may succeed a little later."""


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Who calls is found out first; our errors become gRPC's status codes: code and text, never a traceback."""

    def __init__(
        self, calls: Mapping[str, Call], authenticate: Authenticate, called: Callable[[str, Caller], None]
    ) -> None:
        self._authenticate, self._called = authenticate, called
        self._checked: dict[bytes, tuple[float, Caller]] = {}  # certificate: when, and who it was
        self._methods = {
            name: grpc.unary_unary_rpc_method_handler(self._handler(call, name in (PUSH, PULL)))
            for name, call in calls.items()
        }

    def service(self, details: Any) -> Any:
        return self._methods.get(details.method)

    def _handler(self, call: Call, frames: bool) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def handle(body: bytes, context: grpc.ServicerContext) -> bytes:
            def on_break(then: Callable[[], None]) -> None:
                # It is called at the end of every call; after an answer there is nothing left to break off.
                if not context.add_callback(then):
                    then()

            try:
                return call(body, self._caller(context, frames), on_break)
            except _Busy:
                context.abort(BUSY, "too much is waiting; call again")
            except FedSVDError as error:
                context.abort(_STATUS.get(error.code, grpc.StatusCode.INVALID_ARGUMENT), str(error))
            raise AssertionError("abort raises")

        return handle

    def _caller(self, context: grpc.ServicerContext, frames: bool) -> Caller:
        certificates = context.auth_context().get("x509_pem_cert", [])
        if not certificates:
            raise NotAuthenticated("a caller without a certificate")
        (certificate,) = certificates
        when, caller = self._checked.get(certificate, (0.0, ""))
        if not frames or monotonic() - when > _CHECK_HOLDS:
            self._checked.pop(certificate, None)
            caller = self._authenticate(certificate)
            self._checked[certificate] = monotonic(), caller
        self._called(context.peer(), caller)
        return caller
