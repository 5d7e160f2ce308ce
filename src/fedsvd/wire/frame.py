"""A message on its way: cut into frames of at most 2 MiB, each with a checksum, so that any of them can be said twice.

    magic "FSVF" | version u8 | session 16 bytes | number u64 | part u32 | parts u32 | size u64 | checksum 16 | body

``number`` counts the messages on one link, ``part`` the frames of one message, ``size`` is that of the whole message.
All frames of a message but the last are of one length, at least 1 KiB. A frame that arrives again is the same bytes or
it is malformed; which frames have come is all a receiver must remember.

The checksum is the AES-128-GMAC of the body under a fixed key that is not secret; its nonce is the first 12 bytes of
the SHA-256 of what stands before it. It finds what software damages and does not authenticate: TLS does that, and what
users send each other is sealed as well. Who could forge it is who wrote the body. SHA-256 of all bytes would take as
long as TLS itself.
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fedsvd.errors import ConfigError
from fedsvd.protocol.plan import PROTOCOL
from fedsvd.types import SessionId
from fedsvd.wire.reader import Reader, malformed
from fedsvd.wire.version import expect_byte

FRAME = 1 << 20
LARGEST_FRAME = 2 << 20
SMALLEST_FRAME = 1 << 10  # else a large message could be promised in more frames than a receiver can remember
_MAGIC = b"FSVF"
_HEAD = struct.Struct("<4sB16sQIIQ")
_CHECKSUM = 16
OVERHEAD = _HEAD.size + _CHECKSUM
_GMAC = AESGCM(b"fedsvd/frame/1".ljust(16, b"\x00"))

Parts = Sequence[bytes | memoryview]


@dataclass(frozen=True, repr=False)
class Frame:
    """One part of message ``number`` of a session's link."""

    session: SessionId
    number: int
    part: int
    parts: int
    size: int
    body: bytes | memoryview

    def __repr__(self) -> str:
        return f"Frame(number={self.number}, part={self.part + 1}/{self.parts}, {len(self.body)} bytes)"


def frame_count(parts: Parts, frame: int = FRAME) -> int:
    """How many frames a message takes."""
    if not SMALLEST_FRAME <= frame <= LARGEST_FRAME - OVERHEAD:
        raise ConfigError(f"frames of {frame} bytes", f"between {SMALLEST_FRAME} and {LARGEST_FRAME - OVERHEAD}")
    return max(1, -(-length(parts) // frame))


def one_frame(session: SessionId, number: int, parts: Parts, part: int, frame: int = FRAME) -> Frame:
    """Frame ``part`` of an encoded message; a view of it where it lies in one piece."""
    count = frame_count(parts, frame)
    if part >= count:
        raise malformed()
    pieces = _window(parts, part * frame, (part + 1) * frame)
    body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return Frame(session, number, part, count, length(parts), body)


def length(parts: Parts) -> int:
    """Bytes of an encoded message."""
    return sum(memoryview(part).nbytes for part in parts)


def frame_pieces(frame: Frame) -> tuple[bytes | memoryview, ...]:
    """A frame as bytes to be laid end to end, its body not copied."""
    head = _HEAD.pack(_MAGIC, PROTOCOL, bytes.fromhex(frame.session), frame.number, frame.part, frame.parts, frame.size)
    return head, _checksum(head, frame.body), frame.body


def decode_frame(body: bytes | memoryview) -> Frame:
    """The frame these bytes are, or ``MalformedFrame``."""
    if len(body) > LARGEST_FRAME:
        raise malformed()
    reader = Reader(body)
    head, checksum = reader.take(_HEAD.size), reader.take(_CHECKSUM)
    magic, version, session, number, part, parts, size = _HEAD.unpack(head)
    rest = reader.take(reader.left)
    if magic != _MAGIC:
        raise malformed()
    expect_byte(version)
    if not _fits(part, parts, size, len(rest)):
        raise malformed()
    if _checksum(head, rest) != checksum:
        raise malformed()
    return Frame(SessionId(session.hex()), number, part, parts, size, rest)


def session_of(body: bytes | memoryview) -> SessionId:
    """Whose frame this says it is, before anything else about it is believed."""
    magic, version, session, *_ = _HEAD.unpack(Reader(body).take(_HEAD.size))
    if magic != _MAGIC:
        raise malformed()
    expect_byte(version)
    return SessionId(session.hex())


class Assembly:
    """A message coming together from its frames, in any order, each any number of times; bounded from the start.

    Every frame has its place, so nothing is joined in the end and a message is in memory once.
    """

    def __init__(self, first: Frame, limit: int) -> None:
        if first.size > limit:
            raise malformed()
        self.size = first.size
        self._parts = first.parts
        self._each = _length_of_others(first)
        self._have: set[int] = set()
        try:
            # Not a bytearray: pages of this array become real when they are written, whatever a header promises.
            self._whole = np.empty(first.size, np.uint8)
        except MemoryError:
            raise malformed() from None

    def add(self, frame: Frame) -> None:
        """Take a frame in; the same one again changes nothing."""
        start = frame.part * self._each
        place = self._whole[start : start + self._each]
        if (frame.parts, frame.size, len(frame.body)) != (self._parts, self.size, len(place)):
            raise malformed()
        body = np.frombuffer(frame.body, np.uint8)
        if frame.part not in self._have:
            place[:] = body
            self._have.add(frame.part)
        elif not np.array_equal(place, body):
            raise malformed()

    @property
    def complete(self) -> bool:
        return len(self._have) == self._parts

    @property
    def missing(self) -> list[int]:
        return [part for part in range(self._parts) if part not in self._have]

    def message(self) -> memoryview:
        """All parts in order."""
        if not self.complete:
            raise malformed()
        return self._whole.data.toreadonly()


def _fits(part: int, parts: int, size: int, length: int) -> bool:
    """Whether a message of this size can have a frame of this length in this place."""
    if parts < 2 or part >= parts:
        return (part, parts, size) == (0, 1, length)
    each, rest = (length, 0) if part < parts - 1 else divmod(size - length, parts - 1)
    return rest == 0 and each >= SMALLEST_FRAME and (parts - 1) * each < size <= parts * each


def _length_of_others(frame: Frame) -> int:
    """The length of all frames of a message but the last, from any one of them."""
    if frame.part < frame.parts - 1 or frame.parts == 1:
        return len(frame.body)
    return (frame.size - len(frame.body)) // (frame.parts - 1)


def _checksum(head: bytes | memoryview, body: bytes | memoryview) -> bytes:
    return _GMAC.encrypt(hashlib.sha256(head).digest()[:12], b"", body)


def _window(parts: Parts, start: int, stop: int) -> list[memoryview]:
    """Bytes start .. stop of the parts laid end to end, piece by piece."""
    pieces = []
    for part in parts:
        view = memoryview(part).cast("B")
        if start < len(view) and stop > 0:
            pieces.append(view[max(start, 0) : stop])
        start, stop = start - len(view), stop - len(view)
    return pieces
