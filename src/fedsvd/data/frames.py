"""Data frames: pandas, polars, PyArrow tables, and whatever else narwhals understands.

The frame is kept and never changed; column names are kept as text. A panel converts the cells it needs. Nulls
count as NaN. Columns that are not numbers (text, dates, categories, objects) may stand in the frame: they are
refused only when the matrix is read with them in it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.checks import expect_names, not_numeric, text_with_gaps, to_text
from fedsvd.data.source import Index, MatrixSource
from fedsvd.data.written import written_in
from fedsvd.errors import DuplicateNames, MissingExtra, UnknownFormat


class FrameSource(MatrixSource):
    """An eager data frame."""

    def __init__(self, frame: Any) -> None:
        self._frame = _narwhals_frame(frame)
        super().__init__(self._frame.shape, np.dtype(np.float64), self._frame.columns)
        kinds = self._frame.schema.values()
        self._text = {j: str(kind) for j, kind in enumerate(kinds) if not _is_number(kind)}

    def row_labels(self) -> NDArray[Any] | None:
        """The index, where the library has one: pandas and what is made like it; polars and PyArrow have none."""
        import narwhals

        return index_labels(narwhals.maybe_get_index(self._frame))

    @property
    def label_name(self) -> str | None:
        """The name of the index, where it has one."""
        import narwhals

        name = getattr(narwhals.maybe_get_index(self._frame), "name", None)
        return None if name is None else str(name)

    @property
    def text_names(self) -> frozenset[str]:
        return frozenset() if self.names is None else frozenset(self.names[column] for column in self._text)

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        positions = np.arange(self.shape[1])[columns].tolist()
        for column in sorted(self._text.keys() & set(positions)):
            name = self._name(column)
            texts, gaps = self._text_values(column)
            raise not_numeric(f"column {name!r}", self._text[column], name=name, held=written_in(texts[~gaps].tolist()))
        part = self._frame[:, columns if isinstance(columns, slice) else positions]
        part = part[rows, :]
        cells: NDArray[Any] = part.to_numpy()
        if cells.dtype.kind in "biuf":
            return cells
        # Booleans with nulls, decimals, or booleans among numbers come as objects: convert each column.
        out = np.empty(part.shape, order="F")
        for place in range(len(positions)):
            out[:, place] = _as_float(part[:, place])
        return out

    def _values(self, position: int) -> NDArray[Any]:
        column = self._frame[:, position]
        if position in self._text:
            missing = column.is_null().to_numpy().astype(np.bool_)
            return to_text(column.to_list(), missing, self._name(position))
        values: NDArray[Any] = column.to_numpy()
        return values if values.dtype.kind in "biuf" else _as_float(column)

    def _text_values(self, position: int) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        if position not in self._text:
            return super()._text_values(position)
        column = self._frame[:, position]
        return text_with_gaps(column.to_list(), column.is_null().to_numpy().astype(np.bool_))

    def _name(self, column: int) -> str:
        return str(self._frame.columns[column])


def index_labels(index: Any) -> NDArray[Any] | None:
    """The labels of a pandas index as int64 where they are whole numbers, else as text; None for no index.

    The index of another library, of several levels or of dates is text: what is printed alike is alike.
    """
    if index is None:
        return None
    values = np.asarray(index)
    if values.dtype.kind in "iu" or (
        values.dtype.kind == "f" and bool((np.abs(values) < 2.0**53).all()) and bool((values == np.floor(values)).all())
    ):
        return values.astype(np.int64)
    return np.array([str(label) for label in index], dtype=np.str_)


def _narwhals_frame(frame: Any) -> Any:
    try:
        import narwhals
        from narwhals.exceptions import DuplicateError
    except ImportError:
        raise MissingExtra("data frames need narwhals", "pip install 'fedsvd[data]'") from None
    try:
        return narwhals.from_native(frame, eager_only=True)
    except DuplicateError:
        columns = list(getattr(frame, "column_names", None) or frame.columns)
        expect_names(columns, len(columns))
        raise DuplicateNames(
            "two columns of a frame have the same name", "rename one of them: frame.columns lists all"
        ) from None
    except TypeError:
        kind = f"{type(frame).__module__}.{type(frame).__name__}"
        raise UnknownFormat(f"a {kind} is not an eager data frame", "collect or compute it first") from None


def _as_float(column: Any) -> NDArray[np.float64]:
    import narwhals

    numbers: NDArray[np.float64] = column.cast(narwhals.Float64).to_numpy()
    return numbers


def _is_number(kind: Any) -> bool:
    import narwhals

    return bool(kind.is_numeric() or kind == narwhals.Boolean)
