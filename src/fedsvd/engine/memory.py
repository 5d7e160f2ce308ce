"""How much main memory there is, and how much this process has held at most, as the operating system counts them."""

import os
import sys

try:
    import resource
except ImportError:  # not POSIX
    resource = None  # type: ignore[assignment]


def peak_memory() -> int:
    """Bytes; 0 where the system does not tell."""
    if resource is None:
        return 0
    peak = int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peak if sys.platform == "darwin" else 1024 * peak  # kilobytes but on macOS


def main_memory() -> int | None:
    """Bytes of main memory of this machine; None where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not POSIX
        return None
