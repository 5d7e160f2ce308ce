"""Views of a matrix: its axes exchanged, some columns left out or in another order, rows in another order.

A view is a source itself; it copies nothing ahead and hands every question on to the source it is a view of.

``Stacked`` is two matrices side by side as one source: a party's features and its labels. ``NumberedNames`` are column
names for data that has none: x0, x1, ..., as scikit-learn counts them, without holding a list of them. A party may have
25 million columns; their names, written out, would take more memory than its whole budget.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsvd.data.source import Index, MatrixSource, Reopen, as_run
from fedsvd.errors import ShapeError
from fedsvd.types import Array, Float


class OfOther(MatrixSource):
    """A source that is read from another, whose files are its own."""

    _base: MatrixSource

    def expect_unchanged(self) -> None:
        self._base.expect_unchanged()

    @property
    def settled(self) -> bool:
        return self._base.settled

    @property
    def has_files(self) -> bool:
        return self._base.has_files


class Transposed(OfOther):
    """A source with its axes exchanged."""

    def __init__(self, base: MatrixSource) -> None:
        super().__init__((base.shape[1], base.shape[0]), base.dtype)
        self._base = base

    @property
    def made_up(self) -> bool:
        return self._base.made_up

    @property
    def in_memory(self) -> bool:
        return self._base.in_memory

    @property
    def known_finite(self) -> bool:
        return self._base.known_finite

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


Kind = TypeVar("Kind", bound=MatrixSource)


def underlying(source: MatrixSource, kind: type[Kind]) -> Kind | None:
    """The source of this kind that another is a view of, or is itself; None for another kind."""
    while not isinstance(source, kind):
        if not isinstance(source, OfOther):
            return None
        source = source._base
    return source


class View(OfOther):
    """A source that is read from another, whose rows its own are: labels are that one's."""

    def __init__(
        self, base: MatrixSource, shape: tuple[int, int], dtype: np.dtype[Any], names: Sequence[str] | None = None
    ) -> None:
        super().__init__(shape, dtype, names)
        self._base = base

    @property
    def made_up(self) -> bool:
        return self._base.made_up

    @property
    def label_name(self) -> str | None:
        return self._base.label_name

    def row_labels(self) -> NDArray[Any] | None:
        return self._base.row_labels()

    def places(self) -> NDArray[np.intp]:
        return self._base.places()

    def _is_label(self, name: str) -> bool:
        return name not in (self.names or ()) and self._base._is_label(name)


class Without(View):
    """A source with some columns left out."""

    def __init__(self, base: MatrixSource, kept: list[int]) -> None:
        names = None if base.names is None else [base.names[j] for j in kept]
        super().__init__(base, (base.shape[0], len(kept)), base.dtype, names)
        self._kept = np.array(kept, dtype=np.intp)

    @property
    def text_names(self) -> frozenset[str]:
        return self._base.text_names & frozenset(self.names or ())

    def elsewhere(self) -> Reopen | None:
        base = self._base.elsewhere()
        return None if base is None else partial(_reopened, base, Without, self._kept.tolist())

    def lazy(self) -> Any:
        base = self._base.lazy()
        return None if base is None else base[:, self._kept]

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


class Reordered(View):
    """A source with its rows in another order."""

    def __init__(self, base: MatrixSource, order: ArrayLike) -> None:
        self._order = _expect_order(order, base.shape[0])
        super().__init__(base, (self._order.size, base.shape[1]), base.dtype, base.names)

    @property
    def text_names(self) -> frozenset[str]:
        return self._base.text_names

    def row_labels(self) -> NDArray[Any] | None:
        labels = super().row_labels()
        return None if labels is None else labels[self._order]

    def places(self) -> NDArray[np.intp]:
        return self._base.places()[self._order]

    def elsewhere(self) -> Reopen | None:
        base = self._base.elsewhere()
        return None if base is None else partial(_reopened, base, Reordered, self._order)

    def lazy(self) -> Any:
        base = self._base.lazy()
        return None if base is None else base[self._order]

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


class Stacked(OfOther):
    """``[D, y]``: the columns of a source, then further columns held in memory."""

    def __init__(self, base: MatrixSource, y: Float) -> None:
        if y.ndim != 2 or y.shape[0] != base.shape[0]:
            raise ShapeError(f"labels of shape {y.shape} for {base.shape[0]} rows", "give one label for each row")
        super().__init__((base.shape[0], base.shape[1] + y.shape[1]), np.dtype(np.float64))
        self._base = base
        self._y = y

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        ours = self._base.shape[1]
        wanted = np.arange(self.shape[1])[columns]
        left, right = wanted[wanted < ours], wanted[wanted >= ours] - ours
        if np.any(np.diff(wanted) != 1):
            both = np.concatenate((self._base._cells(rows, slice(0, ours)), self._y[rows]), axis=1)
            picked: NDArray[Any] = both[:, wanted]
            return picked
        parts = []
        if left.size:
            parts.append(self._base._cells(rows, slice(int(left[0]), int(left[-1]) + 1)))
        if right.size:
            parts.append(self._y[rows, int(right[0]) : int(right[-1]) + 1])
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


class NumberedNames(Sequence[str]):
    """``x0 .. x{count-1}``; equal to any sequence of the same names."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        numbers = range(self._count)[place]
        return f"x{numbers}" if isinstance(numbers, int) else [f"x{number}" for number in numbers]

    def __iter__(self) -> Iterator[str]:  # the usual one asks for each by its place, ten times as slowly
        return (f"x{number}" for number in range(self._count))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NumberedNames):
            return self._count == other._count
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(ours == theirs for ours, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(("x", self._count))

    def __repr__(self) -> str:
        return f"NumberedNames({self._count})"
