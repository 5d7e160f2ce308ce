"""One user's masks in one session, and the panels of Y_i they make (step 2 of the paper).

    Y_i = c P (A_i T_i) Q_i

P, Q and c follow from the mask seed, T_i from this user's own. In the ``paper`` scheme there is no T_i and no c, and
the slices Q_i come from the TA.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from fedsvd.linalg.backend import namespace
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
    _turned: list[Array] = field(init=False, default_factory=list, compare=False)

    def __repr__(self) -> str:
        return f"Masks(user={self.i + 1})"

    @cached_property
    def P(self) -> LeftMask:
        # By rows each window of P is met once, and there may be many; by columns all are met again to take P off.
        plan, seed = self.plan, self.seed.derive("P")
        cuts = plan.left_windows
        keep = not plan.by_rows
        left = LeftMask(plan.left, plan.masked_rows, seed, plan.block, plan.window, self.on, keep, cuts, self.each)
        return left if self.dealt_left is None else replace(left, dealt=self.dealt_left)

    @cached_property
    def Q(self) -> RightMask | DealtRightMask:
        if self.dealt is not None:
            return self.dealt
        keep = len(self.plan.right_windows) == 1 or self.plan.by_rows
        plan, seed = self.plan, self.seed.derive("Q")
        return RightMask(plan.right, plan.widths, seed, plan.block, plan.window, self.on, keep, self.each)

    @cached_property
    def c(self) -> float:
        return 1.0 if self.plan.published else secret_scale(self.seed.derive("c"))

    @cached_property
    def whole(self) -> Orthogonal | None:
        """T_i over all windows, for a user no wider than one; None where each window is rotated by itself.

        Window by window such a user has few columns in each, or one, which a rotation of its own only gives a sign.
        """
        width, windows = self.plan.widths[self.i], len(self.plan.right_windows)
        if self.plan.published or windows == 1 or width > self.plan.window:
            return None
        return local_rotation(width, self.own.derive("T"), self.on, self.each)

    def rotation(self, w: int) -> Orthogonal | None:
        """T_i inside column window w; None where there is nothing to rotate there."""
        own = self.plan.right_windows[w].columns[self.i]
        if self.plan.published or own.stop == own.start or self.whole is not None:
            return None
        return local_rotation(own.stop - own.start, self.own.derive("T", w), self.on, self.each)

    @cached_property
    def rotations(self) -> tuple[Orthogonal | None, ...]:
        """All of T_i, for tasks that come back to it."""
        return tuple(self.rotation(w) for w in range(len(self.plan.right_windows)))

    @cached_property
    def written_out(self) -> Array | None:
        """``c T_i Q_i`` as a matrix, (w_i, N), where it pays; None where reflectors and mixing are the better way."""
        T_i = self.rotation(0) if writes_out(self.plan, self.i) else None
        return None if T_i is None else self.c * self.Q.right(0, self.i, T_i.explicit())

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
        """Let go of T_i and Q, which will be drawn again should anybody ask; slices that were dealt stay."""
        for drawn in ("Q", "whole", "rotations", "written_out", "_written_out_with_labels"):
            self.__dict__.pop(drawn, None)
        self._turned.clear()

    def column_panel(self, A_i: Operand, w: int) -> Array:
        """Column window w of Y_i."""
        masked = self._from_left(self._columns(A_i, w))
        if self.written_out is not None:
            return masked @ self.written_out
        masked *= self.c  # made here, so changed in place
        return self._to_right(masked, w)

    def _columns(self, A_i: Operand, w: int) -> Array:
        """This user's columns in window w; those of a short user, rotated as a whole, are kept until the last."""
        own = self.plan.right_windows[w].columns[self.i]
        if self.whole is None:
            return A_i.columns(own.start, own.stop)
        if not self._turned:
            self._turned.append(self.whole.right(A_i.columns(0, self.plan.widths[self.i])))
        A_iw = self._turned[0][:, own]
        if w == len(self.plan.right_windows) - 1:
            self._turned.clear()
        return A_iw

    def _to_right(self, masked: Array, w: int) -> Array:
        """``masked T_iw Q_iw``; by rows every window comes back many times, by columns once."""
        T_iw = self.rotations[w] if self.plan.by_rows else self.rotation(w)
        rotated = masked if T_iw is None else T_iw.right(masked)
        return self.Q.right(w, self.i, rotated)

    def _from_left(self, A_iw: Array) -> Array:
        """``P A_iw``; the label rows of a horizontal regression below it pass as they are, blinded before."""
        rows = self.plan.masked_rows
        if A_iw.shape[0] == rows:
            return self.P.left(A_iw)
        return namespace(A_iw).concat((self.P.left(A_iw[:rows, :]), A_iw[rows:, :]), axis=0)

    def row_panel(self, A_i_rows: Array, y_i_rows: Array, w: int) -> Array:
        """Row window w of ``[Y_i, c P y_i]``, from the same rows of A_i and of the labels."""
        xp = namespace(A_i_rows)
        masked = self.P.window(w).left(xp.concat((A_i_rows, y_i_rows), axis=1))
        if self._written_out_with_labels is not None:
            return masked @ self._written_out_with_labels
        masked *= self.c  # made here, so changed in place
        width, windows = A_i_rows.shape[1], self.plan.right_windows
        rows, labels = masked[:, :width], masked[:, width:]
        rows = rows if self.whole is None else self.whole.right(rows)
        parts = [self._to_right(rows[:, window.columns[self.i]], v) for v, window in enumerate(windows)]
        return xp.concat((*parts, labels), axis=1)

    def own_part(self, W_masked: Array) -> Array:
        """``T_i Q_i W'``: rows of the users' columns, back from under the masks, (N, t) to (n_i, t)."""
        if self.written_out is not None:
            return (self.written_out @ W_masked) / self.c
        xp = namespace(W_masked)
        parts = []
        for v, window in enumerate(self.plan.right_windows):
            block = W_masked[window.outputs, :]
            own = xp.matrix_transpose(self.Q.right_t(v, self.i, xp.matrix_transpose(block)))
            T_iv = self.rotations[v]
            parts.append(own if T_iv is None else T_iv.left(own))
        joined = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
        return joined if self.whole is None else self.whole.left(joined)
