"""Data of the wrong shape, name, file or type is refused with the right class and a fix."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from tests.unit.data.files import csv_file, parquet_file

from fedsvd.data.open import open_source
from fedsvd.errors import (
    ConfigError,
    DataError,
    DuplicateNames,
    EmptyData,
    FedSVDError,
    MissingExtra,
    RaggedRows,
    ShapeError,
    UnknownFormat,
)

SECRET = 424242.5


class TestRaggedRows:
    @pytest.mark.parametrize("row, cells", [("3", 1), ("3,4,5", 3), ("3,4,", 3)])
    def test_of_a_text_table_name_the_line(self, tmp_path, row, cells):
        with pytest.raises(RaggedRows, match=f"line 4 of .* has {cells} cells, expected 2"):
            open_source(csv_file(tmp_path, f"a,b\n1,2\n\n{row}\n5,6\n"))

    def test_far_down_a_text_table_name_the_line(self, tmp_path):
        with pytest.raises(RaggedRows, match="line 3001"):
            open_source(csv_file(tmp_path, "1.5,2\n" * 3000 + "3\n"))

    def test_of_a_nested_list_name_the_row(self):
        with pytest.raises(RaggedRows, match=r"row 2 .* has 1 entries, row 0 has 2"):
            open_source([[1, 2], [3, 4], [5]])
        with pytest.raises(RaggedRows):
            open_source([[1, 2], [3, [4]]])


class TestEmptyData:
    @pytest.mark.parametrize(
        "data",
        [
            np.empty((0, 3)),
            np.empty((3, 0)),
            [],
            [[]],
            sp.csr_array((0, 3)),
            pd.DataFrame(),
            pd.DataFrame({"a": []}),
            pl.DataFrame({"a": []}),
        ],
        ids=range(8),
    )
    def test_no_rows_or_no_columns(self, data):
        with pytest.raises(EmptyData):
            open_source(data)

    @pytest.mark.parametrize("text", ["", "\n\n", "a,b\n", "a,b\n\n"])
    def test_text_tables_without_rows(self, tmp_path, text):
        with pytest.raises(EmptyData):
            open_source(csv_file(tmp_path, text))

    def test_files_without_rows(self, tmp_path):
        np.save(tmp_path / "t.npy", np.empty((0, 2)))
        parquet_file(tmp_path, {"a": pa.array([], pa.float64())})
        for name in ("t.npy", "t.parquet"):
            with pytest.raises(EmptyData):
                open_source(tmp_path / name)

    def test_a_table_whose_columns_are_all_left_out(self):
        with pytest.raises(EmptyData):
            open_source(np.ones((2, 2)), names=["a", "b"], drop=["a", "b"])
        with pytest.raises(EmptyData):
            open_source(np.ones((2, 2))).reordered([])


class TestNames:
    def test_two_columns_of_one_name_are_refused(self, tmp_path):
        table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["dose", "dose"])
        pq.write_table(table, tmp_path / "t.parquet")
        refused = [
            csv_file(tmp_path, "dose, dose\n1,2\n"),
            tmp_path / "t.parquet",
            table,
            pd.DataFrame([[1, 2]], columns=["dose", "dose"]),
        ]
        for data in refused:
            with pytest.raises(DuplicateNames, match="'dose'"):
                open_source(data)
        with pytest.raises(DuplicateNames, match="'1'"):
            open_source(pd.DataFrame([[1, 2]], columns=[1, "1"]))
        with pytest.raises(DuplicateNames, match="'dose'"):
            open_source(np.ones((1, 2)), names=["dose", "dose"])

    def test_names_must_fit_the_columns_and_the_data(self, tmp_path):
        with pytest.raises(ShapeError, match="1 names for 2 columns"):
            open_source(np.ones((1, 2)), names=["a"])
        headed = csv_file(tmp_path, "a,b\n1,2\n")
        for data in (headed, pd.DataFrame({"a": [1]}), open_source(np.ones((1, 1)))):
            with pytest.raises(ConfigError):
                open_source(data, names=["x", "y"])

    def test_unknown_columns_cannot_be_read_or_left_out(self):
        source = open_source(pd.DataFrame({"a": [1], "b": [2]}))
        for use in (source.column, source.without):
            with pytest.raises(ConfigError, match="no column is named 'c'"):
                use("c")


class TestUnknownFormat:
    @pytest.mark.parametrize("name", ["t.xls", "t", "t.npy.bak", "npy"])
    def test_files_of_unknown_suffix(self, tmp_path, name):
        (tmp_path / name).write_bytes(b"1,2\n")
        with pytest.raises(UnknownFormat, match="no reader"):
            open_source(tmp_path / name)

    @pytest.mark.parametrize("suffix", ["npy", "csv", "tsv", "csv.gz", "parquet", "npz"])
    def test_files_that_are_missing_folders_or_rubbish(self, tmp_path, suffix):
        with pytest.raises(UnknownFormat, match="no file"):
            open_source(str(tmp_path / f"missing.{suffix}"))
        (tmp_path / f"folder.{suffix}").mkdir()
        with pytest.raises(UnknownFormat, match="no file"):
            open_source(tmp_path / f"folder.{suffix}")
        (tmp_path / f"rubbish.{suffix}").write_bytes(bytes(range(1, 256)) * 3)
        with pytest.raises(UnknownFormat) as refusal:
            open_source(tmp_path / f"rubbish.{suffix}")
        assert refusal.value.fix

    def test_files_cut_short(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(500, 4))
        np.save(tmp_path / "t.npy", X)
        sp.save_npz(tmp_path / "t.npz", sp.csr_array(X))
        pd.DataFrame(X, columns=list("abcd")).to_parquet(tmp_path / "t.parquet")
        pd.DataFrame(X, columns=list("abcd")).to_csv(tmp_path / "t.csv.gz", index=False)
        for name in ("t.npy", "t.npz", "t.parquet", "t.csv.gz"):
            content = (tmp_path / name).read_bytes()
            (tmp_path / name).write_bytes(content[: len(content) // 2])
            with pytest.raises(UnknownFormat):
                open_source(tmp_path / name)

    def test_a_parquet_file_damaged_inside(self, tmp_path):
        pq.write_table(pa.table({"a": np.arange(5000.0)}), tmp_path / "t.parquet")
        content = bytearray((tmp_path / "t.parquet").read_bytes())
        content[4:4000] = b"\xff" * 3996
        (tmp_path / "t.parquet").write_bytes(content)
        with pytest.raises(UnknownFormat, match="damaged"):
            open_source(tmp_path / "t.parquet").rows(0, 5000)

    def test_npz_files_of_no_table_and_of_indices_beyond_the_shape(self, tmp_path):
        np.savez(tmp_path / "dense.npz", X=np.ones(2))
        matrix = sp.csr_array(np.eye(3))
        matrix.indices[:] = [0, 1, 999]
        np.savez(
            tmp_path / "beyond.npz",
            format=b"csr",
            shape=(3, 3),
            data=matrix.data,
            indices=matrix.indices,
            indptr=matrix.indptr,
        )
        for name in ("dense.npz", "beyond.npz"):
            with pytest.raises(UnknownFormat):
                open_source(tmp_path / name)

    @pytest.mark.parametrize("data", [None, 3, {"a": [1]}, object(), iter([[1]])], ids=range(5))
    def test_objects_that_hold_no_matrix(self, data):
        with pytest.raises(UnknownFormat, match="no reader"):
            open_source(data)

    def test_lazy_frames_and_arrays_on_a_device(self):
        class OnDevice:
            def __array__(self, dtype: object = None, copy: object = None) -> object:
                raise TypeError(f"cannot convert {SECRET}")

        with pytest.raises(UnknownFormat, match="collect"):
            open_source(pl.LazyFrame({"a": [1]}))
        with pytest.raises(UnknownFormat, match="OnDevice") as refusal:
            open_source(OnDevice())
        assert refusal.value.__cause__ is None
        assert "424242" not in str(refusal.value)

    @pytest.mark.parametrize("text", ["0,1,2\n3,4,5\n", ",0,1\n0,3.5,4.5\n"])
    def test_a_first_line_that_may_be_a_header_or_data_must_be_declared(self, tmp_path, text):
        with pytest.raises(UnknownFormat, match="header or data"):
            open_source(csv_file(tmp_path, text))
        assert open_source(csv_file(tmp_path, text), header=True).shape == (1, 3)
        assert open_source(csv_file(tmp_path, text), header=False).shape == (2, 3)


class TestShapes:
    @pytest.mark.parametrize("data", [np.ones(3), np.ones((2, 2, 2)), np.float64(1), [1, 2], pd.Series([1, 2])])
    def test_data_that_is_not_two_dimensional(self, data):
        with pytest.raises(ShapeError, match="expected 2"):
            open_source(data)

    @pytest.mark.parametrize("order", [[0, 5], [-1], [[0, 1]], [0.0, 1.0], [True, False]])
    def test_orders_that_are_not_row_numbers(self, order):
        with pytest.raises(ShapeError):
            open_source(np.ones((5, 2))).reordered(order)


def test_missing_libraries_are_named_with_the_extra_to_install(tmp_path, monkeypatch):
    path = parquet_file(tmp_path, {"a": [1.0]})
    frame = pd.DataFrame({"a": [1.0]})
    for library in ("pyarrow", "pyarrow.parquet", "narwhals"):
        monkeypatch.setitem(sys.modules, library, None)
    for data in (path, frame):
        with pytest.raises(MissingExtra, match=r"pip install 'fedsvd\[data\]'"):
            open_source(data)


def test_options_of_text_tables_are_refused_for_other_data(tmp_path):
    np.save(tmp_path / "t.npy", np.ones((2, 2)))
    for data in (np.ones((2, 2)), tmp_path / "t.npy"):
        with pytest.raises(ConfigError):
            open_source(data, header=True)
        with pytest.raises(ConfigError):
            open_source(data, delimiter=",")
    with pytest.raises(ConfigError, match="one character"):
        open_source(csv_file(tmp_path, "1,2\n"), delimiter=", ")


def test_every_refusal_of_data_carries_a_code_and_a_fix(tmp_path):
    for data in (np.ones(3), np.empty((0, 1)), [["x"]], [[1], [1, 2]], tmp_path / "t.doc"):
        with pytest.raises(FedSVDError) as refusal:
            open_source(data)
        assert isinstance(refusal.value, DataError | ShapeError)
        assert str(refusal.value).startswith("FSVD-")
        assert refusal.value.fix
