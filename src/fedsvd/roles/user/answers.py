"""What a user accepts from the CSP: answers of the kind, shape and finiteness that the plan says; checked at the door.

Whether an answer is *right* was verified by the CSP; a user can only see that it fits. What does not fit ends the
session, instead of failing somewhere inside the unmasking.
"""

import numpy as np

from fedsvd.errors import UnexpectedMessage
from fedsvd.protocol.messages import BlindedRightFactor, FactorRows, Factors, Solution
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Item, Task
from fedsvd.roles.user.requests import Fetch
from fedsvd.types import Float, expect_shape


def expect_answer(plan: SessionPlan, message: Factors | Solution) -> None:
    """Refuse an answer that is not one to this plan's upload."""
    if isinstance(message, Solution) != (plan.task is Task.LR):
        raise UnexpectedMessage(f"{type(message).__name__} in answer to the upload of a {plan.task}")
    if isinstance(message, Solution):
        features = plan.N if plan.by_rows else plan.m
        expect_shape("w'", message.w_masked, features, plan.targets)
        expect_shape("the null space", message.null_masked, features, features - message.rank)
        _expect_finite(message.w_masked, message.null_masked)
        return
    r = message.U_masked.shape[-1]
    if (message.sigma_scaled is None) == plan.releases(Item.SPECTRUM):
        raise UnexpectedMessage("a spectrum that the plan does not release, or none where it does")
    expect_shape("U'", message.U_masked, 0 if plan.tall else plan.M, r)
    _expect_finite(message.U_masked)
    if message.sigma_scaled is not None:
        expect_shape("S'", message.sigma_scaled, min(plan.M, plan.N) if plan.full_matrices else r)
        _expect_finite(message.sigma_scaled)


def expect_rows(plan: SessionPlan, asked: Fetch, message: FactorRows) -> None:
    """Refuse rows of U' that are not those of the window that was asked for."""
    window = plan.left_windows[asked.panel]
    if message.panel != asked.panel:
        raise UnexpectedMessage(f"window {message.panel} of U', {asked.panel} was asked for")
    expect_shape("a window of U'", message.U_masked, window.stop - window.start, asked.r)
    _expect_finite(message.U_masked)


def expect_blinded(plan: SessionPlan, i: int, message: BlindedRightFactor) -> None:
    """Refuse ``[Vt_i]^R`` that is not cut like user i's slices of Q."""
    own = [window.columns[i].stop - window.columns[i].start for window in plan.right_windows]
    if [block is not None for block in message.Vt_i_blinded] != [width > 0 for width in own]:
        raise UnexpectedMessage("a blinded factor that is cut otherwise than Q")
    held = [(block, width) for block, width in zip(message.Vt_i_blinded, own, strict=True) if block is not None]
    for block, width in held:
        expect_shape("a block of the blinded factor", block, held[0][0].shape[0], width)
        _expect_finite(block)


def _expect_finite(*arrays: Float) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise UnexpectedMessage("an answer with numbers that are not finite", "nothing is taken from it; run again")
