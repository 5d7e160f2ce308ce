"""What the CSP passes on between users and cannot read: sealed messages, and the commitments to their data."""

from collections import Counter

from fedsvd.errors import UnexpectedMessage
from fedsvd.protocol.matching import sealed_parts
from fedsvd.protocol.parties import ALL, Party
from fedsvd.protocol.plan import SessionPlan

_PART = 1 << 26  # bytes of a group-sealed message at most


class Relays:
    """How many sealed messages each user has sent so far."""

    def __init__(self, plan: SessionPlan) -> None:
        self._users = plan.users
        self._sent: Counter[Party] = Counter()
        self._most = (
            plan.k + 8 + (plan.glm.evaluations if plan.glm else 0) + plan.relay_bytes // _PART + sealed_parts(plan)
        )

    def receivers(self, sender: Party, to: Party) -> list[Party]:
        """The one user that a message is for, or all others; more messages than the plan has are refused."""
        self._sent[sender] += 1
        others = [party for party in self._users if party != sender]
        found = others if to == ALL else [party for party in others if party == to]
        if not found or self._sent[sender] > self._most:
            raise UnexpectedMessage(f"a sealed message from {sender} to {to}")
        return found


class Commitments:
    """What every user committed to: it comes with a first share, and goes back to all with the first total."""

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
