"""The bookkeeping of a reliable link, without the link: what was sent and not yet acknowledged, what has come.

Messages are numbered on each link. A sender keeps a message until the other end has it; a receiver hands messages on in
order and takes any frame any number of times. Nothing here waits, retries or locks: that is the carriers' business.
"""

from collections import OrderedDict
from collections.abc import Iterator

from fedsvd.errors import LocalProtocolError
from fedsvd.types import SessionId
from fedsvd.wire.frame import FRAME, Assembly, Frame, cut
from fedsvd.wire.reader import malformed

MESSAGE_LIMIT = 1 << 36  # no message of ours comes near; a peer's that claims more is malformed
_AHEAD = 64  # messages a peer may be ahead of the one we wait for


class Outbox:
    """Messages on their way to one party."""

    def __init__(self, session: SessionId, frame: int = FRAME) -> None:
        self._session = session
        self._frame = frame
        self._kept: OrderedDict[int, list[bytes | memoryview]] = OrderedDict()
        self._next = 0
        self.bytes = 0

    def put(self, parts: list[bytes | memoryview]) -> int:
        """Keep an encoded message until it is acknowledged; its number."""
        number = self._next
        self._next += 1
        self._kept[number] = parts
        self.bytes += _length(parts)
        return number

    def has(self, number: int) -> bool:
        return number in self._kept

    def frame(self, number: int, part: int) -> Frame:
        """One frame of a kept message."""
        if number not in self._kept:
            raise malformed()
        parts = self._kept[number]
        size = _length(parts)
        count = max(1, -(-size // self._frame))
        if part >= count:
            raise malformed()
        body = _window(parts, part * self._frame, min((part + 1) * self._frame, size))
        return Frame(self._session, number, part, count, size, body)

    def frames(self, number: int) -> Iterator[Frame]:
        """All frames of a kept message, made one at a time."""
        return cut(self._session, number, self._kept[number], self._frame)

    def acknowledge(self, below: int) -> None:
        """The other end has every message numbered below this."""
        if below > self._next:
            raise malformed()
        while self._kept and next(iter(self._kept)) < below:
            _, parts = self._kept.popitem(last=False)
            self.bytes -= _length(parts)

    @property
    def empty(self) -> bool:
        return not self._kept


class Inbox:
    """Messages on their way from one party."""

    def __init__(self, session: SessionId, limit: int = MESSAGE_LIMIT) -> None:
        self._session = session
        self._limit = limit
        self.next = 0  # the message that will be handed on next
        self._coming: dict[int, Assembly] = {}
        self._whole: dict[int, bytes] = {}

    def add(self, frame: Frame) -> list[bytes]:
        """Take a frame in; the messages that can now be handed on, in order."""
        if frame.session != self._session:
            raise LocalProtocolError("a frame of another session")
        if frame.number < self.next or frame.number in self._whole:
            return []  # said again after it was acknowledged
        if frame.number > self.next + _AHEAD:
            raise malformed()
        assembly = self._coming.get(frame.number)
        if assembly is None:
            assembly = self._coming[frame.number] = Assembly(frame, self._limit)
        assembly.add(frame)
        if assembly.complete:
            self._whole[frame.number] = self._coming.pop(frame.number).message()
        handed = []
        while self.next in self._whole:
            handed.append(self._whole.pop(self.next))
            self.next += 1
        return handed


def _length(parts: list[bytes | memoryview]) -> int:
    return sum(memoryview(part).nbytes for part in parts)


def _window(parts: list[bytes | memoryview], start: int, stop: int) -> bytes:
    """Bytes start .. stop of the parts laid end to end."""
    taken = []
    for part in parts:
        view = memoryview(part).cast("B")
        if start < len(view) and stop > 0:
            taken.append(view[max(start, 0) : min(stop, len(view))])
        start, stop = start - len(view), stop - len(view)
    return b"".join(taken)
