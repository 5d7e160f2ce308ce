"""The user: owns X_i; compresses it, adds its share to exact sums, checks what comes back, agrees with the others.

The transition table says what may be heard from whom in which state. What is asked of the others, and in which order,
is the task's script (``svd.py``, ``pca.py``, ``regression.py``); each request of a script stands for one state here.
Whatever takes long (shares, pads, tags, factors) is a ``Compute`` effect; ``_then`` is what becomes of its value.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from fedsvd.errors import LocalProtocolError, UnexpectedMessage
from fedsvd.protocol.effects import Compute, Effect, Finish, Send
from fedsvd.protocol.machine import Step, Table, table
from fedsvd.protocol.messages import (
    BatchRequest,
    Begin,
    BlindedRightFactor,
    BlindedRightMask,
    Challenge,
    Computed,
    Countersigned,
    FactorRows,
    Factors,
    Finished,
    KeyBook,
    PaddedBatch,
    Product,
    Ready,
    Relay,
    Relayed,
    RowsAgree,
    RowsRequest,
    Solution,
    SumReply,
    SumShare,
)
from fedsvd.protocol.parties import ALL, CSP, Party, Role, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.sums import null_space_sum, planned_sums
from fedsvd.protocol.tasks import Mode
from fedsvd.roles.user.agreement import Agreement
from fedsvd.roles.user.answers import expect_answer, expect_blinded, expect_products, expect_rows
from fedsvd.roles.user.requests import Common, Fetch, Local, Multiply, Recover, Request, Sum, Upload
from fedsvd.roles.user.seeding import Inputs, Seeding, State
from fedsvd.roles.user.work import Progress, commitment_salt, reported
from fedsvd.types import Ring

# Where a computation may lead: to the state of what the script asks for next, or of its end.
_COMPUTED = {
    State.COMPUTING,
    State.SUMMING,
    State.UPLOADING,
    State.RECOVERING,
    State.CHALLENGING,
    State.RELAYING,
    State.AGREEING,
    State.SIGNING,
}
# After rows of U', or what user 1 decides: checks, eq. 6 in the paper's scheme, or the end.
_AFTER_ROWS = {State.COMPUTING, State.FETCHING, State.RECOVERING, State.RELAYING, State.AGREEING, State.SIGNING}
_AFTER_COMMON = {State.COMPUTING, State.RECOVERING, State.RELAYING, State.AGREEING}


class User(Seeding):
    """User i in one session."""

    def __init__(self, me: Party, plan: SessionPlan, inputs: Inputs) -> None:
        super().__init__(me, plan, inputs)
        self._planned = {planned.name: planned for planned in planned_sums(plan)}
        self._request: Request | None = None
        self._then: Callable[[Any], Step] | None = None
        self._next = 0  # the batch of the upload that may be asked for
        self._batch = 0  # the batch of the sum in hand
        self._totals: list[Ring] = []
        self._result: Any = None
        self.agreement: Agreement | None = None
        self._progress: Progress | None = (inputs.extras or {}).get("progress")

    @property
    def salt(self) -> bytes:
        """What opens our data commitment, to an auditor."""
        return commitment_salt(self._own)

    def _on_rows_agree(self, sender: Party, message: RowsAgree) -> Step:
        return self._go_on(None)

    # --- the script -----------------------------------------------------------------------------------------------

    def _go_on(self, answer: Any) -> Step:
        """Give the script its answer, and turn what it asks for next into a state and effects."""
        if self._script is None:
            raise LocalProtocolError("no task is under way")
        try:
            self._request = self._script.send(answer)
        except StopIteration as end:
            self._script = self._request = None
            self._result = end.value
            return self._agree()
        return self._ask(self._request)

    def _ask(self, request: Request) -> Step:
        digest = self.plan.digest
        match request:
            case Local(label, work):
                return self._compute(label, work, self._go_on)
            case Sum():
                self._batch, self._totals = 0, []
                return self._share()
            case Upload():
                return State.UPLOADING, (Send(CSP, Ready(digest)),)
            case Common(purpose, make):
                if self.me == user(1):
                    return self._compute(purpose, make, self._announce)
                return self._listen(State.RELAYING)
            case Fetch(panel):
                return State.FETCHING, (Send(CSP, RowsRequest(digest, panel)),)
            case Recover(Qt_i_blinded):
                return State.RECOVERING, (Send(CSP, BlindedRightMask(digest, Qt_i_blinded)),)
            case Multiply():
                self._batch = 0
                return self._challenge()

    def _compute(self, label: str, work: Callable[[], Any], then: Callable[[Any], Step]) -> Step:
        self._then = then
        return State.COMPUTING, (Compute(label, reported(self._progress, label, work)),)

    def _on_computed(self, sender: Party, message: Computed) -> Step:
        then, self._then = self._then, None
        if then is None:
            raise LocalProtocolError("nothing was being computed")
        return then(message.value)

    # --- sums -----------------------------------------------------------------------------------------------------

    def _share(self) -> Step:
        """Make our padded share of the batch in hand, and its tag."""
        request, batch = self._asked(Sum), self._batch
        planned = self._planned[request.name]
        work = lambda: self._sums.share(planned, batch, request.share(batch))  # noqa: E731
        return self._compute(request.name, work, self._send_share)

    def _send_share(self, made: tuple[Ring, Ring]) -> Step:
        request = self._asked(Sum)
        planned = self._planned[request.name]
        committed = self._group.data_commitment(self._work.commitment)
        effects: tuple[Effect, ...] = (
            Send(CSP, SumShare(self.plan.digest, request.name, self._batch, *made, committed)),
        )
        if planned.receiver in (None, self.me.index):
            return State.SUMMING, effects
        state, more = self._summed(None)  # the total is not ours to read
        return state, effects + more

    def _on_sum(self, sender: Party, message: SumReply) -> Step:
        """A total, once its last pad is off and its tag has been compared: before any other use."""
        request = self._asked(Sum)
        if (message.name, message.batch) != (request.name, self._batch):
            raise UnexpectedMessage(f"the sum {message.name!r} was not asked for")
        self._group.read_commitments(message.commitments)
        planned = self._planned[request.name]
        work = lambda: self._sums.open(planned, message.batch, message.payload, message.tag)  # noqa: E731
        return self._compute(request.name, work, self._summed)

    def _summed(self, total: Ring | None) -> Step:
        request = self._asked(Sum)
        planned = self._planned[request.name]
        if total is not None:
            self._totals.append(total)
            if planned.receiver is None:
                self._group.witness(f"{planned.name} {self._batch}", total)
        self._batch += 1
        if self._batch < len(planned.batches):
            return self._share()
        totals, self._totals = self._totals, []
        if not totals:
            return self._go_on(None)
        return self._go_on(totals[0] if len(totals) == 1 else np.concatenate(totals))

    # --- the upload -----------------------------------------------------------------------------------------------

    def _on_request(self, sender: Party, message: BatchRequest) -> Step:
        """Step 5: the next batch of our share, padded; none twice, and none out of order."""
        request, number = self._asked(Upload), message.batch
        if number != self._next or number >= request.count:
            raise UnexpectedMessage(f"batch {number} requested, {self._next} is next")
        self._next += 1

        def padded() -> Ring:
            stream = "gram" if self.plan.mode is Mode.B else "upload"
            return self._sums.padded(request.batch(number), stream, number)

        return State.UPLOADING, (Compute("uploading", padded),)

    def _on_batch(self, sender: Party, message: Computed) -> Step:
        last = self._next == self._asked(Upload).count
        if self._progress is not None:
            self._progress("uploading", self._next, self._asked(Upload).count)
        reply = Send(CSP, PaddedBatch(self.plan.digest, self._next - 1, message.value))
        return State.WAITING if last else State.UPLOADING, (reply,)

    def _on_answer(self, sender: Party, message: Factors | Solution) -> Step:
        """Step 6: what the CSP made of the sum, still under the masks."""
        expect_answer(self.plan, message)
        if isinstance(message, Solution) and (needed := null_space_sum(self.plan, message.rank)) is not None:
            self._planned[needed.name] = needed
        self._group.witness_answer(message)
        return self._go_on(message)

    def _on_rows(self, sender: Party, message: FactorRows) -> Step:
        expect_rows(self.plan, self._asked(Fetch), message)
        self._group.witness(f"rows {message.panel}", message.U_masked)
        return self._go_on(message.U_masked)

    def _on_blinded(self, sender: Party, message: BlindedRightFactor) -> Step:
        expect_blinded(self.plan, self.me.index - 1, message)
        return self._go_on(message.Vt_i_blinded)

    def _challenge(self) -> Step:
        """Make the next padded panel of the columns that check a solution."""
        request, number = self._asked(Multiply), self._batch
        work = lambda: self._sums.padded(request.batch(number), "challenge vectors", number)  # noqa: E731
        return self._compute("challenge", work, self._send_challenge)

    def _send_challenge(self, payload: Ring) -> Step:
        effects: tuple[Effect, ...] = (Send(CSP, Challenge(self.plan.digest, self._batch, payload)),)
        self._batch += 1
        if self._batch < self._asked(Multiply).count or self.me.index == self.plan.label_user:
            return State.CHALLENGING, effects
        state, more = self._go_on(None)  # the products are not ours to read
        return state, effects + more

    def _on_challenge(self, sender: Party, message: BatchRequest) -> Step:
        if message.batch != self._batch or message.batch >= self._asked(Multiply).count:
            raise UnexpectedMessage(f"panel {message.batch} of a challenge requested, {self._batch} is next")
        return self._challenge()

    def _on_product(self, sender: Party, message: Product) -> Step:
        if self._batch < self._asked(Multiply).count or self.me.index != self.plan.label_user:
            raise UnexpectedMessage("products that this user does not wait for")
        expect_products(self.plan, message)
        return self._go_on(message.products)

    # --- messages to all users ------------------------------------------------------------------------------------

    def _announce(self, content: bytes) -> Step:
        """User 1 has decided: it tells all others once, and goes on."""
        request = self._asked(Common)
        self._group.witness(request.purpose, content)
        effects = self._relayed(request.purpose, content)
        state, more = self._go_on(content)
        return state, effects + more

    def _relayed(self, purpose: str, content: bytes) -> tuple[Effect, ...]:
        return tuple(Send(CSP, Relay(self.plan.digest, ALL, part)) for part in self._group.sealed(purpose, content))

    def _on_relayed(self, sender: Party, message: Relayed) -> Step:
        """A group-sealed message; one that comes before we are ready for it waits."""
        self._group.receive(message.origin, message.sealed)
        waits = self.state in (State.RELAYING, State.AGREEING, State.SIGNING)
        return self._listen(self.state) if waits else (self.state, ())

    def _listen(self, state: Enum) -> Step:
        """What we wait for, if it is here."""
        if state is State.RELAYING:
            request = self._asked(Common)
            content = self._group.opened(user(1), request.purpose, request.most)
            if content is None:
                return state, ()
            self._group.witness(request.purpose, content)
            return self._go_on(content)
        others = [party for party in self.plan.users if party != self.me]
        if not self._group.heard(others, state.name.lower()):
            return state, ()
        return self._sign() if state is State.AGREEING else self._finish()

    # --- agreement ------------------------------------------------------------------------------------------------

    def _agree(self) -> Step:
        """Step 9: before anything is released, every user shows all others the digest of what it saw."""
        effects = self._relayed("agreeing", self._group.digest())
        state, more = self._listen(State.AGREEING)
        return state, effects + more

    def _sign(self) -> Step:
        """All digests are equal, or the session ends here; then all sign the same certificate."""
        self._group.expect_equal_digests()
        effects = self._relayed("signing", self._group.signature())
        state, more = self._listen(State.SIGNING)
        return state, effects + more

    def _finish(self) -> Step:
        self._group.expect_signatures()
        return State.FINISHING, (Send(CSP, Finished(self.plan.digest, self._group.certificate_digest())),)

    def _on_countersigned(self, sender: Party, message: Countersigned) -> Step:
        self.agreement = self._group.agreement(message.signature)
        return State.DONE, (Finish(self._result),)

    def _asked(self, kind: type[Any]) -> Any:
        if not isinstance(self._request, kind):
            raise UnexpectedMessage(f"a {kind.__name__.lower()} is not what this user waits for")
        return self._request

    TABLE: ClassVar[Table] = table(
        # state, what arrives, who may say it, handler, where it may lead
        (State.NEW, Begin, Role.USER, Seeding._on_begin, {State.KEYS}),
        (State.KEYS, KeyBook, Role.CSP, Seeding._on_keys, {State.SEEDING, State.CHECKING, State.COMPUTING}),
        (State.SEEDING, Relayed, Role.CSP, Seeding._on_seed, {State.SEEDING, State.CHECKING, State.COMPUTING}),
        (State.CHECKING, RowsAgree, Role.CSP, _on_rows_agree, {State.COMPUTING}),
        (State.COMPUTING, Computed, Role.USER, _on_computed, _COMPUTED),
        (State.COMPUTING, Relayed, Role.CSP, _on_relayed, {State.COMPUTING}),
        (State.SUMMING, SumReply, Role.CSP, _on_sum, {State.COMPUTING}),
        (State.SUMMING, Relayed, Role.CSP, _on_relayed, {State.SUMMING}),
        (State.UPLOADING, BatchRequest, Role.CSP, _on_request, {State.UPLOADING}),
        (State.UPLOADING, Computed, Role.USER, _on_batch, {State.UPLOADING, State.WAITING}),
        (State.WAITING, Factors, Role.CSP, _on_answer, {State.COMPUTING, State.FETCHING}),
        (State.WAITING, Solution, Role.CSP, _on_answer, {State.COMPUTING, State.AGREEING}),
        (State.FETCHING, FactorRows, Role.CSP, _on_rows, _AFTER_ROWS),
        (State.FETCHING, Relayed, Role.CSP, _on_relayed, {State.FETCHING}),
        (State.RECOVERING, BlindedRightFactor, Role.CSP, _on_blinded, {State.AGREEING, State.SIGNING}),
        (State.RECOVERING, Relayed, Role.CSP, _on_relayed, {State.RECOVERING}),
        (State.CHALLENGING, BatchRequest, Role.CSP, _on_challenge, {State.COMPUTING}),
        (State.CHALLENGING, Product, Role.CSP, _on_product, {State.COMPUTING}),
        (State.CHALLENGING, Relayed, Role.CSP, _on_relayed, {State.CHALLENGING}),
        (State.RELAYING, Relayed, Role.CSP, _on_relayed, _AFTER_COMMON),
        (State.AGREEING, Relayed, Role.CSP, _on_relayed, {State.AGREEING, State.SIGNING}),
        (State.SIGNING, Relayed, Role.CSP, _on_relayed, {State.SIGNING, State.FINISHING}),
        (State.FINISHING, Countersigned, Role.CSP, _on_countersigned, {State.DONE}),
    )
