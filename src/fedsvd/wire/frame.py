"""A message on its way: cut into frames of at most 2 MiB, each with a checksum, so that any of them can be said twice.

    magic "FSVF" | version u8 | session 16 bytes | number u64 | part u32 | parts u32 | size u64 | checksum 16 | body

``number`` counts the messages on one link, ``part`` the frames of one message, ``size`` is that of the whole message. A
frame that arrives again is the same bytes or it is malformed; which frames have come is all a receiver must remember.

The checksum is AES-GMAC under a key that everybody knows. It finds what software damages; it authenticates nobody, for
TLS does, and what users say to each other is sealed besides. Who could forge it is who wrote the content. SHA-256 on
both ends would take nearly as long as the whole of TLS.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fedsvd.errors import ConfigError
from fedsvd.types import SessionId
from fedsvd.wire.reader import Reader, malformed

FRAME = 1 << 20
LARGEST_FRAME = 2 << 20
VERSION = 1
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


def cut(session: SessionId, number: int, parts: Parts, frame: int = FRAME) -> Iterator[Frame]:
    """The frames of an encoded message, made one at a time."""
    count = frame_count(parts, frame)
    return (one_frame(session, number, parts, part, frame) for part in range(count))


def frame_count(parts: Parts, frame: int = FRAME) -> int:
    """How many frames a message takes."""
    if not 1 <= frame <= LARGEST_FRAME - OVERHEAD:
        raise ConfigError(f"frames of {frame} bytes", f"between 1 and {LARGEST_FRAME - OVERHEAD}")
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


def encode_frame(frame: Frame) -> bytes:
    """A frame as bytes."""
    head = _HEAD.pack(
        _MAGIC, VERSION, bytes.fromhex(frame.session), frame.number, frame.part, frame.parts, frame.size
    )
    return b"".join((head, _checksum(head, frame.body), frame.body))


def decode_frame(body: bytes) -> Frame:
    """The frame these bytes are, or ``MalformedFrame``."""
    if len(body) > LARGEST_FRAME:
        raise malformed()
    reader = Reader(body)
    head, checksum = reader.take(_HEAD.size), reader.take(_CHECKSUM)
    magic, version, session, number, part, parts, size = _HEAD.unpack(head)
    rest = reader.take(reader.left)
    if magic != _MAGIC or version != VERSION or part >= parts or len(rest) > size or parts > max(1, size):
        raise malformed()
    if _checksum(head, rest) != checksum:
        raise malformed()
    return Frame(SessionId(session.hex()), number, part, parts, size, rest)


def session_of(body: bytes) -> SessionId:
    """Whose frame this says it is, before anything else about it is believed."""
    magic, version, session, *_ = _HEAD.unpack(Reader(body).take(_HEAD.size))
    if magic != _MAGIC or version != VERSION:
        raise malformed()
    return SessionId(session.hex())


class Assembly:
    """A message coming together from its frames, in any order, each any number of times; bounded from the start.

    All frames but the last are of one length, so each has its place from the start and nothing is joined at the end.
    """

    def __init__(self, first: Frame, limit: int) -> None:
        if first.size > limit:
            raise malformed()
        self._parts = first.parts
        self._size = first.size
        self._frame = _frame_length(first)
        self._have: set[int] = set()
        try:
            # Not a bytearray: pages of this one become resident as they are written, whatever was promised.
            self._whole = memoryview(np.empty(self._size, np.uint8)) if self._parts > 1 else memoryview(first.body)
        except MemoryError:
            raise malformed() from None

    def add(self, frame: Frame) -> None:
        """Take a frame in; the same one again changes nothing."""
        if (frame.parts, frame.size) != (self._parts, self._size):
            raise malformed()
        start = frame.part * self._frame
        place = self._whole[start : start + self._frame]
        if len(place) != len(frame.body) or (frame.part in self._have and place != frame.body):
            raise malformed()
        if self._parts > 1 and frame.part not in self._have:
            place[:] = frame.body
        self._have.add(frame.part)

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
        return self._whole.toreadonly()


def _frame_length(frame: Frame) -> int:
    """The length of all frames but the last, from any one of them."""
    others = frame.parts - 1
    if frame.part < others or not others:
        each = len(frame.body)
    else:
        each, rest = divmod(frame.size - len(frame.body), others)
        if rest:
            raise malformed()
    last = frame.size - others * each
    if not (0 < last <= each or (not others and last == 0)):
        raise malformed()
    return each


def _checksum(head: bytes | memoryview, body: bytes | memoryview) -> bytes:
    """Of header and body."""
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
