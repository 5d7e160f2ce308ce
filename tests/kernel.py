"""Whether tests with a given OpenBLAS kernel add something here: ``python -m tests.kernel Haswell``.

OpenBLAS falls back to another kernel without a word, or ends in an illegal instruction, where the CPU lacks what the
kernel needs; other BLAS libraries know no such names; and the kernel that the machine chooses by itself is the one the
whole suite runs on. The line that is printed says which kernel comes next, or why it is skipped (exit status 1).
"""

import os
import subprocess
import sys

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


def main(core: str) -> int:
    found = chosen(OPENBLAS_CORETYPE=core)
    if found is None:
        reason = "skipped, this CPU cannot run it"
    elif found != core:
        reason = f"skipped, this library computes with {found} instead"
    elif found == chosen():
        reason = "skipped, it is this machine's own, which the whole suite runs on"
    else:
        reason = ""
    sys.stdout.write(f"BLAS kernel {core}: {reason or 'the numerical tests'}\n")
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
