"""What a transport is: a way to send messages to parties and to receive theirs, in order on each link."""

from typing import Protocol

from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import Party


class Transport(Protocol):
    """One party's end of all its links."""

    def send(self, to: Party, message: Message) -> None:
        """Queue a message; what is sent on one link arrives complete, once, and in order. A closed link raises."""

    def receive(self, wait: float = 0.0) -> tuple[Party, Message] | None:
        """The next message and its sender; None when nothing has come after ``wait`` seconds."""

    def close(self) -> None:
        """Close: what was sent before still arrives; sending or receiving afterwards is a ``TransportError``."""
