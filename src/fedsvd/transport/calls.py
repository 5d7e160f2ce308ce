"""The calls over gRPC: seven unary calls of raw bytes, no protobuf.

    Greet  nothing, or bytes to try the line with   -> the CSP's certificate
    Join   "this is me, from this one process"      -> empty
    Push   frames to the CSP                        -> empty
    Pull   "message n from part p on, a few frames
            of N bytes; I have all below a"   -> frames, or empty when none has come in the time asked for
    Leave  "I have all below a; that was all"       -> empty
    Ask    a JSON question about jobs               -> a JSON answer
    Stay   "I am here", for so long                 -> empty after that time; until then the caller is there

All may be repeated at will. The CSP listens, all other roles dial out; there is no plaintext mode. Frames that fit into
one call go together, each after its length (u32): a call costs as much as the bytes of half a frame.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import grpc

from fedsvd.types import SessionId
from fedsvd.wire.frame import FRAME, LARGEST_FRAME, OVERHEAD, SMALLEST_FRAME, Frame, frame_pieces
from fedsvd.wire.reader import Reader, malformed

SERVICE = "fedsvd.v1.Exchange"
METHODS = GREET, JOIN, PUSH, PULL, LEAVE, ASK, STAY = tuple(
    f"/{SERVICE}/{name}" for name in ("Greet", "Join", "Push", "Pull", "Leave", "Ask", "Stay")
)
LARGEST_CALL = LARGEST_FRAME + 4096
BUSY = grpc.StatusCode.ABORTED  # call again a little later; gRPC itself never says it
# What gRPC says when TLS here refuses the CSP, or cannot begin; when the CSP refuses us it says only "closed".
UNTRUSTED = ("CERTIFICATE_VERIFY_FAILED", "Hostname Verification", "security handshaker")
NOTHING = (1 << 64) - 1  # the number of no message: a Pull that only shows that the caller is there
_JOIN = struct.Struct("<16s16s")
_PULL = struct.Struct("<16sQQIIII")
_LENGTH = struct.Struct("<I")
_MOST_TOGETHER = 64
_LEAVE = struct.Struct("<16sQB")
_STAY = struct.Struct("<I")
LONGEST_STAY = 600.0  # seconds

OPTIONS = [
    ("grpc.max_send_message_length", LARGEST_CALL),
    ("grpc.max_receive_message_length", LARGEST_CALL),
    # The default of 16 KiB costs a tenth of the processor's time.
    ("grpc.http2.max_frame_size", 1 << 20),
    # Keepalive finds a dead peer behind a silent firewall; the other end must allow it while nothing is sent.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
]
# A process that stands still answers no ping: no byte comes from it (``connections.py``), and its connections close.
# gRPC answers pings in threads of its own, also while Python computes. A connection that is closed on a thin line all
# the same is dialled again.
LISTENING_OPTIONS = [
    *OPTIONS,
    ("grpc.keepalive_time_ms", 2_000),
    ("grpc.keepalive_timeout_ms", 8_000),
    ("grpc.http2.ping_timeout_ms", 8_000),  # newer gRPC goes by this one alone
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.server_handshake_timeout_ms", 20_000),  # of two minutes idle connections pile up; a thin line takes ten
    ("grpc.max_connection_idle_ms", 120_000),
    ("grpc.max_concurrent_streams", 128),  # of one connection; a member has two calls on each
    ("grpc.so_reuseport", 0),
]
DIALLING_OPTIONS = [
    *OPTIONS,
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),  # newer gRPC waits a minute for a ping's answer, whatever stands above
    ("grpc.use_local_subchannel_pool", 1),  # or all channels would share one connection
    ("grpc.enable_retries", 0),  # calls are repeated by us, who know for how long
    # The default waits up to two minutes before it dials again.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 3_000),
]


def together(frame: int) -> int:
    """How many frames of this length go into one call."""
    return min(max(1, LARGEST_CALL // (frame + OVERHEAD + _LENGTH.size)), _MOST_TOGETHER)


def bundle(frames: Iterable[Frame]) -> bytes:
    """Frames as the body of one call."""
    pieces: list[bytes | memoryview] = []
    for frame in frames:
        pieces += (_LENGTH.pack(OVERHEAD + len(frame.body)), *frame_pieces(frame))
    return b"".join(pieces)


def unbundle(body: bytes) -> list[memoryview]:
    """The frames in the body of a call, one at least, not decoded yet."""
    reader = Reader(body)
    frames: list[memoryview] = []
    while reader.left or not frames:
        (size,) = _LENGTH.unpack(reader.take(_LENGTH.size))
        frames.append(reader.take(size))
    return frames


@dataclass(frozen=True)
class Joining:
    """The content of a Join; ``instance`` is another in every process, so that two of them cannot be one party."""

    session: SessionId
    instance: bytes

    def encode(self) -> bytes:
        return _JOIN.pack(bytes.fromhex(self.session), self.instance)

    @classmethod
    def decode(cls, body: bytes) -> "Joining":
        session, instance = _unpacked(_JOIN, body)
        return cls(SessionId(session.hex()), instance)


@dataclass(frozen=True)
class Wanted:
    """The content of a Pull."""

    session: SessionId
    below: int
    number: int
    part: int
    count: int
    frame: int
    wait_ms: int

    def encode(self) -> bytes:
        session = bytes.fromhex(self.session)
        return _PULL.pack(session, self.below, self.number, self.part, self.count, self.frame, self.wait_ms)

    @classmethod
    def decode(cls, body: bytes) -> "Wanted":
        session, *rest = _unpacked(_PULL, body)
        wanted = cls(SessionId(session.hex()), *rest)
        if not SMALLEST_FRAME <= wanted.frame <= FRAME:
            raise malformed()
        return wanted


@dataclass(frozen=True)
class Leaving:
    """The content of a Leave; ``complete`` when everything was sent and nothing went wrong."""

    session: SessionId
    below: int
    complete: bool

    def encode(self) -> bytes:
        return _LEAVE.pack(bytes.fromhex(self.session), self.below, self.complete)

    @classmethod
    def decode(cls, body: bytes) -> "Leaving":
        session, below, complete = _unpacked(_LEAVE, body)
        if complete > 1:
            raise malformed()
        return cls(SessionId(session.hex()), below, bool(complete))


@dataclass(frozen=True)
class Staying:
    """The content of a Stay."""

    wait_ms: int

    def encode(self) -> bytes:
        return _STAY.pack(self.wait_ms)

    @classmethod
    def decode(cls, body: bytes) -> "Staying":
        return cls(*_unpacked(_STAY, body))


def _unpacked(form: struct.Struct, body: bytes) -> tuple[Any, ...]:
    reader = Reader(body)
    values = form.unpack(reader.take(form.size))
    reader.end()
    return values
