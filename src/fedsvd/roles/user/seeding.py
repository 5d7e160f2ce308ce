"""Steps 1 and 2 at a user: session keys, the seeds that dealers deal, and what follows from them.

When all seeds are here the user has its pads, its end of the sums, its masks, its place among the users and what the
script of its task works on; ``role.py`` goes on from there.

A keyed hash of a user's row ids is made here (step 2): the key is the users', so that the CSP can compare and not
guess. One hash of the whole column, in order. Hashes of single rows would show the CSP which rows differ, and a count
of them would answer a user's questions about membership; so neither is sent, and ids that occur twice are found here.
"""

import hashlib
import hmac
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
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
from fedsvd.protocol.keys import SessionKeys, commitment, read_directory
from fedsvd.protocol.machine import Effect, Send
from fedsvd.protocol.messages import ID_WORDS, KeyBook, KeyOffer, Relay, Relayed
from fedsvd.protocol.parties import CSP, TA, Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.relayed import dealer, dealers, deals
from fedsvd.randomness.keystream import Each
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.agreement import Group, Roots
from fedsvd.roles.user.masking import Allocate, Masks
from fedsvd.roles.user.shared import once_for, once_in_process
from fedsvd.roles.user.sums import SumsOfUser
from fedsvd.roles.user.work import Playing, Progress, Sink, Work
from fedsvd.sealing.agree import AgreementKey
from fedsvd.sealing.sign import SigningKey
from fedsvd.secagg.keys import AgreedHere, pad_keys
from fedsvd.secagg.pads import DrawnHere, PadsOnce
from fedsvd.secagg.tagged import tag_seed
from fedsvd.storage.record_file import RecordFile
from fedsvd.types import Float, Ring


def hashed_ids(ids: NDArray[Any] | None, users_seed: Seed) -> Ring:
    """HMAC-SHA-256 of all row ids in order, each with its length, as four words."""
    if ids is None:
        raise LocalProtocolError("the plan compares row ids, and this party has none", "name the id column (id)")
    texts = [str(row).encode() for row in ids.tolist()]
    if repeated := len(texts) - len(set(texts)):
        raise RepeatedIds(
            f"{repeated} of {len(texts)} row ids occur more than once",
            "leave one row for each id, or match records by several columns together",
        )
    code = hmac.new(users_seed.derive("row ids").reveal(), digestmod=hashlib.sha256)
    for text in texts:
        code.update(len(text).to_bytes(4, "big") + text)
    return np.frombuffer(code.digest(), "<u8").astype(np.uint64)[:ID_WORDS]


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
    persons: NDArray[np.intp] | None = None  # whose each record is, where persons have several; counted by home tests
    prekey: AgreementKey | None = None  # for the TA's message, where a TA deals
    sink: Sink | None = None  # where its own part of the result is written; None: memory
    checkpoint: Checkpoint | None = None  # of its compression
    search: RecordFile | None = None  # what earlier sessions of the job found by steps
    allocate: Allocate = np.empty  # memory or disk for a result as long as the data
    progress: Progress | None = None
    device: Device | None = None  # where this user computes; None for NumPy
    each: Each | None = None  # ``map`` over several threads, for pads of large payloads
    each_part: EachPart | None = None  # ``map`` over several processes, for points of large sets of ids
    spread: Spread | None = None  # factors the source in parts, on a cluster
    memo: dict[Hashable, Any] | None = None  # what users of one process computed from equal inputs
    granted: float = math.inf  # bits at which this user ends a study by few digits, besides those of the plan
    rule: Rule | None = None  # by which tables are prepared together
    statistic: Callable[[Float], Playing] | None = None  # what plays a foreign task on X_i
    on_means: Callable[[Float], None] | None = None  # is given the joint means of the columns when they are opened
    results: Callable[[Any], Roots] | None = None  # hashes the files that a result is written as; None: no files


class Seeding:
    """A user's session key, the seeds that it deals and those that it is dealt."""

    def __init__(self, me: Party, plan: SessionPlan, inputs: Inputs) -> None:
        self._me, self._plan, self._inputs = me, plan, inputs
        self.keys = SessionKeys(me, plan, inputs.secret, inputs.identity, inputs.prekey)
        self.own = inputs.secret.derive("own")
        self.seeds: dict[str, Seed] = {}  # by name, once dealt
        self._awaited = {name for name, party in dealers(plan).items() if party is not None}
        self._early: list[Relayed] = []  # of users who were quicker than the dealer of a seed

    def offer(self) -> KeyOffer:
        """Step 1: our session key, signed, with a commitment to every seed we deal."""
        if dealer(self._plan) == TA:
            # It must have sealed to our own prekey, or we would wait for a message to another key.
            self.keys.read_prekeys()
        made = {"tags": tag_seed(self.own)}
        for name in deals(self._plan, self._me):
            self.seeds[name] = made.get(name) or self._inputs.secret.derive(name)
        return self.keys.offer(b"".join(map(commitment, self.seeds.values())))

    def dealt(self, directory: KeyBook) -> tuple[Effect, ...]:
        """Check every key against the plan's identities; then the seeds we deal, sealed to all others."""
        # Users of one process that get the same directory, under one plan, verify its signatures once.
        as_read = f"directory {self._plan.session} {self._plan.digest}"
        read = partial(read_directory, self._plan, directory)
        self.keys.read(once_for(self._inputs.memo, directory, as_read, self._plan.k, read))
        content = b"".join(seed.reveal() for seed in self.seeds.values())
        return tuple(
            Send(CSP, Relay(self._plan.digest, peer, self.keys.seal(peer, content)))
            for peer in self._plan.users
            if content and peer != self._me
        )

    def receive(self, message: Relayed) -> bool:
        """Step 2: a dealer's seeds.

        False for a message of a user who was quicker than the dealer: it waits (``early``).
        """
        names = deals(self._plan, message.origin)
        if not names or names[0] in self.seeds:
            if self._plan.matches and len(self._early) < self._plan.k:  # a commitment of each user, and no more
                self._early.append(message)
                return False
            raise UnexpectedMessage(f"a sealed message from {message.origin} where a seed is awaited")
        self.seeds |= self.keys.open_seeds(message.origin, message.sealed)
        return True

    @property
    def complete(self) -> bool:
        """Whether every dealer's seeds are here."""
        return self._awaited <= self.seeds.keys()

    def sums(self) -> SumsOfUser:
        """Our end of the sums, with the pads that we share with our neighbours among the users.

        Who they are follows from the users' seed alone, which user 1 drew and committed to before it saw a key. Were
        the keys of the session in it, a user who signs two keys could look for an order that suits it (ADR 0092).
        """
        plan = self._plan
        publics = {party.index: self.keys.publics[party.index] for party in plan.users}
        order = self.seeds["users"].derive("neighbours")
        memo = self._inputs.memo
        here: DrawnHere | None = None if memo is None else once_in_process(memo, "drawn here", (), DrawnHere)
        agreed: AgreedHere | None = None if memo is None else once_in_process(memo, "agreed here", (), AgreedHere)
        pads = pad_keys(self.keys.mine, self._me.index, publics, plan.session, plan.digest, order, agreed)
        return SumsOfUser(pads, self.seeds, self.own, PadsOnce(here), self._inputs.each)

    def early(self) -> list[Relayed]:
        """What came for the group while seeds were awaited; once."""
        early, self._early = self._early, []
        return early

    def prepare(self, group: Group) -> tuple[Work, Ring | None]:
        """What the task works on, and the hash of our row ids where the plan compares them."""
        plan, i, inputs, seeds = self._plan, self._me.index - 1, self._inputs, self.seeds
        # Not every two users share pads that another key would spoil: a user who signs two is found by this.
        group.witness("keys", self.keys.book)
        device = inputs.device
        on = None if device is None else device.like
        work = Work(
            plan=plan,
            i=i,
            source=inputs.source,
            masks=Masks(plan, i, seeds["masks"], self.own, on, inputs.each, inputs.memo),
            own=self.own,
            checks=seeds["users"].derive("checks"),
            labels=inputs.labels,
            ids=inputs.ids,
            weights=inputs.weights,
            row_weights=inputs.row_weights,
            clusters=inputs.clusters,
            persons=inputs.persons,
            checkpoint=inputs.checkpoint,
            search=inputs.search,
            sink=inputs.sink,
            progress=inputs.progress,
            device=device,
            spread=inputs.spread,
            each_part=inputs.each_part,
            allocate=inputs.allocate,
            memo=inputs.memo,
            granted=inputs.granted,
            rule=inputs.rule,
            key=seeds["users"].derive("prepare"),
            statistic=inputs.statistic,
            on_means=inputs.on_means,
        )
        if plan.stacks_labels and inputs.row_weights is not None:
            # In the digest, which all users compare: weights of split columns are the same at all of them.
            group.witness("weights", inputs.row_weights)
        if not plan.check_ids:
            return work, None
        hashed = hashed_ids(inputs.ids, seeds["users"])
        # In the digest too: a CSP that calls different rows equal is found when digests are compared.
        group.witness("row ids", hashed)
        return work, hashed
