"""A table next to a dictionary: what falls short is said at home, and refused in counts before a study."""

import numpy as np
import pandas as pd
import pytest

from fedsvd.data.open import open_source
from fedsvd.errors import DataError
from fedsvd.prepare.described import described, shortfalls
from fedsvd.prepare.dictionary import dictionary_of

WORDS = {
    "columns": {
        "age": {"range": [18, 110], "decimals": 0, "groups": {"age_group": [40, 65]}},
        "sex": {"levels": ["female", "male"]},
        "stage": {"levels": ["I", "II", "III"], "groups": {"late": {"no": ["I", "II"], "yes": ["III"]}}},
        "patient": {"role": "id"},
    }
}
DICTIONARY = dictionary_of(WORDS)


def table(**other):
    rng = np.random.default_rng(3)
    columns = {
        "note": ["x"] * 40,
        "stage": rng.choice(["I", "II", "III"], 40),
        "sex": rng.choice(["female", "male"], 40),
        "age": rng.integers(18, 100, 40).astype(float),
        "patient": np.arange(40),
    }
    return pd.DataFrame(columns | other)


def test_columns_come_in_the_order_of_the_dictionary_and_groups_after_them():
    frame = table()
    source = described(open_source(frame), DICTIONARY)
    assert source.names == ("age", "sex", "stage", "patient", "age_group", "late")
    cut = pd.cut(frame["age"], [-np.inf, 40, 65, np.inf], right=False, labels=["<40", "40 to <65", ">=65"])
    assert source.text("age_group")[0].tolist() == cut.tolist()
    assert source.text("late")[0].tolist() == frame["stage"].map({"I": "no", "II": "no", "III": "yes"}).tolist()
    np.testing.assert_array_equal(source.raw(slice(0, 40), slice(0, 1))[:, 0], frame["age"])


def test_a_gap_is_a_gap_of_the_group_too():
    source = described(open_source(table(age=[np.nan, *[30.0] * 39])), DICTIONARY)
    assert source.text("age_group")[1].tolist() == [True, *[False] * 39]


@pytest.mark.parametrize(
    ("column", "entries", "text"),
    [
        ("age", [17.0, 111.0, *[30.0] * 38], "2 of 40 entries are outside of 18 to 110"),
        ("age", ["thirty", *["30"] * 39], "holds text, and is a number in the dictionary"),
        ("sex", ["Female", "fem", *["male"] * 38], "2 of 40 entries have none of its levels"),
    ],
)
def test_what_falls_short_is_refused_in_counts_alone(column, entries, text):
    with pytest.raises(DataError, match=text) as refused:
        described(open_source(table(**{column: entries})), DICTIONARY)
    assert f"'{column}'" in refused.value.fault
    assert "in the map of the table" in refused.value.fix
    assert not any(word in str(refused.value) for word in ("Female", "fem ", "thirty", "111", "17.0"))


def test_a_column_that_the_study_does_not_read_may_fall_short():
    source = described(open_source(table(sex=["unknown"] * 40)), DICTIONARY, needed=("age",))
    assert source.shape == (40, 6)


def test_the_owner_is_shown_levels_with_their_nearest_gaps_and_small_cells():
    frame = table(sex=["Female", *["male"] * 39], age=[np.nan, 30.5, *[30.0] * 38], stage=["III", *["I"] * 39])
    found = {
        (each.column, each.refused): each.text for each in shortfalls(open_source(frame), DICTIONARY, by_name=True)
    }
    assert "'Female' (1; did you mean 'female'?)" in found["sex", True]
    said = [str(each) for each in shortfalls(open_source(frame), DICTIONARY, by_name=True)]
    assert any("1 of 40 entries are missing" in each for each in said)
    assert any("1 entries have more than 0 decimals" in each for each in said)
    assert any("fewer than 5 records have 'III'" in each for each in said)


def test_a_table_without_any_of_its_columns_is_refused():
    with pytest.raises(DataError, match="no column of the dictionary"):
        described(open_source(pd.DataFrame({"x": [1.0, 2.0]})), DICTIONARY)


def test_a_record_in_a_combination_that_cannot_occur_is_refused_and_one_with_a_gap_is_not():
    zero = dictionary_of(
        {
            "columns": {"sex": {"levels": ["f", "m"]}, "pregnant": {"levels": ["no", "yes"]}, "age": {}},
            "structural_zeros": [{"sex": "m", "pregnant": "yes"}],
        }
    )
    frame = pd.DataFrame({"sex": list("ffmm"), "pregnant": ["yes", "no", "no", None], "age": [30.0, 40, 50, 60]})
    assert not [each for each in shortfalls(open_source(frame), zero) if each.refused]
    frame.loc[3, "pregnant"] = "yes"
    (found,) = [each for each in shortfalls(open_source(frame), zero) if each.refused]
    assert found.text == "1 of 4 records have sex = m and pregnant = yes, which cannot occur"
    with pytest.raises(DataError, match="which cannot occur"):
        described(open_source(frame), zero, ["sex", "pregnant"])
    described(open_source(frame), zero, ["sex", "age"])  # a study that does not read both
