"""Records that are appended to one private file, so that a killed process finds what it had.

    magic, then for each record: its length (8 bytes), its content, SHA-256 of the hash before it and of the content

A kill at any moment leaves whole records and at most a part of one behind them, which is not read. So is nothing behind
a record that was damaged: the hashes are a chain. They show damage, not forgery: a process that can write here can
write the data. The file has mode 0600 from the first instant.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from fedsvd.errors import StorageError
from fedsvd.storage.faults import what_helps
from fedsvd.storage.private import new_file

_MAGIC = b"FSVD-RF1"
_LENGTH = 8
_HASH = 32


class RecordFile:
    """One file of records; read once, then written by the process that read it."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._ends = [len(_MAGIC)]  # behind the magic, and behind each record
        self._hashes = [bytes(_HASH)]  # of the chain, after each record

    def __repr__(self) -> str:
        return f"RecordFile({self.path.name})"

    def read(self) -> list[bytes]:
        """All records up to the first that is not whole; none where there is no file, or one of something else."""
        self._forget_after(0)
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageError(f"cannot read the checkpoint {self.path.name}", "check that it is your file") from error
        found: list[bytes] = []
        while content.startswith(_MAGIC) and (record := self._next(content)) is not None:
            found.append(record)
        return found

    def _next(self, content: bytes) -> bytes | None:
        start = self._ends[-1] + _LENGTH
        stop = start + int.from_bytes(content[start - _LENGTH : start], "little")
        record = content[start:stop]
        after = _chained(self._hashes[-1], record)
        if content[stop : stop + _HASH] != after:
            return None
        self._ends.append(stop + _HASH)
        self._hashes.append(after)
        return record

    def begin(self, record: bytes) -> None:
        """A new file with this first record, in place of the one that is there."""
        self._forget_after(0)
        try:
            self._temporary.unlink(missing_ok=True)  # what a kill left there may have another mode, or be a link
            with new_file(self._temporary) as file:
                file.write(_MAGIC + self._framed(record))
            os.replace(self._temporary, self.path)
        except OSError as error:
            raise self._unwritable(error) from error

    def append(self, parts: Sequence[bytes]) -> None:
        """One more record, of these parts one after the other, on disk when this returns."""
        record = b"".join(parts)
        try:
            with self.path.open("r+b") as file:
                file.truncate(self._ends[-1])
                file.seek(self._ends[-1])
                file.write(self._framed(record))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._unwritable(error) from error

    def cut(self, count: int) -> None:
        """Go on behind this number of records: the next one takes the place of those that follow."""
        self._forget_after(count)

    def remove(self) -> None:
        """Forget all of it, and what a kill left of a new one."""
        self.path.unlink(missing_ok=True)
        self._temporary.unlink(missing_ok=True)

    @property
    def _temporary(self) -> Path:
        return self.path.with_name(self.path.name + ".new")

    def _framed(self, record: bytes) -> bytes:
        after = _chained(self._hashes[-1], record)
        self._hashes.append(after)
        self._ends.append(self._ends[-1] + _LENGTH + len(record) + _HASH)
        return len(record).to_bytes(_LENGTH, "little") + record + after

    def _forget_after(self, count: int) -> None:
        del self._ends[count + 1 :], self._hashes[count + 1 :]

    def _unwritable(self, error: OSError) -> StorageError:
        fault = f"cannot write the checkpoint {self.path.name}: {error.strerror or type(error).__name__}"
        return StorageError(fault, what_helps(error))


def _chained(before: bytes, record: bytes) -> bytes:
    digest = hashlib.sha256(before)
    digest.update(record)
    return digest.digest()
