"""Many features of few samples within a small budget: PCA of 3 x 500 genotypes at 200,000 places, 1 GiB a role.

    python -m benchmarks.macro.genotypes [500x200000] [--memory "1 GiB"]

Every role is a process of its own, as a user would run it, and what the budget does not hold goes to a scratch folder
that nobody named. The bar is the peak of each process, which the system counts (VmHWM, file maps included), against the
budget and what an interpreter with its libraries takes.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import numpy as np

from benchmarks.macro.long import INTERPRETER, watched
from benchmarks.measure import Row
from fedsvd.types import byte_size

PARTIES, COMPONENTS = 3, 10
_UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}


def rows(samples: int = 500, places: int = 200_000, memory: str = "1 GiB") -> Iterator[Row]:
    """The peak of a party and of the CSP; how long it took, for orientation."""
    with tempfile.TemporaryDirectory(prefix="fedsvd-genotypes-", dir="/var/tmp") as folder:
        job = _job(Path(folder), samples, places, memory)
        command = [sys.executable, "-m", "fedsvd", "run", str(job), "--env", "local", "--consent", "--quiet"]
        started = monotonic()
        peaks, status = watched([*command, "--out", str(Path(folder) / "results")], {})
        seconds = monotonic() - started
        if status:
            raise RuntimeError(f"the study ended with status {status}")
        certificate = json.loads((Path(folder) / "results" / "manifest.json").read_text())["certificate"]
    name = f"PCA top {COMPONENTS} of {PARTIES} x {samples:,} x {places:,} genotypes within {memory}"
    number, unit = memory.split()
    allowed = int(float(number) * _UNITS[unit]) + INTERPRETER
    for role, peak in sorted(peaks.items()):
        ratio, against = peak / allowed, f"budget and {byte_size(INTERPRETER)} of interpreter"
        yield Row(f"{name}: peak of a {role}", peak / 1e6, allowed / 1e6, against, "<= 1x", ratio, ratio <= 1, "MB")
    error = float(certificate["residual"])
    yield Row(f"{name}: residual", error, 1e-10, "S_1", "<= 1e-10", error / 1e-10, error <= 1e-10, "")
    yield Row(f"{name}: time", seconds, seconds, "with its processes", "for orientation", 1.0, True)


def _job(folder: Path, samples: int, places: int, memory: str) -> Path:
    rng = np.random.default_rng(0)
    frequencies = rng.uniform(0.05, 0.5, places)
    text = f'[job]\nname = "genotypes"\ntask = "pca"\nsplit = "horizontal"\ncomponents = {COMPONENTS}\n'
    text += f'memory = "{memory}"\n'
    for number in range(PARTIES):
        np.save(folder / f"{number}.npy", rng.binomial(2, frequencies, (samples, places)).astype(np.int8))
        text += f'[[party]]\nname = "site-{number}"\ndata = "{number}.npy"\n'
    job = folder / "job.toml"
    job.write_text(text)
    return job


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", nargs="?", default="500x200000", help="samples of a party x places")
    parser.add_argument("--memory", default="1 GiB")
    asked = parser.parse_args()
    samples, places = map(int, asked.shape.split("x"))
    found = []
    for row in rows(samples, places, asked.memory):
        found.append(row)
        print(f"{row.name}: {row.ours:.3g} {row.unit} against {row.rival:.3g}, ratio {row.ratio:.2f}", flush=True)
    return 0 if all(row.met for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
