"""Steps 1 and 2 at a user: session keys, the seeds that dealers deal, and what follows from them.

When all seeds are here the user has its pads, its end of the sums, its masks, its place among the users and the script
of its task; ``role.py`` goes on from there.

A keyed hash of a user's row ids is made here (step 2): the key is the users', so that the CSP can compare and not
guess. One hash of the whole column, in order. Hashes of single rows would show the CSP which rows differ, and a count
of them would answer a user's questions about membership; so neither is sent, and ids that occur twice are found here.
"""

import hashlib
import hmac
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.compress.checkpoint import Checkpoint
from fedsvd.compress.reduce import Spread
from fedsvd.data.source import MatrixSource
from fedsvd.errors import LocalProtocolError, RepeatedIds, UnexpectedMessage
from fedsvd.linalg.device import Device
from fedsvd.prepare.blinding import EachPart
from fedsvd.prepare.rule import Rule
from fedsvd.protocol.keys import SessionKeys, commitment
from fedsvd.protocol.machine import Compute, Machine, Send, Step
from fedsvd.protocol.messages import ID_WORDS, Begin, KeyBook, Relay, Relayed, RowIds
from fedsvd.protocol.parties import CSP, TA, Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.relayed import dealer, deals
from fedsvd.protocol.tasks import Task
from fedsvd.randomness.keystream import Each
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.agreement import Group, Roots
from fedsvd.roles.user.masking import NOTHING, Allocate, Masks, dealt_masks
from fedsvd.roles.user.requests import Script
from fedsvd.roles.user.sums import SumsOfUser
from fedsvd.roles.user.work import Playing, Progress, Sink, Work
from fedsvd.sealing.agree import AgreementKey
from fedsvd.sealing.sign import SigningKey
from fedsvd.secagg.keys import pad_keys
from fedsvd.secagg.pads import PadsOnce
from fedsvd.secagg.tagged import tag_seed
from fedsvd.types import Float, Ring


def hashed_ids(ids: NDArray[Any] | None, users_seed: Seed) -> Ring:
    """HMAC-SHA-256 of all row ids in order, each with its length, as four words."""
    if ids is None:
        raise LocalProtocolError("the plan compares row ids, and this party has none", "name the id column")
    texts = [str(row).encode() for row in ids.tolist()]
    if repeated := len(texts) - len(set(texts)):
        raise RepeatedIds(f"{repeated} of {len(texts)} row ids occur more than once", "keep one row for each id")
    code = hmac.new(users_seed.derive("row ids").reveal(), digestmod=hashlib.sha256)
    for text in texts:
        code.update(len(text).to_bytes(4, "big") + text)
    return np.frombuffer(code.digest(), "<u8").astype(np.uint64)[:ID_WORDS]


_SHARED = {"lsa": "svd", "lr": "regression", "predict": "prediction", "match": "matching", "prepare": "preparation"}
"""Tasks whose script is in a file of another name than theirs."""


def script_of(task: Task) -> Callable[[Work], Script]:
    """The script of a task: ``script`` in the file of its name."""
    word = _SHARED.get(task, str(task))
    found: Callable[[Work], Script] = import_module(f"fedsvd.roles.user.{word}").script
    return found


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
    COMMITTING = auto()
    COMPARING = auto()
    MATCHING = auto()
    TAKING = auto()
    AGREEING = auto()
    SIGNING = auto()
    FINISHING = auto()
    DONE = auto()
    ABORTED = auto()


@dataclass(frozen=True, repr=False, kw_only=True)
class Inputs:
    """What a user brings to a session: its data, its identity, its own 32 secret bytes, and what it computes with."""

    source: MatrixSource  # X_i, (m, n_i)
    identity: SigningKey
    secret: Seed
    labels: Float | None = None
    ids: NDArray[Any] | None = None
    weights: tuple[Float, Float] | None = None  # coefficients and intercept, to predict with
    row_weights: Float | None = None  # of the records, where the plan is of weighted rows
    clusters: NDArray[Any] | None = None  # of the records, where errors are robust to clusters
    prekey: AgreementKey | None = None  # for the TA's message, where a TA deals
    sink: Sink | None = None  # where its own part of the result is written; None: memory
    checkpoint: Checkpoint | None = None  # of its compression
    allocate: Allocate = np.empty  # memory or disk for a result as long as the data
    progress: Progress | None = None
    device: Device | None = None  # where this user computes; None for NumPy
    each: Each | None = None  # ``map`` over several threads, for pads of large payloads
    each_part: EachPart | None = None  # ``map`` over several processes, for points of large sets of ids
    spread: Spread | None = None  # factors the source in parts, on a cluster
    memo: dict[bytes, Any] | None = None  # what users of one process computed from equal inputs
    rule: Rule | None = None  # by which tables are prepared together
    statistic: Callable[[Float], Playing] | None = None  # what plays a foreign task on X_i
    results: Callable[[Any], Roots] | None = None  # hashes the files that a result is written as; None: there are none


class Seeding(Machine, ABC):
    """A user until it has its seeds."""

    STATES = State

    def __init__(self, me: Party, plan: SessionPlan, inputs: Inputs) -> None:
        super().__init__(me, plan)
        self._inputs = inputs
        self._keys = SessionKeys(me, plan, inputs.secret, inputs.identity, inputs.prekey)
        self._own = inputs.secret.derive("own")
        self._once = PadsOnce()
        self._seeds: dict[str, Seed] = {}  # by name, once dealt
        self._early: list[Relayed] = []  # of users who were quicker than the dealer of a seed
        self._slices: bytes | None = None  # of Q, where a TA deals them (paper)
        self._script: Script | None = None
        self._then: Callable[[Any], Step] | None = None  # decides on what is being computed
        # The paper's own scheme is there to be reproduced, as published, and not to be fast.
        self._device = None if plan.published else inputs.device

    # What this party itself holds, for the one that plays it: no message, log line or repr shows any of it.

    @property
    def inputs(self) -> Inputs:
        """What this user brought to the session."""
        return self._inputs

    @property
    def keys(self) -> SessionKeys:
        """Its session key, and what is sealed with it."""
        return self._keys

    @property
    def seeds(self) -> dict[str, Seed]:
        """The seeds it was dealt, by name."""
        return self._seeds

    @property
    def group(self) -> Group:
        """Its place among the users, once it has the seeds."""
        return self._group

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
            if self.plan.matches and len(self._early) < self.plan.k:  # a commitment of each user, and no more
                self._early.append(message)
                return State.SEEDING, ()
            raise UnexpectedMessage(f"a sealed message from {message.origin} where a seed is awaited")
        seeds, rest = self._keys.open_seeds(message.origin, message.sealed)
        self._seeds |= seeds
        if self.plan.published and message.origin == TA:
            self._slices = rest
        return self._seeded()

    def _seeded(self) -> Step:
        """With all seeds here: the pads, our end of the sums, our place in the group; then the masks and the task."""
        plan, inputs, seeds = self.plan, self._inputs, self._seeds
        if not all(name in seeds for party in plan.parties for name in deals(plan, party)):
            return State.SEEDING, ()
        publics = {party.index: self._keys.publics[party.index] for party in plan.users}
        self._pads = pad_keys(self._keys.mine, self.me.index, publics, plan.session, plan.digest)
        self._sums = SumsOfUser(self._pads, seeds, self._own, self._once, inputs.each)
        self._group = Group(self.me, plan, seeds["users"], inputs.identity, inputs.memo)
        return State.SEEDING, (Compute("seeding", self._prepare),)

    def _prepare(self) -> tuple[Work, Ring | None]:
        """What the task works on, and the hash of our row ids where the plan compares them."""
        plan, i, inputs, seeds = self.plan, self.me.index - 1, self._inputs, self._seeds
        dealt = NOTHING if self._slices is None else dealt_masks(plan, i, self._slices, inputs.allocate)
        on = None if self._device is None else self._device.like
        work = Work(
            plan=plan,
            i=i,
            source=inputs.source,
            masks=Masks(plan, i, seeds["masks"], self._own, dealt.Q, on, inputs.each, dealt.P, inputs.memo),
            own=self._own,
            checks=seeds["users"].derive("checks"),
            labels=inputs.labels,
            ids=inputs.ids,
            weights=inputs.weights,
            row_weights=inputs.row_weights,
            clusters=inputs.clusters,
            checkpoint=inputs.checkpoint,
            sink=inputs.sink,
            progress=inputs.progress,
            device=self._device,
            spread=inputs.spread,
            each_part=inputs.each_part,
            allocate=inputs.allocate,
            memo=inputs.memo,
            rule=inputs.rule,
            key=seeds["users"].derive("prepare"),
            statistic=inputs.statistic,
        )
        if plan.stacks_labels and inputs.row_weights is not None:
            # In the digest, which all users compare: weights of split columns are the same at all of them.
            self._group.witness("weights", inputs.row_weights)
        if not plan.check_ids:
            return work, None
        hashed = hashed_ids(inputs.ids, seeds["users"])
        # In the digest too: a CSP that calls different rows equal is found when digests are compared.
        self._group.witness("row ids", hashed)
        return work, hashed

    def _on_prepared(self, prepared: tuple[Work, Ring | None]) -> Step:
        """Start the task's script, after the row check where there is one."""
        self._work, hashed = prepared
        self._slices = None
        early, self._early = self._early, []
        for relayed in early:
            self._group.receive(relayed.origin, relayed.sealed)
        self._script = script_of(self.plan.task)(self._work)
        if hashed is not None:
            return State.CHECKING, (Send(CSP, RowIds(self.plan.digest, hashed)),)
        return self._go_on(None)

    def _compute(self, label: str, work: Callable[[], Any], then: Callable[[Any], Step]) -> Step:
        """Have ``work`` computed; ``then`` decides on its value."""
        self._then = then
        return State.COMPUTING, (Compute(label, work),)

    def _on_computed(self, value: Any) -> Step:
        """The computation under way has come to its end."""
        then, self._then = self._then, None
        if then is None:
            raise LocalProtocolError("nothing was being computed")
        return then(value)

    @abstractmethod
    def _go_on(self, answer: Any) -> Step:
        """Go on with the task's script, with the answer to what it asked for. ``scripted.py`` does it."""
