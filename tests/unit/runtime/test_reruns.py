"""The re-run rule on disk: a few changed records are refused, the same or many are not; nothing readable is kept."""

import numpy as np
import pytest

from fedsvd.data.open import open_source
from fedsvd.errors import ReleaseRefused, StorageError
from fedsvd.protocol.release import Policy
from fedsvd.protocol.tasks import Split
from fedsvd.runtime.party_data import PartyData
from fedsvd.runtime.reruns import EarlierRuns

ROWS = np.random.default_rng(4).normal(size=(300, 5))


def bring(folder, run, rows, *, labels=None, split=Split.HORIZONTAL, policy=None, begins=True):
    runs = EarlierRuns(folder / "records")
    runs.consider(run, PartyData(open_source(rows), labels), split, policy or Policy())
    if begins:
        runs.begin(run)


def test_the_same_records_in_any_order_are_no_new_information(tmp_path):
    bring(tmp_path, "aa", ROWS)
    bring(tmp_path, "bb", ROWS[::-1].copy())
    bring(tmp_path, "aa", ROWS)  # resumed
    assert len(list((tmp_path / "records").glob("*.npy"))) == 2


@pytest.mark.parametrize("changed", [ROWS[:-1], ROWS[:-9], np.concatenate((ROWS, ROWS[:1] + 1))])
def test_a_few_changed_records_are_refused(tmp_path, changed):
    bring(tmp_path, "aa", ROWS)
    with pytest.raises(ReleaseRefused, match="of your records changed since an earlier run"):
        bring(tmp_path, "bb", changed)
    bring(tmp_path, "cc", ROWS)  # what was refused does not count as brought


def test_one_changed_label_is_a_changed_record(tmp_path):
    labels = ROWS[:, :1].copy()
    bring(tmp_path, "aa", ROWS, labels=labels)
    labels[7] += 1
    with pytest.raises(ReleaseRefused):
        bring(tmp_path, "bb", ROWS, labels=labels)


def test_many_changed_records_are_not(tmp_path):
    bring(tmp_path, "aa", ROWS)
    bring(tmp_path, "bb", ROWS[:-10])


def test_every_earlier_run_counts(tmp_path):
    bring(tmp_path, "aa", ROWS)
    bring(tmp_path, "bb", ROWS[:200])
    with pytest.raises(ReleaseRefused):
        bring(tmp_path, "cc", ROWS[:299])
    with pytest.raises(ReleaseRefused):
        bring(tmp_path, "dd", ROWS[:199])


def test_a_run_that_never_began_is_no_earlier_one(tmp_path):
    bring(tmp_path, "aa", ROWS, begins=False)
    bring(tmp_path, "bb", ROWS[:-1])
    bring(tmp_path, "aa", ROWS[:-1])  # considered anew, and the first time forgotten


def test_an_owner_who_agrees_is_not_asked(tmp_path):
    bring(tmp_path, "aa", ROWS)
    bring(tmp_path, "bb", ROWS[:-1], policy=Policy(changed_records=0))


def test_one_column_more_is_refused_where_columns_are_split(tmp_path):
    bring(tmp_path, "aa", ROWS[:, :4], split=Split.VERTICAL)
    with pytest.raises(ReleaseRefused):
        bring(tmp_path, "bb", ROWS, split=Split.VERTICAL)
    bring(tmp_path / "elsewhere", "aa", ROWS[:, :4])
    bring(tmp_path / "elsewhere", "bb", ROWS)  # rows are split: every record is another one


def test_fingerprints_are_private_and_of_one_site_alone(tmp_path):
    for name in ("one", "two"):
        bring(tmp_path / name, "aa", ROWS)
    one, two = (np.load(next((tmp_path / name / "records").glob("*.npy"))) for name in ("one", "two"))
    assert len(one) == len(two) == 300
    assert not set(one.tolist()) & set(two.tolist())
    for path in (tmp_path / "one" / "records").iterdir():
        assert path.stat().st_mode & 0o077 == 0


def test_a_damaged_memory_is_an_error_and_allows_nothing(tmp_path):
    bring(tmp_path, "aa", ROWS)
    next((tmp_path / "records").glob("*.npy")).write_bytes(b"\x93NUMPY")
    with pytest.raises(StorageError, match="is damaged"):
        bring(tmp_path, "bb", ROWS)
