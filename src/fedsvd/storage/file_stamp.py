"""Whether a file is still the one that was read, without reading it again: which file it is, its length, its times.

Every write moves the time at which a file was last changed, and no program can set that back. File systems count it
coarsely, and a page that was written through a memory map some seconds late: a file that changed a moment ago has no
stamp, and has to be read again.
"""

import os
import stat
from pathlib import Path
from time import time

_COARSE = 5.0  # seconds

Stamp = tuple[int, ...]


def file_stamp(path: Path | str) -> Stamp | None:
    """Equal to an earlier one of the same path if the file is the same; None where that cannot be known."""
    if os.name != "posix":  # elsewhere the time of the last change is that of the file's making
        return None
    try:
        # Opened, and not only asked for: a network file system asks its server then.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode) or abs(time() - found.st_ctime) < _COARSE:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
