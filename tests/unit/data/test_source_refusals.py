"""What is not a finite real matrix is refused, with the right class, the place and a fix, and no entry shown."""

import datetime
import decimal
import pickle
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.errors import (
    ConfigError,
    DataError,
    DuplicateNames,
    EmptyData,
    FedSVDError,
    MissingExtra,
    NotFinite,
    NotNumeric,
    RaggedRows,
    ShapeError,
    StorageError,
    UnknownFormat,
)

SECRET = 424242.5


def read_all(source: MatrixSource) -> None:
    for _ in source.panels(0, 2):
        pass


def csv_file(folder: Path, text: str, name: str = "t.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def parquet_file(folder: Path, columns: dict[str, object]) -> Path:
    pq.write_table(pa.table(columns), folder / "t.parquet")
    return folder / "t.parquet"


class TestNotFinite:
    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_names_how_many_and_the_first_place_by_rows(self, build, bad):
        X = np.full((9, 4), SECRET)
        X[4, 1] = X[4, 3] = X[7, 0] = bad
        source = build(X)
        column = "1" if source.names is None else repr(source.names[1])
        with pytest.raises(NotFinite) as refusal:
            source.rows(2, 8)
        # A transposed view names the place in the data that was given to it.
        place = "row 1, column 4" if "Transposed" in repr(source) else f"column {column}"
        assert refusal.value.fault.startswith("3 of the 24 entries")
        assert place in refusal.value.fault
        assert refusal.value.fix
        assert "424242" not in str(refusal.value)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_is_found_in_column_panels_and_fingerprints(self, build, bad):
        X = np.ones((9, 4))
        X[4, 3] = bad
        source = build(X)
        source.columns(0, 3)
        with pytest.raises(NotFinite):
            source.columns(3, 4)
        with pytest.raises(NotFinite):
            source.fingerprint()
        with pytest.raises(NotFinite):
            source.T.rows(0, 4)

    def test_infinities_that_cancel_and_sums_that_overflow_are_told_apart(self, build):
        X = np.full((6, 2), 1e308)
        np.testing.assert_array_equal(build(X).rows(0, 6), X)
        X[1, 0], X[2, 0] = np.inf, -np.inf
        with pytest.raises(NotFinite, match="2 of the 12"):
            build(X).rows(0, 6)

    def test_names_the_row_of_the_data_and_not_of_a_view(self):
        X = np.ones((5, 3))
        X[3, 2] = np.nan
        source = open_source(X, names=["a", "b", "c"])
        for view in (source, source.reordered([4, 3, 0]), source.without(["a"]), source.T):
            with pytest.raises(NotFinite, match="row 3, column 'c'"):
                view.rows(0, view.shape[0])

    @pytest.mark.parametrize("missing", ["", "NA", "nan", "null", " NA ", "N/A"])
    def test_missing_cells_of_a_text_table(self, tmp_path, missing):
        source = open_source(csv_file(tmp_path, f"a,b\n1,2\n3,{missing}\n5,6\n"))
        with pytest.raises(NotFinite, match=r"1 of the 6 .* row 1, column 'b'"):
            source.rows(0, 3)

    def test_an_empty_line_is_a_missing_entry_of_a_lone_column(self, tmp_path):
        source = open_source(csv_file(tmp_path, "y\n1\n\n3\n"))
        with pytest.raises(NotFinite, match="row 1, column 'y'"):
            source.rows(0, 3)

    @pytest.mark.parametrize("values", [[1, None, 3], [1.5, None, 2.0], [True, None, False]])
    def test_nulls_in_frames_and_parquet_count_as_nan(self, tmp_path, values):
        frames = [
            pl.DataFrame({"x": [1.0, 2.0, 3.0], "y": values}),
            pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": values}).convert_dtypes(),
            pa.table({"x": [1.0, 2.0, 3.0], "y": values}),
            parquet_file(tmp_path, {"x": [1.0, 2.0, 3.0], "y": values}),
        ]
        for frame in frames:
            with pytest.raises(NotFinite, match="row 1, column 'y'"):
                open_source(frame).rows(0, 3)

    def test_masked_entries_count_as_missing(self):
        masked = np.ma.masked_array([[1, 2], [3, 4]], mask=[[0, 0], [0, 1]])
        with pytest.raises(NotFinite, match="row 1, column 1"):
            open_source(masked).rows(0, 2)
        with pytest.raises(NotFinite, match="row 1"):
            open_source(masked, names=["a", "b"]).column("b")

    def test_missing_ids_and_labels(self, tmp_path):
        text = csv_file(tmp_path, "id,y,x\np0,1,1\n,2,1\np2,NA,1\n")
        for data in (text, pd.DataFrame({"id": ["p0", None, "p2"], "y": [1, 2, None], "x": [1, 1, 1]})):
            source = open_source(data, drop=["id", "y"])
            source.rows(0, 3)
            with pytest.raises(NotFinite, match="row 1, column 'id'"):
                source.column("id")
            with pytest.raises(NotFinite, match="row 2, column 'y'"):
                source.column("y")

    def test_stored_entries_of_sparse_panels(self):
        X = np.zeros((4, 6))
        X[2, 5] = np.inf
        source = open_source(sp.csr_array(X))
        source.sparse_columns(0, 5)
        source.sparse_rows(0, 2)
        for read in (lambda: source.sparse_columns(4, 6), lambda: source.sparse_rows(1, 3)):
            with pytest.raises(NotFinite, match=r"1 of the 1 .* row 2, column 5"):
                read()


class TestNotNumeric:
    @pytest.mark.parametrize(
        "array",
        [
            np.array([["a", "b"]]),
            np.array([[b"a"]]),
            np.array([[1 + 2j]]),
            np.array([["2020-01-01"]], dtype="datetime64[D]"),
            np.array([[1]], dtype="timedelta64[s]"),
            np.array([[(1, 2)]], dtype=[("a", int), ("b", int)]),
            np.array([["x", None]], dtype=object),
        ],
        ids=["text", "bytes", "complex", "dates", "durations", "records", "objects"],
    )
    def test_arrays_of_other_things(self, array):
        with pytest.raises(NotNumeric, match="column 0"):
            open_source(array)

    def test_an_array_of_objects_and_a_list_name_the_first_such_column(self):
        for data in (np.array([[1, 2.0], [3, None]], dtype=object), [[1, 2.0], [3, "x"]], [[1, None]]):
            with pytest.raises(NotNumeric, match="column 1"):
                open_source(data)

    def test_an_npy_file_of_objects_is_refused_and_never_unpickled(self, tmp_path, monkeypatch):
        class Trap:
            def __reduce__(self) -> tuple[object, tuple[str]]:
                return (Path.touch, (tmp_path / "sprung",))

        np.save(tmp_path / "t.npy", np.array([[Trap()]], dtype=object), allow_pickle=True)
        assert b"touch" in (tmp_path / "t.npy").read_bytes()
        monkeypatch.setattr(pickle, "load", lambda *_: pytest.fail("unpickled"))
        with pytest.raises(NotNumeric, match="objects"):
            open_source(tmp_path / "t.npy")
        assert not (tmp_path / "sprung").exists()

    def test_npy_files_of_complex_numbers_and_records(self, tmp_path):
        for array in (np.array([[1j]]), np.array([[(1, 2)]], dtype=[("é", int), ("ü", int)])):
            np.save(tmp_path / "t.npy", array)
            with pytest.raises(NotNumeric):
                open_source(tmp_path / "t.npy")

    def test_sparse_complex_numbers(self):
        with pytest.raises(NotNumeric):
            open_source(sp.csr_array([[1j]]))

    @pytest.mark.parametrize("word", ["woman", "1_000", "2020-01-01", "12:30", "１", "1,5", "0x10"])
    def test_text_in_a_text_table_names_column_and_line(self, tmp_path, word):
        source = open_source(csv_file(tmp_path, f'a,b\n1,2\n3,"{word}"\n'))
        with pytest.raises(NotNumeric, match=r"'b' of .*line 3") as refusal:
            read_all(source)
        assert word not in str(refusal.value)
        with pytest.raises(NotNumeric):
            source.T.rows(1, 2)
        np.testing.assert_array_equal(source.columns(0, 1), [[1.0], [3.0]])

    def test_text_far_down_a_text_table_names_column_and_line(self, tmp_path):
        lines = ["a,b"] + ["1.0,2.0"] * 5000 + ["1.0,secret"] + ["1.0,2.0"] * 5000
        source = open_source(csv_file(tmp_path, "\n".join(lines)))
        with pytest.raises(NotNumeric, match=r"'b' of .*line 5002") as refusal:
            read_all(source)
        assert "secret" not in str(refusal.value)
        rest = source.without(["b"])
        np.testing.assert_array_equal(rest.rows(4999, 5003), np.ones((4, 1)))
        assert rest.column("b")[5000] == "secret"

    def test_other_columns_of_frames_and_parquet_are_named(self, tmp_path):
        others = {
            "text": ["x", "y"],
            "date": [datetime.date(2020, 1, 1)] * 2,
            "time": [datetime.datetime(2020, 1, 1)] * 2,
            "span": [datetime.timedelta(1)] * 2,
            "list": [[1], [2]],
        }
        for name, values in others.items():
            columns = {"x": [1.0, 2.0], name: values}
            for data in (
                pl.DataFrame(columns),
                pd.DataFrame(columns),
                pa.table(columns),
                parquet_file(tmp_path, columns),
            ):
                source = open_source(data)
                with pytest.raises(NotNumeric, match=repr(name)):
                    source.rows(0, 1)
                np.testing.assert_array_equal(source.without([name]).rows(0, 2), [[1.0], [2.0]])

    def test_objects_categories_and_complex_numbers_in_pandas(self):
        frame = pd.DataFrame({"x": [1.0, 2.0]})
        for values in (pd.Series([1, "a"], dtype=object), pd.Categorical([1, 2]), [1j, 2j]):
            with pytest.raises(NotNumeric, match="'bad'"):
                open_source(frame.assign(bad=values)).rows(0, 2)

    def test_decimals_and_booleans_are_numbers(self, tmp_path):
        columns = {"d": [decimal.Decimal("1.5"), decimal.Decimal("-2")], "b": [True, False], "i": [3, 4]}
        expected = [[1.5, 1.0, 3.0], [-2.0, 0.0, 4.0]]
        tables = [pl.DataFrame(columns), pa.table(columns), parquet_file(tmp_path, columns)]
        for data in tables:
            np.testing.assert_array_equal(open_source(data).rows(0, 2), expected)
        np.testing.assert_array_equal(
            open_source(pd.DataFrame({"b": [True, False], "f": [0.5, 1.5]})).rows(0, 2), [[1, 0.5], [0, 1.5]]
        )


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
    @pytest.mark.parametrize("name", ["t.xlsx", "t", "t.npy.bak", "npy"])
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

    def test_npz_files_of_dense_arrays_and_of_indices_beyond_the_shape(self, tmp_path):
        np.savez(tmp_path / "dense.npz", X=np.ones((2, 2)))
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


def test_a_scratch_folder_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(StorageError, match="nowhere"):
        open_source(csv_file(tmp_path, "1,2\n"), scratch=tmp_path / "nowhere")


def test_every_refusal_of_data_carries_a_code_and_a_fix(tmp_path):
    for data in (np.ones(3), np.empty((0, 1)), [["x"]], [[1], [1, 2]], tmp_path / "t.doc"):
        with pytest.raises(FedSVDError) as refusal:
            open_source(data)
        assert isinstance(refusal.value, DataError | ShapeError)
        assert str(refusal.value).startswith("FSVD-")
        assert refusal.value.fix
