"""A source that is hashed while it is read, so that a party can commit to its data without a pass of its own.

Hashed are shape and entries (float64, little-endian) in the order in which a pass reads them: column after column, or
row after row. The first whole pass along the plan's axis is what the party commits to; whatever no pass has read when
that digest is asked for, because a checkpoint or a cluster spared it, is read then. Every later pass along the same
axis is hashed, too, and must give the same digest (ADR 0043): a table that was written to in between is one that never
existed, whatever its files' times say. Sparse sources are hashed by their nonzero entries, generated ones by their
address.
"""

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import CHANGED_FIX, Index, MatrixSource, Reopen
from fedsvd.data.sparse import SparsePanels
from fedsvd.data.views import OfOther
from fedsvd.errors import SourceChanged
from fedsvd.types import Array, Digest, Float

if TYPE_CHECKING:
    from hashlib import _Hash

_PANEL_BYTES = 1 << 24
_SPARSE_COLUMNS = 4096

Known = Callable[[], bytes | None]  # the digest that a pass before this one gave, as long as nothing has changed since


def begun_digest(shape: tuple[int, int], axis: int) -> "_Hash":
    """The digest of a source of this shape before any line along the axis is hashed."""
    return hashlib.sha256(np.array((*shape, axis), "<u8").tobytes())


class _Pass:
    """A pass that began at the first line, and how far it has come."""

    def __init__(self, shape: tuple[int, int], axis: int) -> None:
        self.digest, self.done = begun_digest(shape, axis), 0

    def absorb(self, lines: Float) -> None:
        self.digest.update(np.ascontiguousarray(lines, "<f8").data)
        self.done += len(lines)


class HashedSource(OfOther):
    """A source with a digest of every pass over it; all passes along one axis give the same."""

    def __init__(self, base: MatrixSource, axis: int = 1, known: Known = lambda: None) -> None:
        super().__init__(base.shape, base.dtype, base.names)
        self._base = base
        self._axis = axis
        self._under_way: tuple[list[_Pass], list[_Pass]] = ([], [])  # by axis
        self._found: dict[int, bytes] = {}  # by axis, what the first pass gave
        self._compared = False  # whether a second pass along our axis gave the same
        if (before := known()) is not None:
            self._found[axis] = before

    @property
    def made_up(self) -> bool:
        return self._base.made_up

    def content_digest(self) -> bytes:
        """SHA-256 of all entries; reads what no pass has read yet."""
        if self._axis not in self._found:
            under_way = self._under_way[self._axis]
            self._read_on(max(under_way, key=lambda one: one.done, default=None))
        return self._found[self._axis]

    def expect_unchanged(self) -> None:
        """As of any source; and where stamps of young files prove nothing, one more pass, which must give the same."""
        self._base.expect_unchanged()
        if self._axis in self._found and not self._compared and self._base.has_files and not self._base.settled:
            self._read_on(None)
            self._base.expect_unchanged()

    def rows(self, start: int, stop: int) -> Float:
        return self._hash(0, start, self._base.rows(start, stop))

    def columns(self, start: int, stop: int) -> Float:
        return self._hash(1, start, self._base.columns(start, stop))

    def _read_on(self, one: _Pass | None) -> None:
        """Read to the end what a pass has left, or everything."""
        axis, end = self._axis, self.shape[self._axis]
        width = max(1, _PANEL_BYTES // (8 * self.shape[1 - axis]))
        start = 0 if one is None else one.done
        while start < end:
            stop = min(start + width, end)
            self._hash(axis, start, self._base.columns(start, stop) if axis else self._base.rows(start, stop))
            start = stop

    def _hash(self, axis: int, start: int, panel: Float) -> Float:
        lines, passes = panel.T if axis else panel, self._under_way[axis]
        if not len(lines):
            return panel
        if start == 0:
            # What a checkpoint does: it reads the first panel again in the middle of a pass, which goes on.
            furthest = max(passes, key=lambda one: one.done, default=None)
            passes[:] = [*([] if furthest is None else [furthest]), _Pass(self.shape, axis)]
        one = next((one for one in reversed(passes) if one.done == start), None)
        if one is None:
            return panel  # out of order: stamps alone speak for it
        one.absorb(lines)
        if one.done == self.shape[axis]:
            passes.clear()
            self._end(axis, one.digest.digest())
        return panel

    def _end(self, axis: int, digest: bytes) -> None:
        before = self._found.setdefault(axis, digest)
        if before is digest:
            return
        if before != digest:
            self._base.expect_unchanged()  # it names the file, where stamps know
            raise SourceChanged("the data changed between two passes over it", CHANGED_FIX)
        self._compared = self._compared or axis == self._axis

    def columns_on(self, xp: Any, device: Any, start: int, stop: int) -> Array | None:
        return self._base.columns_on(xp, device, start, stop)

    def rows_on(self, xp: Any, device: Any, start: int, stop: int) -> Array | None:
        return self._base.rows_on(xp, device, start, stop)

    def fingerprint(self) -> Digest:
        return self._base.fingerprint()

    def inspect(self) -> None:
        self._base.inspect()

    def elsewhere(self) -> Reopen | None:
        return self._base.elsewhere()

    def lazy(self) -> Any:
        return self._base.lazy()

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        return self._base._cells(rows, columns)

    def _place(self, row: int, column: int) -> str:
        return self._base._place(row, column)


class _Sparse(HashedSource):
    """A sparse source, which is asked for its sparse panels, too; hashed by its nonzero entries when it is asked."""

    def sparse_rows(self, start: int, stop: int) -> Any:
        """Rows ``start .. stop-1`` as a float64 ``csr_array``."""
        return self._panels.sparse_rows(start, stop)

    def sparse_columns(self, start: int, stop: int) -> Any:
        """Columns ``start .. stop-1`` as a float64 ``csc_array``."""
        return self._panels.sparse_columns(start, stop)

    @property
    def _panels(self) -> SparsePanels:
        assert isinstance(self._base, SparsePanels)
        return self._base

    def _hash(self, axis: int, start: int, panel: Float) -> Float:
        return panel

    def expect_unchanged(self) -> None:
        self._base.expect_unchanged()
        if self._found and self._base.has_files and not self._base.settled:
            self._end(self._axis, self._entries_digest())

    def content_digest(self) -> bytes:
        if self._axis not in self._found:
            self._end(self._axis, self._entries_digest())
        return self._found[self._axis]

    def _entries_digest(self) -> bytes:
        digest = hashlib.sha256(np.array(self.shape, "<u8").tobytes())
        for start in range(0, self.shape[1], _SPARSE_COLUMNS):
            panel = self.sparse_columns(start, min(start + _SPARSE_COLUMNS, self.shape[1])).sorted_indices()
            for part, kind in ((panel.indptr, "<i8"), (panel.indices, "<i8"), (panel.data, "<f8")):
                digest.update(np.ascontiguousarray(part, kind).data)
        return digest.digest()


def hashed(source: MatrixSource, axis: int, known: Known = lambda: None) -> MatrixSource:
    """The source as it is read together with its digest; generated and sparse ones have theirs without being read.

    Where a digest is ``known``, the first pass must give it, too.
    """
    if source.made_up:
        return source
    return _Sparse(source, axis) if isinstance(source, SparsePanels) else HashedSource(source, axis, known)
