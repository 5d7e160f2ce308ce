"""A proposed dictionary is public: nothing in it is of fewer records than the least count."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.data.open import open_source
from fedsvd.errors import DataError
from fedsvd.prepare.dictionary import read_dictionary
from fedsvd.prepare.propose import propose


def table():
    rng = np.random.default_rng(8)
    return pd.DataFrame(
        {
            "patient_id": np.arange(1000, 1200),
            "age": rng.integers(20, 90, 200),
            "cost": [*np.round(rng.uniform(10, 500, 199), 2), 7_654_321.0],
            "ward": ["north"] * 120 + ["south"] * 77 + ["attic"] * 3,
            "name": [f"person {i}" for i in range(200)],
            "treated": rng.integers(0, 2, 200),
            "seen": ["2024-01-05"] * 200,
        }
    )


def test_common_levels_coarse_ranges_and_roles_are_proposed(tmp_path):
    found = propose(open_source(table()), "wards")
    said = found.dictionary.record()["columns"]
    assert said["ward"] == {"levels": ["north", "south"]}
    assert said["patient_id"] == {"role": "id"}
    assert said["treated"] == {"range": [0, 1], "decimals": 0}
    assert set(said) == {"patient_id", "age", "cost", "ward", "treated"}
    (tmp_path / "dictionary.toml").write_text(found.text, encoding="utf-8")
    assert read_dictionary(tmp_path / "dictionary.toml") == found.dictionary
    assert "This file is public" in found.text


def test_no_rare_level_name_or_extreme_value_is_in_the_file():
    found = propose(open_source(table()))
    for secret in ("attic", "person", "7654321", "2024"):
        assert secret not in found.text
    low, high = found.dictionary.described["cost"].range
    assert low == 0
    assert 500 < high < 1000
    (outside,) = [note for note in found.notes if note.startswith("column 'cost': 1 records are outside")]
    (rarer,) = [note for note in found.notes if note.startswith("column 'ward': 1 rarer levels, of 3 records")]
    assert "widen range in the file" in outside
    assert "list them in the file" in rarer


def test_knots_are_coarse_quantiles_and_none_of_few_records():
    frame = pd.DataFrame({"x": np.random.default_rng(1).permutation(1000) + 0.123, "few": np.arange(1000) % 7})
    said = propose(open_source(frame)).dictionary.described
    assert said["x"].knots == (50.0, 350.0, 650.0, 950.0)
    assert said["few"].knots is None
    assert propose(open_source(frame[:90])).dictionary.described["x"].knots is None  # fewer than five beyond the outer


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-1000, 1000), min_size=20, max_size=60), st.floats(-1e6, 1e6, width=32))
def test_one_more_record_changes_the_range_no_more_than_the_record_before_it_would(values, other):
    """With any record put in the place of the largest, a range is made of the fourth largest and lower ones alone."""
    frame = pd.DataFrame({"x": np.array(sorted(values), dtype=float) + 0.5, "y": 1.0})
    larger = frame.copy()
    larger.loc[len(values) - 1, "x"] = float(frame["x"].max()) + abs(other)
    ranges = [propose(open_source(each)).dictionary.described["x"].range[1] for each in (frame, larger)]
    assert ranges[0] == ranges[1]


def test_a_table_without_names_has_one_line():
    found = propose(open_source(np.ones((20, 3))), "matrix")
    assert found.dictionary.takes_any
    assert 'columns = "*"' in found.text


def test_a_table_of_few_rows_is_refused():
    with pytest.raises(DataError, match="9 rows"):
        propose(open_source(table().head(9)))
