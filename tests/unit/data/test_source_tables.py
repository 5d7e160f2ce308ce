"""Tables: ids and labels beside the numbers, the layouts of text tables, and two parsers that agree."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from fedsvd.data.csv import ArrowGaveUp, CsvSource, arrow_cells, arrow_chunks, plain_cells, plain_chunks
from fedsvd.data.csv_layout import lay_out
from fedsvd.data.open import open_source
from fedsvd.errors import NotNumeric, UnknownFormat

FRAME = pd.DataFrame(
    {
        "id": ["p2", "p0", "p1"],
        "x": [0.5, -1.5, 2.5],
        "code": [2**60 + 1, 7, -3],
        "padded": ["002", "000", "001"],
        "y": [1.0, 2.0, 4.0],
    }
)


def write(folder: Path, text: str, name: str = "t.csv") -> Path:
    (folder / name).write_text(text, newline="")
    return folder / name


def as_csv(folder: Path) -> object:
    FRAME.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def as_parquet(folder: Path) -> object:
    FRAME.to_parquet(folder / "t.parquet")
    return folder / "t.parquet"


TABLES = {
    "csv": as_csv,
    "parquet": as_parquet,
    "pandas": lambda _: FRAME,
    "polars": lambda _: pl.DataFrame(FRAME.to_dict("list")),
}


@pytest.fixture(params=TABLES)
def table(request, tmp_path):
    return TABLES[request.param](tmp_path)


class TestIdsAndLabels:
    def test_columns_come_as_text_whole_numbers_or_floats(self, table):
        source = open_source(table, drop=["id", "code", "padded", "y"])
        assert_array_equal(source.column("id"), np.array(["p2", "p0", "p1"]), strict=True)
        assert_array_equal(source.column("padded"), np.array(["002", "000", "001"]), strict=True)
        assert_array_equal(source.column("code"), np.array([2**60 + 1, 7, -3]), strict=True)
        assert_array_equal(source.column("y"), np.array([1.0, 2.0, 4.0]), strict=True)
        assert_array_equal(source.column("x"), np.array([0.5, -1.5, 2.5]), strict=True)

    def test_a_column_cannot_be_written_to(self, table):
        source = open_source(table)
        for name in source.names:
            with pytest.raises(ValueError, match="read-only"):
                source.column(name)[0] = 0

    def test_rows_sorted_by_id_are_the_rows_of_the_sorted_frame(self, table):
        source = open_source(table, drop=["id", "padded"])
        aligned = source.reordered(np.argsort(source.column("id")))
        expected = FRAME.sort_values("id")
        assert aligned.names == ("x", "code", "y")
        assert_array_equal(aligned.column("id"), ["p0", "p1", "p2"])
        assert_array_equal(aligned.rows(0, 3), expected[["x", "code", "y"]].to_numpy(np.float64))
        assert_array_equal(aligned.columns(2, 3), expected[["y"]].to_numpy())

    def test_text_beside_numbers_is_refused_until_it_is_left_out(self, table):
        source = open_source(table)
        with pytest.raises(NotNumeric, match="'id'"):
            source.rows(0, 1)
        assert source.without(["id", "padded"]).without(["code", "y"]).columns(0, 1).tolist() == [
            [0.5],
            [-1.5],
            [2.5],
        ]

    def test_whole_numbers_beyond_int64_keep_all_their_digits(self, tmp_path):
        huge = write(tmp_path, f"id,x\n{2**63},1\n{2**70},2\n")
        assert open_source(huge).column("id").tolist() == [str(2**63), str(2**70)]
        array = np.array([[2**63 + 1]], dtype=np.uint64)
        assert open_source(array, names=["id"]).column("id").tolist() == [2**63 + 1]

    def test_dates_are_read_as_text(self, tmp_path):
        frame = pd.DataFrame({"day": pd.to_datetime(["2020-01-02", "2020-01-01"]), "x": [1.0, 2.0]})
        assert open_source(frame).column("day")[1].startswith("2020-01-01")


class TestLayout:
    @pytest.mark.parametrize(
        "text, names",
        [
            ("a,b\n1,2\n", ("a", "b")),
            ("a,b\n1,2", ("a", "b")),
            ("a,b\r\n1,2\r\n", ("a", "b")),
            ("\ufeffa,b\n1,2\n", ("a", "b")),
            ("\n\na,b\n\n1,2\n\n", ("a", "b")),
            ('"a","b"\n"1","2"\n', ("a", "b")),
            (" a , b \n 1 , 2 \n", ("a", "b")),
            ('"a\nx",b\n1,2\n', ("a\nx", "b")),
            ('"a;x","b"\n1,2\n', ("a;x", "b")),
            ("a;b\n1;2\n", ("a", "b")),
            ("a\tb\n1\t2\n", ("a", "b")),
            ("a|b\n1|2\n", ("a", "b")),
            ("größe,b\n1,2\n", ("größe", "b")),
            ("1,2\n", None),
            ("+1.0,2e0\n", None),
        ],
    )
    def test_delimiter_header_and_line_ends_are_found(self, tmp_path, text, names):
        source = open_source(write(tmp_path, text))
        assert source.names == names
        assert_array_equal(source.rows(0, source.shape[0]), [[1.0, 2.0]])

    def test_a_first_row_with_an_id_is_not_taken_for_a_header(self, tmp_path):
        path = write(tmp_path, "p1,0.5\np2,1.5\n")
        source = open_source(path, names=["id", "x"], drop=["id"])
        assert_array_equal(source.rows(0, 2), [[0.5], [1.5]])
        assert_array_equal(source.column("id"), ["p1", "p2"])

    def test_a_declared_header_and_delimiter_are_believed(self, tmp_path):
        path = write(tmp_path, "10:20\n1:2\n")
        assert open_source(path, delimiter=":", header=True).names == ("10", "20")
        assert_array_equal(open_source(path, delimiter=":", header=False).rows(0, 2), [[10, 20], [1, 2]])

    def test_a_lone_column_needs_no_delimiter(self, tmp_path):
        assert_array_equal(open_source(write(tmp_path, "y\n1\n2\n")).rows(0, 2), [[1.0], [2.0]])

    def test_suffixes_are_read_in_capitals_too(self, tmp_path):
        assert open_source(write(tmp_path, "1,2\n", "T.CSV")).shape == (1, 2)

    @pytest.mark.parametrize("columns, by_arrow", [(5_000, True), (30_000, False)])
    def test_long_rows_are_read_by_the_parser_that_suits_them(self, tmp_path, columns, by_arrow):
        X = np.random.default_rng(1).integers(-99, 99, size=(30, columns)) / 4.0
        path = write(tmp_path, "".join(",".join(map(repr, row)) + "\n" for row in X.tolist()))
        assert_array_equal(open_source(path).rows(0, 30), X, strict=True)
        layout = lay_out(path, None, None, None)
        if by_arrow:
            assert_array_equal(np.vstack(list(arrow_chunks(layout))), X, strict=True)
        else:
            with pytest.raises(ArrowGaveUp):
                next(arrow_chunks(layout))

    def test_a_row_longer_than_all_before_is_read(self, tmp_path):
        novel = "b" * 100_000
        rows = ["p,q,r,s,t,u,v,w,x"] + ["a," * 8 + "1"] * 2000 + [f"{novel}," * 8 + "2", "c," * 8 + "3"]
        path = write(tmp_path, "\n".join(rows))
        with pytest.raises(ArrowGaveUp):
            list(arrow_chunks(lay_out(path, None, None, None)))
        assert open_source(path, drop=[*"pqrstuvw"]).rows(1999, 2002).tolist() == [[1.0], [2.0], [3.0]]

    def test_gzip_files_of_several_members_are_read_to_the_end(self, tmp_path):
        members = [gzip.compress(f"{i}.5,{i}\n".encode() * 1000) for i in range(5)]
        (tmp_path / "t.csv.gz").write_bytes(b"".join(members))
        source = open_source(tmp_path / "t.csv.gz")
        expected = np.repeat([[i + 0.5, i] for i in range(5)], 1000, axis=0)
        assert_array_equal(source.rows(0, 5000), expected)

    def test_other_encodings_are_refused_without_quoting_the_file(self, tmp_path):
        (tmp_path / "t.csv").write_bytes("größe,b\n1,2\n".encode("latin-1"))
        with pytest.raises(UnknownFormat, match="not UTF-8"):
            open_source(tmp_path / "t.csv")


class TestParsersAgree:
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        X=hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=st.floats(width=64)),
        style=st.sampled_from([repr, "{:.17g}".format, "{:.3e}".format, "{:+.4f}".format]),
        delimiter=st.sampled_from(",;\t|"),
    )
    def test_to_the_last_bit(self, tmp_path, X, style, delimiter):
        cells = [[style(entry) for entry in row] for row in X.tolist()]
        path = write(tmp_path, "\n".join(delimiter.join(row) for row in cells) + "\n")
        layout = lay_out(path, delimiter, False, None)
        expected = np.array([[float(cell) for cell in row] for row in cells])
        plain = np.vstack(list(plain_chunks(layout, {})))
        assert_array_equal(plain, expected, strict=True)
        assert_array_equal(np.vstack(list(arrow_chunks(layout))), plain, strict=True)
        assert_array_equal(np.signbit(plain[plain == 0]), np.signbit(expected[expected == 0]))
        for column in range(X.shape[1]):
            assert plain_cells(layout, column) == [row[column] for row in cells] == arrow_cells(layout, column)

    @pytest.mark.parametrize(
        "text",
        ['id,x\n"a, b",1\n"c\nd",2\n', "id,x\na,1\nb,2\n\nc,\n", "x,id\n1,a\n2,b\n", "id,x\n,1\n,2\n"],
    )
    def test_on_text_and_missing_cells(self, tmp_path, text):
        layout = lay_out(write(tmp_path, text), None, None, None)
        found = dict(layout.text)
        assert_array_equal(
            np.vstack(list(arrow_chunks(layout))), np.vstack(list(plain_chunks(layout, found))), strict=True
        )
        assert found == layout.text
        for column in range(2):
            assert arrow_cells(layout, column) == plain_cells(layout, column)

    def test_across_many_chunks_with_text_that_starts_late(self, tmp_path):
        X = np.random.default_rng(2).normal(size=(9000, 12))
        cells = [[repr(entry) for entry in row] for row in X.tolist()]
        cells[8000][3] = "late"
        path = write(tmp_path, "\n".join(",".join(row) for row in cells))
        with pytest.raises(ArrowGaveUp):
            list(arrow_chunks(lay_out(path, None, None, None)))
        source = CsvSource(path, [f"v{j}" for j in range(12)])
        assert_array_equal(source.without(["v3"]).rows(0, 9000), np.delete(X, 3, axis=1), strict=True)

    def test_when_pyarrow_is_not_installed(self, tmp_path, without_pyarrow):
        path = write(tmp_path, "id,code,x\np1,7,0.5\np0,8,1.5\n")
        source = open_source(path, drop=["id", "code"])
        assert_array_equal(source.rows(0, 2), [[0.5], [1.5]])
        assert_array_equal(source.column("id"), ["p1", "p0"])
        assert_array_equal(source.column("code"), np.array([7, 8]), strict=True)
        with pytest.raises(ArrowGaveUp):
            next(arrow_chunks(lay_out(path, None, None, None)))
        assert sys.modules["pyarrow"] is None
