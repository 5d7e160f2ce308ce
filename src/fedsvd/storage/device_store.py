"""A block store on a device: for a matrix that fits there, whatever the budget of the host.

It holds the one array it was given and hands out views of it. The library behind the array has no read-only views, so
that a reader must not write; the CSP, the only reader, does not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.storage.access import Access
from fedsvd.storage.block_store import BlockStore
from fedsvd.types import Array, Float, expect_shape


class DeviceStore(BlockStore):
    """An m x n matrix in ``cells``, an array of zeros of that shape; ``put`` brings a NumPy array to it."""

    def __init__(
        self, shape: tuple[int, int], access: Access, cells: Array, put: Callable[[NDArray[Any]], Array]
    ) -> None:
        super().__init__(shape, access)
        expect_shape("cells", cells, *shape)
        self._cells, self._put = cells, put

    def read(self, rows: slice, cols: slice) -> Array:
        """The block at ``rows`` x ``cols``: a view on the device."""
        return self._read(*self._inside(rows, cols))

    def there(self, block: Array) -> Array:
        """A block on the device of the store, wherever it comes from."""
        return self._put(block) if isinstance(block, np.ndarray) else block

    def _write(self, rows: slice, cols: slice, block: Array) -> None:
        self._cells[rows, cols] = block

    def _read(self, rows: slice, cols: slice) -> Float:
        view: Float = self._cells[rows, cols]
        return view

    def _release(self) -> None:
        del self._cells
