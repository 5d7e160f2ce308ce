"""The Trusted Authority: deals the group seed (and, in the paper's scheme, the slices of Q), then goes offline.

It hears keys and nothing else: no data, masked or not, ever reaches it, and it imports nothing that could use any.
"""

from enum import Enum, auto
from typing import ClassVar

import numpy as np

from fedsvd.masks.right import RightMask
from fedsvd.protocol.effects import Finish, Send
from fedsvd.protocol.letters import SessionKeys, commitment
from fedsvd.protocol.machine import Machine, Step, Table, table
from fedsvd.protocol.messages import Begin, KeyBook, Relay
from fedsvd.protocol.parties import CSP, TA, Party, Role
from fedsvd.protocol.plan import SessionPlan
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.sign import SigningKey


class State(Enum):
    NEW = auto()
    KEYS = auto()
    DONE = auto()
    ABORTED = auto()


class TrustedAuthority(Machine):
    """The TA in one session."""

    STATES = State

    def __init__(self, plan: SessionPlan, secret: Seed, identity: SigningKey) -> None:
        super().__init__(TA, plan)
        self._group = secret.derive("group")
        self._mask = secret.derive("Q")
        self._keys = SessionKeys(TA, plan, secret, identity)

    def _on_begin(self, sender: Party, message: Begin) -> Step:
        """Offer our key, with a commitment to the seed that will be dealt."""
        return State.KEYS, (Send(CSP, self._keys.offer(commitment(self._group))),)

    def _on_keys(self, sender: Party, message: KeyBook) -> Step:
        """Step 1 of the paper: seal each user its seed, or its slices, and be done."""
        self._keys.read(message)
        digest = self.plan.digest
        letters = tuple(
            Send(CSP, Relay(digest, user, self._keys.seal(user, self._group.reveal() + self._slices(user))))
            for user in self.plan.users
        )
        return State.DONE, (*letters, Finish(None))

    def _slices(self, user: Party) -> bytes:
        """Q_i as bytes, window after window, in the paper's scheme; nothing otherwise."""
        if not self.plan.published:
            return b""
        plan, i = self.plan, user.index - 1
        Q = RightMask(plan.right, plan.widths, self._mask, plan.block, plan.window)
        held = [w for w, window in enumerate(Q.windows) if window.columns[i].stop > window.columns[i].start]
        return b"".join(np.ascontiguousarray(Q.rows(w, i), "<f8").tobytes() for w in held)

    TABLE: ClassVar[Table] = table(
        # state        what arrives  who may say it  handler     where it may lead
        (State.NEW, Begin, Role.TA, _on_begin, {State.KEYS}),
        (State.KEYS, KeyBook, Role.CSP, _on_keys, {State.DONE}),
    )
