"""A party's right singular vectors, or scores, on their way to disk: as large as its data, so written panel by panel.

``.npy`` is a header and the numbers: Vt_i (r, n_i) in Fortran order and its transpose (n_i, r) in C order are the same
bytes, and both grow column by column. ``.parquet`` has a row group for each panel. Either is written to a private
folder next to the results, and moved into them when these are written.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fedsvd.errors import MissingExtra, StorageError
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Own, Split, Write
from fedsvd.results.folder import LONGEST_TABLE
from fedsvd.roles.user.work import Nowhere, Sink
from fedsvd.storage import private
from fedsvd.storage.faults import what_helps
from fedsvd.types import Float


@dataclass(frozen=True)
class VectorFile:
    """A finished file that stands for Vt_i (rows, columns) in a result."""

    path: Path
    rows: int
    columns: int


class _File:
    """One file, opened when its shape is known and closed when it is complete."""

    suffix = ""

    def __init__(self, folder: Path, by_column: bool) -> None:
        self._path = folder / f"vectors{self.suffix}"
        self._by_column = by_column  # whether the reader wants (r, n_i), not its transpose
        self._shape = (0, 0)

    def open(self, rows: int, columns: int) -> None:
        self._shape = rows, columns
        with _storage(self._path):
            self._path.unlink(missing_ok=True)
            self._file = private.open_new(self._path)
            self._begin(self._file)

    def write(self, panel: Float) -> None:
        with _storage(self._path):
            self._append(panel.T)

    def close(self) -> VectorFile:
        with _storage(self._path):
            self._end()
            self._file.close()
        return VectorFile(self._path, *self._shape)

    def _begin(self, file: BinaryIO) -> None: ...
    def _append(self, lines: Float) -> None: ...
    def _end(self) -> None: ...


class NpyFile(_File):
    """``vectors.npy``."""

    suffix = ".npy"

    def _begin(self, file: BinaryIO) -> None:
        shape = self._shape if self._by_column else self._shape[::-1]
        header = {"descr": "<f8", "fortran_order": self._by_column, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)

    def _append(self, lines: Float) -> None:
        self._file.write(np.ascontiguousarray(lines, dtype="<f8").data)


class ParquetFile(_File):
    """``vectors.parquet``: a row for each sample or feature, a column for each component; a panel is a row group."""

    suffix = ".parquet"

    def _begin(self, file: BinaryIO) -> None:
        pa, parquet = _arrow()
        fields = [("row" if not self._by_column else "feature", pa.int64())]
        fields += [(f"component_{j + 1}", pa.float64()) for j in range(self._shape[0])]
        self._schema, self._done = pa.schema(fields), 0
        self._writer = parquet.ParquetWriter(file, self._schema)

    def _append(self, lines: Float) -> None:
        pa, _ = _arrow()
        numbers = np.arange(self._done, self._done + len(lines))
        arrays = [pa.array(numbers), *(pa.array(np.ascontiguousarray(column)) for column in lines.T)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema), row_group_size=len(lines))
        self._done += len(lines)

    def _end(self) -> None:
        self._writer.close()


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("Parquet files need PyArrow", "pip install 'fedsvd[data]'") from None
    return pyarrow, pyarrow.parquet


def file_for(plan: SessionPlan, i: int, write: Write, folder: Path) -> Sink | None:
    """Where user i's (from 0) vectors go: to a file, nowhere, or to memory where they are small (None)."""
    if plan.own not in (Own.VECTORS, Own.SCORES):
        return None
    if write is Write.NONE:
        return Nowhere()
    if fits_memory(plan, i, write):
        return None
    by_column = plan.split is Split.VERTICAL
    return (ParquetFile if write is Write.PARQUET else NpyFile)(folder, by_column)


def fits_memory(plan: SessionPlan, i: int, write: Write) -> bool:
    """Whether user i's (from 0) vectors are small enough to be held in memory, and written as a table."""
    small = min(plan.m, plan.n, plan.components or plan.m) * plan.counts[i] <= LONGEST_TABLE
    return small and write is not Write.NONE


@contextmanager
def folder_next_to(target: Path) -> Iterator[Path]:
    """A private folder on the disk of ``target`` for files that will be moved there; gone when the block ends."""
    target = target.absolute()
    with _storage(target):
        private.make_folders(target.parent)
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-vectors-", dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # it is not empty
            target.parent.rmdir()


@contextmanager
def _storage(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        reason = fault.strerror or type(fault).__name__
        fix = what_helps(fault, 'name another results folder (--out), or set write = "none"')
        raise StorageError(f"cannot write {path.name}: {reason}", fix) from None


def move_into(folder: Path, name: str, file: VectorFile) -> None:
    """The file is in a results folder, under this name."""
    shutil.move(file.path, folder / f"{name}{file.path.suffix}")
