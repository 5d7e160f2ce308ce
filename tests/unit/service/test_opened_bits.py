"""What jobs opened of a site's tables is on its disk: once for each job, by table, until it is forgotten."""

import pytest

from fedsvd.errors import StorageError
from fedsvd.policy.bits_held import Earlier
from fedsvd.service.opened_bits import OpenedBits


def test_bits_are_stored_by_table_and_job_and_a_job_counts_once(tmp_path):
    first, second = Earlier(968, {"age": 6.5, "sex": 1.0}), Earlier(114, {"bmi": 8.0})
    opened = OpenedBits(tmp_path)
    assert opened.of("a.csv") == ()
    opened.add("a.csv", "job-1", first)
    opened.add("a.csv", "job-1", first)  # a second attempt
    opened.add("a.csv", "job-2", second)
    opened.add("b.csv", "job-3", None)
    again = OpenedBits(tmp_path)
    assert again.of("a.csv") == (first, second)
    assert again.of("a.csv", "job-2") == (first,)
    assert again.of("b.csv") == ()


def test_what_is_forgotten_counts_no_more(tmp_path):
    opened = OpenedBits(tmp_path)
    opened.add("a.csv", "job-1", Earlier(968, {"age": 6.5}))
    opened.add("a.csv", "job-2", Earlier(114, {"bmi": 8.0}))
    opened.forget("job-1")
    assert opened.of("a.csv") == (Earlier(114, {"bmi": 8.0}),)


def test_a_damaged_file_is_named(tmp_path):
    OpenedBits(tmp_path).add("a.csv", "job-1", Earlier(1, {}))
    (tmp_path / "opened.json").write_text("{")
    with pytest.raises(StorageError, match=r"opened\.json is damaged"):
        OpenedBits(tmp_path).of("a.csv")
