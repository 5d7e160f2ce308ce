"""Sparse matrices: ``scipy.sparse`` in memory, and the ``.npz`` files of ``scipy.sparse.save_npz``.

Panels are made dense one at a time; the matrix never is. Rows are cut from a CSR form and columns from a CSC form, each
made once when first needed (at most two sparse copies in addition to the original). Who can use sparsity asks for
``sparse_rows`` and ``sparse_columns`` instead of panels; a transposed source offers them too.
"""

import zipfile
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy
from numpy.typing import NDArray

from fedsvd.data.checks import expect_matrix, expect_numeric, not_finite
from fedsvd.data.source import Index, MatrixSource
from fedsvd.data.views import Transposed
from fedsvd.errors import UnknownFormat
from fedsvd.storage.faults import reading
from fedsvd.types import Array

_LOOKED_AT = 4096  # rows, to see how sparse a table is


@runtime_checkable
class SparsePanels(Protocol):
    """What a source offers besides dense panels when most of its entries are zero."""

    def sparse_rows(self, start: int, stop: int) -> Any:
        """Rows ``start .. stop-1`` as a float64 ``csr_array``, all stored entries finite."""

    def sparse_columns(self, start: int, stop: int) -> Any:
        """Columns ``start .. stop-1`` as a float64 ``csc_array``, all stored entries finite."""


def share_stored(source: MatrixSource) -> float:
    """The share of a table's entries that are stored, from its first rows; 1 where it is dense."""
    if not isinstance(source, SparsePanels):
        return 1.0
    rows = min(source.shape[0], _LOOKED_AT)
    return min(1.0, float(source.sparse_rows(0, rows).nnz) / max(rows * source.shape[1], 1))


class SparseBase(MatrixSource, SparsePanels):
    """A source that offers sparse panels along both axes."""

    def columns_on(self, xp: Any, device: Any, start: int, stop: int) -> Array | None:
        """These columns made dense on a device: only what is stored of them travels."""
        return scattered(xp, device, self.sparse_columns(start, stop)) if _scatters(xp) else None

    def rows_on(self, xp: Any, device: Any, start: int, stop: int) -> Array | None:
        """These rows made dense on a device: only what is stored of them travels."""
        return scattered(xp, device, self.sparse_rows(start, stop)) if _scatters(xp) else None


def _scatters(xp: Any) -> bool:
    """Whether a library writes to places given by an array; the standard does not ask for it."""
    return any(name in xp.__name__ for name in ("torch", "cupy", "numpy"))


def scattered(xp: Any, device: Any, block: Any) -> Array:
    """A sparse block as a dense array on a device."""
    rows, columns = block.tocoo().coords
    places = rows.astype(np.int64) * block.shape[1] + columns
    flat = xp.zeros((block.shape[0] * block.shape[1],), dtype=xp.float64, device=device)
    flat[xp.asarray(places, device=device)] = xp.asarray(block.tocoo().data, device=device)
    return xp.reshape(flat, block.shape)


class SparseSource(SparseBase):
    """A ``scipy.sparse`` array or matrix of any format; it is kept and never changed."""

    def __init__(self, matrix: Any, names: Iterable[object] | None = None) -> None:
        expect_matrix(matrix.shape)
        expect_numeric(matrix.dtype, "every column")
        super().__init__(matrix.shape, matrix.dtype, names)
        self._matrix = matrix

    @property
    def T(self) -> MatrixSource:
        """The transposed matrix, sparse as well."""
        return TransposedSparse(self)

    @cached_property
    def _csr(self) -> Any:
        return scipy.sparse.csr_array(self._matrix)

    @cached_property
    def _csc(self) -> Any:
        return scipy.sparse.csc_array(self._matrix)

    def sparse_rows(self, start: int, stop: int) -> Any:
        """Rows ``start .. stop-1`` as a float64 ``csr_array``, all stored entries finite."""
        self._expect_run("rows", start, stop, self.shape[0])
        return self._finite(self._csr[start:stop].astype(np.float64), start, 0)

    def sparse_columns(self, start: int, stop: int) -> Any:
        """Columns ``start .. stop-1`` as a float64 ``csc_array``, all stored entries finite."""
        self._expect_run("columns", start, stop, self.shape[1])
        return self._finite(self._csc[:, start:stop].astype(np.float64), 0, start)

    def inspect(self) -> None:
        """Only stored entries are looked at: the others are zero."""
        self._finite(self._csr, 0, 0)

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        # The side of which less is wanted is cut first, in the form in which that is cheap.
        with reading("a panel of a sparse matrix cannot be made", "check its shape, and write it again"):
            if _share(rows, self.shape[0]) <= _share(columns, self.shape[1]):
                block = self._csr[rows, :][:, columns]
            else:
                block = self._csc[:, columns][rows, :]
            dense: NDArray[Any] = block.astype(np.float64).toarray()
            return dense

    def _finite(self, block: Any, row: int, column: int) -> Any:
        return finite_block(block, lambda i, j: self._place(row + i, column + j))


def finite_block(block: Any, place: Callable[[int, int], str]) -> Any:
    """The sparse block, whose stored entries are finite; ``place`` names an entry of it."""
    bad = ~np.isfinite(block.data)
    if bad.any():
        rows, columns = block.tocoo().coords
        first = int(np.argmax(bad))
        where = place(int(rows[first]), int(columns[first]))
        raise not_finite(int(np.count_nonzero(bad)), block.nnz, where)
    return block


class TransposedSparse(Transposed):
    """A sparse source with its axes exchanged: its sparse rows are the other's sparse columns."""

    def __init__(self, base: "SparseBase") -> None:
        super().__init__(base)
        self._sparse = base

    def sparse_rows(self, start: int, stop: int) -> Any:
        """Rows ``start .. stop-1`` as a float64 ``csr_array``."""
        return self._sparse.sparse_columns(start, stop).T

    def sparse_columns(self, start: int, stop: int) -> Any:
        """Columns ``start .. stop-1`` as a float64 ``csc_array``."""
        return self._sparse.sparse_rows(start, stop).T


def from_npz(path: Path, names: Iterable[object] | None = None) -> SparseSource:
    """The source of a file written by ``scipy.sparse.save_npz``; nothing in it is unpickled."""
    try:
        with path.open("rb") as file:
            matrix = scipy.sparse.load_npz(file)
        if matrix.format in ("csr", "csc", "bsr"):
            # An index beyond the shape would make SciPy write beyond an array.
            matrix.check_format(full_check=True)
    # SciPy says NotImplementedError of a format it does not know.
    except (ValueError, KeyError, TypeError, NotImplementedError, OSError, zipfile.BadZipFile):
        raise UnknownFormat(
            f"{path} is not a sparse matrix of scipy.sparse.save_npz", "save a dense array as .npy instead"
        ) from None
    return SparseSource(matrix, names)


def _share(index: Index, length: int) -> float:
    return (index.stop - index.start if isinstance(index, slice) else index.size) / length
