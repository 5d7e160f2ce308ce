"""Rows of ``P A`` on their way up (specification, section 4).

P stands over the whole side, so that no row of P A is there before all of A has been read. It passes in lines, a column
a line: what stands before P's blocks by columns, the blocks by rows, the last of them as rows are sent. Lines lie in
memory where A fits the memory budget, else in a private file; on a device where a third of it holds them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsvd.errors import LocalProtocolError
from fedsvd.kernels.lines import transpose
from fedsvd.linalg.backend import namespace, to_numpy
from fedsvd.linalg.device_panels import DevicePanels
from fedsvd.masks.in_passes import WORKING, Passes
from fedsvd.protocol.tasks import Split
from fedsvd.roles.user.masking import Operand
from fedsvd.roles.user.work import Work
from fedsvd.types import Array, Float

_OF_DEVICE = 3  # P A may take this part of a device, a third: roles of one machine share it, and X' grows there
_PASSING = 16  # what passes at once, with all that is made of it, may take this part
LINES = 2
"""Copies of A alive at once in memory: its lines, and the panel of rows that is on its way."""
_SLAB = 1 << 20  # numbers that are read and transposed at once, while they are in a cache


class RowsUnderP:
    """``P A`` by the plan's panels of rows, in order; A has ``width`` columns and is dropped with the last panel."""

    def __init__(self, work: Work, A: Operand, width: int) -> None:
        self._work, self._A, self._width = work, A, width
        self._fits = LINES * 8 * work.plan.M * width <= work.plan.memory
        self._there = work.device is not None and _OF_DEVICE * 8 * work.plan.M * width <= work.device.memory
        self._passes = passes_of(work, mapped=not self._fits, there=self._there)
        self._lines: Any = None  # P A but for the blocks of its last round, columns as lines
        self._over = False

    def panel(self, w: int) -> Array:
        """The rows of panel w."""
        self._begin()
        rows = self._work.plan.row_panels[w]
        masked = self._passes.finished(rows, self._lines[:, rows])
        if isinstance(self._lines, DevicePanels):
            self._lines.drop(rows)
        self.passed(w)
        return masked

    def slabs(self, w: int, most: int) -> list[slice] | None:
        """Rows of panel w, counted from its first, about ``most`` at a time, for ``slab``; None where all come at once.

        They come at once where they lie on a device, or on a disk.
        """
        if self._work.device is not None or not self._fits:
            return None
        self._begin()
        rows = self._work.plan.row_panels[w]
        return [slice(part.start - rows.start, part.stop - rows.start) for part in self._passes.groups(rows, most)]

    def slab(self, w: int, rows: slice) -> Float:
        """These rows of panel w, once; several threads may ask for different ones."""
        assert self._lines is not None
        first = self._work.plan.row_panels[w].start
        place = slice(first + rows.start, first + rows.stop)
        masked: Float = self._passes.finished(place, self._lines[:, place], alone=True)
        return masked

    def passed(self, w: int) -> None:
        """Panel w has gone: with the last one all is dropped."""
        if w == len(self._work.plan.row_panels) - 1:
            self._lines, self._over = None, True
            del self._A

    def _begin(self) -> None:
        if self._over:
            raise LocalProtocolError("a panel was asked for after the last one")
        if self._lines is None:
            self._under_left()

    def _under_left(self) -> None:
        work, M = self._work, self._work.plan.M
        if self._there:
            assert work.device is not None
            self._lines = DevicePanels((self._width, M), 1, work.device.like, work.plan.row_panels)
            self._fill_there(self._lines, work.device.memory // _PASSING)
        else:
            self._lines = np.empty((self._width, M)) if self._fits else work.allocate((self._width, M))
            self._fill(self._lines)
        self._passes.forward(self._lines)

    def _fill_there(self, lines: DevicePanels, memory: int) -> None:
        """A into lines on the device, along the side by which tables are stored."""
        M, A = self._work.plan.M, self._A
        if self._work.plan.split is Split.VERTICAL:
            for start, stop in _cuts(M, self._width, memory, None):
                lines[:, start:stop] = namespace(rows := A.rows(start, stop)).matrix_transpose(rows)
        else:
            for start, stop in _cuts(self._width, M, memory, None):
                lines[start:stop] = namespace(columns := A.columns(start, stop)).matrix_transpose(columns)

    def _fill(self, lines: Float) -> None:
        """A into lines, along the side by which tables are stored: records."""
        plan, most = self._work.plan, _SLAB if self._fits else None
        if self._fits and self._work.near:
            self._fill_by_threads(lines)
        elif plan.split is Split.VERTICAL:
            for start, stop in _cuts(plan.M, self._width, plan.memory, most):
                rows = to_numpy(self._A.rows(start, stop))
                if self._fits:
                    transpose(rows, lines[:, start:stop])
                else:
                    lines[:, start:stop] = rows.T  # a part of an array on disk is a copy: it is set, not written into
        else:
            for start, stop in _cuts(self._width, plan.M, plan.memory, most):
                lines[start:stop] = to_numpy(self._A.columns(start, stop)).T

    def _fill_by_threads(self, lines: Float) -> None:
        """The same in slabs that stay in a cache, where A is read from memory."""
        A, M = self._A, self._work.plan.M

        def rows(place: slice) -> None:
            transpose(to_numpy(A.rows(place.start, place.stop)), lines[:, place])

        def columns(place: slice) -> None:
            lines[place] = to_numpy(A.columns(place.start, place.stop)).T

        if self._work.plan.split is Split.VERTICAL:
            self._work.over_rows("", M, self._width, rows)
        else:
            self._work.over_rows("", self._width, M, columns)


@dataclass(frozen=True, repr=False)
class Stacked:
    """``[A_i, y_i]``: labels, in memory, to the right of the columns of an operand."""

    work: Work
    A_i: Operand
    y_i: Float

    def rows(self, start: int, stop: int) -> Array:
        A_rows = self.A_i.rows(start, stop)
        return namespace(A_rows).concat((A_rows, self.work.put(self.y_i[start:stop])), axis=1)

    def columns(self, start: int, stop: int) -> Array:
        return self.rows(0, self.work.plan.M)[:, start:stop]


def passes_of(work: Work, *, mapped: bool = True, there: bool = False) -> Passes:
    """P in passes over lines, within half of the budget; over lines that lie ``there``, on a device, within its own."""
    on = None if work.device is None else work.device.like
    memory = work.device.memory // _PASSING if there and work.device is not None else work.plan.memory // 2
    return Passes(work.masks.P.matrix, memory, on, mapped)


def _cuts(length: int, across: int, memory: int, most: int | None) -> list[tuple[int, int]]:
    step = max(1, memory // (2 * WORKING * 8 * across))
    step = step if most is None else max(1, min(step, most // across))
    return [(start, min(start + step, length)) for start in range(0, length, step)]
