"""A matrix at rest: the one interface through which the rest of fedsvd reads data.

A source knows its shape and hands out panels: runs of whole rows or of whole columns, as float64 NumPy arrays.
The matrix is never loaded whole. A panel is read-only, and a view of the data wherever one can serve; what was
integers or float32 at rest is converted panel by panel (integers beyond 2^53 round to the nearest float64).
Each panel passes the checks in ``checks.py``.

A format implements one method, ``_cells``: a rectangular piece, as it lies at rest. The views at the end of the
file (transposed, some columns left out, rows in another order) are sources themselves and copy nothing ahead.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsvd.data.checks import expect_matrix, expect_names, to_column, to_float
from fedsvd.data.index import Index, as_run
from fedsvd.errors import ConfigError, DataError, NotNumeric, ShapeError
from fedsvd.types import Array, Digest, Float

Reopen = Callable[[], "MatrixSource"]
"""What opens the same matrix in another process: small, and made of what travels."""

_FINGERPRINT_DOMAIN = b"fedsvd/matrix/1\x00"
_FINGERPRINT_BYTES = 1 << 24
_INSPECTED_BYTES = 1 << 24


class MatrixSource(ABC):
    """A real matrix of known shape, readable in panels along both axes."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], names: Iterable[object] | None = None) -> None:
        self._shape = expect_matrix(shape)
        self._dtype = dtype
        self._names = None if names is None else expect_names(names, self._shape[1])
        self._reopen: Reopen | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns), both at least one."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the entries at rest (float64 for tables); panels are float64 whatever it is."""
        return self._dtype

    @property
    def names(self) -> tuple[str, ...] | None:
        """The column names, all different, or None where the format has none."""
        return self._names

    @property
    def text_names(self) -> frozenset[str]:
        """The columns that are known to hold text: they may be ids or labels, and are refused as numbers."""
        return frozenset()

    def row_labels(self) -> NDArray[Any] | None:
        """What the data itself calls its rows, int64 or text, shape (rows,): the index of a data frame, else None."""
        return None

    @property
    def made_up(self) -> bool:
        """Whether the numbers come from a generator: nobody's records stand behind them."""
        return False

    @property
    def T(self) -> "MatrixSource":
        """The transposed matrix: a view whose rows are our columns, without names."""
        return Transposed(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape})"

    @abstractmethod
    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        """These rows of these columns as they lie at rest, unchecked; a view where the format allows it."""

    def _place(self, row: int, column: int) -> str:
        """How an error names this entry: by its place in the data the user gave, not in a view of it."""
        return f"row {row}, column {column if self._names is None else repr(self._names[column])}"

    def rows(self, start: int, stop: int) -> Float:
        """Rows ``start .. stop-1``, shape (stop - start, columns)."""
        self._expect_run("rows", start, stop, self.shape[0])
        return self._panel(slice(start, stop), slice(0, self.shape[1]))

    def columns(self, start: int, stop: int) -> Float:
        """Columns ``start .. stop-1``, shape (rows, stop - start)."""
        self._expect_run("columns", start, stop, self.shape[1])
        return self._panel(slice(0, self.shape[0]), slice(start, stop))

    def columns_on(self, xp: Any, device: Any, start: int, stop: int) -> Array | None:
        """Columns ``start .. stop-1`` made by another array library on its device; None where that is not possible."""
        return None

    def rows_on(self, xp: Any, device: Any, start: int, stop: int) -> Array | None:
        """Rows ``start .. stop-1`` made by another array library on its device; None where that is not possible."""
        return None

    def panels(self, axis: int, width: int) -> Iterator[Float]:
        """The whole matrix as panels of ``width`` rows (axis 0) or columns (axis 1); the last may be narrower."""
        if axis not in (0, 1) or width < 1:
            raise ConfigError(f"axis is {axis}, width is {width}", "axis is 0 or 1, width is at least 1")
        read, end = (self.rows, self.columns)[axis], self.shape[axis]
        return (read(start, min(start + width, end)) for start in range(0, end, width))

    def _panel(self, rows: slice, columns: slice) -> Float:
        # An empty panel is not asked of a format: a data frame without columns, for one, forgets its rows.
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        cells = self._cells(rows, columns) if 0 not in shape else np.empty(shape)
        return to_float(cells, lambda i, j: self._place(rows.start + i, columns.start + j))

    def elsewhere(self) -> Reopen | None:
        """How another process, which sees the same files, opens this matrix; None where it lives in memory only."""
        return self._reopen

    def lazy(self) -> Any:
        """This matrix as a Dask array, where Dask holds it; else None."""
        return None

    def inspect(self) -> None:
        """Read everything once, keep nothing: what no panel can be made of is refused now, not during a study."""
        axis = int(self._by_columns)
        for _ in self.panels(axis, max(1, _INSPECTED_BYTES // (8 * self.shape[1 - axis]))):
            pass

    def faults(self) -> list[DataError]:
        """Everything that ``inspect`` would refuse: each column that is not numbers, then what is not finite."""
        found: list[DataError] = []
        try:
            self.inspect()
        except NotNumeric as error:
            numbers = []
            for j in range(self.shape[1]):
                try:
                    self._cells(slice(0, 1), slice(j, j + 1))
                    numbers.append(j)
                except NotNumeric as one:
                    found.append(one)
            found = found or [error]
            if numbers and len(numbers) < self.shape[1]:
                found += Without(self, numbers).faults()
        except DataError as error:
            found.append(error)
        return found

    @property
    def _by_columns(self) -> bool:
        """Whether whole columns lie together at rest."""
        return False

    def fingerprint(self) -> Digest:
        """SHA-256 of shape and content, in hex: one matrix, one fingerprint, however it is stored.

        Hashed are a domain label, rows and columns (uint64), then the entries (float64, both little-endian, -0.0
        as 0.0): row after row, or column after column where there are more columns than rows, so that a panel
        across the short side bounds the memory. Neither format, type at rest nor panel width enters. Anyone who
        knows a small matrix but for one entry can find that entry from it by trying: it stays with its owner.
        """
        digest = hashlib.sha256(_FINGERPRINT_DOMAIN)
        digest.update(np.array(self.shape, dtype="<u8").tobytes())
        axis = int(self.shape[1] > self.shape[0])
        width = max(1, _FINGERPRINT_BYTES // (8 * self.shape[1 - axis]))
        for panel in self.panels(axis, width):
            content = np.ascontiguousarray(panel.T if axis else panel) + 0.0
            digest.update(content.astype("<f8", copy=False).data)
        return Digest(digest.hexdigest())

    def content_digest(self) -> bytes:
        """What a party commits to beside the shape: the address of what is generated; nothing for what is not hashed
        while it is read (``hashed.py``)."""
        if not self.made_up:
            return b""
        source, shapes = self, [self.shape]
        while isinstance(base := getattr(source, "_base", None), MatrixSource):
            source = base
            shapes.append(source.shape)
        return hashlib.sha256(f"{shapes} {source.fingerprint()}".encode()).digest()

    def column(self, name: str) -> NDArray[Any]:
        """One whole column by name, shape (rows,): int64, float64 or text; also one that was left out."""
        return to_column(self._values(self._position(name)), name)

    def without(self, names: Collection[str]) -> "MatrixSource":
        """The matrix without these columns; ``column`` still reads them, and they need not be numbers."""
        dropped = {self._position(name) for name in ((names,) if isinstance(names, str) else names)}
        return Without(self, [j for j in range(self.shape[1]) if j not in dropped]) if dropped else self

    def reordered(self, order: ArrayLike) -> "MatrixSource":
        """Row ``i`` of the result is our row ``order[i]``: sorts rows by id, or picks some of them."""
        return Reordered(self, order)

    def _values(self, position: int) -> NDArray[Any]:
        """The column as it lies at rest: numbers, or text for what is not a number."""
        values: NDArray[Any] = self._cells(slice(0, self.shape[0]), slice(position, position + 1))[:, 0]
        return values

    def _position(self, name: str) -> int:
        if self._names is None:
            raise ConfigError(f"no column is named {name!r}: the data has no column names", "give names=[...]")
        if name not in self._names:
            raise ConfigError(f"no column is named {name!r}", f"one of the {len(self._names)} names of the data")
        return self._names.index(name)

    def _expect_run(self, what: str, start: int, stop: int, length: int) -> None:
        if not 0 <= start <= stop <= length:
            raise ShapeError(f"{what} {start}:{stop} of a matrix of {length} {what}")


class Transposed(MatrixSource):
    """A source with its axes exchanged."""

    def __init__(self, base: MatrixSource) -> None:
        super().__init__((base.shape[1], base.shape[0]), base.dtype)
        self._base = base

    @property
    def made_up(self) -> bool:
        return self._base.made_up

    @property
    def T(self) -> MatrixSource:
        """The source this is a view of."""
        return self._base

    def inspect(self) -> None:
        self._base.inspect()

    def columns_on(self, xp: Any, device: Any, start: int, stop: int) -> Array | None:
        made = self._base.rows_on(xp, device, start, stop)
        return None if made is None else made.T

    def rows_on(self, xp: Any, device: Any, start: int, stop: int) -> Array | None:
        made = self._base.columns_on(xp, device, start, stop)
        return None if made is None else made.T

    def elsewhere(self) -> Reopen | None:
        base = self._base.elsewhere()
        return None if base is None else partial(_reopened, base, Transposed)

    def lazy(self) -> Any:
        base = self._base.lazy()
        return None if base is None else base.T

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        return self._base._cells(columns, rows).T

    def _place(self, row: int, column: int) -> str:
        return self._base._place(column, row)


class Without(MatrixSource):
    """A source with some columns left out."""

    def __init__(self, base: MatrixSource, kept: list[int]) -> None:
        names = None if base.names is None else [base.names[j] for j in kept]
        super().__init__((base.shape[0], len(kept)), base.dtype, names)
        self._base = base
        self._kept = np.array(kept, dtype=np.intp)

    @property
    def made_up(self) -> bool:
        return self._base.made_up

    @property
    def text_names(self) -> frozenset[str]:
        return self._base.text_names & frozenset(self.names or ())

    def row_labels(self) -> NDArray[Any] | None:
        return self._base.row_labels()

    def elsewhere(self) -> Reopen | None:
        base = self._base.elsewhere()
        return None if base is None else partial(_reopened, base, Without, self._kept.tolist())

    def lazy(self) -> Any:
        base = self._base.lazy()
        return None if base is None else base[:, self._kept]

    def column(self, name: str) -> NDArray[Any]:
        return self._base.column(name)

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        return self._base._cells(rows, as_run(self._kept[columns]))

    def _place(self, row: int, column: int) -> str:
        return self._base._place(row, int(self._kept[column]))


class Reordered(MatrixSource):
    """A source with its rows in another order."""

    def __init__(self, base: MatrixSource, order: ArrayLike) -> None:
        self._order = _expect_order(order, base.shape[0])
        super().__init__((self._order.size, base.shape[1]), base.dtype, base.names)
        self._base = base

    @property
    def made_up(self) -> bool:
        return self._base.made_up

    @property
    def text_names(self) -> frozenset[str]:
        return self._base.text_names

    def row_labels(self) -> NDArray[Any] | None:
        labels = self._base.row_labels()
        return None if labels is None else labels[self._order]

    def elsewhere(self) -> Reopen | None:
        base = self._base.elsewhere()
        return None if base is None else partial(_reopened, base, Reordered, self._order)

    def lazy(self) -> Any:
        base = self._base.lazy()
        return None if base is None else base[self._order]

    def column(self, name: str) -> NDArray[Any]:
        return self._base.column(name)[self._order]

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        return self._base._cells(as_run(self._order[rows]), columns)

    def _place(self, row: int, column: int) -> str:
        return self._base._place(int(self._order[row]), column)


def _reopened(base: Reopen, view: Callable[..., MatrixSource], *args: Any) -> MatrixSource:
    return view(base(), *args)


def _expect_order(order: ArrayLike, rows: int) -> NDArray[np.intp]:
    index = np.asarray(order)
    if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
        raise ShapeError(f"an order of shape {index.shape} and type {index.dtype}", "give a list of row numbers")
    if index.size and not 0 <= int(index.min()) <= int(index.max()) < rows:
        raise ShapeError(f"an order that leaves the {rows} rows", f"row numbers run from 0 to {rows - 1}")
    return index.astype(np.intp)
