"""The user: owns X_i; compresses it, adds its share to exact sums, checks what comes back, agrees with the others.

The transition table says what may be received from whom in which state. What is asked of the others, and in which
order, is the task's script (``svd.py``, ``pca.py``, ``regression.py``); each request of a script stands for one state
here. Handlers only decide. Shares, pads, tags, seals, checks and the script itself (``scripted.py``) are computed in
``Compute`` effects.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar

from fedsvd.errors import LocalProtocolError, UnexpectedMessage
from fedsvd.protocol.machine import Compute, Computed, Effect, Finish, Send, Step, Table, table
from fedsvd.protocol.messages import (
    BatchRequest,
    Begin,
    BlindedRightFactor,
    BlindedRightMask,
    Challenge,
    CommonRows,
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
)
from fedsvd.protocol.parties import ALL, CSP, Party, Role, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.sums import null_space_sum
from fedsvd.protocol.tasks import Mode
from fedsvd.roles.user.agreement import Agreement
from fedsvd.roles.user.answers import expect_answer, expect_blinded, expect_products, expect_rows
from fedsvd.roles.user.pairs import Paired
from fedsvd.roles.user.requests import Common, Fetch, Local, Multiply, Recover, Sum, Upload
from fedsvd.roles.user.scripted import Asked, Ended, Scripted
from fedsvd.roles.user.seeding import Inputs, Seeding, State
from fedsvd.roles.user.shared import once_for
from fedsvd.roles.user.work import commitment_salt
from fedsvd.types import Ring

# Where a computation may lead: to the state of what the script asks for next, or of its end.
_COMPUTED = {
    State.COMPUTING,
    State.SUMMING,
    State.UPLOADING,
    State.FETCHING,
    State.RECOVERING,
    State.CHALLENGING,
    State.RELAYING,
    State.COMMITTING,
    State.COMPARING,
    State.MATCHING,
    State.TAKING,
    State.AGREEING,
    State.SIGNING,
}


class User(Paired):
    """User i in one session."""

    def __init__(self, me: Party, plan: SessionPlan, inputs: Inputs) -> None:
        super().__init__(me, plan, inputs)
        self._next = 0  # the batch of the upload that may be asked for
        self._result: Any = None
        self.agreement: Agreement | None = None

    @property
    def played(self) -> tuple[str, ...]:
        """The sums of this session so far, by name, in order."""
        return tuple(name for name, _ in self._group.played)

    @property
    def salt(self) -> bytes:
        """What opens our data commitment, to an auditor."""
        return commitment_salt(self._own)

    def _on_rows_agree(self, sender: Party, message: RowsAgree) -> Step:
        return self._go_on(None)

    # --- the script -----------------------------------------------------------------------------------------------

    def _ask(self, asked: Asked) -> Step:
        """Turn what the script asks for into a state and effects."""
        digest = self.plan.digest
        self._expect_next(asked)
        self._request = None if isinstance(asked, Ended) else asked
        match asked:
            case Local(label, work):
                made = self._reported(label, work)
                return self._compute(label, lambda: self._advance(made()), self._ask)
            case Sum():
                self._batch, self._totals = 0, []
                return self._share()
            case Upload():
                return State.UPLOADING, (Send(CSP, Ready(digest)),)
            case Common(purpose):
                if self.me == user(1):
                    return self._compute(purpose, self._reported(purpose, self._common), self._announce)
                return self._await_common()
            case Fetch(panel):
                return State.FETCHING, (Send(CSP, RowsRequest(digest, panel)),)
            case Recover(Qt_i_blinded):
                return State.RECOVERING, (Send(CSP, BlindedRightMask(digest, Qt_i_blinded)),)
            case Multiply():
                self._batch = 0
                return self._challenge()
            case Ended(result):
                self._result = result
                checked = getattr(result, "checked", None)
                self._group.order = "" if checked is None else checked.order.text
                if self._inputs.results is None:
                    return self._agree()
                return self._compute("results", lambda: self._sealed_result(result), lambda _: self._agree())
            case _:
                return self._ask_pair(asked)

    # --- the upload -----------------------------------------------------------------------------------------------

    def _on_request(self, sender: Party, message: BatchRequest) -> Step:
        """Step 5: the next batch of our share, padded; none twice, and none out of order."""
        request, number = self._asked(Upload), message.batch
        if number != self._next or number >= request.count:
            raise UnexpectedMessage(f"batch {number} requested, {self._next} is next")
        self._next += 1

        def padded() -> Ring:
            stream = "gram" if self.plan.mode is Mode.B else "upload"
            if request.padded is not None:
                made: Ring = request.padded(number, self._sums.pads(stream, number))
                return made
            return self._sums.padded(request.batch(number), stream, number)

        return State.UPLOADING, (Compute("uploading", padded),)

    def _on_batch(self, payload: Ring) -> Step:
        last = self._next == self._asked(Upload).count
        if self._inputs.progress is not None:
            self._inputs.progress("uploading", self._next, self._asked(Upload).count)
        reply = Send(CSP, PaddedBatch(self.plan.digest, self._next - 1, payload))
        return State.WAITING if last else State.UPLOADING, (reply,)

    def _on_answer(self, sender: Party, message: Factors | Solution) -> Step:
        """Step 6: what the CSP made of the sum, still under the masks."""

        def accepted() -> None:
            once_for(self._inputs.memo, message, "structure", self.plan.k, lambda: expect_answer(self.plan, message))
            if isinstance(message, Solution) and (needed := null_space_sum(self.plan, message.rank)) is not None:
                self._planned[needed.name] = needed
            self._group.witness_answer(message)

        return self._compute("computing", accepted, lambda _: self._use(lambda: self._advance(message)))

    def _use(self, advance: Callable[[], Asked]) -> Step:
        """Go on with an answer once all users are known to hold it; the paper's scheme takes it as it comes."""
        return self._compute("computing", advance, self._ask) if self.plan.published else self._compare_answer(advance)

    def _on_rows(self, sender: Party, message: FactorRows) -> Step:
        """A panel of U'. All are compared with the last: until then nothing that is made of them leaves this user."""
        request = self._asked(Fetch)
        last = request.panel == len(self.plan.row_panels) - 1

        def accepted() -> Asked | None:
            expect_rows(self.plan, request, message)
            self._group.witness(f"rows {message.panel}", message.U_masked)
            return None if last else self._advance(message.U_masked)

        def then(asked: Asked | None) -> Step:
            return self._use(lambda: self._advance(message.U_masked)) if asked is None else self._ask(asked)

        return self._compute("computing", accepted, then)

    def _on_blinded(self, sender: Party, message: BlindedRightFactor) -> Step:
        def accepted() -> Asked:
            expect_blinded(self.plan, self.me.index - 1, message)
            return self._advance(message.Vt_i_blinded)

        return self._compute("computing", accepted, self._ask)

    def _challenge(self) -> Step:
        """Make the next padded panel of the columns that check a solution."""
        request, number = self._asked(Multiply), self._batch
        work = lambda: self._sums.padded(request.batch(number), "challenge vectors", number)  # noqa: E731
        return self._compute("challenge", self._reported("challenge", work), self._send_challenge)

    def _send_challenge(self, payload: Ring) -> Step:
        sent = Send(CSP, Challenge(self.plan.digest, self._batch, payload))
        self._batch += 1
        if self._batch < self._asked(Multiply).count or self.me.index == self.plan.label_user:
            return State.CHALLENGING, (sent,)
        state, more = self._go_on(None)  # the products are not ours to read
        return state, (sent, *more)

    def _on_challenge(self, sender: Party, message: BatchRequest) -> Step:
        if message.batch != self._batch or message.batch >= self._asked(Multiply).count:
            raise UnexpectedMessage(f"panel {message.batch} of a challenge requested, {self._batch} is next")
        return self._challenge()

    def _on_product(self, sender: Party, message: Product) -> Step:
        if self._batch < self._asked(Multiply).count or self.me.index != self.plan.label_user:
            raise UnexpectedMessage("products that this user does not wait for")

        def accepted() -> Asked:
            expect_products(self.plan, message)
            return self._advance(message.products)

        return self._compute("computing", accepted, self._ask)

    # --- messages to all users ------------------------------------------------------------------------------------

    def _common(self) -> tuple[list[bytes], Asked]:
        """User 1 decides: the bytes for all others, sealed, and what its own script asks for next."""
        request = self._asked(Common)
        content = request.make()
        if not self._fits(content):
            raise LocalProtocolError(f"{request.purpose!r} has another length than the plan says", "it was not sent")
        self._group.witness(request.purpose, content)
        return self._group.sealed(request.purpose, content), self._advance(content)

    def _announce(self, made: tuple[list[bytes], Asked]) -> Step:
        """Send all others what was decided, once, and go on."""
        sealed, asked = made
        effects = self._relayed(sealed)
        state, more = self._ask(asked)
        return state, effects + more

    def _relayed(self, sealed: list[bytes]) -> tuple[Effect, ...]:
        return tuple(Send(CSP, Relay(self.plan.digest, ALL, part)) for part in sealed)

    def _on_relayed(self, sender: Party, message: Relayed) -> Step:
        """A group-sealed message; one that comes before we are ready for it waits."""
        if self.state is State.RELAYING and message.origin != user(1):
            # Another user goes on only with what user 1 has sent to all, and links keep their order.
            raise UnexpectedMessage(f"a message of {message.origin} where one of user 1 is awaited")
        self._group.receive(message.origin, message.sealed)
        if self.state is State.RELAYING:
            return self._await_common()
        if self.state is State.TAKING:
            return self._await_taken()
        listening = (State.COMMITTING, State.COMPARING, State.AGREEING, State.SIGNING)
        return self._listen(self.state) if self.state in listening else (self.state, ())

    def _await_common(self, seen: int = 0) -> Step:
        """Open what user 1 decided, if more than ``seen`` parts of it are here."""
        request, parts = self._asked(Common), self._group.waiting(user(1))
        if parts == seen:
            return State.RELAYING, ()

        def opened() -> Asked | None:
            content = self._group.opened(user(1), request.purpose, self._most)
            if content is None:
                return None
            if not self._fits(content):
                raise UnexpectedMessage("what user 1 sent has another length than the plan says")
            self._group.witness(request.purpose, content)
            return self._advance(content)

        def then(asked: Asked | None) -> Step:
            return self._await_common(parts) if asked is None else self._ask(asked)

        return self._compute("computing", opened, then)

    def _listen(self, state: Enum) -> Step:
        """Go on once every other user's message of this state is here."""
        others = [party for party in self.plan.users if party != self.me]
        purpose = self._comparing if state is State.COMPARING else state.name.lower()
        if not self._group.received_from(others, purpose):
            return state, ()
        if state is State.COMMITTING:
            return self._committed()
        if state is State.COMPARING:
            return self._all_hold_the_same()
        return self._sign() if state is State.AGREEING else self._finish()

    # --- agreement ------------------------------------------------------------------------------------------------

    def _sealed_result(self, result: Any) -> None:
        """Commit to the files that this result will be written as."""
        assert self._inputs.results is not None
        self._group.commit_results(self._inputs.results(result), self._own)

    def _agree(self) -> Step:
        """Step 9: before anything is released, every user shows all others the digest of what it saw."""
        effects = self._relayed(self._group.sealed("agreeing", self._group.agreeing()))
        state, more = self._listen(State.AGREEING)
        return state, effects + more

    def _sign(self) -> Step:
        """All digests are equal, or the session ends here; then all sign the same certificate."""
        self._group.take_agreeing()
        effects = self._relayed(self._group.sealed("signing", self._group.signature()))
        state, more = self._listen(State.SIGNING)
        return state, effects + more

    def _finish(self) -> Step:
        self._group.expect_signatures()
        return State.FINISHING, (Send(CSP, Finished(self.plan.digest, self._group.certificate_digest())),)

    def _on_countersigned(self, sender: Party, message: Countersigned) -> Step:
        self.agreement = self._group.agreement(message.signature)
        return State.DONE, (Finish(self._result),)

    TABLE: ClassVar[Table] = table(
        # state, what arrives, who may send it, handler, where it may lead
        (State.NEW, Begin, Role.USER, Seeding._on_begin, {State.KEYS}),
        (State.KEYS, KeyBook, Role.CSP, Seeding._on_keys, {State.SEEDING}),
        (State.SEEDING, Relayed, Role.CSP, Seeding._on_seed, {State.SEEDING}),
        (State.SEEDING, Computed, Role.USER, Seeding._on_prepared, {State.CHECKING, State.COMPUTING}),
        (State.CHECKING, RowsAgree, Role.CSP, _on_rows_agree, {State.COMPUTING}),
        (State.COMPUTING, Computed, Role.USER, Seeding._on_computed, _COMPUTED),
        (State.COMPUTING, Relayed, Role.CSP, _on_relayed, {State.COMPUTING}),
        (State.SUMMING, SumReply, Role.CSP, Scripted._on_sum, {State.COMPUTING}),
        (State.SUMMING, Relayed, Role.CSP, _on_relayed, {State.SUMMING}),
        (State.UPLOADING, BatchRequest, Role.CSP, _on_request, {State.UPLOADING}),
        (State.UPLOADING, Computed, Role.USER, _on_batch, {State.UPLOADING, State.WAITING}),
        (State.WAITING, Factors, Role.CSP, _on_answer, {State.COMPUTING}),
        (State.WAITING, Solution, Role.CSP, _on_answer, {State.COMPUTING}),
        (State.FETCHING, FactorRows, Role.CSP, _on_rows, {State.COMPUTING}),
        (State.FETCHING, Relayed, Role.CSP, _on_relayed, {State.FETCHING}),
        (State.RECOVERING, BlindedRightFactor, Role.CSP, _on_blinded, {State.COMPUTING}),
        (State.RECOVERING, Relayed, Role.CSP, _on_relayed, {State.RECOVERING}),
        (State.CHALLENGING, BatchRequest, Role.CSP, _on_challenge, {State.COMPUTING}),
        (State.CHALLENGING, Product, Role.CSP, _on_product, {State.COMPUTING}),
        (State.CHALLENGING, Relayed, Role.CSP, _on_relayed, {State.CHALLENGING}),
        (State.RELAYING, Relayed, Role.CSP, _on_relayed, {State.COMPUTING}),
        (State.COMMITTING, Relayed, Role.CSP, _on_relayed, {State.COMMITTING, State.COMPUTING}),
        (State.COMPARING, Relayed, Role.CSP, _on_relayed, {State.COMPARING, State.COMPUTING}),
        (State.MATCHING, CommonRows, Role.CSP, Paired._on_places, {State.MATCHING, State.COMPUTING}),
        (State.TAKING, Relayed, Role.CSP, _on_relayed, {State.TAKING, State.COMPUTING}),
        (State.AGREEING, Relayed, Role.CSP, _on_relayed, {State.AGREEING, State.SIGNING}),
        (State.SIGNING, Relayed, Role.CSP, _on_relayed, {State.SIGNING, State.FINISHING}),
        (State.FINISHING, Countersigned, Role.CSP, _on_countersigned, {State.DONE}),
    )
