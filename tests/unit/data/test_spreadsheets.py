"""Text tables and Excel workbooks as people write them: decimal commas, byte order marks, sheets, dates, gaps."""

import datetime

import numpy as np
import openpyxl
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, EmptyData, MissingExtra, NotFinite, NotNumeric, RaggedRows, UnknownFormat


def csv(folder, text, encoding="utf-8", name="t.csv"):
    (folder / name).write_bytes(text.encode(encoding))
    return folder / name


def xlsx(folder, **sheets):
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for name, rows in sheets.items():
        sheet = workbook.create_sheet(name)
        for row in rows:
            sheet.append(row)
    workbook.save(folder / "t.xlsx")
    return folder / "t.xlsx"


class TestDecimalCommas:
    @pytest.mark.parametrize("mark", [";", "\t", "|"])
    @pytest.mark.parametrize("pyarrow", [True, False])
    def test_are_found_and_read_as_pandas_reads_them(self, tmp_path, mark, pyarrow, request):
        if not pyarrow:
            request.getfixturevalue("without_pyarrow")
        text = f"ward{mark}x{mark}y\nb{mark}1,5{mark}-2\na{mark}{mark}3,25e2\n"
        path = csv(tmp_path, text)
        expected = pd.read_csv(path, sep=mark, decimal=",")
        source = open_source(path, drop=["ward"])
        assert_array_equal(source.raw(slice(0, 2), slice(0, 2)), expected[["x", "y"]].to_numpy(), strict=True)
        assert_array_equal(source.column("ward"), ["b", "a"])

    def test_may_be_declared(self, tmp_path):
        path = csv(tmp_path, "x;y\n1,5;2\n")
        assert_array_equal(open_source(path, decimal=",").rows(0, 1), [[1.5, 2.0]])
        with pytest.raises(NotNumeric, match="numbers with decimal commas"):
            open_source(path, decimal=".").rows(0, 1)
        for wrong in ("x", ",,"):
            with pytest.raises(ConfigError, match="decimal mark"):
                open_source(path, decimal=wrong)
        with pytest.raises(ConfigError, match="both ','"):
            open_source(path, decimal=",", delimiter=",")

    def test_beside_a_decimal_point_are_text(self, tmp_path):
        source = open_source(csv(tmp_path, "x;y\n1,5;2.5\n2,5;3.5\n"))
        assert source.text_names == {"x"}
        assert_array_equal(source.column("y"), [2.5, 3.5])

    def test_with_marks_between_thousands_are_refused_with_the_line(self, tmp_path):
        path = csv(tmp_path, "x;y\n1,5;2\n1.234,5;3\n")
        with pytest.raises(NotNumeric, match="line 3"):
            open_source(path, decimal=",").rows(0, 2)


class TestByteOrderMarks:
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le with mark"])
    def test_are_not_part_of_the_first_name(self, tmp_path, encoding):
        text = "größe;y\n1,5;2\n"
        if encoding == "utf-16-le with mark":
            text, encoding = "\ufeff" + text, "utf-16-le"
        source = open_source(csv(tmp_path, text, encoding))
        assert source.names == ("größe", "y")
        assert_array_equal(source.rows(0, 1), [[1.5, 2.0]])

    def test_another_encoding_is_refused_with_what_to_do(self, tmp_path):
        with pytest.raises(UnknownFormat, match="not UTF-8 text"):
            open_source(csv(tmp_path, "größe;y\n1,5;2\n", "latin-1"))


class TestWorkbooks:
    ROWS = (
        ("id", "seen", "x", "smoker", "typed"),
        ("007", datetime.date(2024, 2, 1), 1.5, True, "3.5"),
        ("008", datetime.datetime(2024, 2, 2, 8, 30), None, False, "4"),
        (None, None, None, None, None),
        ("009", datetime.datetime(2024, 2, 3), "#N/A", True, "5"),
    )

    def test_numbers_dates_truths_and_gaps_are_what_excel_shows(self, tmp_path):
        source = open_source(xlsx(tmp_path, Visits=self.ROWS))
        assert source.names == ("id", "seen", "x", "smoker", "typed")
        assert source.text_names == {"seen"}
        assert_array_equal(source.column("id"), ["007", "008", "009"])
        assert_array_equal(source.column("seen"), ["2024-02-01", "2024-02-02T08:30:00", "2024-02-03"])
        numbers = source.without(["id", "seen"])
        expected = [[1.5, 1.0, 3.5], [np.nan, 0.0, 4.0], [np.nan, 1.0, 5.0]]
        assert_array_equal(numbers.raw(slice(0, 3), slice(0, 3)), expected)
        with pytest.raises(NotFinite, match="row 1, column 'x'"):
            numbers.rows(0, 3)

    def test_a_sheet_is_chosen_by_name_or_is_the_only_one_with_cells(self, tmp_path):
        path = xlsx(tmp_path, Notes=[], Data=[("a", "b"), (1, 2)])
        assert_array_equal(open_source(path).rows(0, 1), [[1, 2]])
        path = xlsx(tmp_path, First=[("a",), (1,)], Second=[("a",), (2,)])
        with pytest.raises(UnknownFormat, match=r"2 sheets .*'First', 'Second'"):
            open_source(path)
        assert_array_equal(open_source(f"{path}#Second").rows(0, 1), [[2]])
        assert_array_equal(open_source(path, part="First").rows(0, 1), [[1]])
        with pytest.raises(UnknownFormat, match="no sheet 'Third'"):
            open_source(f"{path}#Third")

    def test_a_sheet_without_a_header_takes_names(self, tmp_path):
        path = xlsx(tmp_path, S=[(1, 2), (3, 4)])
        assert open_source(path).names is None
        assert open_source(path, names=["a", "b"]).names == ("a", "b")
        assert open_source(path, header=True).names == ("1", "2")

    def test_text_in_a_column_of_numbers_is_named_by_its_row(self, tmp_path):
        rows = [("a", "b"), *((i, i) for i in range(200)), (1, "text")]
        source = open_source(xlsx(tmp_path, S=rows))
        with pytest.raises(NotNumeric, match=r"column 'b' .* line 202"):
            source.rows(0, 1)

    def test_what_is_no_table_is_refused(self, tmp_path):
        (tmp_path / "t.xlsx").write_bytes(b"PK no workbook")
        with pytest.raises(UnknownFormat, match=r"not an \.xlsx workbook"):
            open_source(tmp_path / "t.xlsx")
        with pytest.raises(UnknownFormat, match="0 sheets"):
            open_source(xlsx(tmp_path, S=[]))
        with pytest.raises(EmptyData):
            open_source(xlsx(tmp_path, S=[("a", "b")]))
        with pytest.raises(RaggedRows, match="without a name"):
            open_source(xlsx(tmp_path, S=[("a", "b"), (1, 2, 3)]))
        late = [("a", "b"), *((i, i) for i in range(200)), (1, 2, 3)]
        with pytest.raises(RaggedRows, match=r"row 202 .* beyond column 2"):
            open_source(xlsx(tmp_path, S=late))
        with pytest.raises(ConfigError, match="delimiter, decimal and header"):
            open_source(xlsx(tmp_path, S=[("a",), (1,)]), delimiter=";")

    def test_without_openpyxl_the_extra_is_named(self, tmp_path, monkeypatch):
        path = xlsx(tmp_path, S=[("a",), (1,)])
        monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
        with pytest.raises(MissingExtra, match="openpyxl"):
            open_source(path)
