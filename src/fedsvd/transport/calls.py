"""What is said over gRPC: three unary calls of raw bytes, no protobuf.

    Push   a frame to the CSP                       -> empty
    Pull   "message n, part p, I have all below a"  -> a frame, or empty when none has come in the time asked for
    Ask    a JSON question about jobs               -> a JSON answer

All three may be repeated at will. The CSP listens, everybody else dials out; there is no plaintext mode.
"""

import struct
from dataclasses import dataclass

from fedsvd.types import SessionId
from fedsvd.wire.frame import LARGEST_FRAME
from fedsvd.wire.reader import Reader

SERVICE = "fedsvd.v1.Exchange"
PUSH, PULL, ASK = (f"/{SERVICE}/{name}" for name in ("Push", "Pull", "Ask"))
LARGEST_CALL = LARGEST_FRAME + 4096
_PULL = struct.Struct("<16sQQII")

# Keepalive finds a dead peer behind a silent firewall; one connection per channel, or TLS would share one.
OPTIONS = [
    ("grpc.max_send_message_length", LARGEST_CALL),
    ("grpc.max_receive_message_length", LARGEST_CALL),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
]


@dataclass(frozen=True)
class Wanted:
    """The content of a Pull."""

    session: SessionId
    below: int
    number: int
    part: int
    wait_ms: int

    def encode(self) -> bytes:
        return _PULL.pack(bytes.fromhex(self.session), self.below, self.number, self.part, self.wait_ms)

    @classmethod
    def decode(cls, body: bytes) -> "Wanted":
        reader = Reader(body)
        session, *rest = _PULL.unpack(reader.take(_PULL.size))
        reader.end()
        return cls(SessionId(session.hex()), *rest)
