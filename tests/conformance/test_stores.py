"""Every store and every spool of the house keeps the laws of its interface."""

import functools
from pathlib import Path

import pytest

from fedsvd.storage import block_store
from fedsvd.storage.access import Access, Layout
from fedsvd.storage.block_spool import BlockSpool, DiskSpool, MemorySpool
from fedsvd.storage.block_store import BlockStore
from fedsvd.storage.mapped_store import MappedStore
from fedsvd.storage.memory_store import MemoryStore
from fedsvd.testing.stores import BlockSpoolTests, BlockStoreTests


class TestMemoryStore(BlockStoreTests):
    def make(self, shape: tuple[int, int], access: Access, scratch: Path) -> BlockStore:
        return MemoryStore(shape, access)


class TestMappedStore(BlockStoreTests):
    def make(self, shape: tuple[int, int], access: Access, scratch: Path) -> BlockStore:
        return MappedStore(shape, access, scratch)


class TestMappedStoreThatKeepsNothingInMemory(BlockStoreTests):
    def make(self, shape: tuple[int, int], access: Access, scratch: Path) -> BlockStore:
        return MappedStore(shape, access, scratch, resident=0)


class SmallTiles(BlockStoreTests):
    """The matrices of the suite are smaller than a tile; with these tiles they are not."""

    @pytest.fixture(autouse=True, params=[1, 3, 8], ids=lambda tile: f"tile={tile}")
    def _tiles(self, request, monkeypatch):
        monkeypatch.setattr(block_store, "Layout", functools.partial(Layout, tile=request.param))

    @pytest.fixture
    def access(self):
        return Access.BY_TILES


class TestMemoryStoreInSmallTiles(SmallTiles, TestMemoryStore):
    pass


class TestMappedStoreInSmallTiles(SmallTiles, TestMappedStoreThatKeepsNothingInMemory):
    pass


class TestMemorySpool(BlockSpoolTests):
    def make(self, scratch: Path) -> BlockSpool:
        return MemorySpool()


class TestDiskSpool(BlockSpoolTests):
    def make(self, scratch: Path) -> BlockSpool:
        return DiskSpool(scratch)
