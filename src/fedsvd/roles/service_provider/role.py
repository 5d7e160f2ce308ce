"""The Computation Service Provider: adds up padded shares, factorises, verifies, answers.

It neither makes nor removes a mask, and imports nothing that could: no masks, no randomness, no keys, no pads. It
relays sealed messages it cannot read and adds up sums it cannot read. In mode A it does nothing else.
"""

from collections import Counter
from collections.abc import Callable
from enum import Enum, auto
from typing import ClassVar

from fedsvd.errors import RepeatedShare, SplitView, UnexpectedMessage
from fedsvd.linalg.device import Device
from fedsvd.protocol.machine import Compute, Computed, Effect, Finish, Machine, Send, Step, Table, table
from fedsvd.protocol.messages import (
    ID_WORDS,
    BatchRequest,
    Challenge,
    Countersigned,
    Factors,
    Finished,
    Gathered,
    IdHashes,
    KeyBook,
    KeyOffer,
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
from fedsvd.protocol.sums import null_space_sum, planned_sums
from fedsvd.protocol.tasks import Item, Mode
from fedsvd.protocol.upload import Batch, batches, expect_route
from fedsvd.roles.service_provider.collect import Collected, Storage, collector_for
from fedsvd.roles.service_provider.factorise import Factorised, Solved, Verified, factorise
from fedsvd.roles.service_provider.matching import Matching, expect_equal_rows
from fedsvd.roles.service_provider.recover import Multiplied, factor_rows, planned_size, with_own_part
from fedsvd.roles.service_provider.relays import Commitments, Relays
from fedsvd.secagg.aggregate import RunningSum, TaggedSum, WordSum
from fedsvd.secagg.sums import SumKind
from fedsvd.types import Each, Ring

Signer = Callable[[bytes], bytes]
"""Signs the digest of a certificate with the CSP's identity."""


class State(Enum):
    NEW = auto()
    PREPARING = auto()
    MATCHING = auto()
    AGGREGATING = auto()
    FACTORISING = auto()
    ANSWERING = auto()
    DONE = auto()
    ABORTED = auto()


class ServiceProvider(Machine):
    """The CSP in one session; ``storage`` makes the block store that X' is stored in, where it is stored.

    It adds up and factorises on ``device``; without one, with NumPy, and adds and decodes in the threads of ``each``.
    ``signer`` signs certificates.
    """

    STATES = State

    def __init__(
        self,
        plan: SessionPlan,
        storage: Storage,
        device: Device | None = None,
        signer: Signer | None = None,
        each: Each | None = None,
    ) -> None:
        super().__init__(CSP, plan)
        self._signer, self._each = signer, each
        self._offers: dict[Party, tuple[bytes, bytes, bytes]] = {}
        self._deposited: dict[Party, bytes] = {}
        self._rows: dict[Party, Ring] = {}
        self.planned = {planned.name: planned for planned in planned_sums(plan)}
        self._sums: dict[tuple[str, int], TaggedSum] = {}
        self._summed: Counter[str] = Counter()  # batches that are complete
        self._commitments, self._relays = Commitments(plan), Relays(plan)
        self._ready: set[Party] = set()
        self._batches: tuple[Batch, ...] = ()
        self._batch = 0
        self._finished: dict[Party, bytes] = {}
        self._multiplied = Multiplied(plan)
        self._matching = Matching(plan)
        self._verified: Verified | None = None
        self._found: Factorised | None = None  # while users may still ask for what lies in it
        self._solved: Solved | None = None  # likewise
        self._storage = storage
        self._device = device
        self.progress: Callable[[str, int, int], None] = lambda stage, done, total: None
        if not plan.opens_nothing and plan.mode is not Mode.A:
            expect_route(plan)
            self._batches = batches(plan)

    # --- keys, sealed messages, rows ----------------------------------------------------------------------------------

    def _on_offer(self, sender: Party, message: KeyOffer) -> Step:
        """Step 1: gather the signed keys, send the directory of them to every party."""
        if sender in self._offers:
            raise RepeatedShare(f"{sender} offered a key twice")
        self._offers[sender] = (message.public, message.commitment, message.signature)
        return self._keys_gathered()

    def _on_deposit(self, sender: Party, message: Relay) -> Step:
        """Store a sealed message of the TA, which does not wait for the users, until they are here."""
        if message.to in self._deposited:
            raise RepeatedShare(f"{sender} left two sealed messages for {message.to}")
        if message.to not in self.plan.users:
            raise UnexpectedMessage(f"a sealed message from {sender} to {message.to}")
        self._deposited[message.to] = message.sealed
        return self._keys_gathered()

    def _keys_gathered(self) -> Step:
        """All keys and, where a TA deals, all its sealed messages: relay them, the key directory first."""
        holders = [party for party in self.plan.parties if party != CSP]
        expected = self.plan.k if TA in holders else 0
        if len(self._offers) < len(holders) or len(self._deposited) < expected:
            return State.NEW, ()
        digest = self.plan.digest
        book = KeyBook(digest, tuple((party, *self._offers[party]) for party in holders))
        dealt = tuple(Send(party, Relayed(digest, TA, sealed)) for party, sealed in self._deposited.items())
        self._deposited = {}
        return State.PREPARING, (*self._to_all(book), *dealt)

    def _on_relay(self, sender: Party, message: Relay) -> Step:
        """Pass on a sealed message, to one user or to all others; no more of them than the plan has."""
        receivers = self._relays.receivers(sender, message.to, len(message.sealed))
        if self._relays.waits(sender, message.to):
            gathered = self._relays.gathered(sender, message.sealed)
            return self.state, self._to_all(Gathered(self.plan.digest, gathered)) if gathered else ()
        relayed = Relayed(self.plan.digest, sender, message.sealed)
        return self.state, tuple(Send(party, relayed) for party in receivers)

    def _on_row_ids(self, sender: Party, message: RowIds) -> Step:
        """Compare the keyed hashes of the users' id columns; all there is to say is that they differ."""
        if sender in self._rows:
            raise RepeatedShare(f"{sender} sent its row ids twice")
        if message.hashed.shape != (ID_WORDS,):
            raise UnexpectedMessage(f"a hash of row ids of {sender} has another length than {ID_WORDS} words")
        self._rows[sender] = message.hashed
        if len(self._rows) < self.plan.k:
            return self.state, ()
        expect_equal_rows(self._rows.values())
        return self.state, self._to_all(RowsAgree(self.plan.digest))

    def _on_id_hashes(self, sender: Party, message: IdHashes) -> Step:
        """One batch of a user's hashed ids; when all sets are here they are compared."""
        complete = self._matching.add(sender, message)
        self._relays.expect(sender, message)
        if not complete:
            return self.state, ()
        return State.MATCHING, (Compute("matching", self._matching.answer),)

    # --- sums -----------------------------------------------------------------------------------------------------

    def _on_share(self, sender: Party, message: SumShare) -> Step:
        """Add one share; when all k are in, reply with a total that is still under the users' own pad."""
        planned = self.planned.get(message.name)
        if planned is None or not 0 <= message.batch < len(planned.batches):
            raise UnexpectedMessage(f"{sender} sends a share of a sum that the plan does not have")
        ahead = message.batch - self._summed[message.name]
        # Where one user opens a sum, the others do not wait for its totals.
        if ahead < 0 or (ahead > 0 and planned.receiver is None):
            raise RepeatedShare(f"{sender} sends batch {message.batch} of the sum {message.name!r} out of turn")
        key = message.name, message.batch
        if key not in self._sums:
            self._sums[key] = TaggedSum(planned.kind, planned.batches[message.batch], self.plan.k)
        total = self._sums[key]
        if total.has(sender.index):
            raise RepeatedShare(f"{sender} sends batch {message.batch} of the sum {message.name!r} twice")
        self._relays.expect(sender, message)
        self._commitments.add(sender, message.commitment)
        total.add(sender.index, message.payload, message.tag)
        if not total.complete:
            return self.state, ()
        self._summed[message.name] += 1
        if planned.kind is SumKind.SHARED:
            words, tag = self._sums.pop(key).total()
            return self._answer(lambda: self._to_all(SumReply(self.plan.digest, *key, self._splits(words), tag)))
        reply = SumReply(self.plan.digest, *key, *self._sums.pop(key).total(), self._commitments.once())
        if planned.receiver is not None:
            return self.state, (Send(user(planned.receiver), reply),)
        return self.state, self._to_all(reply)

    def _splits(self, words: Ring) -> Ring:
        """The users' masks with what we split among them: step 8 of a regression on split columns."""
        if self._solved is None:
            raise UnexpectedMessage("shares of a matrix that is not there yet")
        return with_own_part(self.plan, self._solved, words)

    # --- the upload -----------------------------------------------------------------------------------------------

    def _on_ready(self, sender: Party, message: Ready) -> Step:
        """When every user can answer, ask for the first batch."""
        if self.plan.mode is Mode.A or self.plan.opens_nothing:
            raise UnexpectedMessage(f"{sender} would upload where the plan has no upload")
        if sender in self._ready:
            raise RepeatedShare(f"{sender} is ready twice")
        self._relays.expect(sender, message)
        self._ready.add(sender)
        if len(self._ready) < self.plan.k:
            return self.state, ()
        collector = collector_for(self.plan, self._storage, self._each)
        self._upload = Collected(self.plan, self._batches, collector, self._each)
        return State.AGGREGATING, self._request_batch()

    def _request_batch(self) -> tuple[Effect, ...]:
        shape, k = self._batches[self._batch].shape, self.plan.k
        self._sum: RunningSum = RunningSum(shape, k, self._device, self._each)
        if self.plan.mode is Mode.B:
            self._sum = WordSum(shape[0], k, device=self._device)
        return self._to_all(BatchRequest(self.plan.digest, self._batch))

    def _on_padded_batch(self, sender: Party, message: PaddedBatch) -> Step:
        """Step 5 (eq. 4): add one share; when all k are in, the pads cancel.

        A second share for the same batch would put two plaintexts under one pad. It ends the session instead of being
        ignored (ADR 0006).
        """
        if message.batch != self._batch or self._batch == len(self._batches):
            raise RepeatedShare(f"{sender} sent batch {message.batch}, {self._batch} is being added up")
        self._sum.add(sender.index, message.payload)
        if not self._sum.complete:
            return State.AGGREGATING, ()
        self._upload.add(self._batch, self._sum.taken())
        del self._sum
        self._batch += 1
        self.progress("aggregating", self._batch, len(self._batches))
        # The next batch is asked for first: the users mask it while this one is decoded and folded in or stored.
        requests = self._request_batch() if self._batch < len(self._batches) else ()
        return State.AGGREGATING, (*requests, Compute("aggregating", self._upload.collect))

    def _on_collected(self, batch: int) -> Step:
        """A batch is where it belongs; after the last one X' is factorised."""
        if batch < len(self._batches) - 1:
            return State.AGGREGATING, ()
        return State.FACTORISING, (Compute("factorise", self._factorise),)

    def _factorise(self) -> Factorised | Solved:
        self.progress("factorise", 0, 1)
        found = factorise(self.plan, self._upload.collector, self._device, self._each)
        self.progress("factorise", 1, 1)
        return found

    # --- the answer -----------------------------------------------------------------------------------------------

    def _on_factorised(self, found: Factorised | Solved) -> Step:
        """Step 3's result, verified: sent to the users, each part only where the plan releases it."""
        del self._upload
        digest = self.plan.digest
        if isinstance(found, Solved):
            self._verified = Verified(found.residual, 0.0, found.rank)
            self._solved = found if found.R is not None else None
            if (needed := null_space_sum(self.plan, found.rank)) is not None:
                self.planned[needed.name] = needed
            reply: Message = Solution(digest, found.w_masked, found.null_masked, found.rank, found.residual)
            return State.ANSWERING, self._to_all(reply)
        self._verified = Verified(found.residual, found.orthogonality, len(found.sigma_scaled))
        if self.plan.tall:
            self._found = found
        U_masked, sigma = planned_size(self.plan, found)
        released = sigma if self.plan.releases(Item.SPECTRUM) else None
        reply = Factors(digest, U_masked, released, found.residual, found.orthogonality)
        return State.ANSWERING, self._to_all(reply)

    def _on_rows_request(self, sender: Party, message: RowsRequest) -> Step:
        """One panel of U', where it is too long for one message."""
        self._relays.expect(sender, message)
        return self._answer(lambda: (Send(sender, factor_rows(self.plan, sender, self._found, message)),))

    def _on_challenge(self, sender: Party, message: Challenge) -> Step:
        """Step 7 on split columns: the vectors that users check a solution with, multiplied under P."""
        rows = self._multiplied.add(sender, message)
        self._relays.expect(sender, message)
        return (State.ANSWERING, ()) if rows is None else self._answer(lambda: self._multiplied.multiply(rows))

    def _answer(self, work: Callable[[], tuple[Effect, ...]]) -> Step:
        """Have an answer computed, as the messages that bring it."""
        return State.ANSWERING, (Compute("answering", work),)

    def _on_answer(self, sends: tuple[Effect, ...]) -> Step:
        """An answer is there: send it."""
        return State.ANSWERING, sends

    def _on_finished(self, sender: Party, message: Finished) -> Step:
        """When every user has signed the same certificate, sign it too, and the session is over."""
        if sender in self._finished:
            raise RepeatedShare(f"{sender} finished twice")
        self._relays.expect(sender, message)
        self._finished[sender] = message.certificate
        if len(self._finished) < self.plan.k:
            return self.state, ()
        if len(set(self._finished.values())) > 1:
            raise SplitView("users signed different certificates")
        if self._found is not None and self._found.store is not None:
            self._found.store.close()
        self._found = self._solved = None
        signature = self._signer(message.certificate) if self._signer is not None else b""
        return State.DONE, (*self._to_all(Countersigned(self.plan.digest, signature)), Finish(self._verified))

    def _to_all(self, message: Message) -> tuple[Effect, ...]:
        return tuple(Send(party, message) for party in self.plan.users)

    TABLE: ClassVar[Table] = table(
        # state, what arrives, who may send it, handler, where it may lead
        (State.NEW, KeyOffer, Role.USER, _on_offer, {State.NEW, State.PREPARING}),
        (State.NEW, KeyOffer, Role.TA, _on_offer, {State.NEW}),
        (State.NEW, Relay, Role.TA, _on_deposit, {State.NEW, State.PREPARING}),
        (State.PREPARING, Relay, Role.USER, _on_relay, {State.PREPARING}),
        (State.PREPARING, RowIds, Role.USER, _on_row_ids, {State.PREPARING}),
        (State.PREPARING, IdHashes, Role.USER, _on_id_hashes, {State.PREPARING, State.MATCHING}),
        (State.MATCHING, Computed, Role.CSP, _on_answer, {State.ANSWERING}),
        (State.PREPARING, SumShare, Role.USER, _on_share, {State.PREPARING}),
        (State.PREPARING, Ready, Role.USER, _on_ready, {State.PREPARING, State.AGGREGATING}),
        (State.PREPARING, Finished, Role.USER, _on_finished, {State.PREPARING, State.DONE}),
        (State.AGGREGATING, PaddedBatch, Role.USER, _on_padded_batch, {State.AGGREGATING}),
        (State.AGGREGATING, Computed, Role.CSP, _on_collected, {State.AGGREGATING, State.FACTORISING}),
        (State.FACTORISING, Computed, Role.CSP, _on_factorised, {State.ANSWERING}),
        (State.ANSWERING, SumShare, Role.USER, _on_share, {State.ANSWERING}),
        (State.ANSWERING, Relay, Role.USER, _on_relay, {State.ANSWERING}),
        (State.ANSWERING, RowsRequest, Role.USER, _on_rows_request, {State.ANSWERING}),
        (State.ANSWERING, Challenge, Role.USER, _on_challenge, {State.ANSWERING}),
        (State.ANSWERING, Computed, Role.CSP, _on_answer, {State.ANSWERING}),
        (State.ANSWERING, Finished, Role.USER, _on_finished, {State.ANSWERING, State.DONE}),
    )
