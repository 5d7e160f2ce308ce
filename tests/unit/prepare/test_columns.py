"""Columns by name: chosen, renamed, put in order; everything missing or surplus is said at once."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, DataError
from fedsvd.prepare.columns import ColumnChoice, arranged, chosen

FRAME = pd.DataFrame({"id": ["b", "a"], "AGE": [1.0, np.nan], "dose": [3.0, 4.0], "note": ["x", "y"]})


def test_a_choice_is_the_selection_that_pandas_makes():
    choice = ColumnChoice(columns=("dose", "age", "id"), drop=("id",), rename=(("AGE", "age"),))
    table = chosen(open_source(FRAME), choice)
    expected = FRAME.rename(columns={"AGE": "age"})[["dose", "age"]]
    assert table.names == tuple(expected.columns)
    assert_array_equal(table.raw(slice(0, 2), slice(0, 2)), expected.to_numpy())
    assert table.column("id").tolist() == ["b", "a"]


def test_text_of_a_renamed_column_is_read_under_its_new_name():
    table = chosen(open_source(FRAME), ColumnChoice(rename=(("note", "remark"), ("id", "patient"))))
    assert table.text_names == {"patient", "remark"}
    assert table.text("remark")[0].tolist() == ["x", "y"]
    assert table.column("patient").tolist() == ["b", "a"]
    assert table.without(["patient", "remark"]).names == ("AGE", "dose")


def test_nothing_asked_for_is_the_table_itself():
    source = open_source(FRAME)
    assert chosen(source, ColumnChoice()) is source


def test_every_fault_of_a_choice_is_in_one_error():
    choice = ColumnChoice(columns=("weight", "dose", "dose"), drop=("height",), rename=(("Dose", "x"), ("AGE", "dose")))
    with pytest.raises(ConfigError) as caught:
        chosen(open_source(FRAME), choice)
    text = str(caught.value)
    for word in (
        "no column 'Dose'",
        "would be called 'dose'",
        "no column 'weight'",
        "no column 'height'",
        "more than once",
    ):
        assert word in text
    with pytest.raises(ConfigError, match="leave no column"):
        chosen(open_source(FRAME), ColumnChoice(columns=("dose",), drop=("dose",)))


def test_columns_are_put_in_the_order_of_the_study():
    table = arranged(open_source(FRAME), ["dose", "AGE"])
    assert_array_equal(table.raw(slice(0, 2), slice(0, 2)), FRAME[["dose", "AGE"]].to_numpy())
    with pytest.raises(DataError, match="no column 'weight', 'height'"):
        arranged(open_source(FRAME), ["weight", "dose", "height"])
