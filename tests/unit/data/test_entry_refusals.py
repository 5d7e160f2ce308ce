"""Missing, infinite and other than real entries are refused by place and kind, and no entry is shown."""

import datetime
import decimal
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from tests.unit.data.files import csv_file, parquet_file

from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.errors import (
    NotFinite,
    NotNumeric,
)

SECRET = 424242.5


def read_all(source: MatrixSource) -> None:
    for _ in source.panels(0, 2):
        pass


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
