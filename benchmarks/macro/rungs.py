"""The local rung, a process to each role over TLS, against the simulation in one process: the same job, the same files.

    python -m benchmarks.macro.rungs [--shape 100000x1000] [--cores N] [--turns N]

``rows`` runs this file once on two cores and once on all, in a process of its own that is pinned to them, as its roles
then are. Tables lie in ``.npy`` files. A turn lasts from the question to the results folder, with the tables and
reports of all parties; vectors as long as the data are not written (``write = "none"``). Both take one turn to warm up,
then turns of their own, and the best counts. Processes are started before the clock is. Two more rows are for
orientation: what starting takes; and the time until all parties are done, who have then written their own results,
against computing alone.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

from benchmarks.measure import Row, at_most

if TYPE_CHECKING:
    from fedsvd.service.local import LocalFederation
    from fedsvd.studies.job_file import Job

MOST = 1.3
_ONE = "the same job in one process"


def rows(shape: str = "100000x1000") -> Iterator[Row]:
    """An SVD of two parties, rows split, on two cores and on all there are."""
    everything = len(os.sched_getaffinity(0))
    for cores in sorted({min(2, everything), everything}):
        yield from _rows_of(shape, cores, _in_a_process(shape, cores))


def _rows_of(shape: str, cores: int, took: dict[str, float]) -> Iterator[Row]:
    samples, features = map(int, shape.split("x"))
    name = f"SVD {samples:,} x {features:,}, local rung, {cores} cores"
    yield at_most(name, took["local"], took["sim"], _ONE, MOST)
    computing, starting = took["local_computing"], took["starting"]
    yield _for_orientation(
        f"{name}: until all parties are done", computing, took["sim_computing"], f"{_ONE}, unwritten"
    )
    yield _for_orientation(f"{name}: starting the processes", starting, took["sim"], _ONE)


def _for_orientation(name: str, ours: float, rival: float, rival_name: str) -> Row:
    return Row(name, ours, rival, rival_name, "for orientation", ours / rival, True)


def _in_a_process(shape: str, cores: int, turns: int = 2) -> dict[str, float]:
    """What this file measures on so many cores: BLAS reads how many threads it may have when it is loaded."""
    threads = {name: str(cores) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [sys.executable, "-m", "benchmarks.macro.rungs", "--shape", shape, "--json"]
    command += ["--cores", str(cores), "--turns", str(turns)]
    done = subprocess.run(command, env={**os.environ, **threads}, stdout=subprocess.PIPE, text=True, check=True)
    took: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return took


def measured(shape: str, turns: int) -> dict[str, float]:
    """Seconds of the best turn of each, of computing alone, and of starting the processes."""
    from fedsvd.errors import PrivacyWarning
    from fedsvd.policy.rules import Policy
    from fedsvd.service.local import local_federation

    samples, features = map(int, shape.split("x"))
    with tempfile.TemporaryDirectory(prefix="fedsvd-rungs-") as folder, catch_warnings():
        simplefilter("ignore", PrivacyWarning)
        job = _job(Path(folder), samples, features)
        started = perf_counter()
        with local_federation(job, policy=Policy.permissive()) as federation:
            starting = perf_counter() - started
            took = []
            for turn in range(1 + turns):
                out = Path(folder) / f"results-{turn}"
                took.append((*_locally(federation, job, out / "local"), *_simulated(job, out / "sim")))
    best = (min(times) for times in zip(*took[1:], strict=True))
    return {"starting": starting} | dict(zip(("local", "local_computing", "sim", "sim_computing"), best, strict=True))


def _locally(federation: "LocalFederation", job: "Job", out: Path) -> tuple[float, float]:
    """Seconds until the results are written, and until the last party is done."""
    from fedsvd.results.report.page import render

    started = perf_counter()
    run = federation.run(job)
    run.write(out, draw=render)
    return perf_counter() - started, run.seconds


def _simulated(job: "Job", out: Path) -> tuple[float, float]:
    """The same in this process: until the results are written, and until all is computed."""
    from fedsvd.policy.rules import Policy
    from fedsvd.protocol.plan import SessionPlan
    from fedsvd.results.report.page import render
    from fedsvd.results.vector_files import file_for, folder_next_to
    from fedsvd.results.write import write_job
    from fedsvd.studies.job_data import prepare
    from fedsvd.studies.jobs import results_of, run_job
    from fedsvd.studies.run import UserFiles

    started = perf_counter()
    with folder_next_to(out) as folder:

        def files(plan: SessionPlan, i: int) -> UserFiles:
            return UserFiles(sink=file_for(plan, i, job.study.write, folder))

        prepared = prepare(job, policy=Policy.permissive())
        outcome = run_job(prepared, policy=Policy.permissive(), files=files)
        computed = perf_counter() - started
        write_job(out, results_of(prepared, outcome), draw=render)
    return perf_counter() - started, computed


def _job(folder: Path, samples: int, features: int) -> "Job":
    import numpy as np

    from fedsvd.studies.job_file import job_from

    rng, parties = np.random.default_rng(0), []
    for name, count in (("north", samples // 2), ("south", samples - samples // 2)):
        np.save(folder / f"{name}.npy", rng.standard_normal((count, features)))
        parties.append({"name": name, "data": f"{name}.npy"})
    asked: dict[str, Any] = {"name": "rungs", "task": "svd", "split": "horizontal", "write": "none"}
    return job_from({"job": asked, "party": parties}, folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", default="100000x1000", help="samples x features")
    parser.add_argument("--cores", type=int, default=0, help="how many cores; all where left out")
    parser.add_argument("--turns", type=int, default=2, help="turns that count, after one to warm up")
    parser.add_argument("--json", action="store_true", help="the seconds alone, as one line of JSON")
    asked = parser.parse_args()
    cores = asked.cores or len(os.sched_getaffinity(0))
    if asked.json:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
        print(json.dumps(measured(asked.shape, asked.turns)))
        return 0
    found = list(_rows_of(asked.shape, cores, _in_a_process(asked.shape, cores, asked.turns)))
    for row in found:
        print(f"{row.name}: {row.ours:.2f} s against {row.rival:.2f} s, ratio {row.ratio:.2f} ({row.bar})")
    return 0 if all(row.met for row in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
