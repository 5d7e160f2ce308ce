"""Matrices in ``.h5ad`` files, the format of AnnData, read with h5py in storage order and never loaded whole.

A dense ``X`` or layer is read panel by panel. A sparse one is stored by rows (CSR) or by columns (CSC); panels along
that axis are cut from the file, and when the other axis is asked for, the matrix goes once to a private temporary file
sorted that way, a block at a time (16 bytes for each stored entry). Rows in an arbitrary order bring a dense matrix to
a temporary file, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fedsvd.data.annotated import Annotated, Observations, no_layer
from fedsvd.data.checks import expect_numeric
from fedsvd.data.source import Index, MatrixSource
from fedsvd.data.sparse import SparseBase, TransposedSparse, finite_block
from fedsvd.errors import MissingExtra, UnknownFormat
from fedsvd.storage.faults import reading
from fedsvd.storage.file_cells import FileCells, spooled
from fedsvd.storage.scratch import PrivateFile, usual_scratch

BLOCK_ENTRIES = 1 << 20


def open_h5ad(path: Path, layer: str | None, scratch: Path | None) -> MatrixSource:
    """The matrix ``X`` of a file, or one of its layers."""
    try:
        import h5py
    except ImportError:
        raise MissingExtra(".h5ad files need h5py", "pip install 'fedsvd[formats]'") from None
    with reading(f"{path} is not an .h5ad file of AnnData", "write it again with a recent anndata"):
        file = h5py.File(path, "r")
        layers = tuple(file["layers"]) if "layers" in file else ()
        if layer is not None and layer not in layers:
            raise no_layer(str(path), layer, layers)
        if layer is None and "X" not in file:
            raise UnknownFormat(f"{path} has no X", f"name a layer: {path.name}#LAYER ({', '.join(layers) or 'none'})")
        found = file["X"] if layer is None else file["layers"][layer]
        names = _index(file["var"]).tolist()
        obs = Observations(_index(file["obs"]), _columns(file["obs"]), partial(_read_column, path, file["obs"]))
        kind = found.attrs.get("encoding-type", "array")
        if isinstance(found, h5py.Dataset):
            return H5adDense(path, found, names, obs, scratch)
        if kind not in ("csr_matrix", "csc_matrix"):
            raise UnknownFormat(f"the matrix of {path} is stored as {kind}", "write it dense, as CSR or as CSC")
        return H5adSparse(path, found, int(kind == "csc_matrix"), names, obs, scratch)


class H5adDense(Annotated):
    """A dense matrix in a file."""

    def __init__(self, path: Path, cells: Any, names: list[str], obs: Observations, scratch: Path | None) -> None:
        expect_numeric(cells.dtype, f"the matrix of {path}")
        super().__init__(cells.shape, cells.dtype, names)
        self._path, self._matrix, self._obs, self._scratch = path, cells, obs, scratch
        self._spool: FileCells | None = None

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        if isinstance(rows, slice) and isinstance(columns, slice) and self._spool is None:
            return self._block(rows, columns)
        if self._spool is None:
            height = max(1, BLOCK_ENTRIES // self.shape[1])
            starts = range(0, self.shape[0], height)
            blocks = (self._block(slice(i, min(i + height, self.shape[0])), slice(0, self.shape[1])) for i in starts)
            self._spool = spooled(blocks, self.shape[1], self._scratch)
        return self._spool.read(rows, columns)

    def _block(self, rows: slice, columns: slice) -> NDArray[Any]:
        with reading(f"{self._path} is damaged"):
            cells: NDArray[Any] = self._matrix[rows, columns]
        return cells


@dataclass(frozen=True, repr=False)
class _Compressed:
    """A sparse matrix by lines along one axis; indices and entries lie on disk."""

    starts: NDArray[np.int64]  # (lines + 1,)
    indices: Any
    entries: Any
    length: int  # of a line
    path: Path

    def block(self, start: int, stop: int) -> Any:
        """Lines ``start .. stop-1`` as a float64 ``csr_array`` of shape (stop - start, length)."""
        first, last = int(self.starts[start]), int(self.starts[stop])
        with reading(f"{self.path} is damaged"):
            indices = np.asarray(self.indices[first:last])
            if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < self.length:
                raise UnknownFormat(f"{self.path} is damaged: an index leaves the matrix", "write or copy it again")
            entries = np.asarray(self.entries[first:last], dtype=np.float64)
            starts = self.starts[start : stop + 1] - first
            return scipy.sparse.csr_array((entries, indices, starts), shape=(stop - start, self.length))

    def blocks(self) -> Iterator[tuple[int, Any]]:
        """All lines, about a million stored entries at a time, with the number of the first."""
        start, lines = 0, len(self.starts) - 1
        while start < lines:
            reach = int(np.searchsorted(self.starts, self.starts[start] + BLOCK_ENTRIES, side="right")) - 1
            stop = min(lines, max(start + 1, reach))
            yield start, self.block(start, stop)
            start = stop

    def turned(self, scratch: Path | None) -> "_Compressed":
        """The same matrix by lines along the other axis, in a private temporary file."""
        counts = np.zeros(self.length, dtype=np.int64)
        for _, block in self.blocks():
            counts += np.bincount(block.indices, minlength=self.length)
        starts = np.concatenate(([0], np.cumsum(counts)))
        total = int(starts[-1])
        file = PrivateFile(usual_scratch() if scratch is None else scratch)
        try:
            file.reserve(max(16, 16 * total))
            indices = np.memmap(file.file, np.int64, "r+", 0, (max(1, total),))
            entries = np.memmap(file.file, np.float64, "r+", 8 * total, (max(1, total),))
        finally:
            file.close()  # maps stay
        reached = starts[:-1].copy()
        for start, block in self.blocks():
            line = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
            order = np.argsort(block.indices, kind="stable")
            column = block.indices[order].astype(np.int64)
            first = np.searchsorted(column, column, side="left")
            places = reached[column] + np.arange(len(column)) - first
            with reading(f"{self.path} is damaged"):  # more entries than were counted
                indices[places], entries[places] = start + line[order], block.data[order]
            reached += np.bincount(column, minlength=self.length)
        return _Compressed(starts, indices, entries, len(self.starts) - 1, self.path)


class H5adSparse(Annotated, SparseBase):
    """A sparse matrix in a file, stored by rows (axis 0) or by columns (axis 1)."""

    def __init__(
        self, path: Path, group: Any, axis: int, names: list[str], obs: Observations, scratch: Path | None
    ) -> None:
        shape = tuple(int(side) for side in group.attrs["shape"])
        expect_numeric(group["data"].dtype, f"the matrix of {path}")
        super().__init__(shape, group["data"].dtype, names)
        starts = group["indptr"][:].astype(np.int64)
        if len(starts) != shape[axis] + 1 or starts[0] != 0 or bool((np.diff(starts) < 0).any()):
            raise UnknownFormat(f"{path} is damaged: its rows do not add up", "write or copy it again")
        self._obs, self._scratch = obs, scratch
        stored = _Compressed(starts, group["indices"], group["data"], shape[1 - axis], path)
        self._lines: list[_Compressed | None] = [None, None]
        self._lines[axis] = stored

    @property
    def T(self) -> MatrixSource:
        """The transposed matrix, sparse as well."""
        return TransposedSparse(self)

    @property
    def _by_columns(self) -> bool:
        return self._lines[0] is None

    def sparse_rows(self, start: int, stop: int) -> Any:
        """Rows ``start .. stop-1`` as a float64 ``csr_array``, all stored entries finite."""
        self._expect_run("rows", start, stop, self.shape[0])
        with self._unchanged(stop == self.shape[0]):
            return self._finite(self._along(0).block(start, stop), start, 0)

    def sparse_columns(self, start: int, stop: int) -> Any:
        """Columns ``start .. stop-1`` as a float64 ``csc_array``, all stored entries finite."""
        self._expect_run("columns", start, stop, self.shape[1])
        with self._unchanged(stop == self.shape[1]):
            return self._finite(self._along(1).block(start, stop).T, 0, start)

    def inspect(self) -> None:
        """Only stored entries are looked at, along the axis they are stored in."""
        axis = int(self._by_columns)
        with self._unchanged(True):
            for start, block in self._along(axis).blocks():
                self._finite(block.T if axis else block, 0 if axis else start, start if axis else 0)

    def _along(self, axis: int) -> _Compressed:
        lines = self._lines[axis]
        if lines is None:
            other = self._lines[1 - axis]
            assert other is not None
            lines = self._lines[axis] = other.turned(self._scratch)
        return lines

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        if isinstance(columns, slice) and columns.stop - columns.start < self.shape[1]:
            block = self._along(1).block(columns.start, columns.stop).T
            dense: NDArray[Any] = block.tocsr()[rows, :].toarray()
        elif isinstance(rows, slice):
            dense = self._along(0).block(rows.start, rows.stop)[:, columns].toarray()
        else:
            lines = self._along(0)
            dense = np.concatenate([lines.block(i, i + 1)[:, columns].toarray() for i in rows.tolist()])
        return dense

    def _finite(self, block: Any, row: int, column: int) -> Any:
        return finite_block(block, lambda i, j: self._place(row + i, column + j))


def _index(frame: Any) -> NDArray[np.str_]:
    values, _ = _column(frame[frame.attrs["_index"]])
    return values.astype(np.str_)


def _columns(frame: Any) -> tuple[str, ...]:
    return tuple(str(name) for name in frame.attrs.get("column-order", ()))


def _read_column(path: Path, frame: Any, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    with reading(f"column {name!r} of {path} is damaged"):
        return _column(frame[name])


def _column(stored: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """A column of ``obs`` as numbers or text, and which entries are missing."""
    kind = stored.attrs.get("encoding-type", "array")
    if kind == "categorical":
        codes, (values, _) = stored["codes"][:], _column(stored["categories"])
        missing = codes < 0
        picked = values[np.where(missing, 0, codes)] if values.size else np.zeros(len(codes), values.dtype)
        return (np.where(missing, "", picked) if values.dtype.kind == "U" else picked), missing
    if str(kind).startswith("nullable-"):
        values, _ = _column(stored["values"])
        return values, stored["mask"][:].astype(np.bool_)
    if stored.dtype.kind in "biuf":
        values = stored[:]
        return values, np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=np.bool_)
    values = stored.asstr()[:].astype(np.str_)
    return values, np.zeros(len(values), dtype=np.bool_)
