"""What a party remembers of its tables: versions inherit classes, corrections and new records wait."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, StorageError
from fedsvd.policy.table_memory import TableMemory

LEAST = 5
rng = np.random.default_rng(4)


def registry(records):
    """Patients with an id, two numbers and a text."""
    numbers = np.arange(records)
    return pd.DataFrame(
        {
            "patient": [f"p{k:04d}" for k in numbers],
            "age": 40.0 + numbers % 37,
            "bmi": np.round(20 + 0.01 * numbers**1.1, 3),
            "stage": np.where(numbers % 3 == 0, "II", "I"),
        }
    )


def study(folder, frame, run="aa", *, ids=("patient",), where=None, begin=True):
    """One study of the rows ``where`` says: the table as it goes in, and how it was recognised."""
    memory = TableMemory(folder / "records")
    brought = memory.recognised(open_source(frame), ids, LEAST, [name for name in frame if name != "patient"])
    wanted = np.arange(len(frame)) if where is None else np.flatnonzero(where)
    rows = brought.rows(wanted).rows
    if begin:
        memory.begin({"run": run, "roster": ["A", "B", "C"]}, brought, rows)
    return as_frame(brought.table, rows), brought


def as_frame(table, rows):
    columns = {}
    for name in table.names:
        values, gaps = table.text(name)
        columns[name] = np.where(gaps, "-", values)[rows]
    return pd.DataFrame(columns)


def as_set(frame):
    return set(map(tuple, frame.to_numpy().tolist()))


def atoms(studies):
    found = {}
    for element in set().union(*studies):
        where = tuple(element in each for each in studies)
        found[where] = found.get(where, 0) + 1
    return found.values()


def test_the_same_table_in_any_order_of_rows_and_columns_is_the_same_table(tmp_path):
    frame = registry(60)
    study(tmp_path, frame)
    again, brought = study(tmp_path, frame[["stage", "bmi", "patient", "age"]].sample(frac=1, random_state=1), "bb")
    assert len(again) == 60
    assert brought.number == 1
    assert brought.waiting == 0
    assert len(list((tmp_path / "records").glob("table-*.npz"))) == 1


def test_a_corrected_cell_waits_and_the_earlier_value_is_used(tmp_path):
    frame = registry(60)
    before, _ = study(tmp_path, frame)
    corrected = frame.copy()
    corrected.loc[[3, 9], "bmi"] = [99.0, np.nan]
    corrected.loc[12, "stage"] = "IV, as the second reading says"
    after, brought = study(tmp_path, corrected, "bb")
    assert brought.waiting == 3
    assert as_set(after) == as_set(before)


def test_five_visits_of_one_person_are_one_record(tmp_path):
    frame = registry(120).assign(patient=[f"p{k // 2:04d}" for k in range(120)])  # two visits each
    before, brought = study(tmp_path, frame)
    assert brought.person is None  # nothing is remembered yet
    new = registry(125)[120:].assign(patient="q")
    after, brought = study(tmp_path, pd.concat((frame, new)), "bb")
    assert as_set(after) == as_set(before)
    assert len(set(brought.person.tolist())) == 60
    several = registry(125)[120:].assign(patient=["q", "r", "s", "t", "p0000"])
    after, _ = study(tmp_path, pd.concat((frame, several)), "cc")
    assert len(after) == 125
    without, _ = study(tmp_path, pd.concat((frame[frame.patient != "p0007"], several)), "dd")
    assert len({row[0] for row in as_set(after) - as_set(without)}) >= 5


def test_five_corrections_are_used_together(tmp_path):
    frame = registry(60)
    study(tmp_path, frame)
    corrected = frame.copy()
    corrected.loc[[3, 9, 12, 20, 21], "bmi"] = 99.0
    after, brought = study(tmp_path, corrected, "bb")
    assert brought.waiting == 0
    assert (after["bmi"] == "99").sum() == 5
    one_more = corrected.copy()
    one_more.loc[3, "bmi"] = 98.0
    again, brought = study(tmp_path, one_more, "cc")
    assert brought.waiting == 1
    assert as_set(again) == as_set(after)


def test_a_column_in_another_unit_is_a_correction_of_all_records(tmp_path):
    frame = registry(60)
    study(tmp_path, frame)
    after, brought = study(tmp_path, frame.assign(bmi=frame["bmi"] * 10), "bb")
    assert brought.waiting == 0
    assert brought.changed == {"bmi"}
    assert len(after) == 60


def test_new_records_wait_until_there_are_five(tmp_path):
    study(tmp_path, registry(60))
    assert len(study(tmp_path, registry(64), "bb")[0]) == 60
    assert len(study(tmp_path, registry(65), "cc")[0]) == 65
    assert len(study(tmp_path, registry(66), "dd")[0]) == 65


def test_a_withdrawn_record_takes_four_with_it_and_they_stay_out(tmp_path):
    frame = registry(60)
    study(tmp_path, frame)
    once, _ = study(tmp_path, frame.drop(index=7), "bb")
    assert len(once) == 55
    again, _ = study(tmp_path, frame.drop(index=7), "cc")
    assert as_set(again) == as_set(once)
    assert as_set(study(tmp_path, frame, "dd")[0]) == as_set(once)  # the record is back, and stays out with them


def test_nothing_but_a_word_is_left_of_a_withdrawn_record(tmp_path):
    frame = registry(60).assign(bmi=lambda table: table["bmi"] + 0.123456)
    study(tmp_path, frame)
    study(tmp_path, frame.drop(index=7), "bb")
    stored = b"".join(path.read_bytes() for path in (tmp_path / "records").iterdir())
    assert np.float64(frame["bmi"][8]).tobytes() in stored
    assert np.float64(frame["bmi"][7]).tobytes() not in stored
    assert "p0008".encode("utf-32-le") not in stored, "ids are stored as keyed words"


def test_what_never_began_is_not_remembered(tmp_path):
    frame = registry(60)
    study(tmp_path, frame, begin=False)
    assert len(study(tmp_path, frame.drop(index=7), "bb")[0]) == 59


def test_rows_that_four_studies_choose_tell_no_record_from_the_others(tmp_path):
    """Four PCA jobs whose columns choose rows by their gaps gave one record of 0.2.0 exactly."""
    frame = registry(80)
    a, b = np.arange(80) % 2 == 0, np.arange(80) < 41
    wanted = [np.ones(80, bool), ~a, ~b, ~(a & b) | (np.arange(80) != 40)]
    found = [as_set(study(tmp_path, frame, f"a{k}", where=each)[0]) for k, each in enumerate(wanted)]
    assert min(atoms(found)) >= LEAST


@settings(deadline=None, max_examples=15, phases=[p for p in Phase if p is not Phase.shrink])
@given(st.data())
def test_versions_of_a_registry_leave_classes_of_five(tmp_path_factory, data):
    """Records come, go and are corrected, and studies choose rows: sums of studies are of five records at the least."""
    folder = tmp_path_factory.mktemp("memory")
    size, held, frame = 30, set(range(30)), registry(80)
    studies = []
    for step in range(data.draw(st.integers(2, 6))):
        size += data.draw(st.integers(0, 8))
        held = (held | set(range(size))) - data.draw(st.sets(st.integers(0, size - 1), max_size=4))
        for record in data.draw(st.sets(st.integers(0, size - 1), max_size=8)):
            frame.loc[record, "bmi"] = 100.0 + step
        version = frame.loc[sorted(held)]
        left_out = data.draw(st.sets(st.integers(0, size - 1), max_size=6))
        where = np.array([record not in left_out for record in version.index])
        studies.append(as_set(study(folder, version, f"{step:02x}", where=where)[0]))
    assert min(atoms(studies)) >= LEAST


def test_a_registry_that_grows_for_two_years_goes_in_with_all_but_its_last_records(tmp_path):
    """An honest study: each month some records more, a few corrections; nothing is refused."""
    frame, size = registry(400), 200
    for month in range(24):
        size += int(rng.integers(0, 9))
        frame.loc[rng.integers(0, size, 2), "bmi"] = 30.0 + month
        found, brought = study(tmp_path, frame[:size], f"{month:02x}")
        assert size - len(found) < LEAST
        assert brought.number == (1 if month else 0)
        assert brought.waiting < 24
    assert len(list((tmp_path / "records").glob("table-*.npz"))) == 1


ROWS = rng.normal(170.0, 10.0, size=(300, 5))
NAMES = tuple(f"x{j}" for j in range(5))


def plain(rows, names=NAMES):
    return pd.DataFrame(rows, columns=list(names))


def changed(rows, column, factor):
    rows = rows.copy()
    rows[:, column] *= factor
    return rows


LESS = ROWS[:-1]


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (LESS, NAMES),
        (np.hstack((LESS, LESS[:, :1] ** 2)), (*NAMES, "new")),
        (changed(LESS, 1, 2.54), NAMES),
        (np.nextafter(LESS, np.inf), NAMES),
        (LESS[:, [4, 2, 0, 1, 3]], [NAMES[j] for j in (4, 2, 0, 1, 3)]),
        (LESS[:, :4], NAMES[:4]),
    ],
    ids=["less", "column", "unit", "ulp", "order", "left out"],
)
def test_records_without_ids_are_known_by_their_content_however_the_table_is_dressed_up(tmp_path, rows, names):
    study(tmp_path, plain(ROWS), ids=())
    found, brought = study(tmp_path, plain(rows, names), "bb", ids=())
    assert brought.number == 1
    assert len(found) == 295


@pytest.mark.parametrize("columns", [1, 3, 40])
@pytest.mark.parametrize("kind", ["normal", "binary", "64ths"])
def test_one_record_less_is_found_in_narrow_wide_and_coarse_tables(tmp_path, columns, kind):
    rows = rng.normal(size=(300, columns))
    rows = {"normal": rows, "binary": (rows > 0).astype(float), "64ths": np.round(rows * 2.0**20) / 64}[kind]
    names = [f"x{j}" for j in range(columns)]
    study(tmp_path, plain(rows, names), ids=())
    assert len(study(tmp_path, plain(rows[:-1], names), "bb", ids=())[0]) == 295


def test_a_long_table_without_ids_is_recognised_by_some_of_its_values(tmp_path):
    rows = rng.normal(size=(20_000, 2))
    study(tmp_path, plain(rows, ("p", "q")), ids=())
    found, brought = study(tmp_path, plain(rows[::-1][1:], ("p", "q")), "bb", ids=())
    assert brought.number == 1
    assert len(found) == 19_995


def test_ids_are_found_in_a_table_that_was_remembered_by_content(tmp_path):
    frame = registry(60)
    study(tmp_path, frame, ids=())
    corrected = frame.assign(age=frame["age"] + (frame.index == 4))
    _, brought = study(tmp_path, corrected, "bb")
    assert brought.waiting == 1


def test_other_units_in_every_column_are_a_question_to_the_owner(tmp_path):
    study(tmp_path, plain(ROWS), ids=())
    _, brought = study(tmp_path, plain(LESS * 2.54), "bb", ids=(), begin=False)
    assert brought.unlike == (1,)
    _, other = study(tmp_path, plain(ROWS * 2.54, ("p", "q", "r", "s", "t")), "cc", ids=(), begin=False)
    assert other.unlike == ()
    assert other.number == 0


def test_another_table_with_ids_of_its_own_is_another_table(tmp_path):
    study(tmp_path, registry(60))
    other = registry(160)[100:]
    _, brought = study(tmp_path, other, "bb")
    assert brought.number == 0
    assert brought.unlike == ()
    assert study(tmp_path, other, "cc")[1].number == 2


def test_a_column_that_cannot_be_read_is_not_compared_and_still_there(tmp_path):
    frame = registry(60).assign(extra=np.inf)
    memory = TableMemory(tmp_path / "records")
    for run in ("aa", "bb"):
        brought = memory.recognised(open_source(frame), ("patient",), LEAST)
        memory.begin({"run": run}, brought, brought.rows(np.arange(60)).rows)
        assert brought.table.names == tuple(frame.columns)
        frame.loc[2, "bmi"] = 99.0
    assert brought.waiting == 1


def test_a_study_is_forgotten_after_thirty_days_and_the_table_with_the_last_one(tmp_path):
    frame = registry(60)
    study(tmp_path, frame)
    study(tmp_path, frame, "bb")
    memory, later = TableMemory(tmp_path / "records"), datetime.now(UTC) + timedelta(days=31)
    with pytest.raises(ConfigError, match="less than 30 days ago"):
        memory.forget("aa", datetime.now(UTC))
    assert memory.forget("aa", later) == "aa"
    assert [each["run"] for each in memory.studies(1)] == ["bb"]
    assert len(study(tmp_path, frame.drop(index=7), begin=False)[0]) == 55
    assert memory.forget("bb", later) == "bb"
    assert len(study(tmp_path, frame.drop(index=7), begin=False)[0]) == 59
    assert not list((tmp_path / "records").glob("table-*"))


def test_joint_counts_of_a_table_are_those_of_the_first_study_for_a_year(tmp_path):
    study(tmp_path, registry(60))
    memory, now = TableMemory(tmp_path / "records"), datetime.now(UTC)
    first = {("age", "off"): 5, ("stage", "level III"): 0}
    assert memory.counted(1, first, now) == first
    later = {("stage", "level III"): 2, ("bmi", "off"): 5}  # two patients came, and a column that was not counted
    month = now + timedelta(days=31)
    assert memory.counted(1, later, month) == {("stage", "level III"): 0, ("bmi", "off"): 5}
    assert memory.counted(2, later, month) == later  # another table
    assert memory.counted(1, later, now + timedelta(days=364)) == {("stage", "level III"): 0, ("bmi", "off"): 5}
    assert memory.counted(1, later, now + timedelta(days=366)) == {("stage", "level III"): 2, ("bmi", "off"): 5}
    memory.forget("aa", month)
    assert memory.counted(1, {("bmi", "off"): 1}, month) == {("bmi", "off"): 1}  # the number is free again


def test_a_damaged_file_stops_the_study(tmp_path):
    study(tmp_path, registry(60))
    (path,) = (tmp_path / "records").glob("table-*.npz")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(StorageError, match="restore it from a backup"):
        study(tmp_path, registry(60), "bb")


def test_files_are_private_and_older_ones_are_set_aside(tmp_path, caplog):
    folder = tmp_path / "records"
    folder.mkdir()
    (folder / "version-0001.npz").write_bytes(b"old")
    study(tmp_path, registry(60))
    assert (folder / "0.2.0" / "version-0001.npz").read_bytes() == b"old"
    assert "0.2.0" in caplog.text
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
