"""How much main memory there is, how much this process has held at most, and that it gives back what it freed.

The C library hands freed memory out again rather than back to the system: each of up to 8 heaps a core, of which a
server's threads use all, retains some. A budget is then exceeded several times by what is not in use. ``bound_heap``
has the process use two heaps, and give large arrays and what is free at the end of a heap back at once.
"""

import ctypes
import os
import sys

try:
    import resource
except ImportError:  # not POSIX
    resource = None  # type: ignore[assignment]


_HEAPS = 2
_ARRAY = 8 << 20  # bytes: larger arrays are mapped by themselves, and gone when they are freed
# Settings of glibc's mallopt by their names in the environment, where an operator may set them otherwise.
_SETTINGS = (
    ("MALLOC_ARENA_MAX", -8, _HEAPS),
    ("MALLOC_MMAP_THRESHOLD_", -3, _ARRAY),
    ("MALLOC_TRIM_THRESHOLD_", -1, 2 * _ARRAY),
)


def bound_heap() -> bool:
    """Have this process give back what it frees, before its first thread starts; whether the C library can."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return False
    return all(bool(mallopt(option, value)) for name, option, value in _SETTINGS if name not in os.environ)


def peak_memory() -> int:
    """The most bytes this process has held; 0 where the operating system does not say."""
    if resource is None:
        return 0
    peak = int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peak if sys.platform == "darwin" else 1024 * peak  # kilobytes but on macOS


def main_memory() -> int | None:
    """Bytes of main memory of this machine; None where the operating system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not POSIX
        return None
