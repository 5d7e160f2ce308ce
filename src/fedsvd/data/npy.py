"""Matrices in NumPy's own files, ``.npy`` and ``.npz``: mapped into memory where they can be, never unpickled.

Both orders on disk serve both directions: C order reads rows in runs and columns in strides, Fortran order the
other way round; the operating system keeps only the pages in use. A file of Python objects would have to be
unpickled, which can run code: it is refused by its header, unread.

An ``.npz`` file holds a sparse matrix of ``scipy.sparse.save_npz`` or dense arrays of ``numpy.savez``. An array that
was stored uncompressed is mapped into memory where it lies in the file; a compressed one is written once to a private
temporary file (``storage/scratch.py``).
"""

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
from fedsvd.data.source import MatrixSource
from fedsvd.data.sparse import from_npz
from fedsvd.errors import FedSVDError, UnknownFormat
from fedsvd.storage.scratch import spooled
from fedsvd.types import Float


class NpySource(ArraySource):
    """The matrix in one ``.npy`` file, opened for reading only."""

    def __init__(self, path: Path, names: Iterable[object] | None = None) -> None:
        super().__init__(_mapped(path), names)


def _mapped(path: Path) -> NDArray[Any]:
    try:
        shape, dtype = _header(path)
    except (ValueError, KeyError, OSError):
        raise UnknownFormat(f"{path} has no .npy header", "write it with numpy.save") from None
    if dtype.hasobject or dtype.names is not None:
        raise not_numeric(f"every column of {path}", "Python objects" if dtype.hasobject else "records")
    expect_matrix(shape)
    try:
        return npy_format.open_memmap(path, mode="r")
    except (ValueError, OSError):
        raise UnknownFormat(f"{path} is shorter than its header says", "write or copy it again") from None


def _header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with path.open("rb") as file:
        shape, _, dtype = _read_header(file)
    return shape, dtype


CHUNK_BYTES = 1 << 22
_LOCAL_HEADER = 30  # bytes before the name of a member, of which the last four are two lengths


def open_npz(path: Path, names: Iterable[object] | None, part: str | None, scratch: Path | None) -> MatrixSource:
    """The matrix in an ``.npz``: the sparse one, the array called ``part``, or the only two-dimensional one."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
            if {"format", "shape", "data"} <= set(members) and part is None:
                return from_npz(path, names)
            shapes = {name: _member_header(archive, name)[0] for name in members}
            return ArraySource(_array(path, archive, _chosen(path, shapes, part), scratch), names)
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError, OSError, struct.error) as fault:
        if isinstance(fault, FedSVDError):
            raise
        raise UnknownFormat(
            f"{path} is no .npz of numpy.savez or scipy.sparse.save_npz", "write or copy it again"
        ) from None


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


def _array(path: Path, archive: zipfile.ZipFile, name: str, scratch: Path | None) -> NDArray[Any]:
    shape, fortran, dtype, begins = _member_header(archive, name)
    expect_matrix(shape)
    expect_numeric(dtype, f"every column of {name} in {path}")
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type == zipfile.ZIP_STORED:
        with path.open("rb") as file:
            file.seek(info.header_offset + _LOCAL_HEADER - 4)
            lengths = struct.unpack("<HH", file.read(4))
        offset = info.header_offset + _LOCAL_HEADER + sum(lengths) + begins
        return np.memmap(path, dtype, "r", offset, shape, "F" if fortran else "C")
    lines, length = (shape[1], shape[0]) if fortran else shape
    table = spooled(_chunks(archive, name, dtype, length), length, scratch)
    if len(table) != lines:
        raise UnknownFormat(f"{name} in {path} is shorter than its header says", "write or copy it again")
    return table.T if fortran else table


def _chunks(archive: zipfile.ZipFile, name: str, dtype: np.dtype[Any], length: int) -> Iterator[Float]:
    """The lines of a compressed array as float64, a few megabytes at a time."""
    line = length * dtype.itemsize
    with archive.open(f"{name}.npy") as file:
        _read_header(file)
        while piece := file.read(max(1, CHUNK_BYTES // line) * line):
            yield np.frombuffer(piece, dtype).reshape(-1, length).astype(np.float64)
