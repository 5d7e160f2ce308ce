"""A member's own table, prepared before it says anything of it; its names and its gaps stay with it."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.messy import PREPARE, messy_hospitals, numbers, record

from fedsvd.errors import ConfigError
from fedsvd.policy.table_memory import TableMemory
from fedsvd.prepare.table_map import TableMap
from fedsvd.service.enlist import open_data
from fedsvd.service.site_file import SITE, read_site
from fedsvd.studies.job_file import job_from
from fedsvd.studies.own_table import OwnTables
from fedsvd.studies.submitted import submitted_file, submitted_job


def test_the_section_travels_with_the_job_and_is_the_same_on_the_other_side(tmp_path):
    job = job_from(record(tmp_path, PREPARE), Path())
    sent = submitted_file(job)
    assert submitted_job(sent).prepare == job.prepare
    assert "prepare" not in submitted_file(job_from(record(None, {}), Path()))


def test_a_name_that_cannot_be_shown_as_it_is_is_refused():
    with pytest.raises(ConfigError, match="marks of direction"):
        submitted_job(record(None, {"ordinal": {"grade": ["low\u202e"]}}))


def called(names):
    """What a site says of its tables: columns have other names in studies."""
    return OwnTables(TableMap(map=names))


def test_facts_are_those_of_the_prepared_table(tmp_path):
    joint = messy_hospitals(tmp_path)
    own_words = {key: value for key, value in PREPARE.items() if key != "rename"}
    job = submitted_job(record(None, own_words))
    north = open_data(job, "north", tmp_path / "north.csv", tmp_path)
    west = open_data(job, "west", tmp_path / "west.xlsx", tmp_path, called({"Fläche": "mean area"}))
    assert west.facts.rows == len(numbers(joint)[310:].dropna())
    assert west.facts.columns == 4
    assert west.facts.features == north.facts.features
    with pytest.raises(ConfigError, match="party west: columns: the table has no column 'mean area'"):
        open_data(job, "west", tmp_path / "west.xlsx", tmp_path)


def test_what_a_member_says_of_its_table_does_not_depend_on_its_gaps_its_names_or_its_other_columns(tmp_path):
    """Nothing of the preparation leaves a site: two sites whose prepared tables agree say the same."""
    words = {"columns": ["age", "dose"], "missing": "constant", "indicators": ["age"]}
    job = submitted_job(
        {"job": {"name": "j", "task": "pca"}, "prepare": words, "party": [{"name": "a"}, {"name": "b"}]}
    )
    full = pd.DataFrame({"age": [30.0, 0.0, 50.0], "dose": [1.0, 0.0, 3.0]})
    gaps = pd.DataFrame({"note": ["x", "y", "z"], "dose": [1.0, None, 3.0], "Alter": [30.0, 0.0, 50.0]})
    full.to_csv(tmp_path / "full.csv", index=False)
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    one = open_data(job, "a", tmp_path / "full.csv", tmp_path)
    other = open_data(job, "a", tmp_path / "gaps.csv", tmp_path, called({"Alter": "age"}))
    assert one.facts == other.facts
    assert one.data.table.fingerprint() == other.data.table.fingerprint()
    assert one.data.prepared.filled == 0
    assert other.data.prepared.filled == 1


def test_rows_that_one_preparation_leaves_out_and_another_fills_in_wait(tmp_path):
    table = table_with_gaps(tmp_path, [4, 9])
    memory = TableMemory(tmp_path / "records")
    begin(memory, brought(memory, tmp_path, missing="drop"))
    assert brought(memory, tmp_path, missing="drop").data.table.shape[0] == 198
    own = brought(memory, tmp_path, missing="constant")
    assert own.data.table.shape[0] == 198, "two records that no study had"
    (line,) = own.waiting
    assert line.startswith("2 record(s) are left out of this study")
    table.loc[[20, 30, 40], "y"] = np.nan
    table.to_csv(tmp_path / "a.csv", index=False)
    assert brought(memory, tmp_path, missing="drop").data.table.shape[0] == 193, "three withdrawn take two with them"


def test_a_job_that_calls_columns_otherwise_or_counts_levels_otherwise_does_not_hide_a_corrected_record(tmp_path):
    table = table_with_gaps(tmp_path, [])
    memory = TableMemory(tmp_path / "records")
    words = {"ordinal": {"grade": ["low", "mid", "high"]}}
    begin(memory, brought(memory, tmp_path, **words))
    table.loc[4, "x"] += 1.0
    table.to_csv(tmp_path / "a.csv", index=False)
    for other in (
        {"ordinal": {"grade": ["high", "low", "mid"]}},
        {"rename": {"x": "y", "grade": "x", "y": "z"}, "ordinal": {"x": ["mid", "low", "high"]}},
        {**words, "missing": "constant", "constant": 1e12},
    ):
        own = brought(memory, tmp_path, **other)
        assert own.data.table.shape[0] == 195, "without ids a corrected record is one less and a new one"


def table_with_gaps(folder, rows):
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"x": rng.normal(size=200), "y": rng.normal(size=200)})
    table.loc[rows, "y"] = np.nan
    if not rows:
        table["grade"] = rng.choice(["low", "mid", "high"], 200)
    table.to_csv(folder / "a.csv", index=False)
    return table


def brought(memory, folder, **words):
    """The table ``a.csv`` as a site opens it for a study."""
    file = {"job": {"name": "j", "task": "svd"}, "prepare": words, "party": [{"name": "a"}, {"name": "b"}]}
    how = partial(memory.recognised, ids=(), least=5)
    return open_data(submitted_job(file), "a", folder / "a.csv", folder, recognise=lambda job, table: how(table))


def begin(memory, own):
    memory.begin({"run": "aa", "roster": ["a", "b"]}, own.remembered, own.data.table.places())


def test_a_site_names_its_columns_as_studies_call_them(tmp_path):
    (tmp_path / SITE).write_text('[table.map]\n"Gewicht (kg)" = "weight"\n', encoding="utf-8")
    assert read_site(tmp_path).table.names() == {"Gewicht (kg)": "weight"}
    (tmp_path / SITE).write_text('table = "weight"\n')
    with pytest.raises(ConfigError, match="not a table"):
        read_site(tmp_path)


def test_the_table_of_names_that_was_is_answered_with_the_one_that_is(tmp_path):
    (tmp_path / SITE).write_text('[rename]\n"Gewicht (kg)" = "weight"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"\[rename\]") as refused:
        read_site(tmp_path)
    assert "[table.map]" in refused.value.fix


def test_a_misspelt_key_of_a_mapped_column_is_answered_with_its_nearest(tmp_path):
    (tmp_path / SITE).write_text("[table.map]\nbili = { factr = 17.1 }\n")
    with pytest.raises(ConfigError, match=r"table\.map\.bili\.factr") as refused:
        read_site(tmp_path)
    assert "did you mean 'factor'?" in refused.value.fix
