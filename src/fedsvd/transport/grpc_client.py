"""The dialling end, at users and the TA: pushes and pulls frames over several TLS connections.

One connection cannot fill a fast path with a long delay, so frames go over several. Every call may be repeated, so the
answer to any trouble is to call again, until nothing has got through for longer than ``patience``: time out on lack of
progress, never on total duration.
"""

import queue
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from time import monotonic, sleep
from typing import Any

import grpc

from fedsvd.errors import FedSVDError, LocalProtocolError, MalformedFrame, NotAuthenticated, PeerLost, TimedOut
from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import CSP, Party
from fedsvd.transport.calls import ASK, OPTIONS, PULL, PUSH, Wanted
from fedsvd.transport.links import Inbox, Outbox
from fedsvd.types import SessionId
from fedsvd.wire.codec import decode, encode
from fedsvd.wire.frame import FRAME, Frame, decode_frame, encode_frame

_WAIT_MS = 5000
_CALL_SECONDS = 60.0
_TRANSIENT = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
}


@dataclass(frozen=True)
class Dialling:
    """How to reach the CSP: address, our PEM key and certificate, the federation's CA."""

    address: str
    key: bytes
    certificate: bytes
    ca: bytes
    channels: int = 4
    patience: float = 120.0
    frame: int = FRAME
    held: int = 64 << 20  # bytes queued before ``send`` waits


class Line:
    """Connections to the CSP, and calls over them that survive bad weather."""

    def __init__(self, dialling: Dialling) -> None:
        self._patience = dialling.patience
        self.progress = monotonic()
        self._stopped = threading.Event()
        credentials = grpc.ssl_channel_credentials(dialling.ca, dialling.key, dialling.certificate)
        options = [*OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
        self._channels = [grpc.secure_channel(dialling.address, credentials, options) for _ in range(dialling.channels)]
        self._turn = cycle(range(dialling.channels))
        self._lock = threading.Lock()
        self._calls = {name: [channel.unary_unary(name) for channel in self._channels] for name in (PUSH, PULL, ASK)}

    def call(self, method: str, body: bytes) -> bytes:
        """The answer to a call, repeated over the connections in turn while that can help."""
        pause = 0.05
        while True:
            if self._stopped.is_set():
                raise PeerLost("the line was hung up")
            with self._lock:
                which = next(self._turn)
            try:
                answer: bytes = self._calls[method][which](body, timeout=_CALL_SECONDS)
            except grpc.RpcError as error:
                self._weigh(error)
                sleep(pause)
                pause = min(2 * pause, 2.0)
            else:
                self.progress = monotonic()
                return answer

    def _weigh(self, error: Any) -> None:
        """Raise, unless calling again can help."""
        status, text = error.code(), str(error.details() or "")
        if status is grpc.StatusCode.PERMISSION_DENIED:
            raise NotAuthenticated(_without_code(text))
        if status is grpc.StatusCode.FAILED_PRECONDITION:
            raise PeerLost(_without_code(text))
        if status not in _TRANSIENT:
            raise MalformedFrame(_without_code(text))
        if status is grpc.StatusCode.RESOURCE_EXHAUSTED:
            self.progress = monotonic()  # the CSP answers; it is only busy
        if monotonic() - self.progress > self._patience:
            raise TimedOut(f"nothing got through to the CSP for {self._patience:.0f} s", "check network and CSP")

    def close(self) -> None:
        self._stopped.set()
        for channel in self._channels:
            channel.close()


class Dialled:
    """A user's or the TA's end of one session."""

    def __init__(self, dialling: Dialling, session: SessionId) -> None:
        self._session = session
        self._line = Line(dialling)
        self._held = dialling.held
        self._outbox = Outbox(session, dialling.frame)
        self._inbox = Inbox(session)
        self._sent: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._arrived: queue.SimpleQueue[tuple[Party, Message] | FedSVDError] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._failure: FedSVDError | None = None
        self._in_flight = threading.Semaphore(2 * dialling.channels)
        self._pool = ThreadPoolExecutor(2 * dialling.channels, thread_name_prefix="frames")
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), daemon=True) for work in (self._pushing, self._pulling)
        ]
        for thread in self._threads:
            thread.start()

    def send(self, to: Party, message: Message) -> None:
        """Queue a message to the CSP; waits while too much is queued."""
        if to != CSP:
            raise LocalProtocolError(f"a link to {to}: all links end at the CSP")
        with self._changed:
            while self._outbox.bytes > self._held and self._failure is None:
                self._changed.wait(1.0)
            if self._failure is not None:
                raise self._failure
            self._sent.put(self._outbox.put(encode(message)))

    def receive(self, wait: float = 0.0) -> tuple[Party, Message] | None:
        try:
            arrived = self._arrived.get(timeout=wait) if wait > 0 else self._arrived.get_nowait()
        except queue.Empty:
            return None
        if isinstance(arrived, FedSVDError):
            raise arrived
        return arrived

    def flush(self) -> None:
        """Wait until the CSP has everything we said, or the line is given up."""
        with self._changed:
            while not self._outbox.empty and self._failure is None:
                self._changed.wait(0.2)

    def close(self) -> None:
        self._failure = self._failure or PeerLost("the line was hung up")
        self._sent.put(None)
        self._line.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except FedSVDError as error:
            with self._changed:
                self._failure = self._failure or error
                self._changed.notify_all()
            self._arrived.put(error)
        except (ValueError, RuntimeError):
            if self._failure is None:  # the channel was closed under a call: only after close()
                raise

    def _pushing(self) -> None:
        while (number := self._sent.get()) is not None:
            pending = [self._push(frame) for frame in self._outbox.frames(number)]
            for done in pending:
                done.result()
            with self._changed:
                self._outbox.acknowledge(number + 1)
                self._changed.notify_all()

    def _push(self, frame: Frame) -> "Future[bytes]":
        self._in_flight.acquire()
        future = self._pool.submit(self._line.call, PUSH, encode_frame(frame))
        future.add_done_callback(lambda _: self._in_flight.release())
        return future

    def _pulling(self) -> None:
        while self._failure is None:
            answer = self._line.call(PULL, self._wanted(0, _WAIT_MS))
            if not answer:
                continue
            first = decode_frame(answer)
            for whole in self._whole(first):
                self._arrived.put((CSP, decode(whole)))

    def _whole(self, first: Frame) -> list[bytes]:
        """The message a first frame begins, its other frames fetched side by side."""
        others = [self._pool.submit(self._line.call, PULL, self._wanted(part, 0)) for part in range(1, first.parts)]
        handed = self._inbox.add(first)
        for answer in others:
            handed += self._inbox.add(decode_frame(answer.result()))
        return handed

    def _wanted(self, part: int, wait_ms: int) -> bytes:
        number = self._inbox.next
        return Wanted(self._session, number, number, part, wait_ms).encode()


def _without_code(text: str) -> str:
    """The fault in a status text, without the code it starts with."""
    return text.partition(": ")[2].partition(". Fix:")[0] or text
