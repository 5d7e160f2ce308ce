"""Scratch files: private to this process, and gone when it ends.

Law of this file: nothing is touched that was not made here. What is written may be raw data or masks, so
the file (mode 0600) is made in a folder of its own (mode 0700), and where the system lets an open file lose
its name (POSIX) it loses it at once: no other process can open it, and not even ``kill -9`` leaves it behind.
Elsewhere the name goes on ``close``, when the object is collected, or when the process ends.
"""

import errno
import os
import shutil
import tempfile
import weakref
from io import FileIO
from pathlib import Path

import numpy as np

from fedsvd.errors import StorageError
from fedsvd.types import Float, byte_size

_SPACE_FIX = "free some space, name a scratch folder on a larger disk, or raise the memory budget"
NAMELESS = os.name == "posix"


def usual_scratch() -> Path:
    """Where scratch goes when no folder is named: TMPDIR, or where systems have space for large temporary files.

    The folder for small ones, /tmp, is often in memory.
    """
    large = Path("/var/tmp")
    named = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return large if not named and os.access(large, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def expect_space(scratch: Path, size: int) -> None:
    """Raise ``StorageError`` unless ``size`` bytes are free under ``scratch``."""
    try:
        free = shutil.disk_usage(scratch).free
    except OSError as error:
        raise _unusable(scratch, error) from None
    if free < size:
        raise StorageError(f"{byte_size(size)} are needed under {scratch}, {byte_size(free)} are free", _SPACE_FIX)


class PrivateFile:
    """An open, unbuffered file of zero bytes under ``scratch``."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        try:
            folder = Path(tempfile.mkdtemp(prefix="fedsvd-", dir=scratch))
        except OSError as error:
            raise _unusable(scratch, error) from None
        names = [folder, folder / "blocks"]
        try:
            self.file = FileIO(os.open(names[-1], os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "r+")
        except OSError as error:
            folder.rmdir()
            raise _unusable(scratch, error) from None
        self._discard = weakref.finalize(self, _discard, self.file, names, os.getpid())
        if NAMELESS:
            _forget(names, os.getpid())

    def reserve(self, size: int) -> None:
        """Make the file ``size`` bytes of zeros that the disk has really set aside.

        A merely truncated file is sparse: when the disk fills up later, writing through a map of it ends the
        process with a bus error instead of raising.
        """
        expect_space(self.scratch, size)
        try:
            _allocate(self.file.fileno(), size)
        except OSError as error:
            raise StorageError(
                f"cannot set {byte_size(size)} aside under {self.scratch}: {error.strerror}", _SPACE_FIX
            ) from None

    def write(self, start: int, block: Float) -> None:
        """Store the bytes of ``block`` (C order) from byte ``start`` on."""
        rest = block.reshape(-1).view(np.uint8).data
        self.file.seek(start)
        try:
            while rest:  # one system call moves 2 GiB at most
                rest = rest[self.file.write(rest) :]
        except OSError as error:
            raise StorageError(
                f"cannot write {byte_size(block.nbytes)} under {self.scratch}: {error.strerror}", _SPACE_FIX
            ) from None

    def read(self, start: int, block: Float) -> None:
        """Fill ``block`` (C order) with the bytes from ``start`` on."""
        rest = block.reshape(-1).view(np.uint8).data
        self.file.seek(start)
        while rest:
            count = self.file.readinto(rest)
            if not count:
                raise StorageError(f"the private file under {self.scratch} ends early", "check the disk")
            rest = rest[count:]

    def close(self) -> None:
        """Close the file and remove what is left of it; a second call changes nothing."""
        self._discard()


def _allocate(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size)
            return
        except OSError as error:
            # Some network file systems cannot set space aside; the check before is all there is then.
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
    os.truncate(descriptor, size)


def _discard(file: FileIO, names: list[Path], owner: int) -> None:
    file.close()
    _forget(names, owner)


def _forget(names: list[Path], owner: int) -> None:
    """Remove ``names`` (folder, file), the file first; a name that cannot go yet stays listed."""
    if os.getpid() != owner:  # a forked child inherits the finalizer, not the file
        return
    while names:
        try:
            if len(names) == 1:
                names[0].rmdir()
            else:
                names[-1].unlink(missing_ok=True)
        except OSError:
            return
        names.pop()


def _unusable(scratch: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot use {scratch} as a scratch folder: {error.strerror}", "name an existing folder you may write to"
    )
