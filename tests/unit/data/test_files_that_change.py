"""A file that others may change is read, never mapped; a change while it is in use is FSVD-211, whatever it did."""

import gzip
import os
import shutil
from itertools import chain
from pathlib import Path

import anndata
import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import zarr
from numpy.testing import assert_array_equal

from fedsvd.data.hashed import hashed
from fedsvd.data.open import open_source
from fedsvd.errors import SourceChanged

ROWS, COLUMNS = 400, 6
X = np.random.default_rng(7).normal(size=(ROWS, COLUMNS))
Y = np.random.default_rng(8).normal(size=(ROWS, COLUMNS))
NAMES = [f"v{j}" for j in range(COLUMNS)]


def _npy(path: Path, table: np.ndarray) -> None:
    np.save(path, table)


def _fortran(path: Path, table: np.ndarray) -> None:
    np.save(path, np.asfortranarray(table))


def _parquet(path: Path, table: np.ndarray) -> None:
    pq.write_table(pa.table(dict(zip(NAMES, table.T, strict=True))), path, row_group_size=50)


def _parts(path: Path, table: np.ndarray) -> None:
    path.mkdir(exist_ok=True)
    for number, part in enumerate(np.split(table, 4)):
        _parquet(path / f"{number}.parquet", part)


def _csv(path: Path, table: np.ndarray) -> None:
    pd.DataFrame(table, columns=NAMES).to_csv(path, index=False)


def _gz(path: Path, table: np.ndarray) -> None:
    with gzip.open(path, "wt") as file:
        pd.DataFrame(table, columns=NAMES).to_csv(file, index=False)


def _xlsx(path: Path, table: np.ndarray) -> None:
    book = openpyxl.Workbook()
    for row in [NAMES, *table.tolist()]:
        book.active.append(row)
    book.save(path)


def _h5ad(path: Path, table: np.ndarray) -> None:
    anndata.AnnData(table).write_h5ad(path)


def _h5ad_sparse(path: Path, table: np.ndarray) -> None:
    anndata.AnnData(sp.csr_array(np.where(np.abs(table) > 0.5, table, 0.0))).write_h5ad(path)


def _zarr(path: Path, table: np.ndarray) -> None:
    zarr.save_array(str(path), table)


KINDS = {
    "t.npy": _npy,
    "f.npy": _fortran,
    "t.npz": lambda path, table: np.savez(path, table),
    "c.npz": lambda path, table: np.savez_compressed(path, table),
    "t.parquet": _parquet,
    "t.parts": _parts,
    "t.csv": _csv,
    "t.csv.gz": _gz,
    "t.xlsx": _xlsx,
    "t.h5ad": _h5ad,
    "s.h5ad": _h5ad_sparse,
    "t.zarr": _zarr,
}


def _one_file(path: Path) -> Path:
    """The largest file of a table."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return max(files, key=lambda file: file.stat().st_size)


def _truncate(path: Path) -> None:
    file = _one_file(path)
    os.truncate(file, file.stat().st_size // 3)


def _append(path: Path) -> None:
    with _one_file(path).open("ab") as file:
        file.write(b"1,2,3,4,5,6\n")


def _remove(path: Path) -> None:
    _one_file(path).unlink()


def _flip_and_set_the_time_back(path: Path) -> None:
    file = _one_file(path)
    before = file.stat()
    with file.open("r+b") as opened:
        opened.seek(before.st_size // 2)
        byte = opened.read(1)
        opened.seek(-1, os.SEEK_CUR)
        opened.write(bytes([byte[0] ^ 1]))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace(path: Path) -> None:
    file = _one_file(path)
    shutil.copy(file, file.with_name("copy"))
    file.with_name("copy").replace(file)


CHANGES = {
    "truncated": _truncate,
    "appended to": _append,
    "removed": _remove,
    "one bit, time set back": _flip_and_set_the_time_back,
    "replaced by a copy": _replace,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_any_change_of_a_file_in_use_ends_its_pass_with_fsvd_211(tmp_path, kind, change):
    path = tmp_path / kind
    KINDS[kind](path, X)
    source = open_source(path)
    panels = source.panels(0, 50)
    next(panels)
    CHANGES[change](path)
    with pytest.raises(SourceChanged, match="FSVD-211"):
        for _ in panels:
            pass
    with pytest.raises(SourceChanged, match="FSVD-211"):
        source.expect_unchanged()


def _three_passes(source, at: int, change) -> None:
    """By columns, by rows, by columns, 19 panels in all; a change after one of them, and the check before signing."""
    passes = (source.panels(1, 1), source.panels(0, 40), source.panels(1, 2))
    for number, _ in enumerate(chain.from_iterable(passes)):
        if number == at:
            change()
    source.expect_unchanged()


@pytest.mark.parametrize("moment", range(0, 19, 3))
@pytest.mark.parametrize("kind", ["t.npy", "f.npy", "t.npz", "t.parquet", "t.h5ad", "t.csv"])
def test_a_table_rewritten_in_place_at_any_moment_of_three_passes_is_never_taken(tmp_path, kind, moment):
    path, other = tmp_path / kind, tmp_path / f"other-{kind}"
    KINDS[kind](path, X)
    KINDS[kind](other, Y)
    content, before = other.read_bytes(), path.stat()
    source = hashed(open_source(path), 1)

    def rewrite() -> None:
        with path.open("r+b") as file:
            file.write(content)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.raises(SourceChanged, match="FSVD-211"):
        _three_passes(source, moment, rewrite)


@pytest.mark.parametrize("moment", [0, 2, 4, 5, 11, 16, 17])
def test_a_change_that_no_stamp_shows_is_seen_by_a_pass_along_the_same_axis(tmp_path, moment):
    """Through a memory map whose pages were written to before: a file system counts only the first time."""
    path = tmp_path / "t.npy"
    np.save(path, X)
    writer = np.load(path, mmap_mode="r+")
    writer[:] = X
    source, before = hashed(open_source(path), 1), path.stat()
    rows = np.s_[17:18] if moment < 16 else np.s_[:]
    with pytest.raises(SourceChanged, match="FSVD-211"):
        _three_passes(source, moment, lambda: writer.__setitem__(rows, Y[rows]))
    assert path.stat().st_ctime_ns == before.st_ctime_ns


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_or_file_that_is_not_touched_is_read_to_the_end_twice(tmp_path, kind):
    path = tmp_path / kind
    KINDS[kind](path, X)
    source = hashed(open_source(path), 1)
    for axis, width in ((0, 70), (1, 4), (0, 33), (1, 1)):
        for _ in source.panels(axis, width):
            pass
    source.content_digest()
    source.expect_unchanged()


def test_a_part_that_is_added_to_a_folder_is_a_change(tmp_path):
    _parts(tmp_path / "t", X)
    source = open_source(tmp_path / "t")
    source.rows(0, ROWS)
    _parquet(tmp_path / "t" / "9.parquet", Y)
    with pytest.raises(SourceChanged, match=r"9\.parquet changed"):
        source.rows(0, ROWS)


def test_a_fault_of_the_data_itself_is_named_where_no_file_changed(tmp_path):
    table = X.copy()
    table[5, 2] = np.nan
    np.save(tmp_path / "t.npy", table)
    with pytest.raises(ValueError, match="FSVD-201"):
        open_source(tmp_path / "t.npy").inspect()


@pytest.mark.parametrize("kind", ["t.npy", "f.npy", "t.npz", "c.npz", "t.parquet", "t.csv", "t.h5ad"])
def test_no_table_is_mapped(tmp_path, kind):
    path = tmp_path / kind
    KINDS[kind](path, X)
    source = open_source(path)
    source.rows(0, ROWS)
    assert str(path) not in Path("/proc/self/maps").read_text()
    order = np.random.default_rng(3).permutation(ROWS)
    assert_array_equal(source.reordered(order).rows(0, 50), X[order[:50]])
    assert str(path) not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("width", [6, 3000])
def test_a_map_that_its_owner_made_is_read_from_its_file(tmp_path, order, width):
    table = np.random.default_rng(1).normal(size=(80, width)).astype(np.float32)
    np.save(tmp_path / "t.npy", np.asarray(table, order=order))
    source = open_source(np.load(tmp_path / "t.npy", mmap_mode="r"))
    assert not source.in_memory
    rows, columns = np.array([7, 3, 70, 4]), np.array([5, 0, 2])
    assert_array_equal(source.raw(rows, columns), table[np.ix_(rows, columns)])
    assert_array_equal(source.raw(rows, slice(1, 4)), table[rows, 1:4])
    assert_array_equal(source.raw(slice(3, 30), columns), table[3:30, columns])
    assert_array_equal(source.columns(2, 5), table[:, 2:5])
    os.truncate(tmp_path / "t.npy", 200)
    with pytest.raises(SourceChanged):
        source.rows(0, 80)
