"""How a bar is measured: ours and the rival in turns, the best of each, and their ratio.

Machines are noisy and differ; a ratio inside one run is what a bar states. Every row carries the fingerprint of the
machine it was measured on: no claim of speed without a row, no row without a fingerprint.
"""

import os
import platform
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_info

import fedsvd
from fedsvd.cost.calibration import processor
from fedsvd.protocol.parties import CSP

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    """One bar: what was measured, against what, and the ratio it must reach."""

    name: str
    ours: float
    rival: float
    rival_name: str
    bar: str
    ratio: float
    met: bool
    unit: str = "s"

    def record(self) -> dict[str, Any]:
        return asdict(self)


def in_turns(ours: Callable[[], object], rival: Callable[[], object], repeats: int = 5) -> tuple[float, float]:
    """The best time of each over ``repeats`` rounds, after one round to warm up."""
    best = [float("inf"), float("inf")]
    ours(), rival()
    for _ in range(repeats):
        for which, run in enumerate((ours, rival)):
            started = perf_counter()
            run()
            best[which] = min(best[which], perf_counter() - started)
    return best[0], best[1]


def faster(name: str, ours: float, rival: float, rival_name: str, at_least: float) -> Row:
    """A bar of the kind "at least x times faster than the rival"."""
    ratio = rival / ours
    return Row(name, ours, rival, rival_name, f">= {at_least:g}x", ratio, ratio >= at_least)


def at_most(name: str, ours: float, rival: float, rival_name: str, most: float, unit: str = "s") -> Row:
    """A bar of the kind "at most x times what the rival takes"."""
    ratio = ours / rival
    return Row(name, ours, rival, rival_name, f"<= {most:g}x", ratio, ratio <= most, unit)


def unknown_groups(names: Iterable[str], groups: Iterable[str]) -> str:
    """What is wrong with the names on a command line, in words; nothing where each is a group's."""
    known = list(groups)
    unknown = sorted(set(names) - set(known))
    return f"no group named {', '.join(unknown)}: choose from {', '.join(known)}" if unknown else ""


def longest_parts(certificate: Any, most: int = 14) -> dict[str, float]:
    """What each part of a study took, all parties of one process together, the longest first; in seconds.

    Parts that are made again and again ("step 0", "step 1") are added up under their common name.
    """
    parts: defaultdict[str, float] = defaultdict(float)
    for (_, stage), seconds in certificate.seconds_by_stage.items():
        parts[stage.rstrip("0123456789 ")] += seconds
    return {stage: round(each, 4) for stage, each in sorted(parts.items(), key=lambda pair: -pair[1])[:most]}


def bytes_by_party(certificate: Any) -> dict[str, dict[str, int]]:
    """The bytes that each party sent to the CSP, and received from it."""
    parties: defaultdict[str, dict[str, int]] = defaultdict(lambda: {"up": 0, "down": 0})
    for (sender, receiver), count in certificate.bytes_by_link.items():
        if receiver == CSP:
            parties[sender.name]["up"] += count
        elif sender == CSP:
            parties[receiver.name]["down"] += count
    return {name: each for name, each in sorted(parties.items()) if name.startswith("user")}


def fingerprint() -> dict[str, Any]:
    """What the numbers depend on: versions, processor, BLAS, threads, commit."""
    blas = [
        {key: pool.get(key) for key in ("internal_api", "version", "num_threads", "architecture")}
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return {
        "fedsvd": fedsvd.__version__,
        "commit": _git("rev-parse", "--short", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "system": platform.system(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "blas": blas,
    }


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
