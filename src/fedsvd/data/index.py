"""Which rows and columns of an array: slices where positions follow one another, so that a part is a view."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
