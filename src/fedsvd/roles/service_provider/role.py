"""The Computation Service Provider: adds up padded shares, factorises, verifies, answers.

It neither makes nor removes a mask, and imports nothing that could: no masks, no dice, no keys, no pads. It relays
letters it cannot read and adds up sums it cannot read.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import ClassVar

import numpy as np

from fedsvd.errors import RepeatedShare, RowsDiffer, ShapeError, UnexpectedMessage
from fedsvd.linalg.backend import namespace
from fedsvd.linalg.device import Device
from fedsvd.protocol.effects import Compute, Effect, Finish, Send
from fedsvd.protocol.machine import Machine, Step, Table, table
from fedsvd.protocol.messages import (
    BatchRequest,
    BlindedRightMask,
    Computed,
    Factors,
    Finished,
    KeyBook,
    KeyOffer,
    MaskedBatch,
    Message,
    PaddedBatch,
    Ready,
    Relay,
    Relayed,
    RowIds,
    RowsAgree,
    RowsRequest,
    Solution,
    SumReply,
    SumShare,
)
from fedsvd.protocol.parties import CSP, TA, Party, Role, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import SUMS, Item, Scheme, Task
from fedsvd.protocol.upload import Batch, batches, recovers
from fedsvd.roles.service_provider.collect import (
    Storage,
    decoded,
    expect_route,
    keeper_for,
    side_by_side,
)
from fedsvd.roles.service_provider.factorise import Factorised, Solved, factorise
from fedsvd.roles.service_provider.recover import blinded_factor, factor_rows
from fedsvd.secagg import fixed_point
from fedsvd.secagg.aggregate import RunningSum
from fedsvd.types import Array, Float, Ring


class State(Enum):
    NEW = auto()
    PREPARING = auto()
    AGGREGATING = auto()
    FACTORISING = auto()
    ANSWERING = auto()
    DONE = auto()
    ABORTED = auto()


@dataclass(frozen=True)
class Verified:
    """What the CSP can say of its work: no factor, only how good it is."""

    residual: float
    orthogonality: float
    rank: int


class ServiceProvider(Machine):
    """The CSP in one session; ``storage`` makes the block store that X' is kept in, where it is kept.

    It adds up and factorises on ``device``; without one, with NumPy.
    """

    STATES = State

    def __init__(self, plan: SessionPlan, storage: Storage, device: Device | None = None) -> None:
        super().__init__(CSP, plan)
        self._offers: dict[Party, tuple[bytes, bytes, bytes]] = {}
        self._deposited: dict[Party, bytes] = {}
        self._rows: dict[Party, Ring] = {}
        self._sums: dict[str, RunningSum] = {}
        self._summed: set[str] = set()
        self._ready: dict[Party, tuple[int, int]] = {}
        self._batches: tuple[Batch, ...] = ()
        self._batch = 0
        self._panel: Array | None = None
        self._finished: set[Party] = set()
        self._verified: Verified | None = None
        self._found: Factorised | None = None  # while users may still ask for what lies in it
        self._storage = storage
        self._complete: deque[tuple[int, Array]] = deque()  # panels of X' on their way to the keeper
        # The paper's own scheme is there to be reproduced, as published, and not to be fast.
        self._device = None if plan.published else device
        self.progress: Callable[[str, int, int], None] = lambda stage, done, total: None
        if plan.task is not Task.PREDICT:
            expect_route(plan)
            self._batches = batches(plan)

    # --- keys, letters, rows --------------------------------------------------------------------------------------

    def _on_offer(self, sender: Party, message: KeyOffer) -> Step:
        """Step 1: gather the signed keys, hand everybody the book of them."""
        if sender in self._offers:
            raise RepeatedShare(f"{sender} offered a key twice")
        self._offers[sender] = (message.public, message.commitment, message.signature)
        return self._keys_gathered()

    def _on_deposit(self, sender: Party, message: Relay) -> Step:
        """Keep a letter of the TA, which does not wait for its reader, until the readers are here."""
        if message.to in self._deposited:
            raise RepeatedShare(f"{sender} left two letters for {message.to}")
        if message.to not in self.plan.users:
            raise UnexpectedMessage(f"a letter from {sender} to {message.to}")
        self._deposited[message.to] = message.sealed
        return self._keys_gathered()

    def _keys_gathered(self) -> Step:
        """Everybody's keys and, where a TA deals, all its letters: hand them out, the book before the letter."""
        holders = [party for party in self.plan.parties if party != CSP]
        letters = self.plan.k if TA in holders else 0
        if len(self._offers) < len(holders) or len(self._deposited) < letters:
            return State.NEW, ()
        digest = self.plan.digest
        book = KeyBook(digest, tuple((party, *self._offers[party]) for party in holders))
        dealt = tuple(Send(party, Relayed(digest, TA, sealed)) for party, sealed in self._deposited.items())
        self._deposited = {}
        return State.PREPARING, (*self._to_all(book), *dealt)

    def _on_relay(self, sender: Party, message: Relay) -> Step:
        """Pass on a letter we cannot read."""
        if message.to.role is not Role.USER or message.to not in self.plan.users or message.to == sender:
            raise UnexpectedMessage(f"a letter from {sender} to {message.to}")
        return self.state, (Send(message.to, Relayed(self.plan.digest, sender, message.sealed)),)

    def _on_row_ids(self, sender: Party, message: RowIds) -> Step:
        """Compare the keyed hashes of the rows; say how many differ, never which."""
        if sender in self._rows:
            raise RepeatedShare(f"{sender} sent its row ids twice")
        if message.hashes.shape != (self.plan.m,):
            raise ShapeError(f"{sender} hashed {message.hashes.shape[0]} rows, the plan has {self.plan.m}")
        self._rows[sender] = message.hashes
        if len(self._rows) < self.plan.k:
            return self.state, ()
        every = np.stack([self._rows[party] for party in self.plan.users])
        differ = int(np.count_nonzero((every != every[0]).any(axis=0)))
        if differ:
            raise RowsDiffer(
                f"{differ} of {self.plan.m} rows have different ids at different parties",
                "sort every party's rows by id (sort_by_id = true; sort_index or reindex in pandas) and use only ids "
                'that all have; ids = "trust", if the rows belong together and their ids need not agree',
            )
        return self.state, self._to_all(RowsAgree(self.plan.digest))

    # --- users-only sums ------------------------------------------------------------------------------------------

    def _on_share(self, sender: Party, message: SumShare) -> Step:
        """Add one share; when all k are in, hand back a total that still wears the users' own pad."""
        name = message.name
        if name not in SUMS:
            raise UnexpectedMessage(f"{sender} sends a share of a sum that no task has")
        if name in self._summed:
            raise RepeatedShare(f"the sum {name!r} is complete, and {sender} sends a share")
        if name not in self._sums:
            self._sums[name] = RunningSum(message.payload.shape, self.plan.k)
        total = self._sums[name]
        total.add(sender.index, message.payload)
        if not total.complete:
            return self.state, ()
        self._summed.add(name)
        reply = SumReply(self.plan.digest, name, self._sums.pop(name).total())
        if name == "scores":
            return self.state, (Send(user(self.plan.label_user), reply),)
        return self.state, self._to_all(reply)

    # --- the upload -----------------------------------------------------------------------------------------------

    def _on_ready(self, sender: Party, message: Ready) -> Step:
        """When every user can answer, ask for the first batch."""
        if sender in self._ready:
            raise RepeatedShare(f"{sender} is ready twice")
        self._ready[sender] = message.exponents
        if len(set(self._ready.values())) > 1:
            raise UnexpectedMessage("users disagree on the exponent of the fixed point")
        if len(self._ready) < self.plan.k:
            return self.state, ()
        self._exponents = message.exponents
        self._keeper = keeper_for(self.plan, self._storage)
        return State.AGGREGATING, self._request_batch()

    def _request_batch(self) -> tuple[Effect, ...]:
        rows, width = self._batches[self._batch].shape
        if self.plan.scheme is Scheme.ALIGNED:
            width = self.plan.targets if self.plan.by_rows else 0  # labels are added up even here
        # Shares of the aligned scheme are not added up but put beside one another, in host memory.
        device = None if self.plan.scheme is Scheme.ALIGNED else self._device
        self._sum = RunningSum((rows, width), self.plan.k, device)
        self._aligned: dict[Party, Float] = {}
        return self._to_all(BatchRequest(self.plan.digest, self._batch))

    def _on_padded_batch(self, sender: Party, message: PaddedBatch) -> Step:
        """Step 2 (eq. 4): add one share; when all k are in, the pads cancel.

        A second share for the same batch would put two plaintexts under one pad. It ends the session instead of being
        ignored (ADR 0006).
        """
        if message.batch != self._batch or self.plan.scheme is Scheme.ALIGNED:
            raise RepeatedShare(f"{sender} sent batch {message.batch}, {self._batch} is being added up")
        self._sum.add(sender.index, message.payload)
        if not self._sum.complete:
            return State.AGGREGATING, ()
        total = self._sum.total()
        matrix = self.plan.N if self.plan.by_rows else total.shape[1]
        return self._batch_done(decoded(total, matrix, self._exponents))

    def _on_masked_batch(self, sender: Party, message: MaskedBatch) -> Step:
        """The aligned scheme: every user's columns stand beside the others'; only labels are added up."""
        if message.batch != self._batch or sender in self._aligned or self.plan.scheme is not Scheme.ALIGNED:
            raise RepeatedShare(f"{sender} sent batch {message.batch} unasked or twice")
        if (message.y_i_padded is None) is self.plan.stacks_labels:
            raise UnexpectedMessage(f"{sender} sent labels where there are none, or none where there are")
        if message.y_i_padded is not None:
            self._sum.add(sender.index, message.y_i_padded)
        self._aligned[sender] = message.Y_i_masked
        if len(self._aligned) < self.plan.k:
            return State.AGGREGATING, ()
        X_masked = side_by_side(self.plan, self._batches[self._batch], self._aligned)
        if self.plan.stacks_labels:
            fixed_point.decode(self._sum.total(), self._exponents[1], out=X_masked[:, self.plan.N :])
        return self._batch_done(X_masked)

    def _batch_done(self, X_masked: Array) -> Step:
        batch = self._batches[self._batch]
        rows, width = self.plan.panels[batch.panel]
        if batch.last and batch.rows.start == 0:
            panel = X_masked
        else:
            if self._panel is None:
                self._panel = namespace(X_masked).empty((rows, width), dtype=X_masked.dtype, device=X_masked.device)
            self._panel[batch.rows, :] = X_masked
            panel = self._panel
        self._batch += 1
        self.progress("aggregating", self._batch, len(self._batches))
        more = self._batch < len(self._batches)
        # The next batch is asked for first: the users mask it while this panel is folded in or stored.
        requests = self._request_batch() if more else ()
        if not batch.last:
            return State.AGGREGATING, requests
        self._panel = None
        self._complete.append((batch.panel, panel))
        return State.AGGREGATING, (*requests, Compute("aggregating", self._keep))

    def _keep(self) -> int:
        number, panel = self._complete.popleft()  # and so held by nobody once it is taken
        self._keeper.take(number, panel)
        return number

    def _on_kept(self, sender: Party, message: Computed) -> Step:
        """A panel of X' is where it belongs; after the last one it is factorised."""
        if message.value + 1 < len(self.plan.panels):
            return State.AGGREGATING, ()
        del self._sum, self._aligned
        return State.FACTORISING, (Compute("factorise", self._factorise),)

    def _factorise(self) -> Factorised | Solved:
        self.progress("factorise", 0, 1)
        found = factorise(self.plan, self._keeper, self._device)
        self.progress("factorise", 1, 1)
        return found

    # --- the answer -----------------------------------------------------------------------------------------------

    def _on_factorised(self, sender: Party, message: Computed) -> Step:
        """Step 3's result, verified: tell the users, each thing only where the plan releases it."""
        del self._keeper
        found, digest = message.value, self.plan.digest
        if isinstance(found, Solved):
            self._verified = Verified(found.residual, 0.0, found.rank)
            reply: Message = Solution(digest, found.w_masked, found.null_masked, found.rank, found.residual)
            return State.ANSWERING, self._to_all(reply)
        self._verified = Verified(found.residual, found.orthogonality, len(found.sigma_scaled))
        asked_again = found.store is not None or recovers(self.plan)
        self._found = replace(found, U_masked=found.U_masked[:0]) if asked_again else None
        sigma = found.sigma_scaled if self.plan.releases(Item.SPECTRUM) else None
        reply = Factors(digest, found.U_masked, sigma, found.residual, found.orthogonality)
        return State.ANSWERING, self._to_all(reply)

    def _on_blinded_mask(self, sender: Party, message: BlindedRightMask) -> Step:
        """Eq. 6 of the paper, leak and all (C1)."""
        return State.ANSWERING, (Send(sender, blinded_factor(self.plan, sender, self._found, message)),)

    def _on_rows_request(self, sender: Party, message: RowsRequest) -> Step:
        """One window of U', where it is too long to be told at once."""
        return State.ANSWERING, (Send(sender, factor_rows(self.plan, sender, self._found, message)),)

    def _on_finished(self, sender: Party, message: Finished) -> Step:
        """When every user has its result, the session is over."""
        if self.state is State.PREPARING and self.plan.task is not Task.PREDICT:
            raise UnexpectedMessage(f"{sender} finished before the upload")
        if sender in self._finished:
            raise RepeatedShare(f"{sender} finished twice")
        self._finished.add(sender)
        if len(self._finished) < self.plan.k:
            return self.state, ()
        if self._found is not None and self._found.store is not None:
            self._found.store.close()
        self._found = None
        return State.DONE, (Finish(self._verified),)

    def _to_all(self, message: Message) -> tuple[Effect, ...]:
        return tuple(Send(party, message) for party in self.plan.users)

    TABLE: ClassVar[Table] = table(
        # state, what arrives, who may say it, handler, where it may lead
        (State.NEW, KeyOffer, Role.USER, _on_offer, {State.NEW, State.PREPARING}),
        (State.NEW, KeyOffer, Role.TA, _on_offer, {State.NEW}),
        (State.NEW, Relay, Role.TA, _on_deposit, {State.NEW, State.PREPARING}),
        (State.PREPARING, Relay, Role.USER, _on_relay, {State.PREPARING}),
        (State.PREPARING, RowIds, Role.USER, _on_row_ids, {State.PREPARING}),
        (State.PREPARING, SumShare, Role.USER, _on_share, {State.PREPARING}),
        (State.PREPARING, Ready, Role.USER, _on_ready, {State.PREPARING, State.AGGREGATING}),
        (State.PREPARING, Finished, Role.USER, _on_finished, {State.PREPARING, State.DONE}),
        (State.AGGREGATING, PaddedBatch, Role.USER, _on_padded_batch, {State.AGGREGATING}),
        (State.AGGREGATING, MaskedBatch, Role.USER, _on_masked_batch, {State.AGGREGATING}),
        (State.AGGREGATING, Computed, Role.CSP, _on_kept, {State.AGGREGATING, State.FACTORISING}),
        (State.FACTORISING, Computed, Role.CSP, _on_factorised, {State.ANSWERING}),
        (State.ANSWERING, SumShare, Role.USER, _on_share, {State.ANSWERING}),
        (State.ANSWERING, Relay, Role.USER, _on_relay, {State.ANSWERING}),
        (State.ANSWERING, BlindedRightMask, Role.USER, _on_blinded_mask, {State.ANSWERING}),
        (State.ANSWERING, RowsRequest, Role.USER, _on_rows_request, {State.ANSWERING}),
        (State.ANSWERING, Finished, Role.USER, _on_finished, {State.ANSWERING, State.DONE}),
    )
