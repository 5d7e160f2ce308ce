"""The user: owns X_i; compresses it, adds its share to exact sums, checks what comes back, agrees with the others.

One class. Its transition table, at the end, says what may be received from whom in which state. What is asked of the
others, and in which order, is the task's script (``svd.py``, ``pca.py``, ``regression.py``); each request of a script
stands for one state here. Handlers only decide. What has a subject of its own is a part of the user: its keys and seeds
(``seeding.py``), the script under way (``script.py``), the sum in hand (``sums.py``), messages between two users
(``pairs.py``), digests and signatures (``agreement.py``). Shares, pads, tags, seals, checks and the script itself are
computed in ``Compute`` effects.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, ClassVar

import numpy as np

from fedsvd.errors import LocalProtocolError, UnexpectedMessage
from fedsvd.protocol.machine import Compute, Computed, Effect, Finish, Machine, Send, Step, Table, table
from fedsvd.protocol.messages import (
    BatchRequest,
    Begin,
    Challenge,
    CommonRows,
    Countersigned,
    FactorRows,
    Factors,
    Finished,
    Gathered,
    KeyBook,
    PaddedBatch,
    Product,
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
from fedsvd.protocol.parties import ALL, CSP, Party, Role, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.roles.user import requests
from fedsvd.roles.user.agreement import Agreement, Group
from fedsvd.roles.user.answers import accepted_products
from fedsvd.roles.user.pairs import Pairs
from fedsvd.roles.user.script import Asked, Ended, RunningScript
from fedsvd.roles.user.seeding import Inputs, Seeding
from fedsvd.roles.user.work import Work, commitment_salt, reported
from fedsvd.types import Ring


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


# Where a computation may lead: to the state of what the script asks for next, or of its end.
_COMPUTED = set(State) - {State.NEW, State.KEYS, State.SEEDING, State.CHECKING, State.WAITING}
_COMPUTED -= {State.FINISHING, State.DONE, State.ABORTED}


class User(Machine):
    """User i in one session."""

    STATES = State

    def __init__(self, me: Party, plan: SessionPlan, inputs: Inputs) -> None:
        super().__init__(me, plan)
        # What this party itself holds, for the one that plays it: no message, log line or repr shows any of it.
        self.inputs = inputs
        self._seeding = Seeding(me, plan, inputs)
        self.keys = self._seeding.keys
        self.seeds = self._seeding.seeds
        self.group: Group  # its place among the users, once it has the seeds
        self._script = RunningScript(plan, me)
        self._pairs = Pairs(plan, self.keys)
        self._then: Callable[[Any], Step] | None = None  # decides on what is being computed
        self._batch = 0  # of the upload: the one that may be asked for next
        self._panel = 0  # of the challenge in hand
        self._compared = 0  # answers of the CSP that were compared with all other users'
        self._answer: Callable[[], Any] | None = None  # the one that is being compared
        self._result: Any = None
        self.agreement: Agreement | None = None

    @property
    def played(self) -> tuple[str, ...]:
        """The sums of this session so far, by name, in order."""
        return tuple(name for name, _ in self.group.played)

    @property
    def waits_for(self) -> requests.Request | None:
        """What the script asked for last, and has no answer to yet."""
        return self._script.request

    @property
    def salt(self) -> bytes:
        """What opens our data commitment, to an auditor."""
        return commitment_salt(self._seeding.own)

    # --- keys and seeds -------------------------------------------------------------------------------------------

    def _on_begin(self, sender: Party, message: Begin) -> Step:
        return State.KEYS, (Send(CSP, self._seeding.offer()),)

    def _on_keys(self, sender: Party, message: KeyBook) -> Step:
        dealt = self._seeding.dealt(message)
        state, effects = self._seeded()
        return state, dealt + effects

    def _on_seed(self, sender: Party, message: Relayed) -> Step:
        return self._seeded() if self._seeding.receive(message) else (State.SEEDING, ())

    def _seeded(self) -> Step:
        """With all seeds here: our end of the sums, our place in the group; then the masks and the task."""
        if not self._seeding.complete:
            return State.SEEDING, ()
        self.group = Group(self.me, self.plan, self.seeds["users"], self.inputs.identity, self.inputs.memo)
        return State.SEEDING, (Compute("seeding", lambda: self._seeding.prepare(self.group)),)

    def _on_prepared(self, prepared: tuple[Work, Ring | None]) -> Step:
        """Start the task's script, after the row check where there is one."""
        work, hashed = prepared
        for relayed in self._seeding.early():
            self.group.receive(relayed.origin, relayed.sealed)
        self._script.start(work, self._seeding.sums(), self.group)
        if hashed is not None:
            return State.CHECKING, (Send(CSP, RowIds(self.plan.digest, hashed)),)
        return self._go_on()

    def _on_rows_agree(self, sender: Party, message: RowsAgree) -> Step:
        return self._go_on()

    # --- the script -----------------------------------------------------------------------------------------------

    def _compute(self, label: str, work: Callable[[], Any], then: Callable[[Any], Step]) -> Step:
        """Have ``work`` computed; ``then`` decides on its value."""
        self._then = then
        return State.COMPUTING, (Compute(label, work),)

    def _reported(self, label: str, work: Callable[[], Any], then: Callable[[Any], Step]) -> Step:
        """The same, shown as progress under this label."""
        return self._compute(label, reported(self.inputs.progress, label, work), then)

    def _on_computed(self, value: Any) -> Step:
        """The computation under way has come to its end."""
        then, self._then = self._then, None
        if then is None:
            raise LocalProtocolError("nothing was being computed")
        return then(value)

    def _go_on(self, answer: Callable[[], Any] = lambda: None) -> Step:
        """Run the script on, with the answer to what it asked for, which ``answer`` checks and makes."""
        return self._compute("computing", lambda: self._script.advance(answer()), self._ask)

    def _ask(self, asked: Asked) -> Step:
        """Turn what the script asks for into a state and effects."""
        digest = self.plan.digest
        self._script.expect_next(asked)
        match asked:
            case requests.Local(label, work):
                made = reported(self.inputs.progress, label, work)
                return self._compute(label, lambda: self._script.advance(made()), self._ask)
            case requests.Sum():
                self._script.begin_sum(asked)
                return self._share()
            case requests.Upload():
                return State.UPLOADING, (Send(CSP, Ready(digest)),)
            case requests.Common(purpose):
                if self.me == user(1):
                    return self._reported(purpose, self._script.decide, self._announce)
                return self._await_common()
            case requests.Fetch(panel):
                return State.FETCHING, (Send(CSP, RowsRequest(digest, panel)),)
            case requests.Multiply():
                self._panel = 0
                return self._challenge()
            case requests.Commit(commitment):
                self.group.commit(commitment)
                return self._show_all(State.COMMITTING, "committing", commitment)
            case requests.Witness(name, content):
                return self._go_on(lambda: self.group.witness(name, content))
            case requests.Compare(hashed):
                return State.MATCHING, self._pairs.hashes(hashed)
            case requests.Give(to, content):
                return self._give(user(to + 1), content)
            case requests.Take():
                return self._await_taken()
            case Ended(result):
                self._result = result
                self.group.came_to(result)
                if (roots_of := self.inputs.results) is None:
                    return self._agree()
                commit = lambda: self.group.commit_results(roots_of(result), self._seeding.own)  # noqa: E731
                return self._compute("results", commit, lambda _: self._agree())

    # --- sums -----------------------------------------------------------------------------------------------------

    def _share(self) -> Step:
        return self._reported(self._script.sum.planned.name, self._script.share, self._send_share)

    def _send_share(self, share: SumShare) -> Step:
        if share.commitment:
            self.group.commit(share.commitment)
        sent, summed = Send(CSP, share), self._script.sum
        if summed.is_read:
            return State.SUMMING, (sent,)
        state, more = self._share() if summed.next() else self._go_on()
        return state, (sent, *more)

    def _on_sum(self, sender: Party, message: SumReply) -> Step:
        """A total: its last pad comes off and its tag is compared before any other use."""
        name, batch = self._script.asked(requests.Sum).name, self._script.sum.batch
        if (message.name, message.batch) != (name, batch):
            raise UnexpectedMessage(f"the sum {message.name!r} was not asked for")
        self.group.read_commitments(message.commitments)
        return self._reported(name, lambda: self._script.opened(message), self._summed)

    def _summed(self, asked: Asked | None) -> Step:
        if asked is not None:
            return self._ask(asked)
        return self._share() if self._script.sum.next() else self._compare(self._script.sum.joined)

    # --- the upload, and answers of the CSP -----------------------------------------------------------------------

    def _on_request(self, sender: Party, message: BatchRequest) -> Step:
        """Step 5: the next batch of our share, padded; none twice, and none out of order."""
        number = message.batch
        if number != self._batch or number >= self._script.asked(requests.Upload).count:
            raise UnexpectedMessage(f"batch {number} requested, {self._batch} is next")
        self._batch += 1
        return State.UPLOADING, (Compute("uploading", lambda: self._script.padded(number)),)

    def _on_batch(self, payload: Ring) -> Step:
        count = self._script.asked(requests.Upload).count
        if self.inputs.progress is not None:
            self.inputs.progress("uploading", self._batch, count)
        reply = Send(CSP, PaddedBatch(self.plan.digest, self._batch - 1, payload))
        return State.WAITING if self._batch == count else State.UPLOADING, (reply,)

    def _on_answer(self, sender: Party, message: Factors | Solution) -> Step:
        """Step 6: what the CSP made of the sum, still under the masks."""
        return self._accept(message, self._script.accept, message)

    def _accept(self, message: Any, check: Callable[[Any], Any], answer: Any) -> Step:
        """Go on with an answer once all users are known to hold it."""
        return self._compute("computing", lambda: check(message), lambda _: self._compare(lambda: answer))

    def _compare(self, answer: Callable[[], Any]) -> Step:
        """Step 7: an answer is used when every user is known to have the same one.

        This is the one way from an answer of the CSP to a script. A copy made for one user ends the session here, with
        one code at all users, before the data of any of them has met it.
        """
        self._script.compared()
        self._compared += 1
        self._comparing = f"comparing {self._compared}"
        self._answer = answer
        return self._show_all(State.COMPARING, self._comparing, self.group.digest())

    def _all_hold_the_same(self) -> Step:
        """Every other user's digest is here."""
        self.group.expect_equal_digests(self._comparing)
        answer, self._answer = self._answer, None
        if answer is None:
            raise LocalProtocolError("no answer was being compared")
        return self._go_on(answer)

    def _on_rows(self, sender: Party, message: FactorRows) -> Step:
        """A panel of U'. All are compared with the last: until then nothing that is made of them leaves this user."""
        if self._script.asked(requests.Fetch).panel < len(self.plan.row_panels) - 1:
            return self._go_on(lambda: self._script.accept_rows(message))
        return self._accept(message, self._script.accept_rows, message.U_masked)

    def _challenge(self) -> Step:
        """Make the next padded panel of the columns that check a solution."""
        return self._reported("challenge", lambda: self._script.challenge(self._panel), self._send_challenge)

    def _send_challenge(self, payload: Ring) -> Step:
        sent = Send(CSP, Challenge(self.plan.digest, self._panel, payload))
        self._panel += 1
        if self._panel < self._script.asked(requests.Multiply).count or self.me.index == self.plan.label_user:
            return State.CHALLENGING, (sent,)
        state, more = self._go_on()  # the products are not ours to read
        return state, (sent, *more)

    def _on_challenge(self, sender: Party, message: BatchRequest) -> Step:
        if message.batch != self._panel or message.batch >= self._script.asked(requests.Multiply).count:
            raise UnexpectedMessage(f"panel {message.batch} of a challenge requested, {self._panel} is next")
        return self._challenge()

    def _on_product(self, sender: Party, message: Product) -> Step:
        if self._panel < self._script.asked(requests.Multiply).count or self.me.index != self.plan.label_user:
            raise UnexpectedMessage("products that this user does not wait for")
        return self._go_on(lambda: accepted_products(self.plan, message))

    def _on_places(self, sender: Party, message: CommonRows) -> Step:
        """One batch of the places of common records; with the last the script goes on."""
        places = self._pairs.read_places(message)
        if places is None:
            return State.MATCHING, ()
        return self._go_on(lambda: np.concatenate(places))

    # --- messages to other users ----------------------------------------------------------------------------------

    def _announce(self, made: tuple[list[bytes], Asked], to: Party = ALL) -> Step:
        """Send what was sealed, once, and go on."""
        sealed, asked = made
        effects = self._relayed(sealed, to)
        state, more = self._ask(asked)
        return state, effects + more

    def _give(self, to: Party, content: bytes) -> Step:
        """Send the content in parts, sealed to one user, and go on."""
        made = lambda: (self._pairs.sealed(to, content), self._script.advance(None))  # noqa: E731
        return self._compute("sealing", made, lambda made: self._announce(made, to))

    def _relayed(self, sealed: list[bytes], to: Party = ALL) -> tuple[Effect, ...]:
        return tuple(Send(CSP, Relay(self.plan.digest, to, part)) for part in sealed)

    def _on_relayed(self, sender: Party, message: Relayed) -> Step:
        """A sealed message of another user; one that comes before we are ready for it waits."""
        if self.state is State.RELAYING and message.origin != user(1):
            # Another user goes on only with what user 1 has sent to all, and links keep their order.
            raise UnexpectedMessage(f"a message of {message.origin} where one of user 1 is awaited")
        self.group.receive(message.origin, message.sealed)
        if self.state is State.RELAYING:
            return self._await_common()
        if self.state is State.TAKING:
            return self._await_taken()
        listening = (State.COMMITTING, State.COMPARING, State.AGREEING, State.SIGNING)
        return self._listen(self.state) if self.state in listening else (self.state, ())

    def _on_gathered(self, sender: Party, message: Gathered) -> Step:
        """What all users show each other in this state, at once: there are many of them."""
        self.group.receive_round(message, self._purpose(self.state))
        return self._listen(self.state)

    def _await_common(self, seen: int = 0) -> Step:
        """Open what user 1 decided, if more than ``seen`` parts of it are here."""
        parts = self.group.waiting(user(1))
        if parts == seen:
            return State.RELAYING, ()

        def then(asked: Asked | None) -> Step:
            return self._await_common(parts) if asked is None else self._ask(asked)

        return self._compute("computing", self._script.decided, then)

    def _await_taken(self) -> Step:
        """Open what another user gave us, if all parts of it are here."""
        request = self._script.asked(requests.Take)
        origin, count = user(request.origin + 1), self._pairs.parts(request.size)
        if self.group.waiting(origin) < count:
            return State.TAKING, ()
        sealed = self.group.taken(origin, count)
        return self._go_on(lambda: self._pairs.opened(origin, sealed, request.size))

    # --- agreement ------------------------------------------------------------------------------------------------

    def _show_all(self, state: Enum, purpose: str, content: bytes) -> Step:
        """Show all other users something, and listen for theirs."""
        effects = self._relayed(self.group.sealed(purpose, content))
        state, more = self._listen(state)
        return state, effects + more

    def _listen(self, state: Enum) -> Step:
        """Go on once every other user's message of this state is here."""
        if not self.group.received_from_all(self._purpose(state)):
            return state, ()
        if state is State.COMMITTING:
            self.group.take_commitments()
            return self._go_on()
        if state is State.COMPARING:
            return self._all_hold_the_same()
        return self._sign() if state is State.AGREEING else self._finish()

    def _purpose(self, state: Enum) -> str:
        return self._comparing if state is State.COMPARING else state.name.lower()

    def _agree(self) -> Step:
        """Step 9: before anything is released, every user shows all others the digest of what it saw."""
        return self._show_all(State.AGREEING, "agreeing", self.group.agreeing())

    def _sign(self) -> Step:
        """All digests are equal, or the session ends here; then all sign the same certificate."""
        self.group.take_agreeing()
        return self._show_all(State.SIGNING, "signing", self.group.signature())

    def _finish(self) -> Step:
        self.group.expect_signatures()
        return State.FINISHING, (Send(CSP, Finished(self.plan.digest, self.group.certificate_digest())),)

    def _on_countersigned(self, sender: Party, message: Countersigned) -> Step:
        self.agreement = self.group.agreement(message.signature)
        return State.DONE, (Finish(self._result),)

    TABLE: ClassVar[Table] = table(
        # state, what arrives, who may send it, handler, where it may lead
        (State.NEW, Begin, Role.USER, _on_begin, {State.KEYS}),
        (State.KEYS, KeyBook, Role.CSP, _on_keys, {State.SEEDING}),
        (State.SEEDING, Relayed, Role.CSP, _on_seed, {State.SEEDING}),
        (State.SEEDING, Computed, Role.USER, _on_prepared, {State.CHECKING, State.COMPUTING}),
        (State.CHECKING, RowsAgree, Role.CSP, _on_rows_agree, {State.COMPUTING}),
        (State.COMPUTING, Computed, Role.USER, _on_computed, _COMPUTED),
        (State.COMPUTING, Relayed, Role.CSP, _on_relayed, {State.COMPUTING}),
        (State.SUMMING, SumReply, Role.CSP, _on_sum, {State.COMPUTING}),
        (State.SUMMING, Relayed, Role.CSP, _on_relayed, {State.SUMMING}),
        (State.UPLOADING, BatchRequest, Role.CSP, _on_request, {State.UPLOADING}),
        (State.UPLOADING, Computed, Role.USER, _on_batch, {State.UPLOADING, State.WAITING}),
        (State.WAITING, Factors, Role.CSP, _on_answer, {State.COMPUTING}),
        (State.WAITING, Solution, Role.CSP, _on_answer, {State.COMPUTING}),
        (State.FETCHING, FactorRows, Role.CSP, _on_rows, {State.COMPUTING}),
        (State.FETCHING, Relayed, Role.CSP, _on_relayed, {State.FETCHING}),
        (State.CHALLENGING, BatchRequest, Role.CSP, _on_challenge, {State.COMPUTING}),
        (State.CHALLENGING, Product, Role.CSP, _on_product, {State.COMPUTING}),
        (State.CHALLENGING, Relayed, Role.CSP, _on_relayed, {State.CHALLENGING}),
        (State.RELAYING, Relayed, Role.CSP, _on_relayed, {State.COMPUTING}),
        (State.COMMITTING, Relayed, Role.CSP, _on_relayed, {State.COMMITTING, State.COMPUTING}),
        (State.COMMITTING, Gathered, Role.CSP, _on_gathered, {State.COMPUTING}),
        (State.COMPARING, Relayed, Role.CSP, _on_relayed, {State.COMPARING, State.COMPUTING}),
        (State.COMPARING, Gathered, Role.CSP, _on_gathered, {State.COMPUTING}),
        (State.MATCHING, CommonRows, Role.CSP, _on_places, {State.MATCHING, State.COMPUTING}),
        (State.TAKING, Relayed, Role.CSP, _on_relayed, {State.TAKING, State.COMPUTING}),
        (State.AGREEING, Relayed, Role.CSP, _on_relayed, {State.AGREEING, State.SIGNING}),
        (State.AGREEING, Gathered, Role.CSP, _on_gathered, {State.SIGNING}),
        (State.SIGNING, Relayed, Role.CSP, _on_relayed, {State.SIGNING, State.FINISHING}),
        (State.SIGNING, Gathered, Role.CSP, _on_gathered, {State.FINISHING}),
        (State.FINISHING, Countersigned, Role.CSP, _on_countersigned, {State.DONE}),
    )
