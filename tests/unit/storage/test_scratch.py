"""A private file leaves nothing behind and touches nothing it did not make."""

import errno
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from fedsvd.errors import StorageError
from fedsvd.storage import scratch
from fedsvd.storage.scratch import PrivateFile

OPEN_ONE = """
import os, signal, sys
from pathlib import Path
from fedsvd.storage import scratch
scratch.NAMELESS = sys.argv[2] == "nameless"
kept = scratch.PrivateFile(Path(sys.argv[1]))
kept.reserve(4096)
print(len(list(Path(sys.argv[1]).rglob("*"))), flush=True)
if sys.argv[3] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[3] == "forked":
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)
    print(len(list(Path(sys.argv[1]).rglob("*"))), flush=True)
"""


def run(scratch, naming, ending):
    return subprocess.run(
        [sys.executable, "-c", OPEN_ONE, str(scratch), naming, ending], capture_output=True, text=True, timeout=60
    )


def test_kill_9_leaves_nothing_behind(tmp_path):
    done = run(tmp_path, "nameless", "killed")
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == ["0"]
    assert list(tmp_path.iterdir()) == []


def test_a_named_file_goes_when_the_process_ends(tmp_path):
    done = run(tmp_path, "named", "ended")
    assert done.stdout.split() == ["2"], done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_does_not_take_its_parents_file_away(tmp_path):
    done = run(tmp_path, "named", "forked")
    assert done.stdout.split() == ["2", "2"], done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_strangers_file_in_the_private_folder_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "NAMELESS", False)
    file = PrivateFile(tmp_path)
    (folder,) = tmp_path.iterdir()
    (folder / "stranger").write_text("mine")
    file.close()
    assert [path.name for path in folder.iterdir()] == ["stranger"]
    assert (folder / "stranger").read_text() == "mine"


def test_the_open_file_is_readable_by_its_owner_only_under_any_umask(tmp_path):
    before = os.umask(0)
    try:
        file = PrivateFile(tmp_path)
    finally:
        os.umask(before)
    assert os.fstat(file.file.fileno()).st_mode & 0o7777 == 0o600
    file.close()


def test_reserved_space_is_zeros_that_the_disk_has_set_aside(tmp_path):
    file = PrivateFile(tmp_path)
    file.reserve(1 << 20)
    state = os.fstat(file.file.fileno())
    assert state.st_size == 1 << 20
    assert 512 * state.st_blocks >= 1 << 20
    numbers = np.ones(4)
    file.read((1 << 20) - 32, numbers)
    assert numbers.tolist() == [0.0] * 4
    file.close()


def test_a_file_system_that_cannot_set_space_aside_is_used_all_the_same(tmp_path, monkeypatch):
    def refuse(descriptor, start, size):
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    file = PrivateFile(tmp_path)
    file.reserve(4096)
    assert os.fstat(file.file.fileno()).st_size == 4096
    file.close()


def test_a_disk_that_fills_up_meanwhile_is_an_error_with_a_fix(tmp_path, monkeypatch):
    def refuse(descriptor, start, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    file = PrivateFile(tmp_path)
    with pytest.raises(StorageError, match=r"4.0 KiB aside.*No space left.*Fix: free some space"):
        file.reserve(4096)
    file.close()


def test_bytes_past_the_end_are_an_error_not_noise(tmp_path):
    file = PrivateFile(tmp_path)
    file.write(0, np.ones(3))
    with pytest.raises(StorageError, match="ends early"):
        file.read(8, np.empty(3))
    file.close()
