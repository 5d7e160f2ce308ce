"""A user that runs its task's script: what the script asks for, and the sums it asks for most.

A script is run in ``Compute`` effects alone (``_advance``), never in a handler: between its requests it decodes, checks
and multiplies. ``role.User`` adds everything else that a script may ask for, and the transition table.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsvd.errors import LocalProtocolError, UnexpectedMessage
from fedsvd.protocol.machine import Send, Step
from fedsvd.protocol.messages import SumReply, SumShare
from fedsvd.protocol.parties import CSP, Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.sums import planned_sums
from fedsvd.roles.user.requests import Request, Sum
from fedsvd.roles.user.seeding import Inputs, Seeding, State
from fedsvd.roles.user.work import reported
from fedsvd.types import Ring


@dataclass(frozen=True, repr=False)
class Ended:
    """The script is over; this is its result."""

    result: Any


Asked = Request | Ended


class Scripted(Seeding):
    """A user with a script under way."""

    def __init__(self, me: Party, plan: SessionPlan, inputs: Inputs) -> None:
        super().__init__(me, plan, inputs)
        self._planned = {planned.name: planned for planned in planned_sums(plan)}
        self._request: Request | None = None
        self._batch = 0  # the batch of the sum, or of the challenge, in hand
        self._totals: list[Ring] = []

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
            return Ended(end.value)

    @abstractmethod
    def _ask(self, asked: Asked) -> Step:
        """Turn what the script asks for into a state and effects. ``role.User`` does it."""

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

    def _opened(self, message: SumReply) -> Asked | None:
        """Open the total of one batch; None until it is the last, with which the script goes on."""
        planned = self._planned[message.name]
        total = self._sums.open(planned, message.batch, message.payload, message.tag)
        if planned.receiver is None:
            self._group.witness(f"{planned.name} {message.batch}", total)
        self._totals.append(total)
        if message.batch + 1 < len(planned.batches):
            return None
        totals, self._totals = self._totals, []
        return self._advance(totals[0] if len(totals) == 1 else np.concatenate(totals))

    def _summed(self, asked: Asked | None) -> Step:
        self._batch += 1
        return self._share() if asked is None else self._ask(asked)
