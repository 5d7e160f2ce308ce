"""A source that is hashed while it is read, so that a party can commit to its data without a pass of its own.

Hashed are shape and entries (float64, little-endian) in the order in which the first pass reads them: column after
column, or row after row where the plan reads rows. A panel that comes again is not hashed again; whatever no pass has
read when the digest is asked for, because a checkpoint or a cluster spared it, is read then. Sparse sources are hashed
by their nonzero entries, generated ones by their address.
"""

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource, Reopen
from fedsvd.data.sparse import SparsePanels
from fedsvd.types import Array, Digest, Float

if TYPE_CHECKING:
    from hashlib import _Hash

_PANEL_BYTES = 1 << 24
_SPARSE_COLUMNS = 4096

Known = Callable[[], bytes | None]  # the digest that a pass before this one gave, as long as nothing has changed since


def begun_digest(shape: tuple[int, int], axis: int) -> "_Hash":
    """The digest of a source of this shape before any line along the axis is hashed."""
    return hashlib.sha256(np.array((*shape, axis), "<u8").tobytes())


class HashedSource(MatrixSource):
    """A source with a running digest of what was read of it, along one axis."""

    def __init__(self, base: MatrixSource, axis: int = 1, known: Known = lambda: None) -> None:
        super().__init__(base.shape, base.dtype, base.names)
        self._base = base
        self._axis = axis
        self._next = 0
        self._digest = begun_digest(base.shape, axis)
        self._known: Known | None = known if known() else None

    @property
    def made_up(self) -> bool:
        return self._base.made_up

    def content_digest(self) -> bytes:
        """SHA-256 of all entries; reads what no pass has read yet, all of it where a known one no longer holds."""
        if self._known is not None:
            if digest := self._known():
                return digest
            self._known = None
        base, axis, end = self._base, self._axis, self.shape[self._axis]
        width = max(1, _PANEL_BYTES // (8 * self.shape[1 - axis]))
        while self._next < end:
            start, stop = self._next, min(self._next + width, end)
            self._hash(axis, start, base.columns(start, stop) if axis else base.rows(start, stop))
        return self._digest.digest()

    def rows(self, start: int, stop: int) -> Float:
        return self._hash(0, start, self._base.rows(start, stop))

    def columns(self, start: int, stop: int) -> Float:
        return self._hash(1, start, self._base.columns(start, stop))

    def _hash(self, axis: int, start: int, panel: Float) -> Float:
        if self._known is not None:
            return panel
        lines = panel.T if axis else panel
        if axis == self._axis and start <= self._next < start + len(lines):
            new = lines[self._next - start :]
            self._digest.update(np.ascontiguousarray(new, "<f8").data)
            self._next = start + len(lines)
        return panel

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

    def content_digest(self) -> bytes:
        digest = hashlib.sha256(np.array(self.shape, "<u8").tobytes())
        for start in range(0, self.shape[1], _SPARSE_COLUMNS):
            panel = self.sparse_columns(start, min(start + _SPARSE_COLUMNS, self.shape[1])).sorted_indices()
            for part, kind in ((panel.indptr, "<i8"), (panel.indices, "<i8"), (panel.data, "<f8")):
                digest.update(np.ascontiguousarray(part, kind).data)
        return digest.digest()


def hashed(source: MatrixSource, axis: int, known: Known = lambda: None) -> MatrixSource:
    """The source as it is read together with its digest; generated and sparse ones have theirs without being read.

    Where a digest is ``known``, nothing is hashed, and it is asked for again at the end.
    """
    if source.made_up:
        return source
    return _Sparse(source, axis) if isinstance(source, SparsePanels) else HashedSource(source, axis, known)
