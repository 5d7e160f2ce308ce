"""Columns that studies opened sums of, as a party stores them: found again by content, erased with their records."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from fedsvd.data.open import open_source
from fedsvd.errors import StorageError
from fedsvd.policy.opened_columns import MOST_CELLS, CountedAt, OpenedColumns, StudyColumns, read_columns
from fedsvd.policy.table_memory import TableMemory

ROWS = 40


def registry(rows=ROWS):
    numbers = np.arange(rows)
    return pd.DataFrame({"patient": [f"p{k}" for k in numbers], "age": 40.0 + numbers % 7, "bmi": 20.0 + numbers})


def begun(folder, frame, run, names=("age", "bmi"), **more):
    memory = TableMemory(folder)
    brought = memory.recognised(open_source(frame), ["patient"], 5, names)
    rows = brought.rows(np.arange(len(frame))).rows
    table = as_numbers(brought.table, names)[rows]
    memory.begin({"run": run, "roster": ["A", "B"]}, brought, rows, StudyColumns(tuple(names), table, rows, **more))
    return read_columns(folder, 1)


def as_numbers(table, names):
    return np.column_stack([np.asarray(table.column(name), float) for name in names])


def test_a_study_adds_the_columns_that_are_new_whatever_they_are_called(tmp_path):
    first = begun(tmp_path, registry(), "aa", bits=100)
    assert first.values.shape == (ROWS, 2)
    shuffled = registry().sample(frac=1.0, random_state=1).rename(columns={"age": "years"})
    second = begun(tmp_path, shuffled.assign(sex=np.arange(ROWS) % 2), "bb", ("years", "sex"), bits=7, gram=True)
    assert second.names == ("age", "bmi", "sex")
    assert second.studies["bb"].features == (0, 2)
    assert [each.bits for each in second.studies.values()] == [100, 7]
    assert begun(tmp_path, registry(), "aa", bits=100).names == second.names  # a second attempt


def test_corrected_and_new_records_have_their_new_values_in_a_column_that_stays_the_same_one(tmp_path):
    begun(tmp_path, registry(), "aa")
    later = registry(ROWS + 6)
    later.loc[3:8, "bmi"] += 100.0
    found = begun(tmp_path, later, "bb")
    assert found.names == ("age", "bmi")
    assert np.array_equal(found.values[:, 1], later["bmi"])
    assert np.array_equal(np.flatnonzero(found.corrected), np.arange(3, 9))


def test_nothing_of_a_withdrawn_record_stays(tmp_path):
    begun(tmp_path, registry(), "aa")
    found = begun(tmp_path, registry()[5:], "bb")
    assert np.isnan(found.values[:5]).all()
    assert not np.isnan(found.values[5:]).any()


def test_a_forgotten_study_takes_its_columns_with_it(tmp_path):
    begun(tmp_path, registry(), "aa")
    begun(tmp_path, registry().assign(sex=np.arange(ROWS) % 2), "bb", ("sex", "age"))
    memory, later = TableMemory(tmp_path), datetime.now(UTC) + timedelta(days=31)
    memory.forget("aa", later)
    left = read_columns(tmp_path, 1)
    assert set(left.names) == {"age", "sex"}
    assert [left.names[j] for j in left.studies["bb"].features] == ["sex", "age"]
    memory.forget("bb", later)
    assert not list(tmp_path.glob("columns-*"))


def test_times_of_counts_are_stored_and_forgotten_with_their_study(tmp_path):
    begun(tmp_path, registry(), "aa", ("age",))
    at = CountedAt((25.0, 40.5), closed=True)
    frame = registry().assign(left=np.arange(ROWS) % 2)
    found = begun(tmp_path, frame, "bb", ("age", "bmi", "left"), labels=0, counted=2, grid=at)
    study = found.studies["bb"]
    assert (study.grid, [found.names[j] for j in study.counted]) == (at, ["bmi", "left"])
    assert [found.names[j] for j in study.features] == ["age"]
    assert found.studies["aa"].grid is None
    memory, later = TableMemory(tmp_path), datetime.now(UTC) + timedelta(days=31)
    memory.forget("aa", later)
    left = read_columns(tmp_path, 1)
    assert [left.names[j] for j in left.studies["bb"].counted] == ["bmi", "left"]
    assert left.studies["bb"].grid == at


def test_what_was_written_before_times_were_remembered_is_read(tmp_path):
    written = begun(tmp_path, registry(), "aa", bits=3)
    path = tmp_path / "columns-0001.npz"
    with np.load(path) as file:
        said, arrays = json.loads(file["said"].tobytes()), {"values": file["values"], "corrected": file["corrected"]}
    for study in said["studies"].values():
        del study["counted"], study["grid"]
    np.savez(path, said=np.frombuffer(json.dumps(said).encode(), np.uint8), **arrays)
    assert read_columns(tmp_path, 1).studies == written.studies


def test_columns_that_are_too_many_are_counted_and_not_stored():
    records = MOST_CELLS // 2 + 1
    opened = OpenedColumns().after(records)
    study = StudyColumns(("a", "b"), np.zeros((20, 2)), np.arange(20), bits=9, held=2.5)
    found = opened.with_study("aa", study, np.arange(20))
    assert found.names == ()
    assert (found.studies["aa"].bits, found.studies["aa"].held) == (9, 2.5)


def test_a_damaged_file_is_named(tmp_path):
    begun(tmp_path, registry(), "aa")
    (tmp_path / "columns-0001.npz").write_bytes(b"PK")
    with pytest.raises(StorageError, match=r"columns-0001\.npz is damaged"):
        read_columns(tmp_path, 1)
