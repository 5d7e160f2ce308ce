"""A matrix kept in blocks, somewhere: what every store promises.

Section 3.4 of the paper, part 2 (X, P X Q, U, Vt when they are larger than the memory). A store is filled
block by block and read back block by block or panel by panel; a reader does not know whether the
numbers lie in memory or on a disk, and the store does not know what the matrix means.

Laws, held for every store by one conformance suite: what was never written reads as zero; the last write
wins; what is read cannot be written to, and is a view where the layout allows it, good until the next write
or ``close``; a closed store answers nothing. Threads may read, and write to separate places, at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from fedsvd.errors import ConfigError, StorageError
from fedsvd.storage.access import Access, Layout, spans, whole
from fedsvd.types import Float, expect_shape


class BlockStore(ABC):
    """An m x n matrix of float64, laid out for one kind of access."""

    def __init__(self, shape: tuple[int, int], access: Access) -> None:
        self.layout = Layout(shape, access)
        self._closed = False

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        return self.layout.shape

    def write(self, rows: slice, cols: slice, block: Float) -> None:
        """Store ``block`` at ``rows`` x ``cols``."""
        rows, cols = self._inside(rows, cols)
        expect_shape("block", block, rows.stop - rows.start, cols.stop - cols.start)
        self._write(rows, cols, block)

    def read(self, rows: slice, cols: slice) -> Float:
        """The block at ``rows`` x ``cols``, read-only."""
        block = self._read(*self._inside(rows, cols))
        block.flags.writeable = False
        return block

    def panels(self, axis: int, width: int) -> Iterator[tuple[slice, Float]]:
        """Where each panel lies along ``axis``, and the panel: whole rows (0) or whole columns (1) in order."""
        if axis not in (0, 1):
            raise ConfigError(f"a matrix has axes 0 and 1, got {axis}")
        everything = slice(None)
        return (
            (span, self.read(span, everything) if axis == 0 else self.read(everything, span))
            for span in spans(self.shape[axis], width)
        )

    def close(self) -> None:
        """Give the memory or the disk back; a second call changes nothing."""
        if not self._closed:
            self._closed = True
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        m, n = self.shape
        return f"{type(self).__name__}({m} x {n}, {self.layout.access.value})"

    def _inside(self, rows: slice, cols: slice) -> tuple[slice, slice]:
        if self._closed:
            raise StorageError(f"the store of shape {self.shape} is closed", "read before close()")
        m, n = self.shape
        return whole("rows", rows, m), whole("columns", cols, n)

    @abstractmethod
    def _write(self, rows: slice, cols: slice, block: Float) -> None:
        """``write`` after the checks: slices and shapes are right."""

    @abstractmethod
    def _read(self, rows: slice, cols: slice) -> Float:
        """``read`` after the checks: slices are right; the result is a fresh array object."""

    @abstractmethod
    def _release(self) -> None:
        """``close`` after the checks: called once."""
