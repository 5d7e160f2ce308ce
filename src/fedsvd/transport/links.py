"""The bookkeeping of a reliable link, without the link: what was sent and not yet acknowledged, what has come.

Messages are numbered on each link. A sender buffers a message until the other end has it; a receiver hands messages on
in order and takes any frame any number of times. Nothing here waits, retries or locks: that is the carriers' business.
"""

from collections.abc import Sequence

from fedsvd.errors import LocalProtocolError
from fedsvd.types import SessionId
from fedsvd.wire.frame import FRAME, Assembly, Frame, frame_count, length, one_frame
from fedsvd.wire.reader import malformed

MESSAGE_LIMIT = 1 << 36  # no message of ours comes near; a peer's that claims more is malformed
_AHEAD = 64  # messages that may have begun to come before the one that is due

Parts = Sequence[bytes | memoryview]
Encoded = bytes | memoryview


class Outbox:
    """Messages on their way to one party."""

    def __init__(self, session: SessionId) -> None:
        self._session = session
        self._buffered: dict[int, Parts] = {}  # in the order of their numbers
        self._next = 0
        self.bytes = 0

    def put(self, parts: Parts) -> int:
        """Buffer an encoded message until it is acknowledged; its number."""
        number = self._next
        self._next += 1
        self._buffered[number] = parts
        self.bytes += length(parts)
        return number

    def has(self, number: int) -> bool:
        return number in self._buffered

    def size(self, number: int) -> int:
        """Bytes of a buffered message."""
        return length(self._buffered[number])

    def frames(self, number: int, each: int = FRAME) -> int:
        """How many frames of ``each`` bytes a buffered message has."""
        return frame_count(self._buffered[number], each)

    def frame(self, number: int, part: int, each: int = FRAME) -> Frame:
        """One frame of a buffered message that is cut into such frames."""
        if number not in self._buffered:
            raise malformed()
        return one_frame(self._session, number, self._buffered[number], part, each)

    def forget(self, number: int) -> None:
        """The other end has this message."""
        self.bytes -= length(self._buffered.pop(number))

    def acknowledge(self, below: int) -> None:
        """The other end has every message numbered below this."""
        if below > self._next:
            raise malformed()
        for number in [number for number in self._buffered if number < below]:
            self.forget(number)

    def clear(self) -> None:
        """No one will ask for any of it."""
        self._buffered.clear()
        self.bytes = 0

    @property
    def empty(self) -> bool:
        return not self._buffered


class Inbox:
    """Messages on their way from one party."""

    def __init__(self, session: SessionId, limit: int = MESSAGE_LIMIT) -> None:
        self._session = session
        self._limit = limit
        self.next = 0  # the message that will be handed on next
        self._coming: dict[int, Assembly] = {}
        self._complete: dict[int, Encoded] = {}

    def begins(self, frame: Frame) -> bool:
        """Whether a frame is the first to come of its message."""
        return frame.number >= self.next and frame.number not in self._coming and frame.number not in self._complete

    def too_early(self, frame: Frame) -> bool:
        """Whether too many messages before this one are still missing for it to be buffered."""
        return frame.number >= self.next + _AHEAD

    @property
    def growing(self) -> bool:
        """Whether the message that is due has begun to come."""
        return self.next in self._coming

    def add(self, frame: Frame) -> list[Encoded]:
        """Take a frame in; the messages that can now be handed on, in order."""
        if frame.session != self._session:
            raise LocalProtocolError("a frame of another session")
        if frame.number < self.next or frame.number in self._complete:
            return []  # sent again after it was acknowledged
        if self.too_early(frame):
            raise malformed()
        if frame.number not in self._coming:
            self._coming[frame.number] = Assembly(frame, self._limit)
        assembly = self._coming[frame.number]
        assembly.add(frame)
        if assembly.complete:
            self._complete[frame.number] = self._coming.pop(frame.number).message()
        handed = []
        while self.next in self._complete:
            handed.append(self._complete.pop(self.next))
            self.next += 1
        return handed

    def clear(self) -> int:
        """Drop what has not been handed on; how many bytes were promised."""
        promised = sum(assembly.size for assembly in self._coming.values())
        promised += sum(len(message) for message in self._complete.values())
        self._coming.clear()
        self._complete.clear()
        return promised
