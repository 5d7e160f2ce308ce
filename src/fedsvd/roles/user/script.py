"""The script of a user's task while it runs: whether the plan has next what it asks for, and what is computed for it.

A script is run in ``Compute`` effects alone (``advance``), never in a handler: between its requests it decodes, checks
and multiplies. The same holds for the computations below: shares with their pads, totals, checks of answers, seals.
``role.User`` turns what a script asks for into states and messages, and has these computed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from fedsvd.errors import LocalProtocolError, UnexpectedMessage
from fedsvd.protocol.matching import pairs_of
from fedsvd.protocol.messages import FactorRows, Factors, Solution, SumReply, SumShare
from fedsvd.protocol.parties import Party, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.played import Pair, Played
from fedsvd.protocol.steps import COMPARED, SUMS, PlannedStep, StepKind
from fedsvd.protocol.sums import null_space_sum, planned_sums
from fedsvd.protocol.tasks import Mode, Task
from fedsvd.roles.user.agreement import Group
from fedsvd.roles.user.answers import expect_answer, expect_rows
from fedsvd.roles.user.requests import (
    Commit,
    Common,
    Compare,
    Fetch,
    Give,
    Multiply,
    Request,
    Script,
    Sum,
    Take,
    Upload,
)
from fedsvd.roles.user.shared import once_for
from fedsvd.roles.user.sums import SumInHand, SumsOfUser
from fedsvd.roles.user.work import Work
from fedsvd.secagg.sums import SumKind
from fedsvd.types import Float, Ring


@dataclass(frozen=True, repr=False)
class Ended:
    """The script is over; this is its result."""

    result: Any


Asked = Request | Ended

_SHARED = {"lsa": "svd", "lr": "regression", "predict": "prediction", "match": "matching", "prepare": "preparation"}
"""Tasks whose script is in a file of another name than theirs."""


def script_of(task: Task) -> Callable[[Work], Script]:
    """The script of a task: ``script`` in the file of its name."""
    word = _SHARED.get(task, str(task))
    found: Callable[[Work], Script] = import_module(f"fedsvd.roles.user.{word}").script
    return found


# Requests that are one step of the plan, whatever they carry.
_STEPS: dict[type[Any], tuple[tuple[StepKind, ...], str | None]] = {
    Upload: ((StepKind.UPLOAD,), None),
    Fetch: ((StepKind.FETCH,), "panels"),
    Multiply: ((StepKind.CHALLENGE,), "challenge"),
    Commit: ((StepKind.FROM_EACH,), "commitment"),
    Compare: ((StepKind.COMPARE,), "common records"),
}


class RunningScript:
    """One user's script, held to the steps of the plan."""

    def __init__(self, plan: SessionPlan, me: Party) -> None:
        self._plan, self._me = plan, me
        self._script: Script | None = None
        self._steps = Played(plan.steps, pairs_of(plan, me.index - 1))
        self._decided: PlannedStep | None = None  # what user 1 is to send to all, as the plan has it
        self._planned = {planned.name: planned for planned in planned_sums(plan)}
        self.request: Request | None = None  # what the script asked for last, and has no answer to yet

    def start(self, work: Work, sums: SumsOfUser, group: Group) -> None:
        """Make the script of this task; it runs from its first answer on."""
        self._work, self._sums, self._group = work, sums, group
        self._script = script_of(self._plan.task)(work)

    def advance(self, answer: Any) -> Asked:
        """What the script asks for next; runs in a ``Compute`` effect, never in a handler."""
        if self._script is None:
            raise LocalProtocolError("no task is under way")
        try:
            return self._script.send(answer)
        except StopIteration as end:
            self._script = None
            self._work.source.expect_unchanged()  # all has been read: before anything is agreed on and signed
            return Ended(end.value)

    def expect_next(self, asked: Asked) -> None:
        """Raise unless the plan has what the script asks for as its next step; nothing of it has been sent by then."""
        match asked:
            case Sum(name):
                self._steps.advance(SUMS, name)
            case Common(purpose):
                self._decided = self._steps.advance((StepKind.FROM_USER_1,), purpose)
            case Give(to, content):
                self._steps.exchange(Pair(to, len(content), True))
            case Take(origin, size):
                self._steps.exchange(Pair(origin, size, False))
            case Fetch(panel) if panel > 0:
                pass  # the first panel stands for all
            case Ended():
                self._steps.expect_end()
            case _ if type(asked) in _STEPS:
                self._steps.advance(*_STEPS[type(asked)])
        self.request = None if isinstance(asked, Ended) else asked

    def asked(self, kind: type[Any]) -> Any:
        """What the script waits for, which is of this kind, or ``UnexpectedMessage``."""
        if not isinstance(self.request, kind):
            raise UnexpectedMessage(f"a {kind.__name__.lower()} is not what this user waits for")
        return self.request

    def compared(self) -> None:
        """Play the step in which all users compare an answer of the CSP."""
        self._steps.advance((StepKind.FROM_EACH,), COMPARED.name)

    # --- sums -----------------------------------------------------------------------------------------------------

    def begin_sum(self, asked: Sum) -> None:
        """Take the sum that the script asks for in hand."""
        planned = self._planned[asked.name]
        self._group.played.append((planned.name, planned.length))
        self.sum = SumInHand(self._sums, planned, self._me.index, asked.share)

    def share(self) -> SumShare:
        """Our padded share of the batch in hand, and its tag; with the first, our commitment to our data."""
        summed, commitment = self.sum, b"" if self._group.committed else self._work.commitment()
        return SumShare(self._plan.digest, summed.planned.name, summed.batch, *summed.share(), commitment)

    def opened(self, message: SumReply) -> Asked | None:
        """Open the total of one batch; with the last the script goes on, unless all users must compare it first."""
        summed, planned = self.sum, self.sum.planned
        total = self._total(message)
        summed.take(total)
        if planned.receiver is None:
            self._group.witness(f"{planned.name} {message.batch}", total)
        # No tag covers what the CSP adds to a shared sum.
        goes_on = summed.is_last and planned.kind is not SumKind.SHARED
        if not goes_on:
            return None
        memo = self._work.memo if planned.receiver is None else None
        return self.advance(summed.read(self.asked(Sum).read, memo, self._plan.k))

    def _total(self, message: SumReply) -> Ring:
        """What the reply opens to: once where users of one process hold the very same reply."""
        summed, memo = self.sum, self._work.memo if self.sum.planned.receiver is None else None
        total: Ring = once_for(
            memo, message, self._sums.opened_as, self._plan.k, lambda: summed.open(message.payload, message.tag)
        )
        return total

    # --- the upload, and answers of the CSP -----------------------------------------------------------------------

    def padded(self, number: int) -> Ring:
        """A batch of the upload under the pads of all pairs."""
        request, stream = self.asked(Upload), "gram" if self._plan.mode is Mode.B else "upload"
        if request.padded is not None:
            made: Ring = request.padded(number, self._sums.pads(stream, number))
            return made
        return self._sums.padded(request.batch(number), stream, number)

    def challenge(self, number: int) -> Ring:
        """A panel of the columns that check a solution, under the pads of all pairs."""
        return self._sums.padded(self.asked(Multiply).batch(number), "challenge vectors", number)

    def accept(self, message: Factors | Solution) -> None:
        """Refuse an answer that the plan does not have; all users compare what they were sent."""
        plan = self._plan
        once_for(self._work.memo, message, "structure", plan.k, lambda: expect_answer(plan, message))
        if isinstance(message, Solution) and (needed := null_space_sum(plan, message.rank)) is not None:
            self._planned[needed.name] = needed
        self._group.witness_answer(message)

    def accept_rows(self, message: FactorRows) -> Float:
        """A panel of U', which must be the one that the script asked for."""
        expect_rows(self._plan, self.asked(Fetch), message)
        self._group.witness(f"rows {message.panel}", message.U_masked)
        return message.U_masked

    # --- what user 1 decides --------------------------------------------------------------------------------------

    def decide(self) -> tuple[list[bytes], Asked]:
        """User 1 decides: the bytes for all others, sealed, and what its own script asks for next."""
        request = self.asked(Common)
        content = request.make()
        if not self._fits(content):
            raise LocalProtocolError(f"{request.purpose!r} has another length than the plan says", "it was not sent")
        self._group.witness(request.purpose, content)
        return self._group.sealed(request.purpose, content), self.advance(content)

    def decided(self) -> Asked | None:
        """Go on with what user 1 decided, once all parts of it are here; None until then."""
        request, most = self.asked(Common), 0 if self._decided is None else self._decided.size
        content = self._group.opened(user(1), request.purpose, most)
        if content is None:
            return None
        if not self._fits(content):
            raise UnexpectedMessage("what user 1 sent has another length than the plan says")
        self._group.witness(request.purpose, content)
        return self.advance(content)

    def _fits(self, content: bytes) -> bool:
        """Whether what user 1 decided has the length that the plan says; what the data decides may be shorter."""
        step = self._decided
        return step is not None and (len(content) <= step.size if step.upto else len(content) == step.size)
