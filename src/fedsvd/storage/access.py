"""How a stored matrix will be read back, and where each of its entries therefore lies.

Section 3.4 of the paper, part 2: a file map is read fast only along the way it was written, so a matrix is
laid out for the reading that is declared for it. Rows side by side (C order) for row panels, columns side by
side (Fortran order) for column panels, square tiles for a matrix that is read both ways.

This file is arithmetic over an array somebody else made; memory and disks are in the stores. A declaration
is not enforced: to imitate the order an operating system would use, declare ``BY_ROWS`` and read by columns.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.types import Float

TILE = 512  # 2 MiB a tile: long enough for a disk to stream, small beside any panel


class Access(Enum):
    """The reading a matrix is stored for."""

    BY_ROWS = "by_rows"
    BY_COLUMNS = "by_columns"
    BY_TILES = "by_tiles"


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of an m x n matrix of float64, stored for one kind of access.

    ``cells`` below is what ``arrange`` makes of ``size`` numbers: (m, n), or (tile rows, tile columns, height,
    width) for tiles. Slices handed in are whole: both ends given, inside the matrix, step one.
    """

    shape: tuple[int, int]
    access: Access
    tile: int = TILE

    def __post_init__(self) -> None:
        if len(self.shape) != 2 or min(self.shape) < 1:
            raise ConfigError(f"a stored matrix has two sides of at least 1, got shape {self.shape}")
        if self.tile < 1:
            raise ConfigError(f"a tile is at least 1 wide, got {self.tile}")

    @property
    def extent(self) -> tuple[int, ...]:
        """The shape of ``cells`` in storage order."""
        m, n = self.shape
        if self.access is Access.BY_ROWS:
            return (m, n)
        if self.access is Access.BY_COLUMNS:
            return (n, m)
        # Near-equal tiles: at most one cell of padding per tile and side, instead of most of a last tile.
        down, across = -(-m // self.tile), -(-n // self.tile)
        return (down, across, -(-m // down), -(-n // across))

    @property
    def size(self) -> int:
        """Cells to store, the padding of tiles included."""
        return math.prod(self.extent)

    @property
    def nbytes(self) -> int:
        """Bytes to store."""
        return 8 * self.size

    def arrange(self, flat: Float) -> Float:
        """``flat`` (``size`` numbers in storage order) seen as ``cells``; no copy."""
        cells = flat.reshape(self.extent)
        return cells.T if self.access is Access.BY_COLUMNS else cells

    def write(self, cells: Float, rows: slice, cols: slice, block: Float) -> None:
        """Put ``block`` at ``rows`` x ``cols``."""
        if self.access is not Access.BY_TILES:
            cells[rows, cols] = block
            return
        for place, part in self._pieces(rows, cols):
            cells[place] = block[part]

    def read(self, cells: Float, rows: slice, cols: slice) -> Float:
        """What lies at ``rows`` x ``cols``: a view, unless it crosses the border of a tile."""
        if self.access is not Access.BY_TILES:
            return cells[rows, cols]
        pieces = list(self._pieces(rows, cols))
        if len(pieces) == 1:
            only: Float = cells[pieces[0][0]]
            return only
        block = np.empty((rows.stop - rows.start, cols.stop - cols.start))
        for place, part in pieces:
            block[part] = cells[place]
        return block

    def _pieces(self, rows: slice, cols: slice) -> Iterator[tuple[tuple[int, int, slice, slice], tuple[slice, slice]]]:
        """Where each tile's share of ``rows`` x ``cols`` lies in ``cells``, and where in the block."""
        height, width = self.extent[2:]
        across = list(_cuts(cols, width))
        for i, inner_rows, block_rows in _cuts(rows, height):
            for j, inner_cols, block_cols in across:
                yield (i, j, inner_rows, inner_cols), (block_rows, block_cols)


def whole(name: str, span: slice, length: int) -> slice:
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


def _cuts(span: slice, side: int) -> Iterator[tuple[int, slice, slice]]:
    """Tile number, the part of ``span`` inside that tile, and the same part counted from ``span.start``."""
    start = span.start
    while start < span.stop:
        tile, offset = divmod(start, side)
        count = min(side - offset, span.stop - start)
        yield tile, slice(offset, offset + count), slice(start - span.start, start - span.start + count)
        start += count
