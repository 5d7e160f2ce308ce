"""What fits the memory budget stays in memory; the rest goes to disk, or is refused with a fix."""

import pytest

from fedsvd.errors import ConfigError, StorageError
from fedsvd.storage.block_store import Access, MappedStore, MemoryStore, choose_store


@pytest.mark.parametrize("access", Access)
@pytest.mark.parametrize(("budget", "kind"), [(800, MemoryStore), (799, MappedStore), (0, MappedStore)])
def test_a_matrix_of_800_bytes_is_in_memory_from_a_budget_of_800_on(access, budget, kind, tmp_path):
    with choose_store((10, 10), access, budget, tmp_path) as store:
        assert type(store) is kind
        assert store.shape == (10, 10)
        assert store.layout.access is access


def test_without_a_scratch_folder_what_does_not_fit_is_refused_with_a_fix():
    with pytest.raises(StorageError, match=r"10 x 10 matrix.*budget of 799 B.*Fix: name a scratch folder"):
        choose_store((10, 10), Access.BY_ROWS, 799)


def test_a_negative_budget_is_refused(tmp_path):
    with pytest.raises(ConfigError):
        choose_store((10, 10), Access.BY_ROWS, -1, tmp_path)
