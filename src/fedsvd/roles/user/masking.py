"""One user's masks in one session, as the plan wants them drawn; ``masks.apply`` applies them.

    Y_i = c P (A_i T_i) Q_i

P, Q and c follow from the mask seed, T_i from this user's own; P, Q and T_i stand over whole sides. In the ``paper``
scheme there is no T_i and no c, P and Q are blocks, and the slices Q_i come from the TA.

A Trusted Authority deals, in the paper's scheme, Q_i as slices, and P too where it is dealt as a dense matrix. They
follow the group seed in the TA's sealed message, as bytes: the slices of Q window after window, then P.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol

import numpy as np

from fedsvd.errors import NotSealed
from fedsvd.linalg.backend import matmul, namespace
from fedsvd.linalg.block_diagonal import Orthogonal, Written
from fedsvd.masks import apply
from fedsvd.masks.apply import unmask_right
from fedsvd.masks.left import LeftMask
from fedsvd.masks.orthogonal import local_rotation, secret_scale
from fedsvd.masks.right import DealtRightMask, RightMask
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.upload import writes_out
from fedsvd.randomness.keystream import Each
from fedsvd.randomness.seed import Seed
from fedsvd.types import Array, Float

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

    Where half of the memory does not hold them they are written to scratch at once and read block by block (section
    3.4, 1).
    """
    shapes = [(window.columns[i].stop - window.columns[i].start, window.width) for window in plan.right_windows]
    m = plan.masked_rows if plan.deals_left else 0
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
    P = Written(numbers[start:].reshape(m, m)) if plan.deals_left else None
    return Dealt(DealtRightMask(i, plan.right_windows, tuple(blocks)), P)


OF_MEMORY = 4
"""The drawn blocks of a mixing mask may take this part of the memory budget: a quarter."""


class Operand(Protocol):
    """A_i, readable by columns or by rows; never changed."""

    def columns(self, start: int, stop: int) -> Array: ...
    def rows(self, start: int, stop: int) -> Array: ...


@dataclass(frozen=True, repr=False)
class Masks:
    """User i's masks; ``i`` counts from 0 here, as positions do."""

    plan: SessionPlan
    i: int
    seed: Seed
    own: Seed
    dealt: DealtRightMask | None = None
    on: Array | None = None  # an array where the masks are to be; None for NumPy
    each: Each | None = None  # ``map`` over several threads, for the words behind the masks
    dealt_left: Orthogonal | None = None  # P, where it was dealt as a matrix
    memo: dict[bytes, Any] | None = None  # what users of one process drew from equal seeds

    def __repr__(self) -> str:
        return f"Masks(user={self.i + 1})"

    @cached_property
    def P(self) -> LeftMask:
        # By rows each of the paper's blocks is used once, and there may be many; else all are used again to remove P.
        plan, seed = self.plan, self.seed.derive("P")
        keep = not (plan.published and plan.by_rows)
        left = LeftMask(plan.left, plan.masked_rows, seed, plan.block, self.on, keep, self.each, stored=self._stored)
        if self.dealt_left is not None:
            return replace(left, dealt=self.dealt_left)
        if self.memo is None:
            return left
        place = "numpy" if self.on is None else f"{namespace(self.on).__name__} {self.on.device}"
        shared: LeftMask = self.memo.setdefault(sha256(f"P {place} ".encode() + seed.reveal()).digest(), left)
        return shared

    @cached_property
    def Q(self) -> RightMask | DealtRightMask:
        if self.dealt is not None:
            return self.dealt
        plan, seed = self.plan, self.seed.derive("Q")
        keep = len(plan.right_windows) == 1 or plan.by_rows
        return RightMask(plan.right, plan.widths, seed, plan.block, self.on, keep, self.each, self._stored)

    @property
    def _stored(self) -> int:
        """Bytes that the drawn blocks of one mixing mask may take."""
        return self.plan.memory // OF_MEMORY

    @cached_property
    def c(self) -> float:
        return 1.0 if self.plan.published else secret_scale(self.seed.derive("c"))

    @cached_property
    def T_i(self) -> Orthogonal | None:
        """The rotation of this user's own columns; none in the paper's scheme."""
        if self.plan.published:
            return None
        width, seed = self.plan.widths[self.i], self.own.derive("T")
        return local_rotation(width, seed, self.on, self.each, self._stored, self.plan.block)

    @cached_property
    def written_out(self) -> Array | None:
        """``diag(c T_i Q_i, c I)`` as a matrix, where it pays; None where reflectors and mixing are the better way."""
        if self.T_i is None or not writes_out(self.plan, self.i):
            return None
        return apply.written_out(self.Q, self.i, self.c, self.T_i, self.plan.targets)

    def forget_right(self) -> None:
        """Drop T_i and Q, which are drawn again should they be needed; slices that were dealt stay."""
        for drawn in ("Q", "T_i", "written_out"):
            self.__dict__.pop(drawn, None)

    def under_right(self, rows: Array, *, alone: bool = False) -> Array:
        """``c [A T_i Q_i, y]`` of rows ``[A, y]`` that are under P already; ``alone`` in one of several threads."""
        if self.written_out is not None:
            masks = self.written_out[: rows.shape[1], : self._outputs(rows.shape[1])]
            return rows @ masks if alone else matmul(rows, masks)
        return apply.mask_right(rows, self.Q, self.i, self.c, self.T_i)

    def _outputs(self, given: int) -> int:
        """Columns of Y for ``[A, y]``: all of N, and a column for each label."""
        return self.plan.N + given - self.plan.widths[self.i]

    def column_panel(self, A_i: Operand, w: int) -> Array:
        """Column window w of Y_i, in the paper's scheme."""
        own = self.plan.right_windows[w].columns[self.i]
        return apply.mask_columns(A_i.columns(own.start, own.stop), self.P, self.Q, self.i, w)

    def row_panel(self, rows: Array, w: int) -> Array:
        """Row window w of ``[Y_i, c P y_i]``, from the same rows of ``[A_i, y_i]``, in the paper's scheme."""
        return apply.mask_rows(rows, self.P, self.Q, self.i, w)

    def own_part(self, W_masked: Array) -> Array:
        """``T_i Q_i W'``: rows of the users' columns, back from under the masks, (N, t) to (n_i, t)."""
        if self.written_out is not None:
            width = self.plan.widths[self.i]
            return matmul(self.written_out[:width, : self.plan.N], W_masked) / self.c
        return unmask_right(W_masked, self.Q, self.i, self.T_i)
