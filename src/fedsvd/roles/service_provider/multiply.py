"""Step 7 on split columns: ``<P e, P (h + z)>`` for the label holder (specification, step 7).

Users send the vectors padded, panel by panel of rows: the residual of every target, and last the vector that these are
multiplied with. The CSP adds up what it is sent and multiplies. It cannot tell which part of the product is the secret
``<e, z>``.
"""

import numpy as np

from fedsvd.errors import RepeatedShare, UnexpectedMessage
from fedsvd.protocol.effects import Effect, Send
from fedsvd.protocol.messages import BatchRequest, Challenge, Product
from fedsvd.protocol.parties import Party, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.roles.service_provider.collect import decoded
from fedsvd.secagg.aggregate import RunningSum
from fedsvd.types import Array, Float


class Multiplied:
    """The products so far, and the panel that is being added up."""

    def __init__(self, plan: SessionPlan) -> None:
        self._plan = plan
        self._panel = 0
        self._sum: RunningSum | None = None
        self._products = np.zeros(plan.targets)

    def add(self, sender: Party, message: Challenge) -> Array | None:
        """One user's share of a panel; the sum of all shares when it is complete."""
        plan = self._plan
        if not plan.challenges:
            raise UnexpectedMessage(f"{sender} sends a challenge that the plan does not have")
        if message.batch != self._panel or self._panel == len(plan.row_panels):
            raise RepeatedShare(f"{sender} sent panel {message.batch} of a challenge, {self._panel} is being added up")
        if self._sum is None:
            rows = plan.row_panels[self._panel]
            self._sum = RunningSum((rows.stop - rows.start, plan.targets + 1), plan.k)
        self._sum.add(sender.index, message.payload)
        if not self._sum.complete:
            return None
        total, self._sum = self._sum.total(), None
        self._panel += 1
        return total

    def multiply(self, total: Array) -> tuple[Effect, ...]:
        """Add a complete panel's part of the products; ask for the next panel, or send the products."""
        plan = self._plan
        self._products += self._product(decoded(total))
        if self._panel < len(plan.row_panels):
            return tuple(Send(party, BatchRequest(plan.digest, self._panel)) for party in plan.users)
        return (Send(user(plan.label_user), Product(plan.digest, self._products)),)

    def _product(self, rows: Float) -> Float:
        """This panel's part of the products."""
        found: Float = rows[:, :-1].T @ rows[:, -1]
        return found
