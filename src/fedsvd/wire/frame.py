"""A message on its way: cut into frames of at most 2 MiB, each with a digest, so that any of them can be said twice.

    magic "FSVF" | version u8 | session 16 bytes | number u64 | part u32 | parts u32 | size u64 | SHA-256 | body

``number`` counts the messages on one link, ``part`` the frames of one message, ``size`` is that of the whole message. A
frame that arrives again is the same bytes or it is malformed; which frames have come is all a receiver must remember.
"""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from fedsvd.errors import ConfigError
from fedsvd.types import SessionId
from fedsvd.wire.reader import Reader, malformed

FRAME = 1 << 20
LARGEST_FRAME = 2 << 20
VERSION = 1
_MAGIC = b"FSVF"
_HEAD = struct.Struct("<4sB16sQIIQ32s")
OVERHEAD = _HEAD.size


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


def cut(session: SessionId, number: int, parts: list[bytes | memoryview], frame: int = FRAME) -> Iterator[Frame]:
    """The frames of an encoded message, made one at a time."""
    if not 1 <= frame <= LARGEST_FRAME - OVERHEAD:
        raise ConfigError(f"frames of {frame} bytes", f"between 1 and {LARGEST_FRAME - OVERHEAD}")
    views = [memoryview(part).cast("B") for part in parts if len(memoryview(part).cast("B"))]
    size = sum(len(view) for view in views)
    count = max(1, -(-size // frame))
    body = bytearray()
    part = 0
    for view in views:
        while len(view):
            taken = view[: frame - len(body)]
            body += taken
            view = view[len(taken) :]
            if len(body) == frame and part < count - 1:
                yield Frame(session, number, part, count, size, bytes(body))
                body, part = bytearray(), part + 1
    yield Frame(session, number, part, count, size, bytes(body))


def encode_frame(frame: Frame) -> bytes:
    """A frame as bytes."""
    digest = hashlib.sha256(frame.body).digest()
    head = _HEAD.pack(
        _MAGIC, VERSION, bytes.fromhex(frame.session), frame.number, frame.part, frame.parts, frame.size, digest
    )
    return head + bytes(frame.body)


def decode_frame(body: bytes) -> Frame:
    """The frame these bytes are, or ``MalformedFrame``."""
    if len(body) > LARGEST_FRAME:
        raise malformed()
    reader = Reader(body)
    magic, version, session, number, part, parts, size, digest = _HEAD.unpack(reader.take(_HEAD.size))
    rest = reader.take(reader.left)
    if magic != _MAGIC or version != VERSION or part >= parts or len(rest) > size or parts > max(1, size):
        raise malformed()
    if hashlib.sha256(rest).digest() != digest:
        raise malformed()
    return Frame(SessionId(session.hex()), number, part, parts, size, rest)


class Assembly:
    """A message coming together from its frames, in any order, each any number of times; bounded from the start."""

    def __init__(self, first: Frame, limit: int) -> None:
        if first.size > limit:
            raise malformed()
        self._parts = first.parts
        self._size = first.size
        self._bodies: dict[int, bytes | memoryview] = {}
        self._held = 0

    def add(self, frame: Frame) -> None:
        """Take a frame in; the same one again changes nothing."""
        if (frame.parts, frame.size) != (self._parts, self._size):
            raise malformed()
        if frame.part in self._bodies:
            if self._bodies[frame.part] != frame.body:
                raise malformed()
            return
        self._held += len(frame.body)
        if self._held > self._size:
            raise malformed()
        self._bodies[frame.part] = frame.body

    @property
    def complete(self) -> bool:
        return len(self._bodies) == self._parts

    @property
    def missing(self) -> list[int]:
        return [part for part in range(self._parts) if part not in self._bodies]

    def message(self) -> bytes:
        """All parts in order."""
        whole = b"".join(self._bodies[part] for part in range(self._parts))
        if len(whole) != self._size:
            raise malformed()
        return whole
