"""What a transport is: a way to say a message to a party and to hear what others said, in order on each link."""

from typing import Protocol

from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import Party


class Transport(Protocol):
    """One party's end of all its links."""

    def send(self, to: Party, message: Message) -> None:
        """Queue a message; messages on one link arrive in the order they were sent. To a party that has hung up, or
        from one, it is a ``TransportError``."""

    def receive(self) -> tuple[Party, Message] | None:
        """The next message and who said it; None when nothing is waiting."""

    def close(self) -> None:
        """Hang up: what was sent before still arrives; sending or receiving afterwards is a ``TransportError``."""
