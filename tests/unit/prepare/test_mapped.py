"""A site's own table, mapped as it is read: the same numbers as pandas makes of the same file."""

import numpy as np
import pandas as pd
import pytest

from fedsvd.errors import ConfigError, DataError
from fedsvd.prepare.mapped import open_mapped
from fedsvd.prepare.table_map import map_of, read_map

MESSY = (
    "pid;Geschlecht;Größe;Kosten;Geburt;Aufnahme;Bili\n"
    "7;w;1,70;1.564,50;03.04.1950;2024-01-05;1,1\n"
    "42;m;1,85;987;31.12.1949;2024-02-29;-9\n"
    "0123;w;-9;12.345.678;unbekannt;2023-12-31;0,7\n"
    "99;unbekannt;1,62;.;01.01.2001;2024-01-01;999\n"
)
WORDS = {
    "encoding": "latin-1",
    "thousands": ".",
    "missing": ["-9", "."],
    "map": {
        "pid": {"name": "patient", "width": 6},
        "Geschlecht": {"name": "sex", "levels": {"w": "female", "m": "male"}, "missing": ["unbekannt"]},
        "Größe": {"name": "height", "factor": 100},
        "Kosten": "cost",
        "Geburt": {"name": "born", "date": "%d.%m.%Y", "missing": ["unbekannt"]},
        "Aufnahme": {"name": "day", "date": "%Y-%m-%d", "since": "2024-01-01"},
        "Bili": {"name": "bilirubin", "factor": 17.1, "missing": [999]},
    },
}


@pytest.fixture
def messy(tmp_path):
    path = tmp_path / "messy.csv"
    path.write_bytes(MESSY.encode("latin-1"))
    return path


def column(source, name):
    place = source.names.index(name)
    return source.raw(slice(0, source.shape[0]), slice(place, place + 1))[:, 0]


def test_numbers_are_those_that_pandas_reads(messy):
    source = open_mapped(messy, map_of(WORDS, "the test"))
    read = {
        "sep": ";",
        "decimal": ",",
        "thousands": ".",
        "encoding": "latin-1",
        "na_values": ["-9", ".", "999", "unbekannt"],
    }
    frame = pd.read_csv(messy, dtype={"Geburt": str}, **read)  # pandas takes the points of a date out, too
    np.testing.assert_array_equal(column(source, "height"), frame["Größe"] * 100)
    np.testing.assert_array_equal(column(source, "cost"), frame["Kosten"])
    np.testing.assert_array_equal(column(source, "bilirubin"), frame["Bili"] * 17.1)
    born = pd.to_datetime(frame["Geburt"], format="%d.%m.%Y")
    np.testing.assert_array_equal(column(source, "born"), born.dt.year)
    days = (pd.to_datetime(frame["Aufnahme"]) - pd.Timestamp("2024-01-01")).dt.days
    np.testing.assert_array_equal(column(source, "day"), days)


def test_levels_are_recoded_and_ids_have_their_zeros_again(messy):
    source = open_mapped(messy, map_of(WORDS, "the test"))
    levels, gaps = source.text("sex")
    assert levels[~gaps].tolist() == ["female", "male", "female"]
    assert gaps.tolist() == [False, False, False, True]
    assert source.column("patient").tolist() == ["000007", "000042", "000123", "000099"]
    assert source.text_names == {"patient", "sex"}


def test_the_file_is_not_written_and_no_copy_of_it_is_made(messy, tmp_path):
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    source = open_mapped(messy, map_of(WORDS, "the test"))
    source.text("sex")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("suffix", ["xlsx", "parquet"])
def test_other_formats_are_mapped_as_text_tables_are(tmp_path, suffix):
    frame = pd.DataFrame(
        {"sex": [1, 2, 1, 9], "dose": [1.5, -9.0, 2.5, 4.0], "weight": ["70", "unknown", "81.5", "60"]}
    )
    path = tmp_path / f"table.{suffix}"
    frame.to_excel(path, index=False) if suffix == "xlsx" else frame.to_parquet(path)
    words = {
        "missing": ["-9", "unknown"],
        "decimal": ".",
        "map": {"sex": {"levels": {"1": "f", "2": "m"}, "missing": [9]}, "dose": {"factor": 2.0, "offset": 1.0}},
    }
    source = open_mapped(path, map_of(words, "the test"))
    assert source.text("sex")[0].tolist() == ["f", "m", "f", ""]
    np.testing.assert_array_equal(column(source, "dose"), [4.0, np.nan, 6.0, 9.0])
    np.testing.assert_array_equal(column(source, "weight"), [70.0, np.nan, 81.5, 60.0])


def test_years_since_a_day_are_days_over_the_mean_year(tmp_path):
    (tmp_path / "t.csv").write_text("born,x\n2000-01-01,1\n1990-07-01,2\n")
    words = {"map": {"born": {"date": "%Y-%m-%d", "since": "2026-01-01", "count": "years", "factor": -1}}}
    source = open_mapped(tmp_path / "t.csv", map_of(words, "the test"))
    days = (pd.Timestamp("2026-01-01") - pd.to_datetime(["2000-01-01", "1990-07-01"])).days
    np.testing.assert_array_equal(column(source, "born"), days.to_numpy() / 365.25)


def test_an_entry_that_is_no_date_is_refused_with_a_count_and_without_the_entry(tmp_path):
    (tmp_path / "t.csv").write_text("born,x\n01.02.2000,1\nSecret,2\n")
    with pytest.raises(DataError, match="1 entries of column 'born' are not dates") as refused:
        open_mapped(tmp_path / "t.csv", map_of({"map": {"born": {"date": "%d.%m.%Y"}}}, "the test"))
    assert "Secret" not in str(refused.value)


def test_a_mark_between_thousands_stands_before_three_digits_or_the_cell_is_text(tmp_path):
    (tmp_path / "t.csv").write_text("cost;x\n1.564;1\n1.5;2\n")
    source = open_mapped(tmp_path / "t.csv", map_of({"thousands": "."}, "the test"))
    assert source.text_names == {"cost"}


def test_text_that_is_not_utf_8_is_answered_with_the_setting(messy):
    with pytest.raises(DataError) as refused:
        open_mapped(messy)
    assert 'encoding = "latin-1"' in refused.value.fix


@pytest.mark.parametrize(
    ("line", "place", "fix"),
    [
        ("[map]\nx = { factr = 2 }", "map.x.factr", "did you mean 'factor'?"),
        ("encodng = 'latin-1'", "encodng", "did you mean 'encoding'?"),
        ("[map]\nx = { factor = 0 }", "map.x", "factor is 0"),
        ("[map]\nx = { factor = nan }", "map.x.factor", "finite"),
        ("[map]\nx = { levels = { a = 'b' }, factor = 2 }", "map.x", "exclude each other"),
        ("[map]\nx = { since = '2000-01-01' }", "map.x", "date"),
        ("[map]\nx = { date = 'dd.mm' }", "map.x.date", "%d.%m.%Y"),
        ("[map]\nx = { date = '%Y', since = 'monday' }", "map.x.since", "2000-01-31"),
        ("thousands = '_'", "thousands", "'.'"),
        ("missing = [true]", "missing.0", "a text or a number"),
    ],
)
def test_a_fault_in_the_words_names_its_place_and_its_fix(tmp_path, line, place, fix):
    (tmp_path / "map.toml").write_text(line)
    with pytest.raises(ConfigError) as refused:
        read_map(tmp_path / "map.toml")
    assert place in refused.value.fault
    assert fix in refused.value.fix


def test_two_columns_that_would_have_one_name_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ConfigError, match="more than one column would be called 'b'"):
        open_mapped(tmp_path / "t.csv", map_of({"map": {"a": "b"}}, "the test"))


def test_words_are_written_and_read_again_as_themselves():
    words = map_of(WORDS, "the test")
    assert map_of(words.record(), "the test") == words
