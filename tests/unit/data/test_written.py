"""Texts that were meant as numbers or dates are known for it, with the words of a map that read them so."""

import tomllib

import numpy as np
import pandas as pd
import pytest

from fedsvd.data.compared import ids_between, zeros_lost
from fedsvd.data.open import open_source
from fedsvd.data.written import map_line, misread_texts, written_in
from fedsvd.errors import ConfigError, NotNumeric
from fedsvd.prepare.mapped import open_mapped
from fedsvd.prepare.table_map import TableMap, map_of

FOUND = [
    (["1,5", "12,25", "3"], "numbers with decimal commas", {"decimal": ","}, [1.5, 12.25, 3.0]),
    (["1,564", "987", "2,310"], "numbers with commas between thousands", {"thousands": ","}, [1564.0, 987.0, 2310.0]),
    (["1,234,567", "12"], "numbers with commas between thousands", {"thousands": ","}, [1234567.0, 12.0]),
    (["1.564,5", "987,1"], "decimal commas and points", {"decimal": ",", "thousands": "."}, [1564.5, 987.1]),
    (["1'564", "987.5"], "apostrophes between thousands", {"thousands": "'"}, [1564.0, 987.5]),
    (["1\u2019564", "987"], "apostrophes between thousands", {"thousands": "'"}, [1564.0, 987.0]),
    (["1 564", "987"], "blanks between thousands", {"thousands": " "}, [1564.0, 987.0]),
    (["1\u202f564,5", "987"], "commas and blanks", {"decimal": ",", "thousands": " "}, [1564.5, 987.0]),
    ([*"12345", "unknown"], "numbers, but for 1 of the entries", {"missing": ["unknown"]}, [1, 2, 3, 4, 5, np.nan]),
    (
        ["1,5", "2,5", "3,5", "4,5", "."],
        "commas, but",
        {"decimal": ",", "missing": ["."]},
        [1.5, 2.5, 3.5, 4.5, np.nan],
    ),
]


@pytest.mark.parametrize(("texts", "what", "words", "numbers"), FOUND, ids=[what for _, what, _, _ in FOUND])
@pytest.mark.parametrize("kind", ["csv", "frame", "xlsx"])
def test_the_words_that_are_proposed_read_the_column_as_it_was_meant(texts, what, words, numbers, kind, tmp_path):
    found = written_in(texts)
    assert what in found.what
    assert found.words == words
    frame = pd.DataFrame({"my x": texts, "y": 1.5})
    data = frame
    if kind != "frame":
        data = tmp_path / f"t.{kind}"
        frame.to_csv(data, index=False, sep="\t") if kind == "csv" else frame.to_excel(data, index=False)
    with pytest.raises(NotNumeric, match="in the map of the table"):
        open_source(data).rows(0, 1)
    mapped = map_of(tomllib.loads(f"[map]\n{map_line('my x', found.words)}"), "map")
    cells = open_mapped(data, mapped).raw(slice(0, len(texts)), slice(0, 1))[:, 0]
    np.testing.assert_array_equal(cells, numbers)


@pytest.mark.parametrize(
    ("texts", "written_as", "either"),
    [
        (["31.12.2020", "01.02.1999"], "%d.%m.%Y", False),
        (["2020-01-31 00:00:00", "1999-02-01"], "%Y-%m-%d", False),
        (["01/02/1999", "03/04/2000"], "%d/%m/%Y", True),
        (["12/31/1999", "03/04/2000"], "%m/%d/%Y", False),
    ],
)
def test_dates_are_known_by_their_format_and_days_and_months_are_asked_about(texts, written_as, either):
    found = written_in(texts)
    assert (found.what, found.words["date"]) == ("dates", written_as)
    assert ("the other way round" in found.fix("born")) == either


@pytest.mark.parametrize("texts", [["f", "m"], ["I", "II", "III"], ["1a", "2b"], [], ["", " "], ["a", "1", "2", "b"]])
def test_plain_text_is_text(texts):
    assert written_in(texts) is None


def test_no_text_of_a_table_is_shown_but_for_usual_codes():
    found = written_in([*map(str, range(40)), "Mr Smith", "<0.5"])
    assert found.words == {"missing": ["..."]}
    assert "Smith" not in found.what + found.fix("x")
    assert "beyond a limit" in found.what


def test_columns_that_are_misread_alike_are_said_together():
    said = list(
        misread_texts({"a": written_in(["1,5"]), "b": written_in(["2,5"]), "c": None, "d": written_in(["1'000"])})
    )
    assert [fault for fault, _ in said] == [
        "columns 'a', 'b' hold text: numbers with decimal commas",
        "column 'd' holds text: numbers with apostrophes between thousands",
    ]
    assert said[0][1] == 'read it so by a = { decimal = "," } in the map of the table; the others likewise'


def test_a_column_of_thousands_points_in_a_file_of_decimal_points_is_read_by_its_own_marks(tmp_path):
    (tmp_path / "t.csv").write_text("alp,bili\n1.564,1.25\n987,0.5\n2.310,3.0\n")
    words = TableMap(map={"alp": {"thousands": "."}})
    table = open_mapped(tmp_path / "t.csv", words)
    np.testing.assert_array_equal(table.rows(0, 3), [[1564, 1.25], [987, 0.5], [2310, 3.0]])
    assert words.sentences() == ["column 'alp': read with ',' before decimals, '.' between thousands"]
    assert map_of(words.record(), "again") == words


@pytest.mark.parametrize(
    "words",
    [{"decimal": ",", "thousands": ","}, {"thousands": ".", "date": "%Y"}, {"decimal": ",", "levels": {"a": "b"}}],
)
def test_marks_that_cannot_be_told_apart_are_refused(words):
    with pytest.raises(ConfigError, match="x"):
        map_of({"map": {"x": words}}, "m")


def test_ids_that_lost_their_zeros_are_known_by_those_of_another_table():
    padded, bare = np.array(["00017", "01234", "40001"]), np.array(["17", "1234", "40001"])
    (found,) = zeros_lost("pid", {"a": padded, "b": bare})
    assert (found.of, found.words) == ("b", {"width": 5})
    for other in (np.array(["K17", "9"]), np.array(["123456", "7"]), padded):
        assert list(zeros_lost("pid", {"a": padded, "b": other})) == []
    assert list(zeros_lost("pid", {"a": bare, "b": bare})) == []


def test_ids_that_occur_twice_or_in_two_tables_are_counted():
    frames = {"a": [f"P{i}" for i in range(40)], "b": [*(f"Q{i}" for i in range(38)), "Q1", "P7"]}
    said = [
        str(each) for each in ids_between("pid", {k: open_source(pd.DataFrame({"pid": v})) for k, v in frames.items()})
    ]
    assert len(said) == 2
    assert said[0].startswith("1 of 40 rows of b have an id (pid) that another row has too")
    assert said[1].startswith("a and b have 1 ids (pid) in common")
    visits = pd.DataFrame({"pid": np.repeat([f"P{i}" for i in range(10)], 4)})
    assert list(ids_between("pid", {"a": open_source(visits), "b": open_source(pd.DataFrame({"pid": ["X"]}))})) == []


def test_digits_of_a_text_column_are_numbers_and_ids_with_zeros_in_front_are_not(tmp_path):
    found = written_in(["1", "25", "3.5"])
    assert found.words == {"decimal": "."}
    pd.DataFrame({"x": ["1", "25", "3.5"], "y": 1.5}).to_parquet(tmp_path / "t.parquet")
    mapped = map_of(tomllib.loads(f"[map]\n{map_line('x', found.words)}"), "map")
    cells = open_mapped(tmp_path / "t.parquet", mapped).raw(slice(0, 3), slice(0, 1))[:, 0]
    np.testing.assert_array_equal(cells, [1.0, 25.0, 3.5])
    assert written_in(["00017", "10342", "00002"]) is None
    assert written_in(["2001", "1999"]).words == {"decimal": "."}


def test_none_is_a_gap_among_numbers_and_a_level_among_texts(tmp_path):
    (tmp_path / "t.csv").write_text("x,stage,given\n1,none,none\nnone,mild,a\n3,None,b\n4,NA,none\n")
    source = open_source(tmp_path / "t.csv")
    np.testing.assert_array_equal(source.raw(slice(0, 4), slice(0, 1))[:, 0], [1.0, np.nan, 3.0, 4.0])
    values, gaps = source.text("stage")
    assert values[~gaps].tolist() == ["none", "mild", "None"]
    # The owner of the file may say otherwise.
    values, gaps = open_mapped(tmp_path / "t.csv", map_of({"map": {"given": {"missing": ["none"]}}}, "m")).text("given")
    assert values[~gaps].tolist() == ["a", "b"]
