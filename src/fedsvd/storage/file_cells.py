"""A rectangle of numbers in a file, read by system calls into memory of our own.

Law of this file: a file that others may change is never mapped. A page of a map that another process cut off ends this
process with a bus error, without a line in its log; and pages that were touched count as memory of this process, beyond
any budget. A system call returns what it could read, and what is missing is an error (ADR 0043).

Numbers are stored line by line: rows in C order, columns in Fortran order. Whole lines are read in storage order; parts
of lines one by one where what lies between them is long, else together with it, a megabyte at a time. A *private* file
(``spooled``), which no other process can open, serves lines in arbitrary order; a small one from memory, because a
system call for each line takes about as long as a kilobyte of hashing.
"""

import copy
import math
import os
import tempfile
import threading
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import StorageError
from fedsvd.storage.faults import what_helps
from fedsvd.types import Float

Index = slice | NDArray[np.intp]

_TOGETHER = 1 << 20  # bytes that are read at once where only parts of them are wanted
_CALL = 1 << 12  # bytes that are read in the time that one more system call takes
_HELD = 1 << 26  # bytes of a private file that is held in memory once its lines are asked for in arbitrary order


class FileEnded(Exception):
    """The file ends before the numbers that were asked for; what that means is known to the caller."""


class FileCells:
    """Numbers in an open file, from byte ``offset`` on; the file is closed together with this."""

    def __init__(
        self,
        file: IO[bytes],
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        *,
        offset: int = 0,
        fortran: bool = False,
        private: bool = False,
    ) -> None:
        self.shape, self.dtype, self.fortran = shape, dtype, fortran
        self._file, self._offset, self._private = file, offset, private
        self._length = shape[0] if fortran else shape[1]
        self._lock = threading.Lock()
        self._held: NDArray[Any] | None = None
        self._whole: FileCells | None = None  # who closes the file, if another does
        weakref.finalize(self, file.close)
        if offset + shape[0] * shape[1] * dtype.itemsize > os.fstat(file.fileno()).st_size:
            raise FileEnded

    def read(self, rows: Index, columns: Index) -> NDArray[Any]:
        """These rows of these columns, a copy of their own."""
        return self._lines(columns, rows).T if self.fortran else self._lines(rows, columns)

    def turned(self) -> "FileCells":
        """The same numbers with rows and columns exchanged."""
        turned = copy.copy(self)
        turned.shape, turned.fortran, turned._whole = (self.shape[1], self.shape[0]), not self.fortran, self
        return turned

    def _lines(self, lines: Index, inner: Index) -> NDArray[Any]:
        if not isinstance(lines, slice) and self._private and self._bytes(math.prod(self.shape)) <= _HELD:
            return self._gathered(lines, inner)
        if isinstance(inner, slice):
            return self._parts(lines, inner.start, inner.stop)
        start, stop = _hull(inner)
        count = lines.stop - lines.start if isinstance(lines, slice) else lines.size
        block = np.empty((count, inner.size), self.dtype)
        height = max(1, _TOGETHER // max(1, self._bytes(stop - start)))
        for begin in range(0, count, height):  # what lies between is read along with it
            end = min(begin + height, count)
            some = slice(lines.start + begin, lines.start + end) if isinstance(lines, slice) else lines[begin:end]
            block[begin:end] = self._parts(some, start, stop)[:, inner - start]
        return block

    def _parts(self, lines: Index, start: int, stop: int) -> NDArray[Any]:
        """Part ``start .. stop-1`` of lines."""
        if isinstance(lines, slice):
            return self._run(lines.start, lines.stop, start, stop)
        if lines.size and (int(np.ptp(lines)) + 1) * self._bytes(self._length) <= _CALL * lines.size:
            return self._among(lines, start, stop)
        block = np.empty((lines.size, stop - start), self.dtype)
        for out, first in zip(block, (lines * self._length + start).tolist(), strict=True):
            self._fill(first, out)
        return block

    def _run(self, first: int, last: int, start: int, stop: int) -> NDArray[Any]:
        """Part ``start .. stop-1`` of lines that follow one another."""
        block = np.empty((last - first, stop - start), self.dtype)
        if stop - start == self._length:
            self._fill(first * self._length, block)
        elif self._bytes(self._length - (stop - start)) > _CALL:
            for number, out in enumerate(block, first):
                self._fill(number * self._length + start, out)
        else:
            for begin, together in self._chunks(first, last):
                block[begin - first : begin - first + len(together)] = together[:, start:stop]
        return block

    def _among(self, lines: NDArray[np.intp], start: int, stop: int) -> NDArray[Any]:
        """The same of lines in any order that are most of those between the first and the last of them."""
        block = np.empty((lines.size, stop - start), self.dtype)
        order = np.argsort(lines, kind="stable")
        ascending = lines[order]
        for begin, together in self._chunks(int(ascending[0]), int(ascending[-1]) + 1):
            low, high = np.searchsorted(ascending, (begin, begin + len(together)))
            block[order[low:high]] = together[ascending[low:high] - begin, start:stop]
        return block

    def _chunks(self, first: int, last: int) -> Iterable[tuple[int, NDArray[Any]]]:
        height = max(1, _TOGETHER // max(1, self._bytes(self._length)))
        for begin in range(first, last, height):
            together = np.empty((min(height, last - begin), self._length), self.dtype)
            self._fill(begin * self._length, together)
            yield begin, together

    def _gathered(self, lines: NDArray[np.intp], inner: Index) -> NDArray[Any]:
        """Lines of a small private file in any order."""
        if self._held is None:
            self._held = self._run(0, self.shape[1] if self.fortran else self.shape[0], 0, self._length)
        return self._held[lines, inner] if isinstance(inner, slice) else self._held[np.ix_(lines, inner)]

    def _bytes(self, count: int) -> int:
        return count * self.dtype.itemsize

    def _fill(self, first: int, out: NDArray[Any]) -> None:
        """Fill ``out`` with the numbers from number ``first`` on."""
        rest = out.reshape(-1).view(np.uint8).data
        place = self._offset + first * self.dtype.itemsize
        while rest:  # one system call moves 2 GiB at most
            count = self._read_into(rest, place)
            if not count:
                raise FileEnded
            rest, place = rest[count:], place + count

    def _read_into(self, buffer: memoryview, place: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._file.fileno(), [buffer], place)
        with self._lock:  # one place in the file for all threads
            self._file.seek(place)
            return int(self._file.readinto(buffer))  # type: ignore[attr-defined]


def _hull(index: NDArray[np.intp]) -> tuple[int, int]:
    """The run that holds these positions."""
    return (int(index.min()), int(index.max()) + 1) if index.size else (0, 0)


def spooled(chunks: Iterable[Float], columns: int, scratch: Path | None) -> FileCells:
    """The chunks below one another in a private temporary file, shape (rows, columns); rows may be 0.

    For numbers that were read once and are needed again, in any order: text is slow to parse, and Parquet slow to enter
    in the middle. The file has no name, and 8 bytes for each entry. ``scratch`` is the folder that holds it, else the
    system's folder for temporary files (``TMPDIR``).
    """
    rows = 0
    try:
        file = tempfile.TemporaryFile(prefix="fedsvd-", dir=scratch, buffering=0)  # noqa: SIM115  closed with the cells
        try:
            for chunk in chunks:
                _write(file, np.ascontiguousarray(chunk, dtype=np.float64))
                rows += len(chunk)
            return FileCells(file, (rows, columns), np.dtype(np.float64), private=True)
        except BaseException:
            file.close()
            raise
    except StorageError:
        raise
    except OSError as fault:
        where = "the folder for temporary files" if scratch is None else str(scratch)
        raise StorageError(
            f"cannot keep {rows} rows of {columns} columns in {where}: {fault.strerror or type(fault).__name__}",
            what_helps(fault, "give another folder for temporary files (scratch)"),
        ) from fault


def _write(file: IO[bytes], chunk: Float) -> None:
    rest = chunk.reshape(-1).view(np.uint8).data
    while rest:
        rest = rest[file.write(rest) :]
