"""What a transport is: a way to say a message to a party and to hear what others said, in order on each link."""

from typing import Protocol

from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import Party


class Transport(Protocol):
    """One party's end of all its links."""

    def send(self, to: Party, message: Message) -> None:
        """Queue a message; what is sent on one link arrives whole, once, and in order. A hung-up link raises."""

    def receive(self, wait: float = 0.0) -> tuple[Party, Message] | None:
        """The next message and who said it; None when nothing has come after ``wait`` seconds."""

    def close(self) -> None:
        """Hang up: what was sent before still arrives; sending or receiving afterwards is a ``TransportError``."""
