"""Secrets are their owner's alone from the first instant, and files are whole or not there."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fedsvd.errors import StorageError
from fedsvd.storage import private


@pytest.fixture
def no_umask():
    """The most permissive umask, so that a mode seen is the mode asked for."""
    old = os.umask(0)
    yield
    os.umask(old)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("write", [private.create, private.replace, private.append_line])
def test_a_file_is_private_from_the_call_that_makes_it(write, tmp_path, monkeypatch, no_umask):
    opened, make = [], os.open

    def watched(path, flags, asked=0o777, **rest):
        descriptor = make(path, flags, asked, **rest)
        if flags & os.O_CREAT:
            opened.append(stat.S_IMODE(os.fstat(descriptor).st_mode))  # before a byte is written
        return descriptor

    monkeypatch.setattr(os, "open", watched)
    write(tmp_path / "secret", b"content")
    assert opened == [0o600]
    assert mode(tmp_path / "secret") == 0o600
    assert (tmp_path / "secret").read_bytes().rstrip(b"\n") == b"content"


def test_a_folder_is_private_even_if_it_was_there(tmp_path, no_umask):
    assert mode(private.private_folder(tmp_path / "new" / "kit")) == 0o700
    (tmp_path / "wide").mkdir(mode=0o755)
    assert mode(private.private_folder(tmp_path / "wide")) == 0o700


def test_what_is_there_is_never_written_over_by_create(tmp_path):
    (tmp_path / "key").write_bytes(b"old")
    with pytest.raises(StorageError):
        private.create(tmp_path / "key", b"new")
    # Nor through a link that leads nowhere yet.
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError):
        private.create(tmp_path / "link", b"new")
    assert (tmp_path / "key").read_bytes() == b"old"
    assert not (tmp_path / "elsewhere").exists()


def test_a_replacement_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "list").write_bytes(b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    for step in ("write", "fsync", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(os, step, full)
            with pytest.raises(StorageError, match=r"the disk of .*list is full\. Fix: free space"):
                private.replace(tmp_path / "list", b"new")
        assert [path.name for path in tmp_path.iterdir()] == ["list"]
        assert (tmp_path / "list").read_bytes() == b"old"


def test_half_a_line_goes_before_the_next_one_comes(tmp_path):
    private.append_line(tmp_path / "log", b"one")
    with (tmp_path / "log").open("ab") as log:
        log.write(b"tw")
    private.append_line(tmp_path / "log", b"three")
    assert (tmp_path / "log").read_bytes() == b"one\nthree\n"


@pytest.mark.parametrize("wide", [0o640, 0o604, 0o660, 0o601])
def test_a_secret_that_others_can_open_is_not_read(wide, tmp_path):
    private.create(tmp_path / "key", b"the canary")
    assert private.read_secret(tmp_path / "key") == b"the canary"
    (tmp_path / "key").chmod(wide)
    with pytest.raises(StorageError, match="chmod 600") as refused:
        private.read_secret(tmp_path / "key")
    assert "canary" not in str(refused.value)


def test_missing_files_are_named(tmp_path):
    for read in (private.read, private.read_secret):
        with pytest.raises(StorageError, match="nothing-here"):
            read(tmp_path / "nothing-here")


TRY = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(3)
"""


def test_another_process_waits_for_the_lock(tmp_path):
    def attempt() -> int:
        return subprocess.run([sys.executable, "-c", TRY, str(tmp_path / ".lock")], check=False).returncode

    with private.locked(tmp_path):
        assert attempt() == 3
    assert attempt() == 0


@pytest.mark.parametrize(
    ("number", "fault", "fix"),
    [
        (errno.ENOENT, "there is no file", "check the path"),
        (errno.EACCES, "this user may not open", "change its owner or its mode"),
        (errno.ENOSPC, "is full", "free space on it"),
        (errno.EROFS, "read-only", "another disk"),
        (errno.EISDIR, "is a folder, not a file", "name the file"),
        (errno.EIO, "cannot use", "look at the disk"),
    ],
)
def test_what_stands_in_the_way_is_said_with_what_helps_against_it(number, fault, fix, tmp_path, monkeypatch):
    def refuse(self):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(StorageError) as caught:
        private.read(tmp_path / "certificate.pem")
    assert fault in caught.value.fault
    assert "certificate.pem" in caught.value.fault
    assert fix in caught.value.fix
    assert ("space" in caught.value.fix) == (number == errno.ENOSPC)


def test_a_folder_that_is_missing_is_not_a_missing_file(tmp_path):
    with pytest.raises(StorageError, match=r"there is no folder .*nowhere\. Fix: check the path"):
        private.read(tmp_path / "nowhere" / "ca.pem")
