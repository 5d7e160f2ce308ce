"""What an interrupted run leaves behind, so that the same command goes on where it stopped.

Two kinds of long work have a state to go on from: compression, whose factor is written every million columns
(``compress.checkpoint``), and a search by steps, of which every step is (``roles/user/earlier_steps.py``).
The checkpoints of a job lie in a private folder next to its results, ``.NAME.resume``, and are named by a digest of
what the pass depends on: the job's task and the party's data. A job that changed finds nothing, and what it finds is
compared with the data before it is used. The folder goes when the results are there.
"""

import hashlib
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

from fedsvd.compress.checkpoint import Checkpoint
from fedsvd.data.open import files_behind, open_source
from fedsvd.errors import StorageError
from fedsvd.storage import private
from fedsvd.storage.faults import what_helps
from fedsvd.storage.record_file import RecordFile
from fedsvd.studies.job_file import Job, PartySection

FACTOR, SEARCH = ".factor", ".steps"
"""Ends of names: of a compression pass, and of a search by steps."""


class Resumable:
    """The checkpoints of one job, below the folder that its results will have."""

    def __init__(self, target: Path) -> None:
        target = target.absolute()
        self.folder = target.parent / f".{target.name}.resume"

    def path(self, job: Job, party: PartySection) -> Path:
        """Where this party's pass over this data is kept."""
        try:
            private.private_folder(self.folder)
        except OSError as fault:
            reason = fault.strerror or type(fault).__name__
            fix = what_helps(fault, "name another results folder: --out")
            raise StorageError(f"cannot write to {self.folder}: {reason}", fix) from None
        return self.folder / f"{party.name}-{_digest(job, party)}{FACTOR}"

    def checkpoint(self, job: Job, party: PartySection) -> Checkpoint:
        return Checkpoint(self.path(job, party))

    def search(self, job: Job, party: PartySection) -> RecordFile:
        return RecordFile(self.path(job, party).with_suffix(SEARCH))

    @property
    def found(self) -> bool:
        """Whether there is anything to go on from."""
        return self.folder.is_dir() and any(file.suffix in (FACTOR, SEARCH) for file in self.folder.iterdir())

    def __enter__(self) -> "Resumable":
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """With the results there, nothing is kept; without them, what there is to go on from."""
        if kind is None or not self.found:
            shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):  # it holds something, of ours or not
            self.folder.parent.rmdir()


def _digest(job: Job, party: PartySection) -> str:
    """What a pass depends on; a file that was written to since is other data."""
    study = job.study.model_dump(mode="json", exclude={"name", "memory", "write", "verify", "release", "components"})
    prepare = job.prepare.model_dump(mode="json", exclude_defaults=True)
    text = json.dumps([study, prepare, _description(job.data_of(party))], sort_keys=True)
    return hashlib.sha256(b"fedsvd/resume/1\x00" + text.encode()).hexdigest()[:16]


def _description(data: Path | str) -> list[object]:
    files = files_behind(data)
    if not files:
        return [open_source(data).fingerprint()]
    stats = [(file.absolute(), os.stat(file)) for file in files]
    return [str(data), *([str(path), about.st_size, about.st_mtime_ns] for path, about in stats)]
