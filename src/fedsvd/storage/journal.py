"""What a role must not forget: records on disk, one JSON line each, there before anything follows from them.

A line counts once it is whole: a kill in the middle of writing leaves a last line without an end, which is as if it had
never been; a full disk takes back what it had begun. Records are only added. The audit log is a journal whose lines
are chained by hashes, so that a line changed or removed later is found; its *head*, a file next to it, holds number and
hash of the last line, so that lines cut off at the end are missed, too. Who can write both files can cut both: number
and hash noted elsewhere show that. The log holds no values and no column names. A ledger has a head in another folder:
a role whose ledger was emptied would take part in a session twice, or forget its jobs, and does not start.
"""

import errno
import hashlib
import json
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsvd.errors import JobReplayed, LocalProtocolError, StorageError
from fedsvd.storage import private
from fedsvd.storage.faults import what_helps
from fedsvd.types import SessionId

_LINES = hashlib.sha256(b"fedsvd/ledger/1").hexdigest()  # the head of a file without lines


class Journal:
    """An append-only file of JSON lines; each is on disk when ``append`` returns."""

    def __init__(self, path: Path, head: Path | None = None) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        private.make_folders_or_say(self.path.parent)
        self._drop_half_line()
        self._head = head
        self._hash, self._count = _LINES, 0
        if head is not None:
            self._expect_whole(head)

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a record, durably."""
        line = json.dumps(record, sort_keys=True, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            self._write(line)
            if self._head is not None:
                self._advance(self._head, line)

    def _expect_whole(self, head: Path) -> None:
        """Raise ``StorageError`` unless the file has every line that its head counts; more are no harm."""
        number, last = _said_by(head) if head.exists() else (0, _LINES)
        whole = number == 0
        lines = self.path.read_bytes().splitlines(keepends=True) if self.path.exists() else []
        for line in lines:
            self._hash, self._count = _chained(self._hash, line), self._count + 1
            whole = whole or (self._count, self._hash) == (number, last)
        if not whole:
            raise StorageError(
                f"{self.path.name} has {self._count} lines, and had {number}: it was emptied, cut off or replaced",
                f"put its newest copy back; without one, move {head.name} away: what it held is then not known here",
            )

    def _advance(self, head: Path, line: bytes) -> None:
        """Count a line that is on disk; one that cannot be counted is taken back."""
        following = _chained(self._hash, line)
        try:
            private.replace(head, json.dumps({"number": self._count + 1, "hash": following}).encode())
        except StorageError:
            os.truncate(self.path, self.path.stat().st_size - len(line))
            raise
        self._hash, self._count = following, self._count + 1

    def records(self) -> Iterator[dict[str, Any]]:
        """All records, oldest first."""
        return read_lines(self.path)

    def _write(self, line: bytes) -> None:
        try:
            new = not self.path.exists()
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                _write_whole(descriptor, line)
            finally:
                os.close(descriptor)
            if new:
                _sync_folder(self.path.parent)
        except OSError as error:
            fix = what_helps(error, "move the kit to another disk")
            raise StorageError(f"cannot write {self.path}: {error.strerror}", fix) from error

    def _drop_half_line(self) -> None:
        if not self.path.exists():
            return
        body = self.path.read_bytes()
        whole = body.rfind(b"\n") + 1
        if whole < len(body):
            os.truncate(self.path, whole)


def ledger(state: Path) -> Journal:
    """The ledger of a role; its head is next to the state folder, and outlives that."""
    return Journal(state / "ledger.jsonl", state.with_name(f"{state.name}.head"))


def _chained(before: str, line: bytes) -> str:
    return hashlib.sha256(before.encode() + line).hexdigest()


def _said_by(head: Path) -> tuple[int, str]:
    """Number and hash of the last line, as a head has them."""
    try:
        said = json.loads(private.read(head))
        return int(said["number"]), str(said["hash"])
    except (ValueError, KeyError, TypeError):
        raise StorageError(f"{head.name} is damaged", "keep it and the file it counts as evidence, elsewhere") from None


def last_records(path: Path, count: int) -> list[dict[str, Any]]:
    """The last whole records of a journal that another process may be writing to."""
    return list(deque(read_lines(path), maxlen=count))


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a journal, without touching it."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if not isinstance(record, dict):
                raise StorageError(f"line {number} of {path.name} is damaged", "restore it from a backup")
            yield record


def _write_whole(descriptor: int, line: bytes) -> None:
    """All of a line and on disk, or none of it: a disk may fill up in the middle of one."""
    before = os.fstat(descriptor).st_size
    try:
        written = os.write(descriptor, line)
        if written < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, before)
        raise


def _sync_folder(folder: Path) -> None:
    """A new file's name is on disk, not only its content."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Sessions:
    """Every session this role ever took part in; none twice, not even after a restart."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._used: set[str] = set()
        for record in journal.records():
            if record.get("event") == "session":
                if record["session"] in self._used:
                    raise StorageError(f"{journal.path.name} lists a session twice", "stop: pads may have been reused")
                self._used.add(record["session"])

    def claim(self, session: SessionId) -> None:
        """Spend a session id, on disk before its first message; a second time is refused."""
        with self._lock:
            if session in self._used:
                raise LocalProtocolError("this session was opened before", "resume opens a new one")
            self._used.add(session)
            self._journal.append({"event": "session", "session": session})


class Nonces:
    """The numbers of signed jobs that this role took up; each for one job, which may be resumed."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._spent: dict[tuple[str, str], tuple[str, str]] = {}
        for record in journal.records():
            if record.get("event") == "nonce":
                self._spent[record["submitter"], record["nonce"]] = record["job"], record["digest"]

    def spend(self, submitter: str, nonce: str, job: str, digest: str) -> None:
        """Spend a submitter's number for this job, on disk before anything follows; ``JobReplayed`` for another job."""
        with self._lock:
            before = self._spent.get((submitter, nonce))
            if before == (job, digest):
                return
            if before is not None:
                other = "" if before[0] == job else f", for job {before[0][:8]}"
                raise JobReplayed(
                    f"the number of job {job[:8]} was spent here before{other or ', for another content'}",
                    f"ask {submitter} whether it was submitted again; if not, stop and ask the operator of the CSP",
                )
            line = {"event": "nonce", "submitter": submitter, "nonce": nonce, "job": job, "digest": digest}
            self._journal.append(line)
            self._spent[submitter, nonce] = job, digest


class AuditLog:
    """Who did what, when, chained: each line carries the hash of the one before."""

    def __init__(self, path: Path) -> None:
        self._journal = Journal(path)
        self._lock = threading.Lock()
        hashes = [str(record.get("hash")) for record in self._journal.records()]
        _expect_head(path, hashes)
        self._last, self._count = hashes[-1] if hashes else "", len(hashes)

    def write(self, when: str, event: str, **facts: str | int | float) -> None:
        """Add an event; facts are names, counts and digests, never values."""
        with self._lock:
            record = {"number": self._count + 1, "when": when, "event": event, "facts": facts, "before": self._last}
            record["hash"] = chain_hash(record)
            self._journal.append(record)
            self._last, self._count = str(record["hash"]), self._count + 1
            # After the line: a kill in between leaves a log that is longer than its head says, which is no harm.
            private.replace(_head(self._journal.path), json.dumps({"number": self._count, "hash": self._last}).encode())


def verify_audit(path: Path) -> int:
    """How many lines an audit log has, all of them as they were written and none cut off; else ``StorageError``."""
    path = Path(path)
    if not path.exists():
        raise StorageError(f"there is no audit log at {path}", "give the role's own audit.jsonl")
    last, count = "", 0
    hashes: list[str] = []
    for record in read_lines(path):
        if not isinstance(record, dict):
            raise StorageError(f"line {count + 1} of {path.name} is not of an audit log", "give a role's audit.jsonl")
        found = record.pop("hash", None)
        if record.get("before") != last or record.get("number") != count + 1 or found != chain_hash(record):
            raise StorageError(f"the audit log {path.name} was changed at line {count + 1}", "keep it as evidence")
        last, count = str(found), count + 1
        hashes.append(last)
    if hashes and not _head(path).exists():
        raise StorageError(f"there is no {_head(path).name} next to {path.name}", "it shows whether lines were cut off")
    _expect_head(path, hashes)
    return count


def _head(path: Path) -> Path:
    return path.with_suffix(".head")


def _expect_head(path: Path, hashes: Sequence[str]) -> None:
    """Raise ``StorageError`` unless the log reaches as far as its head says; a log that has none yet does."""
    head = _head(path)
    if not head.exists():
        return
    number, last = _said_by(head)
    if not 1 <= number <= len(hashes) or hashes[number - 1] != last:
        raise StorageError(
            f"the audit log {path.name} has {len(hashes)} lines, and had {number}: lines were cut off or replaced",
            f"keep it and {head.name} as evidence, elsewhere; the role then begins a new log",
        )


def chain_hash(record: Mapping[str, Any]) -> str:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(b"fedsvd/audit/1\x00" + text.encode()).hexdigest()
