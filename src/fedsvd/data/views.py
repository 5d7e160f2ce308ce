"""Views of a matrix: its axes exchanged, some columns left out or in another order, rows in another order.

A view is a source itself; it copies nothing ahead and hands every question on to the source it is a view of.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsvd.data.index import Index, as_run
from fedsvd.data.source import MatrixSource, Reopen
from fedsvd.errors import ShapeError
from fedsvd.types import Array


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

    @property
    def label_name(self) -> str | None:
        return self._base.label_name

    def _is_label(self, name: str) -> bool:
        return name not in (self.names or ()) and self._base._is_label(name)

    def column(self, name: str) -> NDArray[Any]:
        return self._base.column(name)

    def text(self, name: str) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        return self._base.text(name)

    def _text_values(self, position: int) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        return self._base._text_values(int(self._kept[position]))

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

    @property
    def label_name(self) -> str | None:
        return self._base.label_name

    def _is_label(self, name: str) -> bool:
        return name not in (self.names or ()) and self._base._is_label(name)

    def column(self, name: str) -> NDArray[Any]:
        return self._base.column(name)[self._order]

    def text(self, name: str) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        values, missing = self._base.text(name)
        return values[self._order], missing[self._order]

    def _text_values(self, position: int) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        values, missing = self._base._text_values(position)
        return values[self._order], missing[self._order]

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
