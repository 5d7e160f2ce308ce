"""The local rung, a process to each role over TLS, against the simulation in one process: the same job, the same files.

    python -m benchmarks.macro.rungs [100000x1000] [--turns N]

Tables lie in ``.npy`` files and no vectors are written, so that both do the same. Processes are started before the
clock is; what starting them takes is printed. The local rung divides the cores among its roles.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from warnings import catch_warnings, simplefilter

import numpy as np

from benchmarks.measure import Row, at_most
from fedsvd.errors import PrivacyWarning
from fedsvd.policy.rules import Policy
from fedsvd.service.local import local_federation
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import Job, job_from
from fedsvd.studies.jobs import run_job

MOST = 1.3


def rows(samples: int = 100_000, features: int = 1_000, turns: int = 2) -> Iterator[Row]:
    """An SVD of two parties, rows split: the best of a few turns of each."""
    with tempfile.TemporaryDirectory(prefix="fedsvd-rungs-") as folder, catch_warnings():
        simplefilter("ignore", PrivacyWarning)
        job = _job(Path(folder), samples, features)
        started = perf_counter()
        with local_federation(job, policy=Policy.permissive()) as federation:
            up = perf_counter() - started
            local, sim = zip(*((federation.run(job).seconds, _simulated(job)) for _ in range(turns)), strict=True)
    name = f"SVD {samples:,} x {features:,}, local rung"
    yield at_most(name, min(local), min(sim), "the same job in one process", MOST)
    yield Row(f"{name}: starting the processes", up, min(sim), "the job", "for orientation", up / min(sim), True)


def _simulated(job: Job) -> float:
    started = perf_counter()
    run_job(prepare(job, policy=Policy.permissive()))
    return perf_counter() - started


def _job(folder: Path, samples: int, features: int) -> Job:
    rng, parties = np.random.default_rng(0), []
    for name, count in (("north", samples // 2), ("south", samples - samples // 2)):
        np.save(folder / f"{name}.npy", rng.standard_normal((count, features)))
        parties.append({"name": name, "data": f"{name}.npy"})
    asked = {"name": "rungs", "task": "svd", "split": "horizontal", "write": "none"}
    return job_from({"job": asked, "party": parties}, folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", nargs="?", default="100000x1000")
    parser.add_argument("--turns", type=int, default=2)
    asked = parser.parse_args()
    samples, features = map(int, asked.shape.split("x"))
    found = list(rows(samples, features, asked.turns))
    for row in found:
        print(f"{row.name}: {row.ours:.2f} s against {row.rival:.2f} s, ratio {row.ratio:.2f}")
    return 0 if all(row.met for row in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
