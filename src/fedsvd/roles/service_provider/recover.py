"""What users come back for: panels of a long U', and eq. 6 of the paper, ``[Vt_i]^R = Vt' [Q_i^T]^R`` (C1).

Both go piece by piece, so that neither U' nor V'^T need be in memory where they are too long for it. Eq. 6 is there
in the ``paper`` scheme alone.

Products of step 7 on split columns are made here, too, of all columns with each other, for the label holder. Users send
them padded, panel by panel of rows: the residual of every target, and last the vector that these are multiplied with.
The CSP adds up what it is sent and multiplies. It cannot tell which part of a product is the secret ``<e, z>``.
"""

import numpy as np

from fedsvd.errors import RepeatedShare, UnexpectedMessage
from fedsvd.linalg.backend import to_numpy
from fedsvd.protocol.machine import Effect, Send
from fedsvd.protocol.messages import (
    BatchRequest,
    BlindedRightFactor,
    BlindedRightMask,
    Challenge,
    FactorRows,
    Product,
    RowsRequest,
)
from fedsvd.protocol.parties import Party, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.shared import challenge_columns
from fedsvd.roles.service_provider.collect import decoded
from fedsvd.roles.service_provider.factorise import Factorised
from fedsvd.secagg.aggregate import RunningSum
from fedsvd.types import Array, Float, expect_shape


def planned_size(plan: SessionPlan, found: Factorised) -> tuple[Float, Float]:
    """U' and S' with zero columns beyond the rank, as long as the plan says; of a long U' no rows."""
    if plan.published:
        return found.U_masked, found.sigma_scaled
    U_masked, sigma = np.zeros((0 if plan.tall else plan.M, plan.planned_rank)), np.zeros(plan.planned_rank)
    if not plan.tall:
        U_masked[:, : found.U_masked.shape[1]] = found.U_masked
    sigma[: len(found.sigma_scaled)] = found.sigma_scaled
    return U_masked, sigma


def factor_rows(plan: SessionPlan, sender: Party, found: Factorised | None, message: RowsRequest) -> FactorRows:
    """The rows of U' in one panel, with zero columns beyond the rank."""
    panels = plan.row_panels
    if found is None or not plan.tall or not 0 <= message.panel < len(panels):
        raise UnexpectedMessage(f"{sender} asks for rows of U' that are not sent by themselves")
    place, r = panels[message.panel], len(found.sigma_scaled)
    rows = found.U_masked[place] if found.store is None else to_numpy(found.store.read(place, slice(0, r)))
    if plan.published or r == plan.planned_rank:
        return FactorRows(plan.digest, message.panel, rows)
    padded = np.zeros((len(rows), plan.planned_rank))
    padded[:, :r] = rows
    return FactorRows(plan.digest, message.panel, padded)


def blinded_factor(
    plan: SessionPlan, sender: Party, found: Factorised | None, message: BlindedRightMask
) -> BlindedRightFactor:
    """The product for one user, once its blocks are those of its columns."""
    windows = plan.right_windows
    own = [window.columns[sender.index - 1] for window in windows]
    held = [columns.stop > columns.start for columns in own]
    if found is None or not plan.published or [block is not None for block in message.Qt_i_blinded] != held:
        raise UnexpectedMessage(f"a blinded mask from {sender} that the plan does not know")
    blocks: list[Float | None] = []
    for window, columns, block in zip(windows, own, message.Qt_i_blinded, strict=True):
        if block is not None:
            expect_shape(f"a block of {sender}'s blinded mask", block, window.width, columns.stop - columns.start)
        blocks.append(None if block is None else _right_vectors(found, window.outputs) @ block)
    return BlindedRightFactor(plan.digest, tuple(blocks))


def _right_vectors(found: Factorised, columns: slice) -> Float:
    """These columns of V'^T, from memory or from the store."""
    if found.Vt_masked is not None:
        return found.Vt_masked[:, columns]
    if found.store is None:
        raise UnexpectedMessage("a blinded mask where no V' was kept")
    return to_numpy(found.store.read(slice(0, len(found.sigma_scaled)), columns))


class Multiplied:
    """The products so far, and the panel that is being added up."""

    def __init__(self, plan: SessionPlan) -> None:
        self._plan = plan
        self._panel = 0
        self._sum: RunningSum | None = None
        self._columns = challenge_columns(plan)
        self._products = np.zeros((self._columns, self._columns))

    def add(self, sender: Party, message: Challenge) -> Array | None:
        """One user's share of a panel; the sum of all shares when it is complete."""
        plan = self._plan
        if not plan.challenges:
            raise UnexpectedMessage(f"{sender} sends a challenge that the plan does not have")
        if message.batch != self._panel or self._panel == len(plan.row_panels):
            raise RepeatedShare(f"{sender} sent panel {message.batch} of a challenge, {self._panel} is being added up")
        if self._sum is None:
            rows = plan.row_panels[self._panel]
            self._sum = RunningSum((rows.stop - rows.start, self._columns), plan.k)
        self._sum.add(sender.index, message.payload)
        if not self._sum.complete:
            return None
        total, self._sum = self._sum.total(), None
        self._panel += 1
        return total

    def multiply(self, total: Array) -> tuple[Effect, ...]:
        """Add a complete panel's part of the products; ask for the next panel, or send the products."""
        plan = self._plan
        self._products += self.product(decoded(total))
        if self._panel < len(plan.row_panels):
            return tuple(Send(party, BatchRequest(plan.digest, self._panel)) for party in plan.users)
        return (Send(user(plan.label_user), Product(plan.digest, self._products.ravel())),)

    def product(self, rows: Float) -> Float:
        """This panel's part of the products."""
        found: Float = rows.T @ rows
        return found
