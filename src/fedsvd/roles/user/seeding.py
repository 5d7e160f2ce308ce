"""Steps 1 and 2 at a user: session keys, the seeds that dealers deal, and what follows from them.

When all seeds are here the user has its pads, its end of the sums, its masks, its place among the users and the script
of its task; ``role.py`` goes on from there.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.errors import UnexpectedMessage
from fedsvd.linalg.device import Device
from fedsvd.protocol.effects import Send
from fedsvd.protocol.keys import SessionKeys, commitment, dealer, deals
from fedsvd.protocol.machine import Machine, Step
from fedsvd.protocol.messages import Begin, KeyBook, Relay, Relayed, RowIds
from fedsvd.protocol.parties import CSP, TA, Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.randomness.keystream import Each
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user import pca, prediction, regression, svd
from fedsvd.roles.user.agreement import Group
from fedsvd.roles.user.dealt import NOTHING, dealt_masks
from fedsvd.roles.user.masking import Masks
from fedsvd.roles.user.requests import Script
from fedsvd.roles.user.row_ids import hashed_ids
from fedsvd.roles.user.sums import SumsOfUser
from fedsvd.roles.user.work import Work
from fedsvd.sealing.agree import AgreementKey
from fedsvd.sealing.sign import SigningKey
from fedsvd.secagg.keys import pad_keys
from fedsvd.secagg.pads import PadsOnce
from fedsvd.secagg.tagged import tag_seed
from fedsvd.types import Float

_SCRIPTS = {
    "svd": svd.script,
    "lsa": svd.script,
    "pca": pca.script,
    "lr": regression.script,
    "predict": prediction.script,
}


class State(Enum):
    NEW = auto()
    KEYS = auto()
    SEEDING = auto()
    CHECKING = auto()
    COMPUTING = auto()
    SUMMING = auto()
    UPLOADING = auto()
    WAITING = auto()
    FETCHING = auto()
    RECOVERING = auto()
    CHALLENGING = auto()
    RELAYING = auto()
    AGREEING = auto()
    SIGNING = auto()
    FINISHING = auto()
    DONE = auto()
    ABORTED = auto()


@dataclass(frozen=True, repr=False)
class Inputs:
    """What a user brings to a session: its data, its identity, and its own 32 secret bytes."""

    source: MatrixSource  # X_i, (m, n_i)
    identity: SigningKey
    secret: Seed
    labels: Float | None = None
    ids: NDArray[Any] | None = None
    weights: tuple[Float, Float] | None = None
    extras: dict[str, Any] | None = None  # checkpoint, progress
    prekey: AgreementKey | None = None  # for the TA's message, where a TA deals
    device: Device | None = None  # where this user computes; None for NumPy
    each: Each | None = None  # ``map`` over several threads, for pads of large payloads


class Seeding(Machine):
    """A user until it has its seeds."""

    STATES = State

    def __init__(self, me: Party, plan: SessionPlan, inputs: Inputs) -> None:
        super().__init__(me, plan)
        self._inputs = inputs
        self._keys = SessionKeys(me, plan, inputs.secret, inputs.identity, inputs.prekey)
        self._own = inputs.secret.derive("own")
        self._once = PadsOnce()
        self._seeds: dict[str, Seed] = {}  # by name, once dealt
        self._slices: bytes | None = None  # of Q, where a TA deals them (paper)
        self._script: Script | None = None
        # The paper's own scheme is there to be reproduced, as published, and not to be fast.
        self._device = None if plan.published else inputs.device

    def _on_begin(self, sender: Party, message: Begin) -> Step:
        """Step 1: offer our session key, signed, with a commitment to every seed we deal."""
        if dealer(self.plan) == TA:
            # It must have sealed to our own prekey, or we would wait for a message to another key.
            self._keys.read_prekeys()
        made = {"tags": tag_seed(self._own)}
        for name in deals(self.plan, self.me):
            self._seeds[name] = made.get(name) or self._inputs.secret.derive(name)
        return State.KEYS, (Send(CSP, self._keys.offer(b"".join(map(commitment, self._seeds.values())))),)

    def _on_keys(self, sender: Party, message: KeyBook) -> Step:
        """Check every key against the plan's identities; a dealer then seals its seeds to all others."""
        self._keys.read(message)
        content = b"".join(seed.reveal() for seed in self._seeds.values())
        sealed = tuple(
            Send(CSP, Relay(self.plan.digest, peer, self._keys.seal(peer, content)))
            for peer in self.plan.users
            if content and peer != self.me
        )
        state, effects = self._seeded()
        return state, sealed + effects

    def _on_seed(self, sender: Party, message: Relayed) -> Step:
        """Step 2: a dealer's seeds, and from the TA of the paper's scheme our slices of Q behind them."""
        names = deals(self.plan, message.origin)
        if not names or names[0] in self._seeds:
            raise UnexpectedMessage(f"a sealed message from {message.origin} where a seed is awaited")
        seeds, rest = self._keys.open_seeds(message.origin, message.sealed)
        self._seeds |= seeds
        if self.plan.published and message.origin == TA:
            self._slices = rest
        return self._seeded()

    def _seeded(self) -> Step:
        plan, i, inputs, seeds = self.plan, self.me.index - 1, self._inputs, self._seeds
        if not all(name in seeds for party in plan.parties for name in deals(plan, party)):
            return State.SEEDING, ()
        publics = {party.index: self._keys.publics[party.index] for party in plan.users}
        self._pads = pad_keys(self._keys.mine, self.me.index, publics, plan.session, plan.digest)
        self._sums = SumsOfUser(self._pads, seeds, self._own, self._once, inputs.each)
        self._group = Group(self.me, plan, seeds["users"], inputs.identity)
        extras = {"device": self._device, **(inputs.extras or {})}
        allocate = extras.get("allocate", np.empty)
        dealt = NOTHING if self._slices is None else dealt_masks(plan, i, self._slices, allocate)
        self._slices = None
        on = None if self._device is None else self._device.like
        masks = Masks(plan, i, seeds["masks"], self._own, dealt.Q, on, inputs.each, dealt.P, extras.get("memo"))
        checks = seeds["users"].derive("checks")
        self._work = Work(plan, i, inputs.source, masks, self._own, checks, inputs.labels, inputs.weights, **extras)
        self._script = _SCRIPTS[plan.task.value](self._work)
        if plan.check_ids:
            hashed = hashed_ids(inputs.ids, seeds["users"])
            # In the digest too: a CSP that calls different rows equal is found when digests are compared.
            self._group.witness("row ids", hashed)
            return State.CHECKING, (Send(CSP, RowIds(plan.digest, hashed)),)
        return self._go_on(None)

    def _go_on(self, answer: Any) -> Step:
        """Run the task's script; ``role.User`` does, which alone is ever made."""
        raise NotImplementedError
