"""A file has the same stamp as long as it is the same, and none where that cannot be known."""

import os

import pytest

from fedsvd.storage import file_stamp as stamps
from fedsvd.storage.file_stamp import file_stamp

LATER = 3600.0


@pytest.fixture
def later(monkeypatch):
    """An hour after every file of the test was written."""
    monkeypatch.setattr(stamps, "time", lambda now=stamps.time: now() + LATER)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "table.npy"
    path.write_bytes(bytes(1000))
    return path


def test_a_file_that_is_the_same_has_the_same_stamp(file, later):
    first = file_stamp(file)
    file.read_bytes()
    assert first is not None
    assert file_stamp(str(file)) == first


def test_a_file_that_was_written_to_or_replaced_has_another_stamp_whatever_its_times_say(file, later):
    first, times = file_stamp(file), file.stat()
    with file.open("r+b") as opened:
        opened.write(b"1")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    written = file_stamp(file)
    other = file.with_name("other")
    other.write_bytes(bytes(1000))
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(file)
    assert len({first, written, file_stamp(file)}) == 3


def test_a_file_that_changed_a_moment_ago_has_no_stamp(file):
    assert file_stamp(file) is None


def test_what_is_no_file_has_no_stamp(tmp_path, later):
    os.mkfifo(tmp_path / "pipe")
    assert [file_stamp(place) for place in (tmp_path, tmp_path / "absent", "synthetic:100x5", tmp_path / "pipe")] == [
        None
    ] * 4
