"""A user that runs its task's script: what the script asks for, and the sums it asks for most.

A script is run in ``Compute`` effects alone (``_advance``), never in a handler: between its requests it decodes, checks
and multiplies. ``role.User`` adds everything else that a script may ask for, and the transition table.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from fedsvd.errors import LocalProtocolError, UnexpectedMessage
from fedsvd.protocol.machine import Effect, Send, Step
from fedsvd.protocol.matching import pairs_of
from fedsvd.protocol.messages import SumReply, SumShare
from fedsvd.protocol.parties import CSP, Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.played import Pair, Played
from fedsvd.protocol.steps import COMPARED, SUMS, PlannedStep, StepKind
from fedsvd.protocol.sums import planned_sums
from fedsvd.roles.user.requests import (
    Commit,
    Common,
    Compare,
    Fetch,
    Give,
    Multiply,
    Recover,
    Request,
    Sum,
    Take,
    Upload,
)
from fedsvd.roles.user.seeding import Inputs, Seeding, State
from fedsvd.roles.user.work import reported
from fedsvd.secagg.sums import SumKind
from fedsvd.types import Ring


@dataclass(frozen=True, repr=False)
class Ended:
    """The script is over; this is its result."""

    result: Any


Asked = Request | Ended

# Requests that are one step of the plan, whatever they carry.
_STEPS: dict[type[Any], tuple[tuple[StepKind, ...], str | None]] = {
    Upload: ((StepKind.UPLOAD,), None),
    Fetch: ((StepKind.FETCH,), "panels"),
    Recover: ((StepKind.RECOVER,), "own part"),
    Multiply: ((StepKind.CHALLENGE,), "challenge"),
    Commit: ((StepKind.FROM_EACH,), "commitment"),
    Compare: ((StepKind.COMPARE,), "common records"),
}


@dataclass(frozen=True, repr=False)
class _Unchecked:
    """A total that the CSP may have changed: no tag covers what it adds to a shared sum."""

    total: Ring


class Scripted(Seeding):
    """A user with a script under way."""

    def __init__(self, me: Party, plan: SessionPlan, inputs: Inputs) -> None:
        super().__init__(me, plan, inputs)
        self._planned = {planned.name: planned for planned in planned_sums(plan)}
        self._played = Played(plan.steps, pairs_of(plan, me.index - 1))
        self._decided: PlannedStep | None = None  # what user 1 is to send to all, as the plan has it
        self._request: Request | None = None
        self._batch = 0  # the batch of the sum, or of the challenge, in hand
        self._totals: list[Ring] = []
        self._compared = 0  # answers of the CSP that were compared with all other users'
        self._then_advance: Callable[[], Asked] | None = None  # what is done with the one that is being compared

    @property
    def waits_for(self) -> Request | None:
        """What the script asked for last, and has no answer to yet."""
        return self._request

    def _go_on(self, answer: Any) -> Step:
        """Run the script on, with the answer to what it asked for."""
        return self._compute("computing", lambda: self._advance(answer), self._ask)

    def _advance(self, answer: Any) -> Asked:
        """What the script asks for next; runs in a ``Compute`` effect, never in a handler."""
        if self._script is None:
            raise LocalProtocolError("no task is under way")
        try:
            return self._script.send(answer)
        except StopIteration as end:
            self._script = None
            self._work.source.expect_unchanged()  # all has been read: before anything is agreed on and signed
            return Ended(end.value)

    def _expect_next(self, asked: Asked) -> None:
        """Raise unless the plan has what the script asks for as its next step; nothing of it has been sent by then."""
        match asked:
            case Sum(name):
                self._played.advance(SUMS, name)
                self._group.played.append((name, self._planned[name].length))
            case Common(purpose):
                self._decided = self._played.advance((StepKind.FROM_USER_1,), purpose)
            case Give(to, content):
                self._played.exchange(Pair(to, len(content), True))
            case Take(origin, size):
                self._played.exchange(Pair(origin, size, False))
            case Fetch(panel) if panel > 0:
                pass  # the first panel stands for all
            case Ended():
                self._played.expect_end()
            case _ if type(asked) in _STEPS:
                self._played.advance(*_STEPS[type(asked)])

    @property
    def _most(self) -> int:
        """Bytes that user 1 may send to all at this step."""
        return 0 if self._decided is None else self._decided.size

    def _fits(self, content: bytes) -> bool:
        """Whether what user 1 decided has the length that the plan says; what the data decides may be shorter."""
        step = self._decided
        return step is not None and (len(content) <= step.size if step.upto else len(content) == step.size)

    @abstractmethod
    def _ask(self, asked: Asked) -> Step:
        """Turn what the script asks for into a state and effects. ``role.User`` does it."""

    @abstractmethod
    def _relayed(self, sealed: list[bytes]) -> tuple[Effect, ...]:
        """Group-sealed messages on their way to all other users. ``role.User`` does it."""

    @abstractmethod
    def _listen(self, state: Enum) -> Step:
        """Go on once every other user's message of this state is here. ``role.User`` does it."""

    # --- answers of the CSP ---------------------------------------------------------------------------------------

    def _compare_answer(self, then: Callable[[], Asked]) -> Step:
        """Step 7: an answer is used when every user is known to have the same one; ``then`` uses it.

        This is the one way from an answer of the CSP to a script. A copy made for one user ends the session here, with
        one code at all users, before the data of any of them has met it.
        """
        self._played.advance((StepKind.FROM_EACH,), COMPARED.name)
        self._compared += 1
        self._then_advance = then
        effects = self._relayed(self._group.sealed(self._comparing, self._group.digest()))
        state, more = self._listen(State.COMPARING)
        return state, effects + more

    @property
    def _comparing(self) -> str:
        return f"comparing {self._compared}"

    def _all_hold_the_same(self) -> Step:
        """Every other user's digest is here."""
        self._group.expect_equal_digests(self._comparing)
        then, self._then_advance = self._then_advance, None
        if then is None:
            raise LocalProtocolError("no answer was being compared")
        return self._compute("computing", then, self._ask)

    def _asked(self, kind: type[Any]) -> Any:
        if not isinstance(self._request, kind):
            raise UnexpectedMessage(f"a {kind.__name__.lower()} is not what this user waits for")
        return self._request

    def _reported(self, label: str, work: Callable[[], Any]) -> Callable[[], Any]:
        return reported(self._inputs.progress, label, work)

    # --- sums -----------------------------------------------------------------------------------------------------

    def _share(self) -> Step:
        """Make our padded share of the batch in hand, and its tag; with the first, our commitment to our data."""
        request, batch, first = self._asked(Sum), self._batch, not self._group.committed
        planned = self._planned[request.name]

        def made() -> tuple[tuple[Ring, Ring], bytes]:
            share = self._sums.share(planned, batch, request.share(batch))
            return share, self._work.commitment() if first else b""

        return self._compute(request.name, self._reported(request.name, made), self._send_share)

    def _send_share(self, made: tuple[tuple[Ring, Ring], bytes]) -> Step:
        request, (share, commitment) = self._asked(Sum), made
        if commitment:
            self._group.commit(commitment)
        sent = Send(CSP, SumShare(self.plan.digest, request.name, self._batch, *share, commitment))
        planned = self._planned[request.name]
        if planned.receiver in (None, self.me.index):
            return State.SUMMING, (sent,)
        # The total is not ours to read.
        self._batch += 1
        state, more = self._share() if self._batch < len(planned.batches) else self._go_on(None)
        return state, (sent, *more)

    def _on_sum(self, sender: Party, message: SumReply) -> Step:
        """A total: its last pad comes off and its tag is compared before any other use."""
        request = self._asked(Sum)
        if (message.name, message.batch) != (request.name, self._batch):
            raise UnexpectedMessage(f"the sum {message.name!r} was not asked for")
        self._group.read_commitments(message.commitments)
        return self._compute(request.name, self._reported(request.name, lambda: self._opened(message)), self._summed)

    def _opened(self, message: SumReply) -> Asked | _Unchecked | None:
        """Open the total of one batch; None until it is the last, with which the script goes on."""
        planned = self._planned[message.name]
        total = self._sums.open(planned, message.batch, message.payload, message.tag)
        if planned.receiver is None:
            self._group.witness(f"{planned.name} {message.batch}", total)
        self._totals.append(total)
        if message.batch + 1 < len(planned.batches):
            return None
        totals, self._totals = self._totals, []
        whole = totals[0] if len(totals) == 1 else np.concatenate(totals)
        return _Unchecked(whole) if planned.kind is SumKind.SHARED else self._advance(whole)

    def _summed(self, asked: Asked | _Unchecked | None) -> Step:
        self._batch += 1
        if isinstance(asked, _Unchecked):
            return self._compare_answer(lambda: self._advance(asked.total))
        return self._share() if asked is None else self._ask(asked)
