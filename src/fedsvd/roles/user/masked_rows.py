"""Rows of ``c [P A_i T_i Q_i, P y_i]`` on their way up, and U on its way back from under P (specification, 6.2).

P stands over the whole side, so that no row of P A_i is there before all of A_i has been read. Where this user's own
columns fit the memory budget that is one product. Where they do not, they pass in lines of a private file, a column a
line: what stands before P's blocks by columns, the blocks by rows, the last of them as rows are sent.
"""

import numpy as np

from fedsvd.errors import LocalProtocolError
from fedsvd.linalg.backend import namespace, to_numpy
from fedsvd.masks.in_passes import WORKING, Passes
from fedsvd.protocol.tasks import Split
from fedsvd.roles.user.masking import Operand
from fedsvd.roles.user.work import Work
from fedsvd.types import Array, Float

_COPIES = 3  # of A_i alive at once in memory: as read, as a DCT makes it, as permuted


class MaskedRows:
    """A_i, and labels beside it, by panels of rows of the plan, under all masks."""

    def __init__(self, work: Work, A_i: Operand, labels: Float | None = None) -> None:
        self._work, self._A_i, self._labels = work, A_i, labels
        self._width = work.plan.widths[work.i] + (0 if labels is None else labels.shape[1])
        self._passes = passes_of(work)
        self._whole: Array | None = None  # P [A_i, y_i] in memory
        self._lines: Float | None = None  # the same but for its last round, columns as lines
        self._over = False

    def panel(self, w: int) -> Array:
        """The rows of panel w."""
        if self._over:
            raise LocalProtocolError("a panel of Y_i was asked for after the last one")
        work, rows = self._work, self._work.plan.row_panels[w]
        if self._whole is None and self._lines is None:
            self._under_left()
        if self._whole is not None:
            masked = self._whole[rows, :]
        else:
            assert self._lines is not None
            masked = self._passes.last(rows, work.put(np.array(self._lines[:, rows]).T))
        if w == len(work.plan.row_panels) - 1:
            self._whole, self._lines, self._over = None, None, True
        return work.masks.under_right(masked)

    def _under_left(self) -> None:
        work, M = self._work, self._work.plan.M
        if _COPIES * 8 * M * self._width <= work.plan.memory:
            A = self._A_i.rows(0, M)
            if self._labels is not None:
                A = namespace(A).concat((A, work.put(self._labels)), axis=1)
            self._whole = work.masks.P.left(A)
            return
        self._lines = work.allocate((self._width, M))
        self._fill(self._lines)
        self._passes.forward(self._lines)

    def _fill(self, lines: Float) -> None:
        """A_i into lines, along the side by which tables are stored: records."""
        plan = self._work.plan
        width = plan.widths[self._work.i]
        if plan.split is Split.VERTICAL:
            for start, stop in _cuts(plan.M, width, plan.memory):
                lines[:width, start:stop] = to_numpy(self._A_i.rows(start, stop)).T
        else:
            for start, stop in _cuts(width, plan.M, plan.memory):
                lines[start:stop] = to_numpy(self._A_i.columns(start, stop)).T
        if self._labels is not None:
            lines[width:] = self._labels.T


def passes_of(work: Work) -> Passes:
    """P in passes over lines, within half of the budget."""
    on = None if work.device is None else work.device.like
    return Passes(work.masks.P.window(0), work.plan.memory // 2, on)


def _cuts(length: int, across: int, memory: int) -> list[tuple[int, int]]:
    step = max(1, memory // (2 * WORKING * 8 * across))
    return [(start, min(start + step, length)) for start in range(0, length, step)]
