"""A sparse table by what is stored of it, in panels of records, as files keep them: sums over its rows, and products.

``sum_j (x_j - c)^2`` over a row is a sum over what is stored, and c^2 for each entry that is not: no term is negative,
so nothing cancels, and nothing is made dense. Panels stay in memory where all of them fit a part of the budget; else
each pass reads, or makes, them anew.
"""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from fedsvd.data.source import MatrixSource
from fedsvd.data.sparse import SparsePanels
from fedsvd.protocol.tasks import Split
from fedsvd.roles.user.work import Work
from fedsvd.types import Float

PLACES = 1 << 25
"""Of a panel, stored or not: some million numbers of a table that is sparse."""

TURNED = 1 << 28
"""Bytes of stored numbers up to which their transpose is kept, too."""

_MOST = 1 << 31  # numbers that four bytes count
_OF_MEMORY = 4  # the part of the budget that panels may take: the rest is for columns of W


class StoredPanels:
    """What is stored of a table, panel by panel; X_i is (rows, width), and records are its rows or its columns."""

    def __init__(self, source: MatrixSource, split: Split, memory: int) -> None:
        self.rows, self.width = source.shape
        self.by_rows = split is Split.VERTICAL
        self._source = cast(SparsePanels, source)
        self._kept: list[tuple[slice, Any]] | None = None
        self._budget = memory // _OF_MEMORY

    def __iter__(self) -> Iterator[tuple[slice, Any]]:
        """The place of each panel among the records, and its stored entries, of X_i's orientation."""
        if self._kept is not None:
            yield from self._kept
            return
        kept, taken = list[tuple[slice, Any]](), 0
        for place in self._places():
            read = self._source.sparse_rows if self.by_rows else self._source.sparse_columns
            panel = _short(read(place.start, place.stop))
            yield place, panel
            taken += panel.data.nbytes + panel.indices.nbytes + panel.indptr.nbytes
            if taken <= self._budget:
                kept.append((place, panel))
            else:
                kept.clear()
        self._kept = kept if taken <= self._budget else None

    @property
    def kept(self) -> list[tuple[slice, Any]]:
        """All panels, where both orders of them may be in memory, once they have been read; else none."""
        kept = self._kept or []
        return kept if sum(panel.data.nbytes for _, panel in kept) <= min(self._budget, TURNED) else []

    def all(self) -> Any:
        """Everything at once, for a device."""
        read = self._source.sparse_rows if self.by_rows else self._source.sparse_columns
        return read(0, self.rows if self.by_rows else self.width)

    def sums(self) -> Float:
        """Of every row."""
        found = np.zeros(self.rows)
        for place, panel in self:
            found[self._rows(place)] += self._added(panel, panel.data)
        return found

    def squares_about(self, centre: Float | float, factor: Float | float = 1.0) -> Float:
        """``sum_j ((x_j - c) f)^2`` of every row, with c and f of its own or common ones."""
        c, f = (np.broadcast_to(each, self.rows) for each in (centre, factor))
        found = np.zeros(self.rows)
        for place, panel in self:
            rows = self._rows(place)
            own_c, own_f, row = c[rows], f[rows], _row_of(panel)
            squares = np.square((panel.data - own_c[row]) * own_f[row])
            missing = panel.shape[1] - np.bincount(row, minlength=panel.shape[0])
            found[rows] += self._added(panel, squares) + missing * np.square(own_c * own_f)
        return found

    def _rows(self, place: slice) -> slice:
        return place if self.by_rows else slice(None)

    def _places(self) -> Iterator[slice]:
        records, length = (self.rows, self.width) if self.by_rows else (self.width, self.rows)
        step = max(1, PLACES // length)
        return (slice(start, min(start + step, records)) for start in range(0, records, step))

    def _added(self, panel: Any, values: Float) -> Float:
        found: Float = np.asarray(np.bincount(_row_of(panel), weights=values, minlength=panel.shape[0]), np.float64)
        return found


def _short(panel: Any) -> Any:
    """The same with indices of four bytes, where they are enough: a third less memory."""
    if panel.nnz < _MOST and max(panel.shape) < _MOST:
        panel.indices, panel.indptr = panel.indices.astype(np.int32), panel.indptr.astype(np.int32)
    return panel


def _row_of(panel: Any) -> Any:
    """The row of each stored entry."""
    return panel.indices if panel.format == "csc" else panel.tocoo().coords[0]


def stored_entries(work: Work) -> StoredPanels | None:
    """What is stored of a sparse table; None of any other."""
    if not isinstance(work.source, SparsePanels):
        return None
    return StoredPanels(work.source, work.plan.split, work.plan.memory)
