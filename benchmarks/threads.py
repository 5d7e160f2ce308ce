"""The same studies with 1, 2, 4, 8 and 16 threads: where more of them make a study slower, and which part of it.

    taskset -c 0-15 python -m benchmarks.threads [NAME ...] [--threads N ...] [--turns N]

Rows of ``benchmarks.many_features``, each number of threads in a process of its own (OPENBLAS_NUM_THREADS, which the
threads of our own products and pads follow), the best of the turns. The ratio is to the fastest rival at any number of
threads. On sixteen idle cores about two minutes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

NAMES = ("genotypes-top2", "lsa-ml1m", "pca-20000x1000")
COUNTS = (1, 2, 4, 8, 16)


def measured(name: str, count: int, turns: int, folder: Path) -> dict[str, Any]:
    """The row, by a process with so many threads; data is made once."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": str(count), "OMP_NUM_THREADS": str(count)}
    given = [sys.executable, "-m", "benchmarks.threads", name, "--here", str(folder), "--turns", str(turns)]
    done = subprocess.run(given, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip() or f"{name} failed with {count} threads")
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def here(name: str, turns: int, folder: Path) -> None:
    """The row in this process, as JSON."""
    from dataclasses import replace

    from benchmarks import many_features

    case, file = many_features.CASES[name], folder / f"{name}.npy"
    if file.exists():
        case = replace(case, data=lambda: np.load(file))
    elif name != "lsa-ml1m":
        made = case.data()
        np.save(file, made)
        case = replace(case, data=lambda: made)
    many_features.warm_up()
    print(json.dumps(many_features.measured(name, case, case.scheme, turns)))


def table(names: Sequence[str], counts: Sequence[int], turns: int) -> None:
    """All rows, printed as they are measured, and the ratios at the end."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for count in counts:
                row = rows[name, count] = measured(name, count, turns, Path(folder))
                parts = ", ".join(f"{part} {seconds:.3f}" for part, seconds in list(row["parts"].items())[:9])
                rival = min(row["rivals"].values())
                used = f"{row['processor_seconds']:.2f} processor s"
                print(
                    f"{name:16} {count:2} threads {row['seconds']:.3f} s, {used}, rival {rival:.3f} s; {parts}",
                    flush=True,
                )
            (Path(folder) / f"{name}.npy").unlink(missing_ok=True)
    for name in names:
        best = min(min(rows[name, count]["rivals"].values()) for count in counts)
        ratios = ", ".join(f"{count}: {rows[name, count]['seconds'] / best:.2f}" for count in counts)
        print(f"{name:16} of the rival's best {best:.3f} s by threads: {ratios}; bar {rows[name, counts[-1]]['bar']}")


def main() -> int:
    """Measure what is asked for, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES, help="rows of benchmarks.many_features")
    parser.add_argument("--threads", nargs="*", type=int, default=COUNTS)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--here", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.here:
        here(asked.names[0], asked.turns, Path(asked.here))
    else:
        table(asked.names, asked.threads, asked.turns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
