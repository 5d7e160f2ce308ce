"""A block store on disk, seen through a file map.

Section 3.4 of the paper, part 2: the matrix lies in a private file in the order it will be read, and a map
of the file brings in what is touched. Touched pages count as our memory until the system wants them back,
so the store hands them back itself, every ``resident`` bytes: the numbers stay in the file.
"""

import mmap
import os
from pathlib import Path

import numpy as np

from fedsvd.storage.access import Access
from fedsvd.storage.block_store import BlockStore
from fedsvd.storage.private_file import PrivateFile
from fedsvd.types import Float

RESIDENT = 1 << 26


class MappedStore(BlockStore):
    """An m x n matrix in a private file under ``directory``, about ``resident`` bytes of it in memory.

    Read across its layout it takes more: the system brings in many pages for every few numbers.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        access: Access,
        directory: str | os.PathLike[str],
        resident: int = RESIDENT,
    ) -> None:
        super().__init__(shape, access)
        self._resident = resident
        self._touched = 0
        self._file = PrivateFile(Path(directory))
        try:
            self._file.reserve(self.layout.nbytes)
            self._map = mmap.mmap(self._file.file.fileno(), self.layout.nbytes)
        except BaseException:
            self._file.close()
            raise
        self._cells: Float = self.layout.arrange(np.frombuffer(self._map, np.float64))

    def _write(self, rows: slice, cols: slice, block: Float) -> None:
        self._make_room(block.nbytes)
        self.layout.write(self._cells, rows, cols, block)

    def _read(self, rows: slice, cols: slice) -> Float:
        self._make_room(8 * (rows.stop - rows.start) * (cols.stop - cols.start))
        return self.layout.read(self._cells, rows, cols)

    def _release(self) -> None:
        # The map is not closed by hand: a view a caller still holds keeps it, and would else read nowhere.
        del self._cells, self._map
        self._file.close()

    def _make_room(self, size: int) -> None:
        self._touched += size
        if self._touched > self._resident:
            self._touched = size
            if hasattr(mmap, "MADV_DONTNEED"):
                # On a shared map this only unmaps pages: changed ones stay with the file and are written out.
                self._map.madvise(mmap.MADV_DONTNEED)
