"""A party's own columns as the plan of a description has them: values with their gaps, levels as codes, groups."""

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.errors import DataError
from fedsvd.protocol.table import TablePlan
from fedsvd.types import Float

Flags = NDArray[np.bool_]


class DescribedColumns:
    """Columns of X, (columns, records), by their places in the plan; indicators of gaps follow the values."""

    def __init__(self, X: MatrixSource, about: TablePlan) -> None:
        self.X, self.about = X, about
        self.group = np.zeros(X.shape[1], np.intp)
        """Of every record the number of its group; -1 where it has none."""
        if about.by:
            codes, missing = self.codes(about.place)
            self.group = np.where(missing, -1, codes)

    def values(self, place: int) -> tuple[Float, Flags]:
        """A column, and where it has gaps."""
        values: Float = np.asarray(self.X.rows(place, place + 1))[0]
        if not self.about.gaps:
            return values, np.zeros(len(values), np.bool_)
        flag = place + len(self.about.variables)
        return values, np.asarray(self.X.rows(flag, flag + 1))[0] != 0.0

    def codes(self, place: int) -> tuple[NDArray[np.intp], Flags]:
        """The level of every record as a number from 0, and where it has none."""
        values, missing = self.values(place)
        variable, codes = self.about.variables[place], values.astype(np.intp)
        if codes.size and not (codes.min() >= 0 and codes.max() < len(variable.levels)):
            raise DataError(f"column {variable.name!r} has codes of no level", "prepare the table again")
        return codes, missing
