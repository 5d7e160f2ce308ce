"""The links of one session at the CSP: what members push and pull, and the CSP's own end of it.

A member's message may come in when there is space for it, so that the bytes waiting to be read stay within what may be
held, or are one message. A member that sends too early must try again; one that breaks the rules ends the session at
both ends. gRPC is not here.

A member always has a call open that waits for its next message, and one that does nothing else (``places.py``), also
before it has joined. When its process dies the connection closes, and these calls break off: a member that does not
call again within a grace period is lost. One whose connection was merely cut dials again within a few seconds. A member
that stands still closes nothing: it is lost when no byte has come from it for as long.
"""

import threading
from collections import deque
from collections.abc import Collection, Mapping
from time import monotonic, sleep

from fedsvd.errors import FedSVDError, NotAuthenticated, PeerLost, TimedOut
from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import Party
from fedsvd.transport.calls import Joining, Leaving, Wanted, bundle, together, unbundle
from fedsvd.transport.links import MESSAGE_LIMIT, Encoded, Inbox, Outbox
from fedsvd.types import SessionId
from fedsvd.wire.codec import decode, encode
from fedsvd.wire.frame import Frame, decode_frame

Caller = str  # the identity in a certificate, e.g. "party/hospital-a"
_LONGEST_WAIT = 20.0
GRACE = 8.0  # seconds in which a member whose connection closed must call again; a caller dials every three or less


class _Link:
    """One member's link; ``changed`` guards all of it."""

    def __init__(self, session: SessionId, longest: int) -> None:
        self.changed = threading.Condition()
        self.inbox = Inbox(session, longest)
        self.outbox = Outbox(session)
        self.instance: bytes | None = None
        self.opened = self.last_call = monotonic()
        self.lost: float | None = None  # when its last open call broke off, if no other came since
        self.polls: set[object] = set()  # calls that wait for a message right now
        self.fetched = 0  # frames
        self.gone = False

    def called(self) -> None:
        """The member has called."""
        self.last_call, self.lost = monotonic(), None


class SessionLinks:
    """The links of one session at the CSP."""

    def __init__(
        self, session: SessionId, roster: Mapping[Caller, Party], held: int, longest: int = MESSAGE_LIMIT
    ) -> None:
        self.session = session
        self._roster = dict(roster)
        self._held = held
        self._links = {party: _Link(session, longest) for party in roster.values()}
        # Taken after a link's own lock, never before.
        self._arrival = threading.Condition()
        self._arrived: deque[tuple[Party, Encoded]] = deque()
        self._promised = 0  # bytes of all messages that have begun to come and were not read yet
        self._growing: set[Party] = set()  # whose next message has begun to come
        self._failure: FedSVDError | None = None
        self.received = 0  # bytes of complete messages, for those who watch
        self.closed: float | None = None  # when

    # --- the members' calls ---------------------------------------------------------------------------------------

    def party(self, caller: Caller) -> Party:
        if caller not in self._roster:
            raise NotAuthenticated(f"{caller} takes no part in this session")
        return self._roster[caller]

    def join(self, party: Party, joining: Joining) -> None:
        """A member is here, in one process: a second one would number its messages from nought again."""
        link = self._links[party]
        with link.changed:
            self._expect_open(link)
            link.called()
            if link.instance not in (None, joining.instance):
                raise PeerLost(f"{party} joined this session before", "resume the job, which opens a new one")
            link.instance = joining.instance

    def push(self, party: Party, body: bytes) -> bool:
        """Take frames in; False when they must be sent again later."""
        try:
            frames = [decode_frame(frame) for frame in unbundle(body)]
            return all(self._push(party, frame) for frame in frames)
        except PeerLost:
            raise
        except FedSVDError as error:
            self._fail(error)
            raise

    def _push(self, party: Party, frame: Frame) -> bool:
        link = self._links[party]
        with link.changed:
            self._expect_open(link)
            link.called()
            if link.inbox.begins(frame) and not self._admit(party, link, frame):
                return False
            self._hand_on(party, link, link.inbox.add(frame))
        return True

    def pull(self, party: Party, wanted: Wanted, may_wait: bool = True, call: object = None) -> bytes:
        """The frames asked for, as many as go into a call; or nothing after the time asked for."""
        link = self._links[party]
        deadline = monotonic() + (min(wanted.wait_ms / 1000, _LONGEST_WAIT) if may_wait else 0.0)
        with link.changed:
            link.called()
            link.outbox.acknowledge(wanted.below)
            if not self._await(link, wanted.number, deadline, call or object()):
                return b""
            number, each = wanted.number, wanted.frame
            last = min(wanted.part + max(1, min(wanted.count, together(each))), link.outbox.frames(number, each))
            parts = range(wanted.part, max(last, wanted.part + 1))
            frames = [link.outbox.frame(number, part, each) for part in parts]
            link.fetched += 1
        return bundle(frames)

    def broke_off(self, party: Party, call: object) -> None:
        """A call that waited is over without an answer: its connection has closed, or the member gave it up."""
        link = self._links[party]
        with link.changed:
            if call in link.polls:
                link.polls.remove(call)
                link.changed.notify_all()
                if not link.polls:
                    link.lost = monotonic()

    def leave(self, party: Party, leaving: Leaving) -> None:
        """A member disconnects: what it sent is received, what was on its way to it is lost."""
        link = self._links[party]
        with link.changed:
            if link.gone:
                return
            link.gone = True
            link.outbox.clear()
            with self._arrival:
                self._promised -= link.inbox.clear()
                self._growing.discard(party)
            link.changed.notify_all()
        if not leaving.complete:
            self._fail(
                PeerLost(f"{party} has disconnected in the middle of the session", "resume the job when it is back")
            )

    def _admit(self, party: Party, link: _Link, frame: Frame) -> bool:
        """Whether a message may begin to come."""
        due = frame.number == link.inbox.next
        with self._arrival:
            # Over what may be held only where nothing else could be read, now or soon: or all would wait for ever.
            last_hope = due and not self._arrived and not self._growing
            if link.inbox.too_early(frame) or not (self._promised + frame.size <= self._held or last_hope):
                return False
            self._promised += frame.size
            if due:
                self._growing.add(party)
        return True

    def _hand_on(self, party: Party, link: _Link, messages: list[Encoded]) -> None:
        with self._arrival:
            self._arrived.extend((party, message) for message in messages)
            self.received += sum(len(message) for message in messages)
            (self._growing.add if link.inbox.growing else self._growing.discard)(party)
            if messages:
                self._arrival.notify_all()

    def _await(self, link: _Link, number: int, deadline: float, call: object) -> bool:
        """Whether a message is there to be fetched before the deadline."""
        link.polls.add(call)
        try:
            while not link.outbox.has(number):
                self._expect_open(link)
                left = deadline - monotonic()
                if left <= 0 or call not in link.polls:
                    return False
                link.changed.wait(left)
            return True
        finally:
            if call in link.polls:
                link.polls.remove(call)
                link.called()

    def _expect_open(self, link: _Link) -> None:
        if not self._open or link.gone:
            raise PeerLost("the session is over")

    def _fail(self, error: FedSVDError) -> None:
        with self._arrival:
            self._failure = self._failure or error
            self._arrival.notify_all()

    # --- the CSP's own end ----------------------------------------------------------------------------------------

    def send(self, to: Party, message: Message) -> None:
        link, parts = self._links[to], encode(message)
        with link.changed:
            if not self._open:
                raise PeerLost("the session is over")
            if link.gone:
                raise PeerLost(f"{to} has disconnected")
            link.outbox.put(parts)
            link.changed.notify_all()

    def receive(self, wait: float = 0.0) -> tuple[Party, Message] | None:
        with self._arrival:
            self._arrival.wait_for(lambda: self._arrived or self._failure or not self._open, wait)
            if not self._open:
                raise PeerLost("the session is over")
            if not self._arrived:
                if self._failure is not None:
                    raise self._failure
                return None
            party, message = self._arrived.popleft()
            self._promised -= len(message)
        return party, decode(message)

    def expect_signs_of_life(
        self,
        patience: float,
        but: Collection[Party] = (),
        grace: float = GRACE,
        lost: Mapping[Party, float] | None = None,
        still: Mapping[Party, float] | None = None,
    ) -> None:
        """Raise for a member that is lost or silent for longer than this, unless it left or is done.

        ``lost`` says when members broke off that had shown that they are there; one that has called since is not lost.
        ``still`` says since when nothing at all has come from others, not even the answer to a ping.
        """
        now = monotonic()
        for party, link in self._links.items():
            if link.gone or party in but:
                continue
            # A call of theirs that waits, or was answered here meanwhile, is no sign of life.
            heard = (still or {}).get(party)
            if heard is not None and (silent := now - max(heard, link.opened)) > grace:
                fault = f"nothing has come from {party} for {silent:.0f} s: its process or its line stands still"
                raise PeerLost(fault, "start that party again, or check its line; then resume the job")
            if link.polls:
                continue
            broke_off = link.lost or (lost or {}).get(party)
            # A member that has not joined yet last called, for us, when the session was opened.
            since = None if broke_off is None else max(broke_off, link.last_call)
            if since is not None and now - since > grace:
                fault = f"the connection of {party} closed, and it has not called again for {now - since:.0f} s"
                raise PeerLost(fault, "start that party again, then resume the job")
            if (silent := self.silence(party)) > patience:
                raise TimedOut(f"{party} has been silent for {silent:.0f} s")

    def silence(self, party: Party) -> float:
        """Seconds since a member last called."""
        return monotonic() - self._links[party].last_call

    def calls_waiting(self, party: Party) -> int:
        """How many calls of a member wait for a message."""
        return len(self._links[party].polls)

    def expect_any_member(self) -> None:
        """Raise where all members have disconnected, and nothing that they sent is left to be read."""
        if self.all_left and not self._arrived:
            raise PeerLost("all members have disconnected")

    @property
    def all_left(self) -> bool:
        """Whether all members have disconnected."""
        return all(link.gone for link in self._links.values())

    @property
    def absent(self) -> set[Party]:
        """Who has not joined yet."""
        return {party for party, link in self._links.items() if link.instance is None}

    def drain(self, patience: float) -> None:
        """Wait until everything sent has been fetched, as long as members go on fetching."""
        deadline, before = monotonic() + patience, -1
        while not self.fetched and monotonic() < deadline:
            now = sum(link.fetched for link in self._links.values())
            if now != before:
                deadline, before = monotonic() + patience, now
            sleep(0.02)

    @property
    def fetched(self) -> bool:
        """Whether nothing is left for any member to fetch."""
        return all(link.outbox.empty for link in self._links.values())

    @property
    def _open(self) -> bool:
        return self.closed is None

    def close(self) -> None:
        """Close: what was sent before can still be fetched."""
        with self._arrival:
            self.closed = self.closed or monotonic()
            self._arrived.clear()
            self._arrival.notify_all()
        for link in self._links.values():
            with link.changed:
                link.inbox.clear()
                link.changed.notify_all()
