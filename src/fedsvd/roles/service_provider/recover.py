"""Eq. 6 of the paper at the CSP: ``[Vt_i]^R = Vt' [Q_i^T]^R``, window by window (``paper`` scheme alone, C1)."""

from fedsvd.errors import UnexpectedMessage
from fedsvd.protocol.messages import BlindedRightFactor, BlindedRightMask
from fedsvd.protocol.parties import Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.types import Float, expect_shape


def blinded_factor(
    plan: SessionPlan, sender: Party, Vt_masked: Float | None, message: BlindedRightMask
) -> BlindedRightFactor:
    """The product for one user, once its blocks are those of its columns."""
    windows = plan.right_windows
    own = [window.columns[sender.index - 1] for window in windows]
    held = [columns.stop > columns.start for columns in own]
    if Vt_masked is None or [block is not None for block in message.Qt_i_blinded] != held:
        raise UnexpectedMessage(f"a blinded mask from {sender} that the plan does not know")
    blocks: list[Float | None] = []
    for window, columns, block in zip(windows, own, message.Qt_i_blinded, strict=True):
        if block is not None:
            expect_shape(f"a block of {sender}'s blinded mask", block, window.width, columns.stop - columns.start)
        blocks.append(None if block is None else Vt_masked[:, window.outputs] @ block)
    return BlindedRightFactor(plan.digest, tuple(blocks))
