"""Compiles ``passes.c`` with the machine's C compiler: ``python src/fedsvd/kernels/build.py``.

The installation calls this (``hatch_build.py``). Without a compiler nothing is made, and NumPy computes the same.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SOURCE, LIBRARY = HERE / "passes.c", HERE / "passes.so"
# Without errno and traps a loop over rounding and comparisons can be done in vectors; no result changes. Words and
# numbers may lie in the same place, which C's rule on aliasing would let a compiler rule out.
_EXACT = ("-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing")
_FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-shared", "-pthread", *_EXACT)


def build() -> str:
    """Compile, in place of what was compiled before; "", or why nothing was compiled, in words."""
    if os.name != "posix":
        return "the compiled passes are made on Linux and macOS only"
    made = LIBRARY.with_suffix(".new")
    command = [*shlex.split(os.environ.get("CC", "cc")), *_FLAGS, "-o", str(made), str(SOURCE), "-lm"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"no C compiler: {error.strerror}"
    if done.returncode != 0:
        return f"the C compiler failed: {(done.stderr.strip().splitlines() or ['no message'])[0]}"
    made.replace(LIBRARY)  # at once: a process that has the old one loaded is not disturbed
    return ""


if __name__ == "__main__":
    sys.exit(build() or 0)
