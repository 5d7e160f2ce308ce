"""The dialling end, at users and the TA: pushes what is sent, pulls what is to be received.

Two threads keep the connection alive whatever the role computes: one pushes frames of queued messages, one pulls the
next message. A failure of either is the failure of the link, raised at the next send or receive.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby, islice
from time import monotonic

from fedsvd.errors import FedSVDError, LocalProtocolError, PeerLost, TimedOut
from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import CSP, Party
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.transport.calls import (
    GREET,
    JOIN,
    LEAVE,
    NOTHING,
    PULL,
    PUSH,
    Joining,
    Leaving,
    Wanted,
    bundle,
    together,
    unbundle,
)
from fedsvd.transport.links import MESSAGE_LIMIT, Encoded, Inbox, Outbox
from fedsvd.transport.pace import Pace
from fedsvd.transport.pinned_connection import Dialling as Dialling
from fedsvd.transport.pinned_connection import PinnedConnection as PinnedConnection
from fedsvd.types import SessionId
from fedsvd.wire.codec import decode, encode
from fedsvd.wire.frame import FRAME, LARGEST_FRAME, decode_frame
from fedsvd.wire.reader import malformed

_LONGEST_WAIT = 5.0  # seconds that one Pull waits for a message
_LEAVING = 3.0  # seconds to announce that we leave

Place = tuple[int, int]  # of a frame: its message's number, and its part


class Dialled:
    """A user's or the TA's end of one session."""

    def __init__(self, dialling: Dialling, session: SessionId, longest: int = MESSAGE_LIMIT) -> None:
        self._session = session
        self._patience = dialling.patience
        self._held = dialling.held
        self._connection = PinnedConnection(dialling)
        self._changed = threading.Condition()  # guards what follows
        self._outbox = Outbox(session)
        self._frame = dialling.frame  # bytes at most
        self._up, self._down = Pace(LARGEST_FRAME), Pace(LARGEST_FRAME)
        self._cut: dict[int, int] = {}  # bytes of a frame of each message that has begun to be sent
        self._left: dict[int, int] = {}  # frames of each of these that were not answered yet
        self._answered = 0  # frames
        self._inbox = Inbox(session, longest)
        self._arrived: deque[Encoded] = deque()
        self._arrived_bytes = 0
        self._failure: FedSVDError | None = None
        self._pushes = True  # whether what is queued may still get through
        self._closing = False
        self._sent: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        try:
            self._connection.call(JOIN, Joining(session, fresh_bytes(16)).encode())
        except FedSVDError:
            self._connection.close()
            raise
        works = (self._pushing, self._pulling)
        self._threads = [threading.Thread(target=self._guarded, args=(work,), daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def send(self, to: Party, message: Message) -> None:
        """Queue a message to the CSP; waits while too much is queued."""
        if to != CSP:
            raise LocalProtocolError(f"a link to {to}: all links end at the CSP")
        parts = encode(message)
        with self._changed:
            self._changed.wait_for(lambda: self._outbox.bytes <= self._held or self._failure or self._closing)
            self._expect_up()
            self._sent.put(self._outbox.put(parts))

    def receive(self, wait: float = 0.0) -> tuple[Party, Message] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._arrived or self._failure or self._closing, wait)
            if self._closing:
                self._expect_up()
            if not self._arrived:
                # To look is free; to wait for a peer that has disconnected would be for ever.
                if wait > 0 or not isinstance(self._failure, PeerLost):
                    self._expect_up()
                return None
            message = self._arrived.popleft()
            self._arrived_bytes -= len(message)
            self._changed.notify_all()
        return CSP, decode(message)

    @property
    def unsent(self) -> int:
        """Bytes that were queued and that the CSP does not have yet."""
        with self._changed:
            return self._outbox.bytes

    @property
    def unread(self) -> int:
        """Bytes of messages that have arrived and were not received yet."""
        with self._changed:
            return self._arrived_bytes

    def flush(self) -> None:
        """Wait until the CSP has everything we sent; raises where it will not."""
        self._drain()
        if not self._outbox.empty:
            raise self._failure or TimedOut(f"the CSP took nothing for {self._patience:.0f} s")

    def _drain(self) -> None:
        """Wait until the CSP has everything we sent, or the link is given up, or for our patience nothing was taken."""
        with self._changed:
            answered, deadline = -1, 0.0
            # Not until the link fails: the CSP may close the session on our last message before their answer is here.
            while not self._outbox.empty and self._pushes:
                if self._answered != answered:
                    answered, deadline = self._answered, monotonic() + self._patience
                if monotonic() >= deadline:
                    return
                self._changed.wait(0.2)

    def close(self) -> None:
        """Close once the CSP has everything we sent; the message says whether all was well."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        self._drain()
        leaving = Leaving(self._session, self._inbox.next, self._failure is None and self._outbox.empty)
        with suppress(FedSVDError):  # where this is lost, it will notice our absence
            self._connection.call(LEAVE, leaving.encode(), min(_LEAVING, self._patience / 4))
        self._sent.put(None)
        self._connection.close()
        for thread in self._threads:
            thread.join(_LEAVING)
        with self._changed:
            self._arrived.clear()
            self._outbox.clear()

    def _expect_up(self) -> None:
        if self._closing:
            raise PeerLost("the connection was closed")
        if self._failure is not None:
            raise self._failure

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except FedSVDError as error:
            with self._changed:
                if not self._connection.closed:
                    self._failure = self._failure or error
                self._changed.notify_all()
        finally:
            with self._changed:
                self._pushes = self._pushes and work != self._pushing
                self._changed.notify_all()

    # --- pushing --------------------------------------------------------------------------------------------------

    def _pushing(self) -> None:
        while (number := self._sent.get()) is not None:
            groups = self._groups(self._queued(number))
            for places, _ in self._connection.stream(PUSH, groups, self._frames, pace=self._up):
                self._delivered(places)

    def _groups(self, places: Iterator[Place]) -> Iterator[tuple[Place, ...]]:
        """Places as they come, as many together as a call should carry: of one message, or of messages cut alike."""
        for each, alike in groupby(places, lambda place: self._cut[place[0]]):
            while group := tuple(islice(alike, _many(each, self._up))):
                yield group

    def _queued(self, first: int) -> Iterator[Place]:
        """Every frame of a message, and of those queued behind it by then."""
        number: int | None = first
        while number is not None:
            self._try_line(number)
            with self._changed:
                each = self._cut[number] = min(self._frame, self._up.bytes)
                count = self._left[number] = self._outbox.frames(number, each)
            yield from ((number, part) for part in range(count))
            try:
                number = self._sent.get_nowait()
            except queue.Empty:
                return
        self._sent.put(None)

    def _try_line(self, number: int) -> None:
        """Before a large message is cut into small frames, find out whether it must be."""
        with self._changed:
            large = self._outbox.size(number) > FRAME
        while large and self._up.unknown:
            size, started = self._up.bytes, monotonic()
            self._connection.call(GREET, bytes(size))
            self._up.took(size, monotonic() - started)

    def _frames(self, places: tuple[Place, ...]) -> bytes:
        with self._changed:
            frames = [self._outbox.frame(number, part, self._cut[number]) for number, part in places]
        return bundle(frames)

    def _delivered(self, places: tuple[Place, ...]) -> None:
        """Frames have reached the CSP; a message that has arrived completely is buffered no longer."""
        with self._changed:
            self._answered += len(places)
            for number, _ in places:
                self._left[number] -= 1
                if not self._left[number]:
                    del self._left[number], self._cut[number]
                    self._outbox.forget(number)
            self._changed.notify_all()

    # --- pulling --------------------------------------------------------------------------------------------------

    def _pulling(self) -> None:
        wait = min(_LONGEST_WAIT, self._patience / 4)
        while True:
            asked = monotonic()
            each = min(FRAME, self._down.bytes)
            if self._full():
                self._connection.call(PULL, self._wanted(NOTHING, 0, 1, each))  # we are here, and have enough to read
            elif answer := self._connection.call(
                PULL, self._wanted(self._inbox.next, 0, _many(each, self._down), each, wait)
            ):
                self._fetch(answer, each)
            elif monotonic() - asked < wait / 2:
                self._connection.pause(min(wait, 0.2))  # the CSP has no thread to spare for our waiting

    def _full(self) -> bool:
        """Whether too much waits to be read, and still does after a while."""
        with self._changed:
            return not self._changed.wait_for(lambda: self._arrived_bytes <= self._held or self._closing, 1.0)

    def _fetch(self, answer: bytes, each: int) -> None:
        """The rest of the message that its first frames begin, side by side."""
        number = self._inbox.next
        while self._down.unknown and decode_frame(unbundle(answer)[0]).size > FRAME:
            each, started = self._down.bytes, monotonic()
            answer = self._connection.call(PULL, self._wanted(number, 0, 1, each))
            self._down.took(each, monotonic() - started)
        have, parts = self._take(number, 0, answer)
        others = self._spans(have, parts, each)
        asked = self._connection.stream(
            PULL, others, lambda span: self._wanted(number, span.start, len(span), each), pace=self._down
        )
        for span, other in asked:
            came, _ = self._take(number, span.start, other)
            if came != len(span):
                raise malformed()

    def _spans(self, start: int, stop: int, each: int) -> Iterator[range]:
        """Parts of a message, as many together as a call should carry."""
        while start < stop:
            yield range(start, start := min(start + _many(each, self._down), stop))

    def _take(self, number: int, part: int, answer: bytes) -> tuple[int, int]:
        """Take in the frames that were asked for; how many came, and how many their message has."""
        frames = [decode_frame(frame) for frame in unbundle(answer)]
        if [(frame.number, frame.part) for frame in frames] != [(number, part + i) for i in range(len(frames))]:
            raise malformed()
        with self._changed:
            complete = [message for frame in frames for message in self._inbox.add(frame)]
            self._arrived += complete
            self._arrived_bytes += sum(len(message) for message in complete)
            if complete:
                self._changed.notify_all()
        return len(frames), frames[0].parts

    def _wanted(self, number: int, part: int, count: int, each: int, wait: float = 0.0) -> bytes:
        return Wanted(self._session, self._inbox.next, number, part, count, each, round(1000 * wait)).encode()


def _many(each: int, pace: Pace) -> int:
    """How many frames of this length a call should carry."""
    return max(1, min(pace.bytes // each, together(each)))
