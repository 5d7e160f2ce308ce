"""A block store in memory: for matrices within the memory budget."""

import numpy as np

from fedsvd.storage.access import Access
from fedsvd.storage.block_store import BlockStore
from fedsvd.types import Float


class MemoryStore(BlockStore):
    """An m x n matrix in memory; pages that were never written cost nothing."""

    def __init__(self, shape: tuple[int, int], access: Access) -> None:
        super().__init__(shape, access)
        self._cells: Float = self.layout.arrange(np.zeros(self.layout.size))

    def _write(self, rows: slice, cols: slice, block: Float) -> None:
        self.layout.write(self._cells, rows, cols, block)

    def _read(self, rows: slice, cols: slice) -> Float:
        return self.layout.read(self._cells, rows, cols)

    def _release(self) -> None:
        del self._cells
