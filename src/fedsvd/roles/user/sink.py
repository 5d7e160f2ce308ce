"""Where a user's own part of a result goes while it is made: Vt_i, or the scores, as large as its data.

It is written panel by panel, in order of its columns. What ``close`` returns stands for it in the result. Sinks that
write files are in ``results/vector_files.py``.
"""

from typing import Any, Protocol

import numpy as np

from fedsvd.types import Float


class Sink(Protocol):
    """Takes the panels of one matrix."""

    def open(self, rows: int, columns: int) -> None: ...
    def write(self, panel: Float) -> None: ...
    def close(self) -> Any:
        """What stands for the matrix in the result."""


class InMemory:
    """One array."""

    def open(self, rows: int, columns: int) -> None:
        self._array, self._done = np.empty((rows, columns)), 0

    def write(self, panel: Float) -> None:
        self._array[:, self._done : self._done + panel.shape[1]] = panel
        self._done += panel.shape[1]

    def close(self) -> Float:
        return self._array


class Nowhere:
    """Made, checked, dropped."""

    def open(self, rows: int, columns: int) -> None:
        pass

    def write(self, panel: Float) -> None:
        pass

    def close(self) -> None:
        pass
