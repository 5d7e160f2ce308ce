"""The Trusted Authority: deals the mask seed, then goes offline.

It receives nothing in a session: the keys it seals to stand in the plan, and no data, masked or not, reaches it. It
imports nothing that could use any.
"""

from enum import Enum, auto
from typing import ClassVar

from fedsvd.protocol.keys import SessionKeys, commitment
from fedsvd.protocol.machine import Compute, Computed, Finish, Machine, Send, Step, Table, table
from fedsvd.protocol.messages import Begin, Relay
from fedsvd.protocol.parties import CSP, TA, Party, Role
from fedsvd.protocol.plan import SessionPlan
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.sign import SigningKey


class State(Enum):
    NEW = auto()
    DEALING = auto()
    DONE = auto()
    ABORTED = auto()


class TrustedAuthority(Machine):
    """The TA in one session."""

    STATES = State

    def __init__(self, plan: SessionPlan, secret: Seed, identity: SigningKey) -> None:
        super().__init__(TA, plan)
        self.seed = secret.derive("masks")
        self.keys = SessionKeys(TA, plan, secret, identity)

    def _on_begin(self, sender: Party, message: Begin) -> Step:
        """Step 2: have the seed sealed to the prekey that each user left."""
        self.keys.read_prekeys()
        return State.DEALING, (Compute("dealing", self._deal),)

    def _deal(self) -> tuple[Relay, ...]:
        digest = self.plan.digest
        return tuple(Relay(digest, user, self.keys.seal(user, self.seed.reveal())) for user in self.plan.users)

    def _on_dealt(self, dealt: tuple[Relay, ...]) -> Step:
        """Send what was sealed, and be done: the CSP stores it until the users come, by when the TA may be gone."""
        offer = self.keys.offer(commitment(self.seed))
        return State.DONE, (Send(CSP, offer), *(Send(CSP, sealed) for sealed in dealt), Finish(None))

    TABLE: ClassVar[Table] = table(
        # state        what arrives  who may send it handler     where it may lead
        (State.NEW, Begin, Role.TA, _on_begin, {State.DEALING}),
        (State.DEALING, Computed, Role.TA, _on_dealt, {State.DONE}),
    )
