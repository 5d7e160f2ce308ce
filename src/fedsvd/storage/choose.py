"""Memory or disk: one rule.

What fits its memory budget stays in memory, the rest goes to the scratch folder. The budget is the caller's:
this file neither asks the machine how much memory it has nor adds up several stores.
"""

import os

from fedsvd.errors import ConfigError, StorageError
from fedsvd.storage.access import Access, Layout
from fedsvd.storage.block_store import BlockStore
from fedsvd.storage.mapped_store import MappedStore
from fedsvd.storage.memory_store import MemoryStore
from fedsvd.types import byte_size


def choose_store(
    shape: tuple[int, int], access: Access, budget: int, directory: str | os.PathLike[str] | None = None
) -> BlockStore:
    """A store for a matrix of this shape that takes about ``budget`` bytes of memory at most."""
    if _fits(Layout(shape, access).nbytes, budget):
        return MemoryStore(shape, access)
    folder = _scratch(f"a {shape[0]} x {shape[1]} matrix", budget, directory)
    # A quarter of it: what a pass has left behind in memory is of no use to the next, which starts at the other end.
    return MappedStore(shape, access, folder, budget // 4)


def _fits(nbytes: int, budget: int) -> bool:
    if budget < 0:
        raise ConfigError(f"a memory budget is at least 0 bytes, got {budget}")
    return nbytes <= budget


def _scratch(what: str, budget: int, directory: str | os.PathLike[str] | None) -> str | os.PathLike[str]:
    if directory is None:
        raise StorageError(
            f"{what} does not fit the memory budget of {byte_size(budget)}",
            "name a scratch folder or raise the budget",
        )
    return directory
