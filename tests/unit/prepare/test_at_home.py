"""What a party does to its own table alone: columns, ordinal maps, missing values, and the report of it."""

import numpy as np
import pandas as pd
import pytest

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, FedSVDError, NotFinite, NotNumeric
from fedsvd.prepare.at_home import HomeRule, prepared_at_home, renamed
from fedsvd.prepare.missing import Missing

TABLE = pd.DataFrame(
    {
        "patient": ["007", "008", "009", "010"],
        "weight": [70.0, np.nan, 80.0, 90.0],
        "age": [30, 40, 50, 60],
        "grade": ["low", "high", None, "low"],
        "outcome": [1.0, 2.0, 3.0, 4.0],
    }
)
GRADE = (("grade", ("low", "high")),)


def at_home(table=TABLE, labels=("outcome",), **rule):
    return prepared_at_home(open_source(table), HomeRule(**rule), labels, "patient")


def at_home_table(text, **rule):
    return prepared_at_home(open_source(TABLE), HomeRule(**rule), ("outcome",), "patient", text=text)


def cells(home):
    return home.table.rows(0, home.table.shape[0])


def test_columns_come_in_the_order_of_the_list_and_others_stay_out():
    home = at_home(columns=("age", "weight"), missing=Missing.CONSTANT, constant=-1.0)
    assert home.table.names == ("age", "weight")
    expected = TABLE[["age", "weight"]].fillna(-1.0).to_numpy()
    assert (cells(home) == expected).all()
    assert home.report.record() == {
        "missing": "constant",
        "rows": 4,
        "rows_dropped": 0,
        "entries_filled": 1,
        "missing_by_column": {"weight": 1},
        "columns_left_out": ["grade"],
    }


def test_a_row_with_a_gap_goes_with_its_label_and_its_id():
    home = at_home(ordinal=GRADE, missing=Missing.DROP)
    assert cells(home).tolist() == [[70.0, 30.0, 0.0], [90.0, 60.0, 0.0]]
    assert home.table.column("outcome").tolist() == [1.0, 4.0]
    assert home.table.column("patient").tolist() == ["007", "010"]
    assert "2 of 4 rows were left out" in str(home.report)


def test_an_id_that_begins_with_zeros_keeps_them_through_every_step(tmp_path):
    TABLE.to_csv(tmp_path / "a.csv", index=False)
    source = renamed(open_source(tmp_path / "a.csv"), {"patient": "id"})
    home = prepared_at_home(source, HomeRule(ordinal=GRADE, missing=Missing.DROP), ("outcome",), "id")
    assert home.table.column("id").tolist() == ["007", "010"]


def test_a_row_whose_label_is_missing_is_dropped_and_never_filled():
    table = TABLE.assign(outcome=[1.0, 2.0, 3.0, np.nan]).drop(columns="grade")
    home = at_home(table, missing=Missing.DROP)
    assert home.table.column("outcome").tolist() == [1.0, 3.0]
    with pytest.raises(NotFinite, match="1 of 4 entries of the label 'outcome' are missing"):
        at_home(table, missing=Missing.CONSTANT)


def test_an_id_may_be_missing_in_a_row_that_is_dropped_and_in_no_other():
    table = TABLE.drop(columns="grade")
    assert at_home(table.assign(patient=["a", None, "c", "d"]), missing=Missing.DROP).table.column(
        "patient"
    ).tolist() == ["a", "c", "d"]
    with pytest.raises(NotFinite):
        at_home(table.assign(patient=["a", "b", None, "d"]), missing=Missing.DROP).table.column("patient")


def test_every_column_gets_an_indicator_so_that_a_gap_does_not_show_in_the_number_of_columns():
    rule = {"columns": ("weight", "age"), "missing": Missing.CONSTANT, "indicators": True}
    with_gaps, without = at_home(**rule), at_home(TABLE.assign(weight=1.0), **rule)
    assert with_gaps.table.names == without.table.names == ("weight", "age", "weight_missing", "age_missing")
    assert cells(with_gaps)[:, 2].tolist() == TABLE["weight"].isna().astype(float).tolist()
    assert not cells(without)[:, 2:].any()
    assert at_home(**{**rule, "indicators": ("age",)}).table.names == ("weight", "age", "age_missing")


def test_an_ordinal_outcome_is_a_label_of_numbers():
    table = TABLE.dropna()
    home = prepared_at_home(open_source(table), HomeRule(drop=("outcome", "patient"), ordinal=GRADE), ("grade",), None)
    assert home.table.column("grade").tolist() == [0.0, 0.0]


def test_by_default_gaps_are_refused_with_their_counts():
    with pytest.raises(NotFinite, match=r"2 of 16 entries are missing: weight \(1\), grade \(1\)") as refused:
        at_home(ordinal=GRADE)
    assert '"mean", "constant" or "drop"' in refused.value.fix


def test_text_that_nothing_is_said_of_is_refused_and_the_reason_is_given():
    with pytest.raises(NotNumeric, match="'grade' holds text") as refused:
        at_home(missing=Missing.DROP)
    assert "categories" in refused.value.fix


def numbers_with_commas(n):
    written = [f"{1000 + 7 * i:,}" for i in range(n)]
    return pd.DataFrame({"age": np.arange(2 * n), "alk": written * 2, "outcome": np.arange(2 * n) / 3})


def test_numbers_that_the_reader_took_for_text_are_no_category():
    many, few = (open_source(numbers_with_commas(n)) for n in (21, 20))
    with pytest.raises(NotNumeric) as caught:
        prepared_at_home(many, HomeRule(), ("outcome",), text={"alk": None})
    assert "21 different texts: numbers with commas between thousands" in caught.value.fault
    assert 'alk = { thousands = "," } in the map of the table' in caught.value.fix
    assert prepared_at_home(few, HomeRule(), ("outcome",), text={"alk": None}).table.text_names == {"alk"}


def test_a_level_that_the_map_does_not_have_is_refused():
    with pytest.raises(FedSVDError, match="does not name"):
        at_home(ordinal=(("grade", ("high",)),), missing=Missing.DROP)


def test_everything_that_the_table_lacks_is_said_at_once():
    with pytest.raises(ConfigError, match="2 problems") as refused:
        at_home(columns=("age", "hight"), drop=("wards",))
    assert "'hight'" in str(refused.value)
    assert "'wards'" in str(refused.value)
    with pytest.raises(ConfigError, match="label or the id"):
        at_home(drop=("outcome",))
    with pytest.raises(ConfigError, match="named more than once"):
        at_home(columns=("age", "age"))
    with pytest.raises(ConfigError, match="leave no column"):
        at_home(columns=("age",), drop=("age",))


def test_where_columns_are_split_a_party_takes_those_of_the_list_that_it_has():
    rule = HomeRule(columns=("height", "age"), drop=("ward",))
    home = prepared_at_home(open_source(TABLE), rule, (), "patient", partly=True)
    assert home.table.names == ("age",)


def test_a_site_may_call_its_columns_otherwise():
    source = renamed(open_source(TABLE), {"weight": "Gewicht"}, {"Gewicht": "mass", "elsewhere": "x"})
    assert source.names == ("patient", "mass", "age", "grade", "outcome")
    with pytest.raises(ConfigError, match="more than one column would be called"):
        renamed(open_source(TABLE), {"weight": "age"})


def test_for_joint_means_and_categories_gaps_stay_gaps_and_text_stays_text():
    home = at_home_table(missing=Missing.MEAN, text={"grade": None})
    assert home.table.text_names == {"grade"}
    assert home.report.filled == home.report.gaps.total == 1


def test_rows_without_a_category_are_dropped_unless_that_is_a_level_of_its_own():
    every = len(at_home_table(missing=Missing.MEAN, text={"grade": None}).table.text("grade")[0])
    dropped = at_home_table(missing=Missing.DROP, text={"grade": None})
    assert dropped.table.shape[0] == every - 2
    assert at_home_table(missing=Missing.DROP, text={"grade": "unknown"}).table.shape[0] == every - 1


def test_a_constant_is_filled_in_next_to_columns_that_stay_text():
    home = at_home_table(missing=Missing.CONSTANT, constant=7.0, text={"grade": None})
    assert home.table.text_names == {"grade"}
    assert home.table.names[-1] == "grade"
