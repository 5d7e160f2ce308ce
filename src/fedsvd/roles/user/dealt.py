"""The masks that a Trusted Authority deals in the paper's scheme: Q_i as slices, and P too where it is dealt whole.

They follow the group seed in the TA's sealed message, as bytes: the slices of Q window after window, then P.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedsvd.errors import NotSealed
from fedsvd.linalg.block_diagonal import Written
from fedsvd.masks.right import DealtRightMask
from fedsvd.protocol.plan import SessionPlan
from fedsvd.types import Float

Allocate = Callable[[tuple[int, int]], Float]


@dataclass(frozen=True, repr=False)
class Dealt:
    """What was delivered of the masks; None for what is drawn from the group seed."""

    Q: DealtRightMask | None = None
    P: Written | None = None

    def __repr__(self) -> str:
        return f"Dealt(Q={self.Q is not None}, P={self.P is not None})"


NOTHING = Dealt()


def dealt_masks(plan: SessionPlan, i: int, content: bytes, allocate: Allocate = np.empty) -> Dealt:
    """User i's masks, i from 0, from what follows the seed in the TA's sealed message.

    Where half of the memory does not hold them they are put aside at once and met block by block (section 3.4 of the
    paper).
    """
    shapes = [(window.columns[i].stop - window.columns[i].start, window.width) for window in plan.right_windows]
    m = plan.masked_rows if plan.dense_masks else 0
    if 8 * (sum(rows * width for rows, width in shapes) + m * m) != len(content):
        raise NotSealed("the sealed message of masks has another length")
    numbers = np.frombuffer(content, "<f8")
    if len(content) > plan.memory // 2:
        aside = allocate((1, numbers.size))[0]
        aside[:] = numbers
        numbers = aside
    blocks: list[Float | None] = []
    start = 0
    for rows, width in shapes:
        blocks.append(numbers[start : start + rows * width].reshape(rows, width) if rows else None)
        start += rows * width
    P = Written(numbers[start:].reshape(m, m)) if plan.dense_masks else None
    return Dealt(DealtRightMask(i, plan.right_windows, tuple(blocks)), P)
