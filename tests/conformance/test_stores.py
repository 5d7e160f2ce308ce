"""Every store obeys the laws of its interface."""

from pathlib import Path

from fedsvd.storage.access import Access
from fedsvd.storage.block_store import BlockStore
from fedsvd.storage.mapped_store import MappedStore
from fedsvd.storage.memory_store import MemoryStore
from fedsvd.testing.stores import BlockStoreTests


class TestMemoryStore(BlockStoreTests):
    def make(self, shape: tuple[int, int], access: Access, scratch: Path) -> BlockStore:
        return MemoryStore(shape, access)


class TestMappedStore(BlockStoreTests):
    def make(self, shape: tuple[int, int], access: Access, scratch: Path) -> BlockStore:
        return MappedStore(shape, access, scratch)


class TestMappedStoreThatKeepsNothingInMemory(BlockStoreTests):
    def make(self, shape: tuple[int, int], access: Access, scratch: Path) -> BlockStore:
        return MappedStore(shape, access, scratch, resident=0)
