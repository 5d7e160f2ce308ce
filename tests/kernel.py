"""Whether tests with a given OpenBLAS kernel add something here, and which kernel is the one of a date.

``python -m tests.kernel Haswell`` says the first (exit status 1: nothing), ``python -m tests.kernel --of-today Haswell
Nehalem`` prints the second. OpenBLAS falls back to another kernel without a word, or ends in an illegal instruction,
where the CPU lacks what the kernel needs; other BLAS libraries know no such names; and the kernel that the machine
chooses by itself is the one the whole suite runs on. Days take turns among the others, so that a week of ``make test``
has run them all and a failure is repeated by ``make test-cores CORES=...`` on any day.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime

PROBE = """
import numpy as np, scipy.linalg, threadpoolctl
A = np.random.default_rng(0).normal(size=(200, 200))
np.linalg.svd(A @ A); scipy.linalg.qr(A)
blas = [library for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]
print(*sorted({str(library.get("architecture")) for library in blas}))
"""


def chosen(**environment: str) -> str | None:
    """The kernels that NumPy and SciPy compute with; nothing where they cannot."""
    command = [sys.executable, "-c", PROBE]
    ran = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    return None if ran.returncode else ran.stdout.strip()


def reason_to_skip(core: str) -> str:
    """Why tests with this kernel would add nothing on this machine; empty where they do."""
    found = chosen(OPENBLAS_CORETYPE=core)
    if found is None:
        return "skipped, this CPU cannot run it"
    if found != core:
        return f"skipped, this library computes with {found} instead"
    if found == chosen():
        return "skipped, it is this machine's own, which the whole suite runs on"
    return ""


def of_date(day: date, cores: Sequence[str], skipped: Callable[[str], str] = reason_to_skip) -> str:
    """The kernel of a day: each of those that add something in its turn; nothing where none does."""
    others = [core for core in cores if not skipped(core)]
    return others[day.toordinal() % len(others)] if others else ""


def main(core: str, *more: str) -> int:
    if core == "--of-today":
        sys.stdout.write(f"{of_date(datetime.now(UTC).date(), more)}\n")
        return 0
    reason = reason_to_skip(core)
    sys.stdout.write(f"BLAS kernel {core}: {reason or 'the numerical tests'}\n")
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
