"""What a transport is, and one that counts bytes and messages on every link, whatever carries them.

A transport sends messages to parties and receives theirs, in order on each link.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from fedsvd.protocol.certificate import Accounts, Link, Stage
from fedsvd.protocol.messages import Message, size
from fedsvd.protocol.parties import Party


class Transport(Protocol):
    """One party's end of all its links."""

    def send(self, to: Party, message: Message) -> None:
        """Queue a message; what is sent on one link arrives complete, once, and in order. A closed link raises."""

    def receive(self, wait: float = 0.0) -> tuple[Party, Message] | None:
        """The next message and its sender; None when nothing has come after ``wait`` seconds."""

    def close(self) -> None:
        """Close: what was sent before still arrives; sending or receiving afterwards is a ``TransportError``."""


@dataclass
class Meter:
    """Content bytes and messages by link (from, to), and bytes by sender and kind of message."""

    sent_bytes: Counter[Link] = field(default_factory=Counter)
    messages: Counter[Link] = field(default_factory=Counter)
    kinds: Counter[Stage] = field(default_factory=Counter)
    _last: tuple[Message | None, int] = field(default=(None, 0), compare=False, repr=False)

    def count(self, origin: Party, to: Party, message: Message) -> None:
        link, (last, count) = (origin, to), self._last
        if message is not last:  # what goes to all users is measured once
            count = size(message)
            self._last = message, count
        self.sent_bytes[link] += count
        self.messages[link] += 1
        self.kinds[origin, type(message).__name__] += count

    @property
    def total(self) -> int:
        return sum(self.sent_bytes.values())

    def accounts(self) -> Accounts:
        """What was counted: it follows from the plan, and so may be shown to the other parties."""
        return Accounts(
            bytes_by_link=dict(sorted(self.sent_bytes.items())),
            messages_by_link=dict(sorted(self.messages.items())),
            bytes_by_kind=dict(sorted(self.kinds.items())),
        )


class Metered:
    """A wrapper around one party's transport that reports to a meter what is sent."""

    def __init__(self, inner: Transport, me: Party, meter: Meter) -> None:
        self._inner = inner
        self._me = me
        self._meter = meter

    def send(self, to: Party, message: Message) -> None:
        self._inner.send(to, message)
        self._meter.count(self._me, to, message)

    def receive(self, wait: float = 0.0) -> tuple[Party, Message] | None:
        return self._inner.receive(wait)

    def close(self) -> None:
        self._inner.close()
