"""Whether a file is still the one that was read, without reading it again: which file it is, its length, its times.

Every write moves the time at which a file was last changed, and no program can set that back. File systems count it
coarsely, and a page that was written through a memory map some seconds late: a file that changed a moment ago has no
``file_stamp``, and has to be read again. A ``Watch`` compares stamps however young they are: one that moved proves a
change, one that did not proves nothing while ``settled`` is false.
"""

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from time import time

_COARSE = 5.0  # seconds

Stamp = tuple[int, ...]


def file_stamp(path: Path | str) -> Stamp | None:
    """Equal to an earlier one of the same path if the file is the same; None where that cannot be known."""
    if os.name != "posix":  # elsewhere the time of the last change is that of the file's making
        return None
    found = _status(path)
    if found is None or not stat.S_ISREG(found.st_mode) or abs(time() - found.st_ctime) < _COARSE:
        return None
    return _stamp(found)


class Watch:
    """The files of one table as they are when it is opened, and whether they still are.

    ``find`` lists them, and is asked again: a part that was added to a folder is a change, too.
    """

    def __init__(self, find: Callable[[], Iterable[Path]]) -> None:
        self._find = find
        self._seen = self._look()

    def changed(self) -> str | None:
        """The path of a file that was written to, replaced, added or removed since; None where nothing changed."""
        now = self._look()
        if now == self._seen:
            return None
        return next(path for path in (*self._seen, *now) if self._seen.get(path, ()) != now.get(path, ()))

    def settled(self) -> bool:
        """Whether every change since would show: no file was written to shortly before it was opened, or just now."""
        return all(file_stamp(path) is not None for path in self._seen)

    def _look(self) -> dict[str, Stamp | None]:
        found = ((str(path), _status(path)) for path in self._find())
        return {path: None if status is None else _stamp(status) for path, status in found}


def _status(path: Path | str) -> os.stat_result | None:
    try:
        # Opened, and not only asked for: a network file system asks its server then.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        try:
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        return None


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
