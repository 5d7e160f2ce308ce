"""Frames of a message all at once, and as bytes: what a link does one by one."""

from collections.abc import Iterator

from fedsvd.types import SessionId
from fedsvd.wire.frame import FRAME, Frame, Parts, frame_count, frame_pieces, one_frame


def cut(session: SessionId, number: int, parts: Parts, frame: int = FRAME) -> Iterator[Frame]:
    """The frames of an encoded message, made one at a time."""
    count = frame_count(parts, frame)
    return (one_frame(session, number, parts, part, frame) for part in range(count))


def encode_frame(frame: Frame) -> bytes:
    """A frame as bytes."""
    return b"".join(frame_pieces(frame))
