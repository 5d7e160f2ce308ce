"""A file of records: what was whole before a kill is read after it."""

import stat

import pytest

from fedsvd.errors import StorageError
from fedsvd.storage.record_file import RecordFile


def written(path, *records):
    file = RecordFile(path)
    file.begin(records[0])
    for record in records[1:]:
        file.append((record[:2], record[2:]))
    return file


def test_records_are_read_as_they_were_written(tmp_path):
    written(tmp_path / "f", b"head", b"first", b"")
    assert RecordFile(tmp_path / "f").read() == [b"head", b"first", b""]
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600


def test_a_file_that_ends_anywhere_holds_the_records_before_its_end(tmp_path):
    path, records = tmp_path / "f", [b"head", b"first", b"second"]
    written(path, *records)
    whole = path.read_bytes()
    ends = [8 + sum(40 + len(record) for record in records[:count]) for count in range(4)]
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        assert RecordFile(path).read() == records[: sum(end <= length for end in ends[1:])]


def test_nothing_is_read_behind_a_changed_byte(tmp_path):
    path, records = tmp_path / "f", [b"head", b"first", b"second"]
    written(path, *records)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        found = RecordFile(path).read()
        assert found == records[: len(found)]
        assert len(found) < 3


def test_a_record_goes_behind_what_was_read_and_takes_the_place_of_what_was_cut(tmp_path):
    path = tmp_path / "f"
    written(path, b"head", b"first", b"second")
    with path.open("ab") as file:
        file.write(b"half of a rec")
    again = RecordFile(path)
    assert len(again.read()) == 3
    again.append((b"third",))
    assert RecordFile(path).read() == [b"head", b"first", b"second", b"third"]
    again = RecordFile(path)
    again.read()
    again.cut(2)
    again.append((b"other",))
    assert RecordFile(path).read() == [b"head", b"first", b"other"]


def test_a_new_beginning_takes_the_place_of_the_file_and_a_removed_one_is_gone(tmp_path):
    path = tmp_path / "f"
    written(path, b"head", b"first")
    (tmp_path / "f.new").write_bytes(b"what a kill left")
    written(path, b"new")
    assert RecordFile(path).read() == [b"new"]
    RecordFile(path).remove()
    assert not list(tmp_path.iterdir())
    assert RecordFile(path).read() == []


def test_what_cannot_be_written_is_said(tmp_path):
    with pytest.raises(StorageError, match="cannot write the checkpoint f"):
        RecordFile(tmp_path / "nowhere" / "f").begin(b"head")
