"""What goes wrong on a machine or in a file, as errors of ours, whatever Python or a library raised.

A library that reads a damaged file raises whatever its code runs into. Every fault inside ``reading`` is therefore a
file that cannot be read, unless the machine is at fault: no memory, no threads, no open files, no disk. The text of
the original error is not repeated, because it may quote the file.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from fedsvd.errors import FedSVDError, OutOfResources, StorageError, UnknownFormat

_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG)
_MEMORY_FIX = "close other programs, give roles a smaller memory budget, run fewer jobs at a time, or add memory"


def of_machine(error: BaseException) -> FedSVDError | None:
    """What an error says of this machine, as one of ours; None where it says nothing of it."""
    if isinstance(error, FedSVDError):
        return error
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:  # of NumPy and PyArrow, too
        return OutOfResources("this machine has no memory left for this step", _MEMORY_FIX)
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return OutOfResources("this machine starts no more threads", "raise the limit: ulimit -u, or TasksMax")
    if not isinstance(error, OSError):
        return None
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return OutOfResources("this process may open no more files", "raise the limit: ulimit -n, or LimitNOFILE")
    if error.errno in _OF_DISKS:
        place = "a disk" if error.filename is None else str(error.filename)
        return StorageError(
            f"cannot use {place}: {error.strerror}", "free space, change its mode, or name another folder"
        )
    return None


def what_helps(error: OSError, other: str = "name another folder") -> str:
    """The fix for a file that cannot be written, by what stands in the way; ``other`` is the way round it."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return f"free disk space there, or {other}"
        case errno.EACCES | errno.EPERM:
            return f"let this user write there (ls -ld shows who may), or {other}"
        case errno.EROFS:
            return f"that disk is read-only: {other}"
        case errno.ENOENT | errno.ENOTDIR:
            return f"make the folder first, or {other}"
    return f"look at the disk, or {other}"


def without_places(error: FedSVDError) -> FedSVDError:
    """An error for another member: its code, and what is wrong in general, but no path of this machine."""
    kind = {StorageError: "its disk cannot be used", OutOfResources: "it has no memory, threads or files left"}
    return type(error)(f"the other side cannot answer: {kind.get(type(error), 'see its log')}", "ask its operator")


@contextmanager
def reading(fault: str, fix: str = "write or copy it again") -> Iterator[None]:
    """Whatever is raised inside is an error of ours: that of the machine, or ``UnknownFormat`` with this text."""
    try:
        yield
    except FedSVDError:
        raise
    except Exception as error:
        ours = of_machine(error)
        raise ours or UnknownFormat(f"{fault} ({type(error).__name__})", fix) from None
