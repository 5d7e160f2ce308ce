"""The Trusted Authority: deals the mask seed (and, in the paper's scheme, the slices of Q), then goes offline.

It receives nothing in a session: the keys it seals to stand in the plan, and no data, masked or not, reaches it. It
imports nothing that could use any.
"""

from enum import Enum, auto
from functools import cached_property
from typing import ClassVar

import numpy as np

from fedsvd.masks.left import LeftMask
from fedsvd.masks.right import RightMask
from fedsvd.protocol.keys import SessionKeys, commitment
from fedsvd.protocol.machine import Compute, Computed, Finish, Machine, Send, Step, Table, table
from fedsvd.protocol.messages import Begin, Relay
from fedsvd.protocol.parties import CSP, TA, Party, Role
from fedsvd.protocol.plan import SessionPlan
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.sign import SigningKey
from fedsvd.types import Array


def _bytes(block: Array) -> bytes:
    return np.ascontiguousarray(block, "<f8").tobytes()


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
        self.right_seed = secret.derive("Q")
        self.keys = SessionKeys(TA, plan, secret, identity)

    def _on_begin(self, sender: Party, message: Begin) -> Step:
        """Step 2: have the masks drawn, and each user's seed, or slices, sealed to the prekey it left."""
        self.keys.read_prekeys()
        return State.DEALING, (Compute("dealing", self._deal),)

    def _deal(self) -> tuple[Relay, ...]:
        digest = self.plan.digest
        sealed = tuple(Relay(digest, user, self.keys.seal(user, self.content(user))) for user in self.plan.users)
        self.__dict__.pop("_Q", None)  # gigabytes where masks are dealt as matrices, and not needed again
        return sealed

    def _on_dealt(self, dealt: tuple[Relay, ...]) -> Step:
        """Send what was sealed, and be done: the CSP stores it until the users come, by when the TA may be gone."""
        offer = self.keys.offer(commitment(self.seed))
        return State.DONE, (Send(CSP, offer), *(Send(CSP, sealed) for sealed in dealt), Finish(None))

    def content(self, user: Party) -> bytes:
        """The mask seed; in the paper's scheme Q_i behind it, window after window, and P where it is dealt too."""
        plan, parts = self.plan, [self.seed.reveal()]
        if plan.published:
            i, Q = user.index - 1, self._Q
            held = [w for w, window in enumerate(Q.windows) if window.columns[i].stop > window.columns[i].start]
            parts += [_bytes(Q.rows(w, i)) for w in held]
        if plan.deals_left:
            P = LeftMask(plan.left, plan.masked_rows, self.seed.derive("P"), plan.block)
            parts.append(_bytes(P.window(0).explicit()))
        return b"".join(parts)

    @cached_property
    def _Q(self) -> RightMask:
        plan = self.plan
        return RightMask(plan.right, plan.widths, self.right_seed, plan.block, keep=plan.deals_left)

    TABLE: ClassVar[Table] = table(
        # state        what arrives  who may send it handler     where it may lead
        (State.NEW, Begin, Role.TA, _on_begin, {State.DEALING}),
        (State.DEALING, Computed, Role.TA, _on_dealt, {State.DONE}),
    )
