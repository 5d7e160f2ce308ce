"""Dask arrays, Zarr stores and folders of Parquet parts are sources like any other, and open again elsewhere."""

from itertools import pairwise

import dask.array
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import zarr

from fedsvd.data.open import open_source
from fedsvd.errors import DataError, NotFinite, NotNumeric, RaggedRows, UnknownFormat

A = np.random.default_rng(0).normal(size=(23, 5))
NAMES = ["a", "b", "c", "d", "e"]


def parquet_parts(folder, cuts=(0, 4, 5, 17, 23)):
    for number, (start, stop) in enumerate(pairwise(cuts)):
        table = pyarrow.table({name: A[start:stop, j] for j, name in enumerate(NAMES)})
        pyarrow.parquet.write_table(table, folder / f"part-{number:03}.parquet")
    return folder


def zarr_store(folder):
    zarr.save(str(folder / "x.zarr"), A)
    return folder / "x.zarr"


@pytest.fixture(params=["dask", "zarr", "parquet parts"])
def source(request, tmp_path):
    if request.param == "dask":
        return open_source(dask.array.from_array(A, chunks=(6, 2)))
    return open_source(zarr_store(tmp_path) if request.param == "zarr" else parquet_parts(tmp_path))


def test_every_panel_of_rows_and_columns_is_the_matrix_s(source):
    assert source.shape == A.shape
    for start in range(0, 23, 4):
        np.testing.assert_array_equal(source.rows(start, min(start + 4, 23)), A[start : start + 4])
    np.testing.assert_array_equal(source.columns(1, 4), A[:, 1:4])
    np.testing.assert_array_equal(source.T.columns(3, 19), A.T[:, 3:19])
    source.inspect()


def test_rows_may_come_in_another_order(source):
    order = np.random.default_rng(1).permutation(23)
    np.testing.assert_array_equal(source.reordered(order).rows(2, 20), A[order][2:20])


def test_the_fingerprint_is_that_of_the_numbers(source):
    assert source.fingerprint() == open_source(A).fingerprint()


def test_what_lies_in_files_opens_again_elsewhere_also_through_views(tmp_path):
    order = [3, 1, 2]
    for path in (zarr_store(tmp_path), parquet_parts(tmp_path)):
        view = open_source(path).reordered(order).T
        np.testing.assert_array_equal(view.elsewhere()().columns(0, 3), A[order].T)
    dropped = open_source(path, drop=["b"])
    np.testing.assert_array_equal(dropped.elsewhere()().rows(0, 23), A[:, [0, 2, 3, 4]])
    np.testing.assert_array_equal(open_source("synthetic://3x9?seed=1").elsewhere()().rows(0, 3).shape, (3, 9))
    assert open_source(A).elsewhere() is None
    assert open_source(A).T.elsewhere() is None


def test_views_of_a_dask_array_stay_lazy():
    array = dask.array.from_array(A, chunks=(6, 2))
    source = open_source(array, names=NAMES, drop=["b"])
    lazy = source.reordered([4, 0]).T.lazy()
    np.testing.assert_array_equal(lazy.compute(), A[[4, 0]][:, [0, 2, 3, 4]].T)
    assert open_source(A).T.lazy() is None


def test_a_column_of_parts_is_read_through_all_of_them(tmp_path):
    source = open_source(parquet_parts(tmp_path))
    assert source.names == tuple(NAMES)
    np.testing.assert_array_equal(source.column("c"), A[:, 2])


def test_faults_are_named(tmp_path):
    with pytest.raises(UnknownFormat, match="no file ends in"):
        open_source(tmp_path)
    (tmp_path / "y.zarr").mkdir()
    with pytest.raises(UnknownFormat, match="Zarr"):
        open_source(tmp_path / "y.zarr")
    parquet_parts(tmp_path)
    pyarrow.parquet.write_table(pyarrow.table({"a": [1.0]}), tmp_path / "part-009.parquet")
    with pytest.raises(RaggedRows, match="part 4"):
        open_source(tmp_path)
    with pytest.raises(NotNumeric):
        open_source(dask.array.from_array(np.array([["x"]])))
    unknown = dask.array.from_array(A, chunks=6)[dask.array.from_array(A[:, 0] > 0, chunks=6)]
    with pytest.raises(DataError, match="compute_chunk_sizes"):
        open_source(unknown)
    holed = A.copy()
    holed[2, 2] = np.inf
    with pytest.raises(NotFinite):
        open_source(dask.array.from_array(holed, chunks=6)).inspect()
