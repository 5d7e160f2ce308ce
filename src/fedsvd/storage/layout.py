"""How a stored matrix will be read back, and where each of its entries therefore lies.

Section 3.4 of the paper, part 2: a file map is read fast only along the way it was written, so a matrix is laid out for
the reading that is declared for it: rows one after the other (C order) for row panels, columns one after the other
(Fortran order) for column panels. This file is arithmetic over an array that a store made. A declaration is not
enforced: to imitate the order an operating system would use, declare ``BY_ROWS`` and read by columns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from fedsvd.errors import ConfigError
from fedsvd.types import Float


class Access(Enum):
    """The reading a matrix is stored for."""

    BY_ROWS = "by_rows"
    BY_COLUMNS = "by_columns"


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of an m x n matrix of float64, stored for one kind of access.

    ``cells`` below is what ``arrange`` makes of ``size`` numbers, (m, n). Slices have both ends, lie inside the
    matrix and have step one.
    """

    shape: tuple[int, int]
    access: Access

    def __post_init__(self) -> None:
        if len(self.shape) != 2 or min(self.shape) < 1:
            raise ConfigError(f"a stored matrix has two sides of at least 1, got shape {self.shape}")

    @property
    def size(self) -> int:
        """Numbers to store."""
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes to store."""
        return 8 * self.size

    def arrange(self, flat: Float) -> Float:
        """``flat`` (``size`` numbers in storage order) seen as ``cells``; no copy."""
        m, n = self.shape
        return flat.reshape(n, m).T if self.access is Access.BY_COLUMNS else flat.reshape(m, n)

    def write(self, cells: Float, rows: slice, cols: slice, block: Float) -> None:
        """Put ``block`` at ``rows`` x ``cols``."""
        cells[rows, cols] = block

    def read(self, cells: Float, rows: slice, cols: slice) -> Float:
        """What lies at ``rows`` x ``cols``: a view."""
        return cells[rows, cols]


def full_slice(name: str, span: slice, length: int) -> slice:
    """``span`` with both ends written out; ``ConfigError`` unless it lies inside ``0 .. length``.

    Python's own slices are cut short without a word, which would turn a wrong index into a missing row.
    """
    start = 0 if span.start is None else span.start
    stop = length if span.stop is None else span.stop
    if span.step not in (None, 1) or not 0 <= start <= stop <= length:
        raise ConfigError(f"{name} {start}:{stop} (step {span.step}) does not lie in 0:{length}")
    return slice(start, stop)


def spans(length: int, width: int) -> Iterator[slice]:
    """``0 .. length`` cut into pieces ``width`` wide; the last may be narrower."""
    if width < 1:
        raise ConfigError(f"a panel is at least 1 wide, got {width}")
    return (slice(start, min(start + width, length)) for start in range(0, length, width))
