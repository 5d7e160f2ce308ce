"""A matrix stored in blocks, in memory, on disk or on a device: what every store promises, the stores, the choice.

Section 3.4 of the paper, part 2 (X, P X Q, U, Vt when they are larger than the memory). A store is filled
block by block and read back block by block or panel by panel; a reader does not know whether the
numbers lie in memory or on a disk, and the store does not know what the matrix means.

Laws, held for every store by one conformance suite: what was never written reads as zero; the last write
wins; what is read cannot be written to, and is a view where the layout allows it, good until the next write
or ``close``; a closed store answers nothing. Threads may read, and write to separate places, at once.

``MemoryStore`` is for matrices within the memory budget. ``MappedStore`` is on disk: the matrix lies in a private file
in the order it will be read, and a map of the file brings in what is touched. Touched pages count as our memory until
the system wants them back, so the store hands them back itself, every ``resident`` bytes: the numbers stay in the file.
``DeviceStore`` is for a matrix that fits on a device, independent of the budget of the host. It holds the cells it was
given, one array or panels of rows, and hands out views of them where it can. The library behind them has no read-only
views, so that a reader must not write; the CSP, the only reader, does not.

``choose_store`` has one rule: what fits its memory budget stays in memory, the rest goes to the scratch folder. The
budget is the caller's: this file neither asks the machine how much memory it has nor adds up several stores.

A ``Layout`` says how a stored matrix will be read back, and hence where its entries are. A file map is read fast only
along the way it was written, so a matrix is laid out for the reading that is declared for it: rows one after the other
(C order) for row panels, columns one after the other (Fortran order) for column panels. A declaration is not enforced:
to imitate the order an operating system would use, declare ``BY_ROWS`` and read by columns.
"""

import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ConfigError, StorageError
from fedsvd.storage.scratch import PrivateFile
from fedsvd.types import Array, Float, byte_size, expect_shape


class Access(Enum):
    """The reading a matrix is stored for."""

    BY_ROWS = "by_rows"
    BY_COLUMNS = "by_columns"


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of an m x n matrix of float64, stored for one kind of access.

    ``cells`` below is what ``arrange`` makes of ``size`` numbers, (m, n). Slices have both ends, lie inside the
    matrix and have step one.
    """

    shape: tuple[int, int]
    access: Access

    def __post_init__(self) -> None:
        if len(self.shape) != 2 or min(self.shape) < 1:
            raise ConfigError(f"a stored matrix has two sides of at least 1, got shape {self.shape}")

    @property
    def size(self) -> int:
        """Numbers to store."""
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes to store."""
        return 8 * self.size

    def arrange(self, flat: Float) -> Float:
        """``flat`` (``size`` numbers in storage order) seen as ``cells``; no copy."""
        m, n = self.shape
        return flat.reshape(n, m).T if self.access is Access.BY_COLUMNS else flat.reshape(m, n)

    def write(self, cells: Float, rows: slice, cols: slice, block: Float) -> None:
        """Put ``block`` at ``rows`` x ``cols``."""
        cells[rows, cols] = block

    def read(self, cells: Float, rows: slice, cols: slice) -> Float:
        """What lies at ``rows`` x ``cols``: a view."""
        return cells[rows, cols]


def full_slice(name: str, span: slice, length: int) -> slice:
    """``span`` with both ends written out; ``ConfigError`` unless it lies inside ``0 .. length``.

    Python's own slices are cut short without a word, which would turn a wrong index into a missing row.
    """
    start = 0 if span.start is None else span.start
    stop = length if span.stop is None else span.stop
    if span.step not in (None, 1) or not 0 <= start <= stop <= length:
        raise ConfigError(f"{name} {start}:{stop} (step {span.step}) does not lie in 0:{length}")
    return slice(start, stop)


def spans(length: int, width: int) -> Iterator[slice]:
    """``0 .. length`` cut into pieces ``width`` wide; the last may be narrower."""
    if width < 1:
        raise ConfigError(f"a panel is at least 1 wide, got {width}")
    return (slice(start, min(start + width, length)) for start in range(0, length, width))


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

    def __exit__(self, *trouble: object) -> None:
        self.close()

    def __repr__(self) -> str:
        m, n = self.shape
        return f"{type(self).__name__}({m} x {n}, {self.layout.access.value})"

    def _inside(self, rows: slice, cols: slice) -> tuple[slice, slice]:
        if self._closed:
            raise StorageError(f"the store of shape {self.shape} is closed", "read before close()")
        m, n = self.shape
        return full_slice("rows", rows, m), full_slice("columns", cols, n)

    @abstractmethod
    def _write(self, rows: slice, cols: slice, block: Float) -> None:
        """``write`` after the checks: slices and shapes are right."""

    @abstractmethod
    def _read(self, rows: slice, cols: slice) -> Float:
        """``read`` after the checks: slices are right; the result is a fresh array object."""

    @abstractmethod
    def _release(self) -> None:
        """``close`` after the checks: called once."""


class MemoryStore(BlockStore):
    """An m x n matrix in memory; pages that were never written cost nothing."""

    def __init__(self, shape: tuple[int, int], access: Access) -> None:
        super().__init__(shape, access)
        self._cells: Float = self.layout.arrange(np.zeros(self.layout.size))

    def _write(self, rows: slice, cols: slice, block: Float) -> None:
        self.layout.write(self._cells, rows, cols, block)

    def _read(self, rows: slice, cols: slice) -> Float:
        return self.layout.read(self._cells, rows, cols)

    def _release(self) -> None:
        del self._cells


RESIDENT = 1 << 26


class MappedStore(BlockStore):
    """An m x n matrix in a private file under ``directory``, about ``resident`` bytes of it in memory.

    Read across its layout it takes more: the system brings in many pages for every few numbers.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        access: Access,
        directory: str | os.PathLike[str],
        resident: int = RESIDENT,
    ) -> None:
        super().__init__(shape, access)
        self._resident = resident
        self._touched = 0
        self._file = PrivateFile(Path(directory))
        try:
            self._file.reserve(self.layout.nbytes)
            self._map = mmap.mmap(self._file.file.fileno(), self.layout.nbytes)
        except BaseException:
            self._file.close()
            raise
        self._cells: Float = self.layout.arrange(np.frombuffer(self._map, np.float64))

    def _write(self, rows: slice, cols: slice, block: Float) -> None:
        self._release_pages(block.nbytes)
        self.layout.write(self._cells, rows, cols, block)

    def _read(self, rows: slice, cols: slice) -> Float:
        self._release_pages(8 * (rows.stop - rows.start) * (cols.stop - cols.start))
        return self.layout.read(self._cells, rows, cols)

    def _release(self) -> None:
        # The map is not closed by hand: a view a caller still holds keeps it, and would else read nowhere.
        del self._cells, self._map
        self._file.close()

    def _release_pages(self, size: int) -> None:
        self._touched += size
        if self._touched > self._resident:
            self._touched = size
            if hasattr(mmap, "MADV_DONTNEED"):
                # On a shared map this only unmaps pages: changed ones stay with the file and are written out.
                self._map.madvise(mmap.MADV_DONTNEED)


class DeviceStore(BlockStore):
    """An m x n matrix in ``cells`` of that shape, zeros at first; ``put`` brings a NumPy array to them.

    Cells are an array, or are indexed like one and have ``panels()`` of rows.
    """

    def __init__(
        self, shape: tuple[int, int], access: Access, cells: Array, put: Callable[[NDArray[Any]], Array]
    ) -> None:
        super().__init__(shape, access)
        expect_shape("cells", cells, *shape)
        self._cells, self._put = cells, put

    def read(self, rows: slice, cols: slice) -> Array:
        """The block at ``rows`` x ``cols``: a view on the device."""
        return self._read(*self._inside(rows, cols))

    def pieces(self) -> Iterator[tuple[slice, Array]]:
        """Panels of whole rows in storage order; nothing is copied."""
        self._inside(everything := slice(None), everything)
        panels = getattr(self._cells, "panels", None)
        return iter([(slice(0, self.shape[0]), self._cells)]) if panels is None else panels()

    def there(self, block: Array) -> Array:
        """A block on the device of the store, wherever it comes from."""
        return self._put(block) if isinstance(block, np.ndarray) else block

    def _write(self, rows: slice, cols: slice, block: Array) -> None:
        self._cells[rows, cols] = block

    def _read(self, rows: slice, cols: slice) -> Float:
        view: Float = self._cells[rows, cols]
        return view

    def _release(self) -> None:
        del self._cells


def choose_store(
    shape: tuple[int, int], access: Access, budget: int, directory: str | os.PathLike[str] | None = None
) -> BlockStore:
    """A store for a matrix of this shape that takes about ``budget`` bytes of memory at most."""
    if _fits(Layout(shape, access).nbytes, budget):
        return MemoryStore(shape, access)
    folder = _scratch(f"a {shape[0]} x {shape[1]} matrix", budget, directory)
    # A quarter of it: what a pass has left behind in memory is of no use to the next, which starts at the other end.
    return MappedStore(shape, access, folder, budget // 4)


def _fits(nbytes: int, budget: int) -> bool:
    if budget < 0:
        raise ConfigError(f"a memory budget is at least 0 bytes, got {budget}")
    return nbytes <= budget


def _scratch(what: str, budget: int, directory: str | os.PathLike[str] | None) -> str | os.PathLike[str]:
    if directory is None:
        raise StorageError(
            f"{what} does not fit the memory budget of {byte_size(budget)}",
            "name a scratch folder or raise the budget",
        )
    return directory
