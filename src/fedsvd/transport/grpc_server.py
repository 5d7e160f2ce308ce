"""The listening end, at the CSP: the links of every session, behind mutual TLS.

A caller is who its certificate says it is, checked at every call, so that a revoked one stops at its next; frames that
follow each other within a second are taken on one check. What a caller may push to or pull from is its roster.
A call that cannot be answered changes nothing.

Calls that wait hold a thread each. They may hold most of the threads, never all: beyond that a poll is answered at once
and a question is put off, so that frames always get through.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

import grpc

from fedsvd.errors import FedSVDError, NotAuthenticated, PeerLost
from fedsvd.protocol.parties import Party
from fedsvd.transport.calls import (
    ASK,
    BUSY,
    GREET,
    JOIN,
    LEAVE,
    OPTIONS,
    PULL,
    PUSH,
    Joining,
    Leaving,
    Wanted,
    unbundle,
)
from fedsvd.transport.links import MESSAGE_LIMIT
from fedsvd.transport.session import Caller as Caller
from fedsvd.transport.session import SessionLinks as SessionLinks
from fedsvd.types import SessionId
from fedsvd.wire.frame import session_of

Authenticate = Callable[[bytes], Caller]  # a peer's certificate in PEM to its identity, or NotAuthenticated
Answer = Callable[[Caller, bytes], bytes]
OnBreak = Callable[[Callable[[], None]], None]  # takes what to do if the caller is gone before the answer is there
Call = Callable[[bytes, Caller, OnBreak], bytes]

_KEEP_UNFETCHED = 600.0  # seconds after the end of a session
_LONGEST_STOP = 3.0  # seconds beyond the grace
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
    workers: int = 512


class Exchange:
    """The CSP's server: the links of all sessions, and one entry point for questions about jobs."""

    def __init__(self, listening: Listening, authenticate: Authenticate, answer: Answer, held: int = 256 << 20) -> None:
        self._answer = answer
        self._held = held
        self._sessions: dict[SessionId, SessionLinks] = {}
        self._over: set[SessionId] = set()
        self._lock = threading.Lock()
        self._polls = threading.Semaphore(max(1, listening.workers // 2))
        self._questions = threading.Semaphore(max(1, listening.workers // 4))
        self._pool = ThreadPoolExecutor(listening.workers, thread_name_prefix="exchange")
        self._server = grpc.server(self._pool, options=[*OPTIONS, ("grpc.so_reuseport", 0)])
        self._certificate = listening.certificate
        calls = {
            GREET: self._greet,
            JOIN: self._join,
            PUSH: self._push,
            PULL: self._pull,
            LEAVE: self._leave,
            ASK: self._ask,
        }
        self._server.add_generic_rpc_handlers((_Handlers(calls, authenticate),))
        self.port = self._bind(listening)

    def _bind(self, listening: Listening) -> int:
        credentials = grpc.ssl_server_credentials(
            [(listening.key, listening.certificate)], root_certificates=listening.ca, require_client_auth=True
        )
        try:
            port = int(self._server.add_secure_port(listening.address, credentials))
        except RuntimeError:
            port = 0
        if port == 0:
            raise PeerLost(f"cannot listen at {listening.address}", "choose another port, or stop what uses it")
        return port

    def start(self) -> None:
        self._server.start()

    def stop(self, grace: float = 2.0) -> None:
        """Close the connections of all callers."""
        with self._lock:
            sessions = list(self._sessions.values())
        for links in sessions:
            links.close()
        # A call may sit in a slow disk; it is not waited for, or stopping could take as long as that.
        self._server.stop(grace).wait(grace + _LONGEST_STOP)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def open(self, session: SessionId, roster: Mapping[Caller, Party], longest: int = MESSAGE_LIMIT) -> SessionLinks:
        """The links of a session, whose messages have at most ``longest`` bytes; a session id is never used twice."""
        with self._lock:
            self._sweep()
            if session in self._sessions or session in self._over:
                raise PeerLost("this session was opened before", "resume opens a new session")
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
        with _slot(self._polls) as free:
            return links.pull(party, wanted, free, call)

    def _leave(self, body: bytes, caller: Caller, on_break: OnBreak) -> bytes:
        leaving = Leaving.decode(body)
        links = self._links_of(leaving.session)
        links.leave(links.party(caller), leaving)
        return b""

    def _ask(self, body: bytes, caller: Caller, on_break: OnBreak) -> bytes:
        with _slot(self._questions) as free:
            if not free:
                raise _Busy
            return self._answer(caller, body)

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


@contextmanager
def _slot(places: threading.Semaphore) -> Iterator[bool]:
    """Whether there was a place; it is given back at the end."""
    free = places.acquire(blocking=False)
    try:
        yield free
    finally:
        if free:
            places.release()


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Who calls is found out first; our errors become gRPC's status codes: code and text, never a traceback."""

    def __init__(self, calls: Mapping[str, Call], authenticate: Authenticate) -> None:
        self._authenticate = authenticate
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
        return caller
