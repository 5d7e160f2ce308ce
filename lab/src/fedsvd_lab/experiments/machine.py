"""What a row's numbers depend on: processor, cores, memory, versions, BLAS, commit. No row without a fingerprint."""

import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_info

from fedsvd import __version__
from fedsvd.cost.calibration import processor


@cache
def fingerprint() -> dict[str, Any]:
    """This machine and this code, as columns of a row."""
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    commit = _git("rev-parse", "--short", "HEAD")
    changed = bool(_git("status", "--porcelain", "--untracked-files=no"))
    return {
        "commit": (commit or "unknown") + ("+changes" if changed else ""),
        "hardware": f"{processor()}, {os.cpu_count()} cores, {_memory()}",
        "system": platform.system(),
        "python": platform.python_version(),
        "fedsvd": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "blas": ", ".join(sorted({f"{pool['internal_api']} {pool['version']}" for pool in pools})),
        "blas_threads": max((pool["num_threads"] for pool in pools), default=1),
    }


def load() -> str:
    """How busy the machine is: times on one that does other work are longer than they would be."""
    return f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores" if hasattr(os, "getloadavg") else "unknown"


def _memory() -> str:
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return "memory unknown"
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"


def _git(*words: str) -> str:
    # In the folder of this file: the working folder may be another repository's.
    command = ["git", "-C", str(Path(__file__).parent), *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
