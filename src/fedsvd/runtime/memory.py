"""How much main memory this process has held at most: its peak resident set, as the operating system counted it."""

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
