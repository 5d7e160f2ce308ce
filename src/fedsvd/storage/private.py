"""Files and folders that only their owner can read, from the first instant.

Law of this file: a secret's file is made with mode 0600 by the call that makes it, never opened wider and narrowed
later, and a file is replaced whole or not at all. A secret that others can read is not read: it is no secret.
"""

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from fedsvd.errors import StorageError

try:
    import fcntl
except ImportError:  # not POSIX: two operators at one folder at one time are not kept apart
    fcntl = None  # type: ignore[assignment]

_POSIX = os.name == "posix"


def private_folder(path: Path) -> Path:
    """The folder, made if it is missing, and closed to all other users of the machine."""
    try:
        make_folders(path)
        if path.stat().st_mode & 0o077:
            path.chmod(0o700)
    except OSError as error:
        raise _unusable(path, error) from None
    return path


def make_folders(path: Path) -> None:
    """The folder and those above it that are missing, all of mode 0700, whatever the umask; ``OSError`` as it is.

    ``Path.mkdir`` gives the folders above it the mode that the umask leaves.
    """
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)


def make_folders_or_say(path: Path) -> None:
    """The same; what stands in the way is an error of ours."""
    try:
        make_folders(path)
    except OSError as error:
        raise _unusable(path, error) from None


def create(path: Path, content: bytes) -> None:
    """A new private file; one that is there already is never touched."""
    try:
        _write(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), content)
    except FileExistsError:
        raise StorageError(f"{path} is there already, and is left as it is", "name another folder") from None
    except OSError as error:
        raise _unusable(path, error) from None


def open_new(path: Path) -> BinaryIO:
    """A new private file, open for writing; ``OSError`` as it is, because the caller knows what the file is for."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A new private file to write to, on disk when the block ends; ``OSError`` as it is."""
    with open_new(path) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def replace(path: Path, content: bytes) -> None:
    """The private file with this content: a kill at any moment leaves the old one or the new one."""
    name = None
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # mkstemp makes it 0600
        _write(descriptor, content)
        os.replace(name, path)
    except OSError as error:
        if name is not None:
            with suppress(OSError):
                os.unlink(name)
        raise _unusable(path, error) from None


def append_line(path: Path, line: bytes) -> None:
    """One more line, on disk when this returns; half a line that a crash left behind goes first."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.ftruncate(descriptor, path.read_bytes().rfind(b"\n") + 1)
        _write(descriptor, line + b"\n")
    except OSError as error:
        raise _unusable(path, error) from None


def read(path: Path) -> bytes:
    """A public file's content."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unusable(path, error) from None


def read_secret(path: Path) -> bytes:
    """A secret file's content, unless others can read it too."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if _POSIX and mode & 0o077:
                raise StorageError(
                    f"others than its owner can open {path} (mode {mode & 0o777:o})", f"chmod 600 {path}"
                )
            return file.read()
    except StorageError:
        raise
    except OSError as error:
        raise _unusable(path, error) from None


def erase(path: Path) -> None:
    """The secret file is gone, and its blocks overwritten as far as the disk keeps to that."""
    try:
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unusable(path, error) from None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One at a time: any other caller waits."""
    try:
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(folder, error) from None
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(descriptor: int, content: bytes) -> None:
    """All of it, on disk when this returns; the descriptor is closed whatever happens."""
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(path: Path, error: OSError) -> StorageError:
    """What stands in the way, and what helps against that."""
    match error.errno:
        case errno.ENOENT if not path.parent.is_dir():
            return StorageError(f"there is no folder {path.parent}", "check the path, or make the folder")
        case errno.ENOENT:
            return StorageError(f"there is no file {path}", "check the path; a file that was sent may not be here yet")
        case errno.EACCES | errno.EPERM:
            return StorageError(f"this user may not open {path}", f"change its owner or its mode: ls -ld {path}")
        case errno.ENOSPC | errno.EDQUOT:
            return StorageError(f"the disk of {path} is full", "free space on it, or name a folder on another disk")
        case errno.EROFS:
            return StorageError(f"{path} is on a disk that is read-only", "name a folder on another disk")
        case errno.EISDIR:
            return StorageError(f"{path} is a folder, not a file", "name the file in it")
        case errno.ENOTDIR | errno.EEXIST:
            return StorageError(f"{path} or a folder above it is a file", "name another folder")
    return StorageError(f"cannot use {path}: {error.strerror}", "look at the disk, or name another folder")


def plain_json(content: bytes) -> Any:
    """What JSON says; a key that stands twice, of which readers take one or the other, is a ``ValueError``."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key that is there twice")
        return found

    return json.loads(content, object_pairs_hook=once)
