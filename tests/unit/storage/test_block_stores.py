"""What each store promises besides the laws of the interface, which ``tests/conformance`` holds."""

import gc
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from fedsvd.errors import StorageError
from fedsvd.storage import scratch
from fedsvd.storage.block_store import Access, MappedStore, MemoryStore
from fedsvd.testing.stores import EVERYTHING


@pytest.fixture
def make_on_disk():
    """A store on disk that holds 800 bytes."""

    def store(scratch):
        made = MappedStore((10, 10), Access.BY_ROWS, scratch)
        made.write(EVERYTHING, EVERYTHING, np.ones((10, 10)))
        return made

    return store


@pytest.mark.parametrize("store_class", [MemoryStore, MappedStore])
@pytest.mark.parametrize(
    ("access", "rows", "cols"),
    [
        (Access.BY_ROWS, slice(100, 300), EVERYTHING),
        (Access.BY_COLUMNS, EVERYTHING, slice(100, 300)),
    ],
)
def test_what_is_read_along_the_layout_is_a_view(store_class, access, rows, cols, tmp_path):
    extra = (tmp_path,) if store_class is MappedStore else ()
    with store_class((1000, 1000), access, *extra) as store:
        assert np.shares_memory(store.read(rows, cols), store.read(rows, cols))


def test_an_open_file_has_no_name_in_the_scratch_folder(make_on_disk, tmp_path):
    made = make_on_disk(tmp_path)
    assert list(tmp_path.iterdir()) == []
    made.close()


def test_where_a_file_must_keep_its_name_it_is_private_until_closed(make_on_disk, tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "NAMELESS", False)
    made = make_on_disk(tmp_path)
    (folder,) = tmp_path.iterdir()
    (file,) = folder.iterdir()
    assert folder.stat().st_mode & 0o7777 == 0o700
    assert file.stat().st_mode & 0o7777 == 0o600
    assert file.stat().st_size == 800
    made.close()
    assert list(tmp_path.iterdir()) == []


def test_a_named_file_goes_with_its_owner(make_on_disk, tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "NAMELESS", False)
    made = make_on_disk(tmp_path)
    assert len(list(tmp_path.rglob("*"))) == 2
    del made
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error_with_a_fix_and_leaves_nothing(make_on_disk, tmp_path, monkeypatch):
    full = shutil.disk_usage(tmp_path)._replace(free=799)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    with pytest.raises(StorageError, match=r"800 B are needed .* 799 B are free.*Fix: free some space"):
        make_on_disk(tmp_path)
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_exactly_large_enough_is_used(make_on_disk, tmp_path, monkeypatch):
    enough = shutil.disk_usage(tmp_path)._replace(free=800)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: enough)
    make_on_disk(tmp_path).close()


def test_a_scratch_folder_that_is_not_there_is_an_error_and_is_not_made(make_on_disk, tmp_path):
    with pytest.raises(StorageError, match="Fix: name an existing folder"):
        make_on_disk(tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="resident memory is read from /proc")
@pytest.mark.parametrize(("access", "axis"), [(Access.BY_ROWS, 0), (Access.BY_COLUMNS, 1)])
def test_a_matrix_far_larger_than_the_budget_never_fills_the_memory(access, axis, tmp_path):
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    side, width, budget = 4096, 512, 16 << 20  # 128 MiB on disk, 16 MiB a panel
    panel_of_ones = np.ones((width, side) if axis == 0 else (side, width))
    with MappedStore((side, side), access, tmp_path, resident=budget) as store:
        before = peak = resident()
        for start in range(0, side, width):
            span = slice(start, start + width)
            store.write(*((span, EVERYTHING) if axis == 0 else (EVERYTHING, span)), panel_of_ones)
            peak = max(peak, resident())
        total = 0.0
        for _, panel in store.panels(axis, width):
            total += float(panel.sum())
            peak = max(peak, resident())
    assert total == side * side
    assert peak - before < 4 * budget
