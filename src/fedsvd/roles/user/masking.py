"""One user's masks in one session, as the plan wants them drawn; ``masks.apply`` applies them.

    Y_i = c P (A_i T_i) Q_i

P, Q and c follow from the mask seed, T_i from this user's own; P, Q and T_i stand over whole sides.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol

from fedsvd.linalg.backend import matmul, namespace
from fedsvd.linalg.block_diagonal import Orthogonal
from fedsvd.masks import apply
from fedsvd.masks.apply import unmask_right
from fedsvd.masks.left import LeftMask
from fedsvd.masks.orthogonal import local_rotation, secret_scale
from fedsvd.masks.right import RightMask
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.upload import writes_out
from fedsvd.randomness.keystream import Each
from fedsvd.randomness.seed import Seed
from fedsvd.types import Array, Float

Allocate = Callable[[tuple[int, int]], Float]


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
    on: Array | None = None  # an array where the masks are to be; None for NumPy
    each: Each | None = None  # ``map`` over several threads, for the words behind the masks
    memo: dict[Hashable, Any] | None = None  # what users of one process drew from equal seeds

    def __repr__(self) -> str:
        return f"Masks(user={self.i + 1})"

    @cached_property
    def P(self) -> LeftMask:
        plan, seed = self.plan, self.seed.derive("P")
        left = LeftMask(plan.left, plan.masked_rows, seed, plan.block, self.on, each=self.each, stored=self._stored)
        if self.memo is None:
            return left
        place = "numpy" if self.on is None else f"{namespace(self.on).__name__} {self.on.device}"
        shared: LeftMask = self.memo.setdefault(sha256(f"P {place} ".encode() + seed.reveal()).digest(), left)
        return shared

    @cached_property
    def Q(self) -> RightMask:
        plan, seed = self.plan, self.seed.derive("Q")
        return RightMask(plan.right, plan.widths, seed, plan.block, self.on, True, self.each, self._stored)

    @property
    def _stored(self) -> int:
        """Bytes that the drawn blocks of one mixing mask may take."""
        return self.plan.memory // OF_MEMORY

    @cached_property
    def c(self) -> float:
        return secret_scale(self.seed.derive("c"))

    @cached_property
    def T_i(self) -> Orthogonal:
        """The rotation of this user's own columns."""
        width, seed = self.plan.widths[self.i], self.own.derive("T")
        return local_rotation(width, seed, self.on, self.each, self._stored, self.plan.block)

    @cached_property
    def written_out(self) -> Array | None:
        """``diag(c T_i Q_i, c I)`` as a matrix, where it pays; None where reflectors and mixing are the better way."""
        if not writes_out(self.plan, self.i):
            return None
        return apply.written_out(self.Q, self.i, self.c, self.T_i, self.plan.targets)

    def forget_right(self) -> None:
        """Drop T_i and Q, which are drawn again should they be needed."""
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

    def own_part(self, W_masked: Array) -> Array:
        """``T_i Q_i W'``: rows of the users' columns, back from under the masks, (N, t) to (n_i, t)."""
        if self.written_out is not None:
            width = self.plan.widths[self.i]
            return matmul(self.written_out[:width, : self.plan.N], W_masked) / self.c
        return unmask_right(W_masked, self.Q, self.i, self.T_i)
