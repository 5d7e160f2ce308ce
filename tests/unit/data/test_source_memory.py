"""Memory is bounded by the panel and the chunk, not by the matrix."""

import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anndata
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from fedsvd.data.open import open_source

MIB = 1 << 20
_POOLS: list[pa.MemoryPool] = []  # a pool must outlive whatever was allocated from it


@contextmanager
def counted() -> Iterator[pa.MemoryPool]:
    """Counts what PyArrow allocates, which Python's own tracing does not see."""
    before = pa.default_memory_pool()
    _POOLS.append(pa.proxy_memory_pool(before))
    pa.set_memory_pool(_POOLS[-1])
    try:
        yield _POOLS[-1]
    finally:
        pa.set_memory_pool(before)


READ = """
import sys, numpy as np
from fedsvd.data.open import open_source
def high(): return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) << 10
source = open_source(sys.argv[1])
if sys.argv[2] == "shuffled":
    source = source.reordered(np.random.default_rng(0).permutation(source.shape[0]))
before = high()
for axis, width in ((0, 4096), (1, 4)):
    for panel in source.panels(axis, width):
        panel.sum()
print(high() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="resident memory is listed on Linux alone")
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("how", ["in order", "shuffled"])
def test_a_file_does_not_become_resident_by_being_read(tmp_path, order, how):
    """A file of 128 MiB; pages of a map that were touched counted as memory of the process, beyond any budget."""
    table = np.zeros((1 << 18, 64), order=order)
    table[::7] = 1.5
    np.save(tmp_path / "t.npy", table)
    words = [sys.executable, "-c", READ, tmp_path / "t.npy", how]
    grown = int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert grown < 48 * MIB


class TestMemory:
    """The matrix has 8 MB; reading it whole, three times, may not take a third of that."""

    M, N, WIDTH, MOST = 10_000, 100, 130, 5 * MIB // 2

    @pytest.fixture
    def X(self):
        return np.random.default_rng(11).integers(-999, 999, size=(self.M, self.N)) / 8.0

    def peak_of(self, path: Path, X: np.ndarray) -> int:
        tracemalloc.start()
        try:
            source = open_source(path)
            total = sum(float(panel.sum()) for panel in source.panels(0, self.WIDTH))
            total += sum(float(panel.sum()) for panel in source.panels(1, 2))
            source.fingerprint()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert total == 2 * X.sum()
        return peak

    @pytest.fixture(autouse=True)
    def small_fingerprint_panels(self, monkeypatch):
        monkeypatch.setattr("fedsvd.data.source.FINGERPRINT_BYTES", MIB // 2)

    @pytest.mark.parametrize("order", ["C", "F"])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_of_npy_files_is_bounded_by_the_panel(self, tmp_path, X, order, dtype):
        np.save(tmp_path / "t.npy", np.asarray(X, dtype=dtype, order=order))
        assert self.peak_of(tmp_path / "t.npy", X) < self.MOST

    def test_of_compressed_arrays_is_bounded_by_the_chunk(self, tmp_path, X, monkeypatch):
        monkeypatch.setattr("fedsvd.data.npy.CHUNK_BYTES", 1 << 18)
        np.savez_compressed(tmp_path / "t.npz", X)
        assert self.peak_of(tmp_path / "t.npz", X) < self.MOST

    @pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csc_array])
    def test_of_h5ad_files_is_bounded_by_the_block(self, tmp_path, X, form, monkeypatch):
        monkeypatch.setattr("fedsvd.data.h5ad.BLOCK_ENTRIES", 1 << 13)
        anndata.AnnData(form(X)).write_h5ad(tmp_path / "t.h5ad")
        # A sparse form of a full matrix has 12 bytes for each entry instead of 8.
        assert self.peak_of(tmp_path / "t.h5ad", X) < (2 if form is np.asarray else 3) * self.MOST // 2

    def test_of_queries_is_bounded_by_the_batch(self, tmp_path, X, monkeypatch):
        monkeypatch.setattr("fedsvd.data.duckdb_query.BATCH_ROWS", 256)
        monkeypatch.setattr("fedsvd.data.parquet.BATCH_CELLS", 1 << 14)
        pq.write_table(pa.table({f"v{j}": X[:, j] for j in range(self.N)}), tmp_path / "t-1.parquet")
        assert self.peak_of(tmp_path / "t-*.parquet", X) < self.MOST

    def test_of_text_tables_is_bounded_by_the_chunk(self, tmp_path, X, without_pyarrow, monkeypatch):
        monkeypatch.setattr("fedsvd.data.csv.CHUNK_CELLS", 1 << 13)
        np.savetxt(tmp_path / "t.csv", X, fmt="%.3f", delimiter=",")
        assert self.peak_of(tmp_path / "t.csv", X) < self.MOST

    def test_of_text_tables_is_bounded_by_the_block_in_pyarrow(self, tmp_path, X, monkeypatch):
        monkeypatch.setattr("fedsvd.data.csv.ARROW_BLOCK_MOST", 1 << 15)
        np.savetxt(tmp_path / "t.csv", X, fmt="%.3f", delimiter=",")
        with counted() as pool:
            assert self.peak_of(tmp_path / "t.csv", X) < self.MOST
        assert 0 < pool.max_memory() < self.MOST

    def test_of_parquet_files_is_bounded_by_the_batch_in_one_row_group(self, tmp_path, X, monkeypatch):
        monkeypatch.setattr("fedsvd.data.parquet.BATCH_CELLS", 1 << 14)
        table = pa.table({f"v{j}": X[:, j] for j in range(self.N)})
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=self.M, data_page_size=1024, use_dictionary=False)
        assert pq.ParquetFile(tmp_path / "t.parquet").num_row_groups == 1
        with counted() as pool:
            assert self.peak_of(tmp_path / "t.parquet", X) < self.MOST
        assert 0 < pool.max_memory() < self.MOST
