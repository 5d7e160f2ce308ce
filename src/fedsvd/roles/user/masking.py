"""One user's masks in one session (step 2 of the paper).

    Y_i = c P (A_i T_i) Q_i

P, Q and c follow from the mask seed, T_i from this user's own; P, Q and T_i stand over whole sides. In the ``paper``
scheme there is no T_i and no c, P and Q are blocks, and the slices Q_i come from the TA.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol

from fedsvd.linalg.backend import matmul, namespace
from fedsvd.linalg.block_diagonal import Orthogonal
from fedsvd.masks.left import LeftMask
from fedsvd.masks.orthogonal import local_rotation, secret_scale
from fedsvd.masks.right import DealtRightMask, RightMask
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.upload import writes_out
from fedsvd.randomness.keystream import Each
from fedsvd.randomness.seed import Seed
from fedsvd.types import Array


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
        # By rows each of the paper's blocks is met once, and there may be many; else all are met again to take P off.
        plan, seed = self.plan, self.seed.derive("P")
        keep = not (plan.published and plan.by_rows)
        left = LeftMask(plan.left, plan.masked_rows, seed, plan.block, self.on, keep, self.each, stored=self._stored)
        if self.dealt_left is not None:
            return replace(left, dealt=self.dealt_left)
        if self.memo is None:
            return left
        shared: LeftMask = self.memo.setdefault(sha256(b"P" + seed.reveal()).digest(), left)
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
        return self.plan.memory // 4

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
        """``c T_i Q_i`` as a matrix, (w_i, N), where it pays; None where reflectors and mixing are the better way."""
        if self.T_i is None or not writes_out(self.plan, self.i):
            return None
        return self.c * self.Q.right(0, self.i, self.T_i.explicit())

    @cached_property
    def _written_out_with_labels(self) -> Array | None:
        """``diag(c T_i Q_i, c I)``, so that rows and labels pass in one product and are not put together after it."""
        if self.written_out is None:
            return None
        (width, N), xp, on = self.written_out.shape, namespace(self.written_out), self.written_out.device
        both = xp.zeros((width + self.plan.targets, N + self.plan.targets), dtype=xp.float64, device=on)
        both[:width, :N] = self.written_out
        both[width:, N:] = self.c * xp.eye(self.plan.targets, dtype=xp.float64, device=on)
        return both

    def forget_right(self) -> None:
        """Drop T_i and Q, which are drawn again should they be needed; slices that were dealt stay."""
        for drawn in ("Q", "T_i", "written_out", "_written_out_with_labels"):
            self.__dict__.pop(drawn, None)

    def under_right(self, rows: Array) -> Array:
        """``c [A T_i Q_i, y]`` of rows ``[A, y]`` that P has met already."""
        if self._written_out_with_labels is not None:
            return matmul(rows, self._written_out_with_labels)
        xp, width = namespace(rows), self.plan.widths[self.i]
        A = rows[:, :width]
        A = A if self.T_i is None else self.T_i.right(A)
        windows = self.plan.right_windows
        parts = [self.Q.right(v, self.i, A[:, window.columns[self.i]]) for v, window in enumerate(windows)]
        if rows.shape[1] > width:
            parts.append(rows[:, width:])
        joined = parts[0] if len(parts) == 1 else xp.concat(parts, axis=1)
        if self.c != 1.0:
            joined *= self.c  # made here, so changed in place
        return joined

    def column_panel(self, A_i: Operand, w: int) -> Array:
        """Column window w of Y_i, in the paper's scheme."""
        own = self.plan.right_windows[w].columns[self.i]
        return self.Q.right(w, self.i, self._from_left(A_i.columns(own.start, own.stop)))

    def _from_left(self, A_iw: Array) -> Array:
        """``P A_iw``; the label rows of a horizontal regression below it pass as they are, blinded before."""
        rows = self.plan.masked_rows
        if A_iw.shape[0] == rows:
            return self.P.left(A_iw)
        return namespace(A_iw).concat((self.P.left(A_iw[:rows, :]), A_iw[rows:, :]), axis=0)

    def row_panel(self, rows: Array, w: int) -> Array:
        """Row window w of ``[Y_i, c P y_i]``, from the same rows of ``[A_i, y_i]``, in the paper's scheme."""
        return self.under_right(self.P.window(w).left(rows))

    def own_part(self, W_masked: Array) -> Array:
        """``T_i Q_i W'``: rows of the users' columns, back from under the masks, (N, t) to (n_i, t)."""
        if self.written_out is not None:
            return matmul(self.written_out, W_masked) / self.c
        xp = namespace(W_masked)
        parts = []
        for v, window in enumerate(self.plan.right_windows):
            block = W_masked[window.outputs, :]
            parts.append(xp.matrix_transpose(self.Q.right_t(v, self.i, xp.matrix_transpose(block))))
        joined = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
        return joined if self.T_i is None else self.T_i.left(joined)
