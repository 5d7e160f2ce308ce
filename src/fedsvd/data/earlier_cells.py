"""A table with earlier values in a few of its cells: records whose corrections are not used yet (``policy``)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.checks import to_column, to_gapped
from fedsvd.data.source import Index, MatrixSource
from fedsvd.data.views import View
from fedsvd.errors import NotFinite
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class EarlierCells:
    """What stood in some rows of one column: numbers with NaN for gaps, or texts and which of them are gaps."""

    rows: NDArray[np.intp]
    values: NDArray[Any]
    gaps: NDArray[np.bool_] | None = None  # of texts


class WithEarlierCells(View):
    """A table whose cells are those of ``base``, but for some, by the place of their column."""

    def __init__(self, base: MatrixSource, cells: Mapping[int, EarlierCells]) -> None:
        super().__init__(base, base.shape, np.dtype(np.float64), base.names)
        self._earlier = dict(cells)

    @property
    def text_names(self) -> frozenset[str]:
        return self._base.text_names

    def column(self, name: str) -> NDArray[Any]:
        place = None if self.names is None or name not in self.names else self.names.index(name)
        if place not in self._earlier:
            return self._base.column(name)
        if self._earlier[place].gaps is None:
            return to_column(self.raw(slice(0, self.shape[0]), slice(place, place + 1))[:, 0], name)
        texts, gaps = self._text_values(place)
        if gaps.any():
            raise NotFinite(
                f"{int(gaps.sum())} of {len(gaps)} entries of column {name!r} are missing",
                "fill them in, or leave these rows out",
            )
        return texts

    def _text_values(self, position: int) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        earlier = self._earlier.get(position)
        if earlier is None or earlier.gaps is None:
            return super()._text_values(position) if earlier is not None else self._base._text_values(position)
        texts, gaps = self._base._text_values(position)
        texts, gaps = texts.astype(np.result_type(texts.dtype, earlier.values.dtype)), gaps.copy()  # as wide as both
        texts[earlier.rows], gaps[earlier.rows] = earlier.values, earlier.gaps
        return texts, gaps

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        wanted, asked = np.arange(self.shape[1])[columns], np.arange(self.shape[0])[rows]
        cells = to_gapped(self._base._cells(rows, columns), lambda i, j: self._place(int(asked[i]), int(wanted[j])))
        found = [(at, self._earlier[j]) for at, j in enumerate(wanted.tolist()) if j in self._earlier]
        if not found:
            return cells
        out: Float = np.array(cells)
        place = np.full(self.shape[0], -1)
        for at, earlier in found:
            place[earlier.rows] = np.arange(len(earlier.rows))
            here = place[asked]
            out[here >= 0, at] = earlier.values[here[here >= 0]]
            place[earlier.rows] = -1
        return out

    def _place(self, row: int, column: int) -> str:
        return self._base._place(row, column)
