"""What each party saw: the recorded view that adversary tests and the audit work on, and nothing beyond it."""

from dataclasses import dataclass, field
from typing import TypeVar

from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import Party

M = TypeVar("M", bound=Message)


@dataclass
class Views:
    """Messages heard, by hearer, in the order of hearing: (speaker, message)."""

    heard: dict[Party, list[tuple[Party, Message]]] = field(default_factory=dict)

    def record(self, hearer: Party, speaker: Party, message: Message) -> None:
        self.heard.setdefault(hearer, []).append((speaker, message))

    def of(self, hearer: Party, kind: type[M]) -> list[tuple[Party, M]]:
        """What a party heard of one kind."""
        return [(speaker, said) for speaker, said in self.heard.get(hearer, []) if isinstance(said, kind)]

    def kinds(self, hearer: Party) -> set[type[Message]]:
        """The kinds of message a party heard."""
        return {type(message) for _, message in self.heard.get(hearer, [])}
