"""Mask blocks put aside when they are made and taken up again one by one.

Section 3.4 of the paper, part 1: P and Q are used twice, to apply the masks and to remove them, each time
block by block. So every block is saved as soon as it is generated or received, loaded when its turn comes,
and dropped from memory when its product is done. Blocks may have any shapes; a block's key is its number in
the order of arrival.

What is read is read-only. A block read from a disk belongs to whoever reads it; the spool keeps no reference.
"""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from fedsvd.errors import ConfigError, StorageError
from fedsvd.storage.private_file import PrivateFile, expect_space
from fedsvd.types import Float


class BlockSpool(ABC):
    """Blocks in the order they were appended; iterate over it as often as needed."""

    def __init__(self) -> None:
        self._shapes: list[tuple[int, ...]] = []
        self._closed = False

    def append(self, block: Float) -> int:
        """Put a copy of ``block`` aside; its key."""
        self._expect_open()
        self._save(np.asarray(block, np.float64, order="C"))
        self._shapes.append(block.shape)
        return len(self._shapes) - 1

    def read(self, key: int) -> Float:
        """The block of this key, read-only."""
        self._expect_open()
        if not 0 <= key < len(self._shapes):
            raise ConfigError(f"there is no block {key} among {len(self._shapes)}")
        block = self._load(key)
        block.flags.writeable = False
        return block

    def __len__(self) -> int:
        return len(self._shapes)

    def __iter__(self) -> Iterator[Float]:
        # No local name for the block: the generator would keep it alive while the next one is loaded.
        return (self.read(key) for key in range(len(self._shapes)))

    @property
    def nbytes(self) -> int:
        """Bytes put aside."""
        return 8 * sum(math.prod(shape) for shape in self._shapes)

    def close(self) -> None:
        """Drop all blocks; a second call changes nothing."""
        if not self._closed:
            self._closed = True
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} blocks, {self.nbytes} bytes)"

    def _expect_open(self) -> None:
        if self._closed:
            raise StorageError(f"the spool of {len(self)} blocks is closed", "use the blocks before close()")

    @abstractmethod
    def _save(self, block: Float) -> None: ...

    @abstractmethod
    def _load(self, key: int) -> Float: ...

    @abstractmethod
    def _release(self) -> None: ...


class MemorySpool(BlockSpool):
    """Blocks in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: list[Float] = []

    def _save(self, block: Float) -> None:
        self._blocks.append(block.copy())

    def _load(self, key: int) -> Float:
        return self._blocks[key].view()

    def _release(self) -> None:
        self._blocks.clear()


class DiskSpool(BlockSpool):
    """Blocks one after another in a private file under ``directory``."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        super().__init__()
        self._file = PrivateFile(Path(directory))
        self._starts = [0]

    def _save(self, block: Float) -> None:
        expect_space(self._file.scratch, block.nbytes)
        self._file.write(self._starts[-1], block)
        self._starts.append(self._starts[-1] + block.nbytes)

    def _load(self, key: int) -> Float:
        block = np.empty(self._shapes[key])
        self._file.read(self._starts[key], block)
        return block

    def _release(self) -> None:
        self._file.close()
