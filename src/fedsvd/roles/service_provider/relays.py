"""Whom a sealed message of a user goes to, and how many of them a session has: the CSP relays and cannot read."""

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
