"""Matrices in NumPy's own files, ``.npy`` and ``.npz``: read where they lie, never mapped, never unpickled.

Both orders on disk serve both directions: C order reads rows in runs and columns in parts of rows, Fortran order the
other way round (``storage/file_cells.py``). A file of Python objects would have to be unpickled, which can run code: it
is refused by its header, unread.

An ``.npz`` file holds a sparse matrix of ``scipy.sparse.save_npz`` or dense arrays of ``numpy.savez``. An array that
was stored uncompressed is read where it lies in the file; a compressed one is written once to a private temporary file.
"""

import mmap
import struct
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from fedsvd.data.arrays import ArraySource
from fedsvd.data.checks import expect_matrix, expect_numeric, not_numeric
from fedsvd.data.source import Index, MatrixSource
from fedsvd.data.sparse import from_npz
from fedsvd.errors import UnknownFormat
from fedsvd.storage.faults import reading
from fedsvd.storage.file_cells import FileCells, FileEnded, spooled
from fedsvd.storage.file_stamp import Watch
from fedsvd.types import Float

CHUNK_BYTES = 1 << 22
_NEAR = 2  # rows between the first and the last one asked for, to each of them, that may be read along


class NpySource(MatrixSource):
    """A two-dimensional array in a file that others may change, or in a private one.

    Rows in arbitrary order would need a system call each, so the numbers then go once to a private temporary file.
    """

    def __init__(
        self, path: Path, cells: FileCells, names: Iterable[object] | None = None, scratch: Path | None = None
    ) -> None:
        super().__init__(cells.shape, cells.dtype, names)
        self._path, self._stored, self._scratch = path, cells, scratch
        self._spool: FileCells | None = None

    def inspect(self) -> None:
        if self.dtype.kind == "f":
            super().inspect()

    @property
    def _by_columns(self) -> bool:
        return self._stored.fortran

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        if isinstance(rows, slice) or not rows.size or int(np.ptp(rows)) < _NEAR * rows.size:
            return self._read(rows, columns)
        if self._spool is None:
            height = max(1, CHUNK_BYTES // (8 * self.shape[1]))
            starts, everything = range(0, self.shape[0], height), slice(0, self.shape[1])
            chunks = (self._read(slice(i, min(i + height, self.shape[0])), everything) for i in starts)
            self._spool = spooled(chunks, self.shape[1], self._scratch)
        return self._spool.read(rows, columns)

    def _read(self, rows: Index, columns: Index) -> NDArray[Any]:
        try:
            return self._stored.read(rows, columns)
        except (FileEnded, OSError):
            raise _too_short(self._path) from None


def open_npy(path: Path, names: Iterable[object] | None = None, scratch: Path | None = None) -> NpySource:
    """The matrix in one ``.npy`` file, opened for reading only."""
    with path.open("rb", buffering=0) as opened, reading(f"{path} has no .npy header", "write it with numpy.save"):
        shape, fortran, dtype = _read_header(opened)
        offset = opened.tell()
    if dtype.hasobject or dtype.names is not None:
        raise not_numeric(f"every column of {path}", "Python objects" if dtype.hasobject else "records")
    expect_matrix(shape)
    expect_numeric(dtype, "column 0")
    return _stored(path, shape, dtype, offset, fortran, names, scratch)


def _stored(
    path: Path,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    offset: int,
    fortran: bool,
    names: Iterable[object] | None,
    scratch: Path | None = None,
) -> NpySource:
    file = path.open("rb", buffering=0)
    try:
        cells = FileCells(file, expect_matrix(shape), dtype, offset=offset, fortran=fortran)
        return NpySource(path, cells, names, scratch)
    except BaseException as fault:
        file.close()
        if isinstance(fault, FileEnded):
            raise _too_short(path) from None
        raise


def from_map(array: "np.memmap[Any, Any]", names: Iterable[object] | None = None) -> MatrixSource:
    """The source of an array that its owner mapped: read from its file where it is all of a map that shows the file."""
    whole = isinstance(array.base, mmap.mmap) and array.ndim == 2 and array.flags.forc
    if array.filename is None or not whole or array.mode not in ("r", "r+"):
        return ArraySource(array, names)
    path = Path(array.filename)
    watch = Watch(lambda: (path,))
    expect_numeric(array.dtype, "column 0")
    source = _stored(path, array.shape, array.dtype, array.offset, not array.flags.c_contiguous, names)
    source.watch(watch)
    return source


def _too_short(path: Path) -> UnknownFormat:
    return UnknownFormat(f"{path} is shorter than its header says", "write or copy it again")


_LOCAL_HEADER = 30  # bytes before the name of a member, of which the last four are two lengths


def open_npz(path: Path, names: Iterable[object] | None, part: str | None, scratch: Path | None) -> MatrixSource:
    """The matrix in an ``.npz``: the sparse one, the array called ``part``, or the only two-dimensional one."""
    fault = f"{path} is no .npz of numpy.savez or scipy.sparse.save_npz"
    with reading(fault), zipfile.ZipFile(path) as archive:
        members = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        if {"format", "shape", "data"} <= set(members) and part is None:
            return from_npz(path, names)
        shapes = {name: _member_header(archive, name)[0] for name in members}
        return _array(path, archive, _chosen(path, shapes, part), scratch, names)


def _chosen(path: Path, shapes: dict[str, tuple[int, ...]], part: str | None) -> str:
    if part is not None:
        if part not in shapes:
            raise UnknownFormat(f"{path} holds no array {part!r}", f"one of {', '.join(shapes) or 'none'}")
        return part
    tables = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(tables) != 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "none"
        raise UnknownFormat(
            f"{path} holds {len(tables)} two-dimensional arrays (its arrays are: {listed})",
            f"name one: {path.name}#NAME, or part=...",
        )
    return tables[0]


def _member_header(archive: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether columns lie together, type, and the length of the header of a member."""
    with archive.open(f"{name}.npy") as file:
        shape, fortran, dtype = _read_header(file)
        return shape, fortran, dtype, file.tell()


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy_format.read_magic(file)
    read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    return shape, fortran, dtype


def _array(
    path: Path, archive: zipfile.ZipFile, name: str, scratch: Path | None, names: Iterable[object] | None
) -> NpySource:
    shape, fortran, dtype, begins = _member_header(archive, name)
    expect_matrix(shape)
    expect_numeric(dtype, f"every column of {name} in {path}")
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type == zipfile.ZIP_STORED:
        with path.open("rb") as file:
            file.seek(info.header_offset + _LOCAL_HEADER - 4)
            lengths = struct.unpack("<HH", file.read(4))
        offset = info.header_offset + _LOCAL_HEADER + sum(lengths) + begins
        return _stored(path, shape, dtype, offset, fortran, names, scratch)
    lines, length = (shape[1], shape[0]) if fortran else shape
    table = spooled(_chunks(archive, name, dtype, length), length, scratch)
    if table.shape[0] != lines:
        raise UnknownFormat(f"{name} in {path} is shorter than its header says", "write or copy it again")
    return NpySource(path, table.turned() if fortran else table, names)


def _chunks(archive: zipfile.ZipFile, name: str, dtype: np.dtype[Any], length: int) -> Iterator[Float]:
    """The lines of a compressed array as float64, a few megabytes at a time."""
    line = length * dtype.itemsize
    with archive.open(f"{name}.npy") as file:
        _read_header(file)
        while piece := file.read(max(1, CHUNK_BYTES // line) * line):
            yield np.frombuffer(piece, dtype).reshape(-1, length).astype(np.float64)
