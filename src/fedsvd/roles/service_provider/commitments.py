"""The users' commitments to their data, which come with their first shares and go back to all with the first total."""

from fedsvd.errors import UnexpectedMessage
from fedsvd.protocol.parties import Party
from fedsvd.protocol.plan import SessionPlan


class Commitments:
    """What every user committed to in one session."""

    def __init__(self, plan: SessionPlan) -> None:
        self._users = plan.users
        self._held: dict[Party, bytes] = {}
        self._sent = False

    def add(self, sender: Party, commitment: bytes) -> None:
        """A user's first share brings its data commitment, and no other does."""
        if (sender in self._held) == bool(commitment) or len(commitment) not in (0, 32):
            raise UnexpectedMessage(f"a data commitment of {sender} that is missing, repeated or of another length")
        if commitment:
            self._held[sender] = commitment

    def once(self) -> tuple[bytes, ...]:
        """All users' commitments, with the first total; nothing with any other."""
        if self._sent:
            return ()
        self._sent = True
        return tuple(self._held[party] for party in self._users)
