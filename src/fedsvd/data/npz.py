"""Matrices in ``.npz`` files: sparse ones of ``scipy.sparse.save_npz``, dense arrays of ``numpy.savez``.

An array that ``numpy.savez`` stored as it is, is mapped into memory where it lies in the file; a compressed one goes
once to a private temporary file (``spool.py``). Nothing is unpickled: an array of objects is refused by its header.
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
from fedsvd.data.checks import expect_matrix, expect_numeric
from fedsvd.data.source import MatrixSource
from fedsvd.data.sparse import from_npz
from fedsvd.errors import FedSVDError, UnknownFormat
from fedsvd.storage.spool import spooled
from fedsvd.types import Float

_CHUNK_BYTES = 1 << 22
_LOCAL_HEADER = 30  # bytes before the name of a member, of which the last four are two lengths


def open_npz(path: Path, names: Iterable[object] | None, part: str | None, scratch: Path | None) -> MatrixSource:
    """The matrix in an ``.npz``: the sparse one, the array called ``part``, or the only two-dimensional one."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
            if {"format", "shape", "data"} <= set(members) and part is None:
                return from_npz(path, names)
            shapes = {name: _header(archive, name)[0] for name in members}
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


def _header(archive: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
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
    shape, fortran, dtype, begins = _header(archive, name)
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
        while piece := file.read(max(1, _CHUNK_BYTES // line) * line):
            yield np.frombuffer(piece, dtype).reshape(-1, length).astype(np.float64)
