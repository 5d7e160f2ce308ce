"""What a machine lacks and what a file has become are errors of ours, with a code and a fix; never a defect."""

import errno
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from fedsvd.cli.main import cli
from fedsvd.data.open import open_source
from fedsvd.errors import FedSVDError, OutOfResources, StorageError, UnknownFormat
from fedsvd.policy.rules import Policy
from fedsvd.protocol.certificate import READING
from fedsvd.protocol.tasks import Task
from fedsvd.storage.faults import of_machine, reading, without_places
from fedsvd.storage.journal import Journal
from fedsvd.storage.private import private_folder
from fedsvd.storage.toml import read_toml
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import run_study
from fedsvd.studies.study import Study


def _raised(work):
    try:
        work()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


MEMORY = {
    "numpy": lambda: np.empty(1 << 58, dtype=np.int8),
    "pyarrow": lambda: pa.allocate_buffer(1 << 58),
    "python": lambda: bytearray(1 << 60),
}


@pytest.mark.parametrize("library", MEMORY)
def test_memory_that_a_library_does_not_get_is_fsvd_351(library):
    found = of_machine(_raised(MEMORY[library]))
    assert isinstance(found, OutOfResources)
    assert "memory" in found.fault
    assert found.fix


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("can't start new thread"), OutOfResources),
        (OSError(errno.EMFILE, "Too many open files"), OutOfResources),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), OutOfResources),
        (OSError(errno.ENOSPC, "No space left on device", "x"), StorageError),
        (OSError(errno.EROFS, "Read-only file system", "x"), StorageError),
        (PermissionError(errno.EACCES, "Permission denied", "x"), StorageError),
    ],
)
def test_what_the_operating_system_refuses_has_a_code_and_a_fix(error, kind):
    found = of_machine(error)
    assert type(found) is kind
    assert found.fix


def test_a_defect_of_ours_is_not_taken_for_a_fault_of_the_machine():
    assert [of_machine(error) for error in (KeyError("x"), ValueError("x"), RuntimeError("x"), OSError("x"))] == [
        None
    ] * 4


def test_whatever_a_reader_raises_is_a_file_that_cannot_be_read_and_its_text_is_not_repeated():
    for fault in (ValueError("secret"), AttributeError("secret"), RecursionError("secret"), IndexError("secret")):
        with pytest.raises(UnknownFormat, match=type(fault).__name__) as refused, reading("t.x is damaged"):
            raise fault
        assert "secret" not in str(refused.value)
    with pytest.raises(OutOfResources), reading("t.x is damaged"):
        raise MemoryError


def test_what_another_member_hears_names_no_place_of_this_machine():
    error = of_machine(OSError(errno.ENOSPC, "No space left on device", "/srv/kit/state/ledger.jsonl"))
    heard = without_places(error)
    assert heard.code == error.code
    assert "/srv" in str(error)
    assert "/srv" not in str(heard)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread"), OSError(errno.EMFILE, "x")])
def test_a_study_that_runs_out_in_the_middle_ends_with_fsvd_351(error):
    def progress(who, stage, done, total):
        if stage != READING:
            raise error

    tables = np.split(np.random.default_rng(0).normal(size=(60, 4)), 2)
    parties = [PartyData(open_source(table)) for table in tables]
    with pytest.raises(OutOfResources, match="FSVD-351"):
        run_study(Study(Task.SVD, check_ids=False), parties, progress=progress, policy=Policy.permissive())


def test_a_command_that_gets_no_memory_says_so_with_its_code(tmp_path, monkeypatch):
    def no_memory(*arguments, **options):
        return np.empty(1 << 58, dtype=np.int8)

    np.save(tmp_path / "t.npy", np.ones((5, 2)))
    monkeypatch.setattr("fedsvd.data.files.open_npy", lambda *arguments: no_memory())
    ended = CliRunner().invoke(cli, ["look", str(tmp_path / "t.npy")])
    assert ended.exit_code == 1
    assert "FSVD-351" in ended.output
    assert "Traceback" not in ended.output


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5000 + "]" * 5000,
        "a = " + "{b = " * 3000 + "1" + "}" * 3000,
        "a = 0000-00-00",
        "a" + ".a" * 9000 + " = 1",
    ],
)
def test_a_file_of_brackets_in_brackets_is_refused_as_any_other(tmp_path, text):
    (tmp_path / "job.toml").write_text(text)
    try:
        read_toml(tmp_path / "job.toml", "docs/job-file.md")
    except FedSVDError as error:
        code = error.code
    else:
        code = "read"
    assert code in ("FSVD-100", "read")


@pytest.mark.parametrize("place", ["/proc/fedsvd/state", "/dev/null/state"])
def test_a_folder_that_cannot_be_made_is_fsvd_350(place):
    with pytest.raises(StorageError, match="FSVD-350"):
        Journal(Path(place) / "ledger.jsonl")
    with pytest.raises(StorageError, match="FSVD-350"):
        private_folder(Path(place))
