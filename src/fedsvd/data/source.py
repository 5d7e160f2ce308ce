"""A matrix at rest: the one interface through which the rest of fedsvd reads data.

A source knows its shape and hands out panels: runs of whole rows or of whole columns, as float64 NumPy arrays. The
matrix is never loaded whole. A panel is read-only, and a view of the data wherever one can serve; what was integers or
float32 at rest is converted panel by panel (integers beyond 2^53 round to the nearest float64). Each panel passes the
checks in ``checks.py``; ``raw`` reads the same cells with NaN where an entry is missing, for those who fill gaps in
before a study.

A format implements one method, ``_cells``: a rectangular piece, as it is stored; one that holds text implements
``_text_values``, too. The views in ``views.py`` (transposed, some columns left out, rows in another order) are sources
themselves and copy nothing ahead.

An ``Index`` says which rows or columns of an array: a slice where positions follow one another, so that a part is a
view.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsvd.data.checks import expect_matrix, expect_names, numbers_as_text, to_column, to_float, to_gapped
from fedsvd.errors import ConfigError, DataError, NotNumeric, ShapeError, SourceChanged
from fedsvd.storage.file_stamp import Watch
from fedsvd.types import Array, Digest, Float, near

Index = slice | NDArray[np.intp]
"""Which rows, or which columns: a run ``slice(start, stop)`` or positions in any order."""


def as_run(index: NDArray[np.intp]) -> Index:
    """The same positions, as a slice when they follow one another: a slice of an array is a view."""
    if index.size and bool(np.all(np.diff(index) == 1)):
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


def pick(array: NDArray[Any], rows: Index, columns: Index) -> NDArray[Any]:
    """These rows of these columns of an array in memory or mapped; a view when both are slices."""
    if isinstance(rows, slice) or isinstance(columns, slice):
        return array[rows, columns]
    # Two position arrays in one pair of brackets would pair up; one after the other would copy whole rows.
    return array[np.ix_(rows, columns)]


Reopen = Callable[[], "MatrixSource"]
"""What opens the same matrix in another process: small, and made of what travels."""

_FINGERPRINT_DOMAIN = b"fedsvd/matrix/1\x00"
FINGERPRINT_BYTES = 1 << 24
_INSPECTED_BYTES = 1 << 24
_NAMES_SHOWN = 8
CHANGED_FIX = "write a new table elsewhere and move it into place between jobs; then approve and resume the job"


class MatrixSource(ABC):
    """A real matrix of known shape, readable in panels along both axes."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], names: Iterable[object] | None = None) -> None:
        self._shape = expect_matrix(shape)
        self._dtype = dtype
        self._names = None if names is None else expect_names(names, self._shape[1])
        self._reopen: Reopen | None = None
        self._inspected = False
        self._watch: Watch | None = None

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
    def label_name(self) -> str | None:
        """The name of the row labels, by which ``column`` reads them, too: that of a data frame's index, else None."""
        return None

    def places(self) -> NDArray[np.intp]:
        """Which rows of the table as it was opened these rows are."""
        return np.arange(self.shape[0])

    @property
    def made_up(self) -> bool:
        """Whether the numbers come from a generator: they are no person's records."""
        return False

    @property
    def in_memory(self) -> bool:
        """Whether small panels cost no more than large ones, and several threads may read at the same time."""
        return False

    @property
    def known_finite(self) -> bool:
        """Whether ``inspect`` found every entry finite, and they have been in memory since: panels need no check."""
        return self._inspected

    @property
    def T(self) -> "MatrixSource":
        """The transposed matrix: a view whose rows are our columns, without names."""
        from fedsvd.data.views import Transposed

        return Transposed(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape})"

    @abstractmethod
    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        """These rows of these columns as they are stored, unchecked; a view where the format allows it."""

    def _place(self, row: int, column: int) -> str:
        """How an error names this entry: by its place in the data the user gave, not in a view of it."""
        return f"row {row}, column {column if self._names is None else repr(self._names[column])}"

    def rows(self, start: int, stop: int) -> Float:
        """Rows ``start .. stop-1``, shape (stop - start, columns)."""
        self._expect_run("rows", start, stop, self.shape[0])
        return self._panel(slice(start, stop), slice(0, self.shape[1]), stop == self.shape[0])

    def columns(self, start: int, stop: int) -> Float:
        """Columns ``start .. stop-1``, shape (rows, stop - start)."""
        self._expect_run("columns", start, stop, self.shape[1])
        return self._panel(slice(0, self.shape[0]), slice(start, stop), stop == self.shape[1])

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

    def _panel(self, rows: slice, columns: slice, last: bool) -> Float:
        # An empty panel is not asked of a format: a data frame without columns, for one, forgets its rows.
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        known = self.known_finite
        with self._unchanged(last):
            cells = self._cells(rows, columns) if 0 not in shape else np.empty(shape)
            return to_float(cells, lambda i, j: self._place(rows.start + i, columns.start + j), known_finite=known)

    def watch(self, watch: Watch) -> None:
        """These are the files behind the matrix, as they were before anything was read of them."""
        self._watch = watch

    def expect_unchanged(self) -> None:
        """``SourceChanged`` if a file behind this matrix was written to, replaced, added or removed since opening.

        Asked after every pass, before a fault of the data is believed, and before anything made of it is signed.
        """
        if self._watch is not None and (path := self._watch.changed()) is not None:
            raise SourceChanged(f"{path} changed while it was in use", CHANGED_FIX)

    @property
    def settled(self) -> bool:
        """Whether ``expect_unchanged`` notices any change: no file was written to a moment before it was opened."""
        return self._watch is None or self._watch.settled()

    @property
    def has_files(self) -> bool:
        """Whether this matrix is read from files that others may change."""
        return self._watch is not None

    @contextmanager
    def _unchanged(self, last: bool) -> Iterator[None]:
        """What is read inside is of unchanged files, as far as stamps say; asked where it is the ``last`` of a pass."""
        try:
            yield
        except DataError:
            self.expect_unchanged()  # what is read from a file while it is written may be anything
            raise
        if last:
            self.expect_unchanged()

    def elsewhere(self) -> Reopen | None:
        """How another process, which sees the same files, opens this matrix; None where it lives in memory only."""
        return self._reopen

    def lazy(self) -> Any:
        """This matrix as a Dask array, where Dask holds it; else None."""
        return None

    def inspect(self) -> None:
        """Read everything once, keep nothing: what no panel can be made of is refused now, not during a study.

        A session inspects its data when it begins, whatever was known of it: the owner of an array may have changed it
        since the last one. What lies in memory is not checked again, panel by panel, after that.
        """
        axis, self._inspected = int(self._by_columns), False
        for _ in self.panels(axis, max(1, _INSPECTED_BYTES // (8 * self.shape[1 - axis]))):
            pass
        self._inspected = self.in_memory

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
                from fedsvd.data.views import Without

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
        width = max(1, FINGERPRINT_BYTES // (8 * self.shape[1 - axis]))
        for panel in self.panels(axis, width):
            content = np.ascontiguousarray(panel.T if axis else panel) + 0.0
            digest.update(content.astype("<f8", copy=False).data)
        return Digest(digest.hexdigest())

    def content_digest(self) -> bytes:
        """What a party commits to besides the shape: the address of what is generated; nothing for what is not hashed
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
        if self._is_label(name) and (labels := self.row_labels()) is not None:
            return labels
        with self._unchanged(True):
            return to_column(self._values(self._position(name)), name)

    def raw(self, rows: Index, columns: Index) -> Float:
        """These cells as float64, NaN where an entry is missing; infinite ones are refused."""
        places = np.arange(self.shape[0])[rows], np.arange(self.shape[1])[columns]
        with self._unchanged(isinstance(rows, slice) and rows.stop == self.shape[0]):
            cells = self._cells(rows, columns)
            return to_gapped(cells, lambda i, j: self._place(int(places[0][i]), int(places[1][j])))

    def text(self, name: str) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        """One whole column as text, shape (rows,), empty where an entry is missing, and which entries are."""
        with self._unchanged(True):
            return self._text_values(self._position(name))

    def without(self, names: Collection[str]) -> "MatrixSource":
        """The matrix without these columns; ``column`` still reads them, and they need not be numbers."""
        from fedsvd.data.views import Without

        wanted = [name for name in ((names,) if isinstance(names, str) else names) if not self._is_label(name)]
        dropped = {self._position(name) for name in wanted}
        return Without(self, [j for j in range(self.shape[1]) if j not in dropped]) if dropped else self

    def reordered(self, order: ArrayLike) -> "MatrixSource":
        """Row ``i`` of the result is our row ``order[i]``: sorts rows by id, or picks some of them."""
        from fedsvd.data.views import Reordered

        return Reordered(self, order)

    def _values(self, position: int) -> NDArray[Any]:
        """The column as it is stored: numbers, or text for what is not a number."""
        values: NDArray[Any] = self._cells(slice(0, self.shape[0]), slice(position, position + 1))[:, 0]
        return values

    def _text_values(self, position: int) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        """``text`` of a column by its place; of numbers, as Python writes them, whole ones without a point."""
        return numbers_as_text(self.raw(slice(0, self.shape[0]), slice(position, position + 1))[:, 0])

    def _is_label(self, name: str) -> bool:
        return name == self.label_name and name not in (self._names or ())

    def _position(self, name: str) -> int:
        if self._names is None:
            raise ConfigError(f"no column is named {name!r}: the data has no column names", "give names=[...]")
        if name not in self._names:
            shown = ", ".join(map(repr, self._names[:_NAMES_SHOWN]))
            more = f" and {len(self._names) - _NAMES_SHOWN} more" if len(self._names) > _NAMES_SHOWN else ""
            raise ConfigError(f"no column is named {name!r}", f"one of {shown}{more}{near(name, self._names)}")
        return self._names.index(name)

    def _expect_run(self, what: str, start: int, stop: int, length: int) -> None:
        if not 0 <= start <= stop <= length:
            raise ShapeError(
                f"{what} {start}:{stop} of a matrix of {length} {what}", f"ask for {what} from 0 to {length}"
            )
