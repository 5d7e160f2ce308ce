"""What a party remembers of earlier studies: a few changed records or parties are refused, the same or many are not."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from fedsvd.data.open import open_source
from fedsvd.errors import StorageError
from fedsvd.policy import earlier_studies
from fedsvd.policy.earlier_studies import Asked, EarlierStudies, Reading
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Split
from fedsvd.studies.parties import PartyData

rng = np.random.default_rng(4)
NAMES = tuple(f"x{j}" for j in range(5))
ROWS = rng.normal(170.0, 10.0, size=(300, 5))
FOUR = frozenset("ABCD")


def table(rows, names=NAMES):
    return open_source(np.ascontiguousarray(rows), names=list(names))


def bring(
    folder,
    run,
    rows,
    *,
    names=NAMES,
    labels=None,
    split=Split.HORIZONTAL,
    roster=FOUR,
    full=False,
    policy=None,
    now=None,
):
    """The rules that a study breaks; one that breaks none begins."""
    studies = EarlierStudies(folder / "records")
    asked = Asked(run, split, frozenset(roster), full)
    brought = studies.compare(asked, PartyData(table(rows, names), labels), policy or Policy(), now)
    if not brought.found:
        studies.begin(brought)
    return {finding.rule for finding in brought.found}


def changed(rows, column, factor):
    rows = rows.copy()
    rows[:, column] *= factor
    return rows


def test_the_same_records_in_any_order_are_no_new_information(tmp_path):
    assert bring(tmp_path, "aa", ROWS) == set()
    assert bring(tmp_path, "bb", ROWS[::-1].copy()) == set()
    assert bring(tmp_path, "aa", ROWS) == set()  # resumed
    assert len(list((tmp_path / "records").glob("version-*.npz"))) == 1


LESS = ROWS[:-1]


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (LESS, NAMES),
        (ROWS[:-9], NAMES),
        (np.concatenate((ROWS, ROWS[:1] + 1)), NAMES),
        (np.hstack((LESS, LESS[:, :1] ** 2)), (*NAMES, "new")),
        (changed(LESS, 1, 2.54), NAMES),
        (np.nextafter(LESS, np.inf), NAMES),
        (LESS[:, [4, 2, 0, 1, 3]], [NAMES[j] for j in (4, 2, 0, 1, 3)]),
        (LESS[:, :4], NAMES[:4]),
    ],
    ids=["less", "nine", "more", "column", "unit", "ulp", "order", "left out"],
)
def test_a_few_changed_records_are_refused_however_the_table_is_dressed_up(tmp_path, rows, names):
    """Test 27b; version 0.1.0 hashed whole rows exactly, so that all but the first three were let through (F7)."""
    assert bring(tmp_path, "aa", ROWS) == set()
    assert bring(tmp_path, "bb", rows, names=names) == {"re-run"}
    assert bring(tmp_path, "cc", ROWS) == set()  # what was refused does not count as brought


@pytest.mark.parametrize("columns", [1, 3, 40])
@pytest.mark.parametrize("kind", ["normal", "binary", "64ths"])
def test_one_record_less_is_found_in_narrow_wide_and_coarse_tables(tmp_path, columns, kind):
    rows = rng.normal(size=(300, columns))
    rows = {"normal": rows, "binary": (rows > 0).astype(float), "64ths": np.round(rows * 2.0**20) / 64}[kind]
    names = [f"x{j}" for j in range(columns)]
    assert bring(tmp_path, "aa", rows, names=names) == set()
    assert bring(tmp_path, "bb", np.nextafter(rows[:-1], np.inf), names=names) == {"re-run"}


def test_one_corrected_cell_is_a_changed_record(tmp_path):
    corrected = ROWS.copy()
    corrected[7, 2] += 1.0
    bring(tmp_path, "aa", ROWS)
    assert bring(tmp_path, "bb", corrected) == {"re-run"}


def test_one_changed_label_is_a_changed_record(tmp_path):
    labels = ROWS[:, :1].copy()
    bring(tmp_path, "aa", ROWS, labels=labels)
    labels[7] += 1
    assert bring(tmp_path, "bb", ROWS, labels=labels) == {"re-run"}


def test_many_changed_records_are_not(tmp_path):
    bring(tmp_path, "aa", ROWS)
    assert bring(tmp_path, "bb", ROWS[:-10]) == set()


def test_every_earlier_study_counts(tmp_path):
    bring(tmp_path, "aa", ROWS)
    bring(tmp_path, "bb", ROWS[:200])
    assert bring(tmp_path, "cc", ROWS[:299]) == {"re-run"}
    assert bring(tmp_path, "dd", ROWS[:199]) == {"re-run"}


def test_a_study_that_never_began_is_no_earlier_one(tmp_path):
    studies = EarlierStudies(tmp_path / "records")
    studies.compare(Asked("aa", Split.HORIZONTAL, FOUR), PartyData(table(ROWS)), Policy())
    assert bring(tmp_path, "bb", LESS) == set()


def test_a_column_is_as_good_as_a_record_where_columns_are_split(tmp_path):
    bring(tmp_path, "aa", ROWS, split=Split.VERTICAL)
    assert bring(tmp_path, "bb", ROWS[:, :4], names=NAMES[:4], split=Split.VERTICAL) == {"re-run"}
    assert bring(tmp_path, "cc", changed(ROWS, 1, 2.54), split=Split.VERTICAL) == {"re-run"}
    assert bring(tmp_path, "dd", ROWS[:, :4], names=NAMES[:4], split=Split.HORIZONTAL) == set()


def test_other_units_in_every_column_are_a_question_to_the_owner(tmp_path):
    bring(tmp_path, "aa", ROWS)
    studies = EarlierStudies(tmp_path / "records")
    asked = Asked("bb", Split.HORIZONTAL, FOUR)
    assert studies.compare(asked, PartyData(table(LESS * 2.54)), Policy()).unlike == (1,)
    other = studies.compare(asked, PartyData(table(ROWS, ("p", "q", "r", "s", "t"))), Policy())
    assert (other.unlike, other.found) == ((), ())  # another table altogether


def test_a_roster_that_differs_by_one_party_is_refused_by_all_that_are_in_both(tmp_path):
    """Test 27 (F5): {A,B,C,D} then {A,B,C} gives D's Gram matrix; no party of 0.1.0 remembered with whom it ran."""
    for party in "ABC":
        assert bring(tmp_path / party, "aa", ROWS, roster="ABCD") == set()
        assert bring(tmp_path / party, "bb", ROWS, roster="ABC") == {"roster"}
        assert bring(tmp_path / party, "cc", ROWS, roster="ABCDE") == {"roster"}
        assert bring(tmp_path / party, "dd", ROWS[:-20], roster="ABC") == set()  # other records
        assert bring(tmp_path / party, "ee", ROWS, roster="ABCD") == set()
        assert bring(tmp_path / party, "ff", ROWS, roster="ABCDEF") == set()  # a sum over two
        strict = Policy(parties_for_full=4)
        assert bring(tmp_path / party, "gg", ROWS, roster="ABCDEG", policy=strict) == {"roster"}


def test_a_dataset_goes_into_full_outputs_in_so_many_versions_a_year(tmp_path):
    for version in range(6):
        assert bring(tmp_path, f"a{version}", ROWS[: 300 - 20 * version], full=True) == set()
    assert bring(tmp_path, "bb", ROWS[:150], full=True) == {"versions"}
    assert bring(tmp_path, "cc", ROWS[:150]) == set()  # no full outputs
    assert bring(tmp_path, "dd", ROWS[:280], full=True) == set()  # a version that was there
    later = datetime.now(UTC) + timedelta(days=366)
    assert bring(tmp_path, "ee", ROWS[:130], full=True, now=later) == set()


def test_a_policy_that_asks_for_no_change_remembers_nothing(tmp_path):
    bring(tmp_path, "aa", ROWS)
    assert bring(tmp_path, "bb", LESS, policy=Policy(least_changed=0)) == set()
    assert len(list((tmp_path / "records").glob("version-*.npz"))) == 1


def test_the_digest_of_the_source_changes_with_every_cell_row_and_id(tmp_path):
    studies = EarlierStudies(tmp_path / "records")
    ids = np.arange(300)

    def digest(rows, ids=ids):
        return studies.compare(Asked("aa", Split.HORIZONTAL, FOUR), PartyData(table(rows), None, ids), Policy()).source

    assert digest(ROWS) == digest(ROWS.copy())
    one = ROWS.copy()
    one[3, 3] = np.nextafter(one[3, 3], np.inf)
    assert len({digest(ROWS), digest(one), digest(ROWS[::-1].copy()), digest(ROWS, ids[::-1])}) == 4


def test_nothing_readable_is_stored_and_64_bytes_a_record(tmp_path):
    bring(tmp_path, "aa", ROWS, names=("secret-name", *NAMES[1:]))
    for path in (tmp_path / "records").iterdir():
        content = path.read_bytes()
        assert path.stat().st_mode & 0o077 == 0
        assert b"secret-name" not in content
        assert not any(row.tobytes() in content for row in ROWS[:, 0])
    with np.load(tmp_path / "records" / "version-0001.npz") as stored:
        assert stored["records"].nbytes == 64 * len(ROWS)


def test_a_damaged_memory_is_an_error_and_not_a_blank_one(tmp_path):
    bring(tmp_path, "aa", ROWS)
    (tmp_path / "records" / "version-0001.npz").write_bytes(b"PK")
    with pytest.raises(StorageError, match="restore it from a backup"):
        bring(tmp_path, "bb", LESS)


def test_the_memory_of_version_0_1_0_is_set_aside_and_said_so(tmp_path, caplog):
    (tmp_path / "records").mkdir()
    np.save(tmp_path / "records" / "aa-0.rows.npy", np.arange(3, dtype=np.uint64))
    bring(tmp_path, "bb", ROWS)
    assert (tmp_path / "records" / "0.1.0" / "aa-0.rows.npy").exists()
    assert "1 studies made with version 0.1.0 cannot be compared any more" in caplog.text


def counted(rows):
    """A party's data that counts how often its table is read from the beginning."""
    source = table(rows)
    source.passes, inner = 0, source.rows

    def read(start, stop):
        source.passes += start == 0
        return inner(start, stop)

    source.rows = read
    return PartyData(source)


@pytest.mark.parametrize("policy", [Policy(), Policy.permissive()])
def test_data_that_has_not_changed_is_read_once(tmp_path, policy):
    studies, data, asked = EarlierStudies(tmp_path), counted(ROWS), Asked("aa", Split.HORIZONTAL, FOUR)
    same = [True]
    reading = Reading(lambda: same[0])
    first = studies.compare(asked, data, policy, reading=reading)
    once = data.table.passes
    second = studies.compare(asked, data, policy, reading=reading)
    assert (data.table.passes, second.source, second.found) == (once, first.source, first.found)
    same[0] = False
    third = studies.compare(asked, data, policy, reading=reading)
    assert data.table.passes > once
    assert third.source == first.source


def test_data_is_read_again_where_there_is_one_more_study_to_compare_it_with(tmp_path):
    studies, data, asked = EarlierStudies(tmp_path), counted(ROWS), Asked("aa", Split.HORIZONTAL, FOUR)
    reading = Reading(lambda: True)
    assert not studies.compare(asked, data, Policy(), reading=reading).found
    other = studies.compare(Asked("bb", Split.HORIZONTAL, FOUR), PartyData(table(LESS)), Policy())
    studies.begin(other)
    found = studies.compare(asked, data, Policy(), reading=reading).found
    assert {finding.rule for finding in found} == {"re-run"}


def test_large_hashes_are_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr(earlier_studies, "HELD", 1000)
    studies, data, asked = EarlierStudies(tmp_path), counted(ROWS), Asked("aa", Split.HORIZONTAL, FOUR)
    reading = Reading(lambda: True)
    for _ in range(2):
        before = data.table.passes
        studies.compare(asked, data, Policy(), reading=reading)
        assert data.table.passes > before
