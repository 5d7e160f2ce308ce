"""Every store obeys the laws of its interface."""

from pathlib import Path

from fedsvd.storage.block_store import Access, BlockStore, MappedStore, MemoryStore
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
