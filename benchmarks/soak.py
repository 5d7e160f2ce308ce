"""``python -m benchmarks.soak``: many jobs among many parties on one machine: do the services stay as they are?

Every role is a process of its own. Jobs are submitted in waves, so that there is always a queue; some are stopped while
they wait. After each wave the memory, descriptors and threads of every process are read, and the disk that every role
holds besides its results: the ledgers, of which each job has its lines, and the rest, which must be given back. The
researcher fetches what all parties share of every job that is done. The first waves warm caches up; from then on a
quantity is flat where its last third is not above its first third by more than a stated share. Singular values of every
job are NumPy's, or the run fails.

    python -m benchmarks.soak                       200 jobs, 20 parties
    python -m benchmarks.soak --jobs 40 --parties 6  a shorter one, and another file
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np

from benchmarks.measure import fingerprint
from fedsvd.identity.temporary import temporary_federation
from fedsvd.policy.policy_file import spelt_policy
from fedsvd.policy.rules import Policy
from fedsvd.service.client import Connection
from fedsvd.service.records import JobState

RESULTS = Path(__file__).parent / "results"
ROWS, COLUMNS = 24, 4
WAVE = 20  # jobs that are open at the same time
LONGEST = 1800.0  # seconds of a wave
STOPPED = 5  # every so many-th job is stopped while it waits
_CLOSE = 1e-10
# What the last third of the samples may have more than the first: allocators and thread pools settle slowly.
SHARES = {"memory": 0.15, "descriptors": 0.15, "threads": 0.15, "scratch": 0.15}
# And what does not count: one heap that was enlarged, one connection that was dialled again.
SLACK = {"memory": 24 << 20, "descriptors": 16, "threads": 16, "scratch": 64 << 10}


@dataclass(frozen=True)
class Sample:
    """One process after so many jobs."""

    jobs: int
    role: str
    memory: int  # bytes that are resident
    descriptors: int
    threads: int
    ledger: int  # bytes of ledger and audit log
    scratch: int  # bytes of everything else that a role holds but its results, approvals and record of earlier data


@dataclass(frozen=True)
class Soak:
    """What a run gave."""

    jobs: int
    parties: int
    seconds: float
    samples: tuple[Sample, ...]
    wrong: tuple[str, ...]  # jobs that did not end as they must

    def verdicts(self) -> dict[str, dict[str, Any]]:
        """By quantity: first and last third of the samples of the role that grew most, and whether it is flat."""
        return {name: _verdict(name, self.samples) for name in SHARES}

    @property
    def ledger_bytes_a_job(self) -> float:
        """What a job adds to the ledger and the audit log of the CSP."""
        csp = [sample for sample in self.samples if sample.role.startswith("csp/")]
        return (csp[-1].ledger - csp[0].ledger) / max(csp[-1].jobs - csp[0].jobs, 1)

    @property
    def flat(self) -> bool:
        return not self.wrong and all(verdict["flat"] for verdict in self.verdicts().values())


def _verdict(name: str, samples: Sequence[Sample]) -> dict[str, Any]:
    worst: dict[str, Any] = {"role": "", "first": 0.0, "last": 0.0, "flat": True}
    for role in dict.fromkeys(sample.role for sample in samples):
        values = [getattr(sample, name) for sample in samples if sample.role == role and sample.jobs]
        third = max(len(values) // 3, 1)
        first, last = float(np.median(values[:third])), float(np.median(values[-third:]))
        flat = last <= first * (1 + SHARES[name]) + SLACK[name]
        if (not flat, last - first) > (not worst["flat"], worst["last"] - worst["first"]) or not worst["role"]:
            worst = {"role": role, "first": first, "last": last, "flat": flat}
    return worst


# --- a run ------------------------------------------------------------------------------------------------------------


def soak(root: Path, jobs: int, parties: int, wave: int = WAVE) -> Soak:
    """Run so many jobs among so many parties, whose kits are below ``root``."""
    names = tuple(f"p{place:02d}" for place in range(parties))
    kits = temporary_federation(root / "kits", names, now=datetime.now(UTC), researcher="res")
    sigma = _laid_out(root, kits, names)
    file = {"job": {"name": "soak", "task": "svd"}, "party": [{"name": name} for name in names]}
    began, samples, wrong, done = monotonic(), list[Sample](), list[str](), 0
    with _running(kits, names) as (address, processes):
        samples += [_sample(0, role, process.pid, kits[role]) for role, process in processes.items()]
        while done < jobs:
            count = min(wave, jobs - done)
            with Connection(kits["researcher/res"], address, patience=120.0) as researcher:
                ids = [researcher.submit(file) for _ in range(count)]
                stopped = {id for place, id in enumerate(ids) if done and (done + place) % STOPPED == STOPPED - 1}
                for id in stopped:
                    researcher.stop(id)
                for id in ids:
                    found = researcher.watch(id, timeout=LONGEST)
                    if found.state is not (JobState.STOPPED if id in stopped else JobState.DONE):
                        wrong.append(f"{id}: {found.state} {[failure.code for failure in found.failures]}")
                    elif id not in stopped and researcher.results(id).folder is None:
                        wrong.append(f"{id}: nothing for the researcher")
            done += count
            sleep(1.0)  # parties look once more, and give back what they hold
            wrong += [f"{id}: {name}" for id in ids if id not in stopped for name in _unlike(kits, names, id, sigma)]
            samples += [_sample(done, role, process.pid, kits[role]) for role, process in processes.items()]
            csp = samples[-len(processes)]
            print(
                f"{done:4d} jobs, {monotonic() - began:5.0f} s: CSP {csp.memory >> 20} MiB, {csp.threads} threads",
                flush=True,
            )
    return Soak(jobs, parties, monotonic() - began, tuple(samples), tuple(wrong))


def _laid_out(root: Path, kits: Mapping[str, Path], names: Sequence[str]) -> np.ndarray[Any, Any]:
    """A table for each party; the singular values of all of them together, by NumPy."""
    D = np.random.default_rng(11).normal(size=(ROWS * len(names), COLUMNS))
    for name, part in zip(names, np.split(D, len(names)), strict=True):
        path, kit = root / f"{name}.csv", kits[f"party/{name}"]
        header = ",".join(f"x{column}" for column in range(COLUMNS))
        np.savetxt(path, part, delimiter=",", header=header, comments="", fmt="%.17g")
        (kit / "site.toml").write_text(f'[data]\ndefault = "{path}"\n')
        (kit / "policy.toml").write_text(spelt_policy(replace(Policy.permissive(), researcher="shared")))
    (kits["csp/csp"] / "site.toml").write_text("open_jobs = 100000\n")
    return np.linalg.svd(D, compute_uv=False)


def _unlike(kits: Mapping[str, Path], names: Sequence[str], id: str, sigma: np.ndarray[Any, Any]) -> Iterator[str]:
    """The parties whose results of a job are not NumPy's."""
    for name in names:
        found = list((kits[f"party/{name}"] / "results").glob(f"*-{id[:8]}/singular_values.npy"))
        if len(found) != 1 or np.abs(np.load(found[0]) - sigma).max() > _CLOSE * sigma[0]:
            yield name


@contextmanager
def _running(kits: Mapping[str, Path], names: Sequence[str]) -> Iterator[tuple[str, dict[str, subprocess.Popen[str]]]]:
    """Every role as a process; the address of the CSP, and the processes by role, the CSP first."""
    processes: dict[str, subprocess.Popen[str]] = {}
    with ExitStack() as stack:
        csp = processes["csp/csp"] = _started(stack, "csp", kits["csp/csp"], "--address", "127.0.0.1:0")
        address = _ready(csp)["address"]
        for name in names:
            words = ("--csp", address, "--yes")
            processes[f"party/{name}"] = _started(stack, "party", kits[f"party/{name}"], *words)
        for role, process in processes.items():
            if role != "csp/csp":
                _ready(process)
        yield address, processes


def _started(stack: ExitStack, kind: str, kit: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fedsvd", kind, "start", "--kit", str(kit), "--format", "json", *words]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    log = stack.enter_context((kit / "soak.log").open("w"))
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(60.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ready(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    for line in process.stdout:
        if '"ready"' in line:
            threading.Thread(target=process.stdout.read, daemon=True).start()  # or it would wait for a reader
            found: dict[str, Any] = json.loads(line)["ready"]
            return found
    raise RuntimeError(f"a role ended with {process.wait()} before it was ready")


# --- what a process holds ---------------------------------------------------------------------------------------------

_RESULTS = ("results", "approvals", "records", "commitments")  # one or more for each job, by intent


def _sample(jobs: int, role: str, pid: int, kit: Path) -> Sample:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
    files = [path for path in kit.rglob("*") if path.is_file() and not set(path.relative_to(kit).parts) & set(_RESULTS)]
    ledger = sum(_size(path) for path in files if path.suffix == ".jsonl")
    rest = sum(_size(path) for path in files if path.suffix not in (".jsonl", ".log"))
    descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    # Scratch files have no name: what a process has open and deleted counts too.
    unnamed = sum(_unnamed(Path(f"/proc/{pid}/fd/{number}")) for number in os.listdir(f"/proc/{pid}/fd"))
    memory = 1024 * int(status["VmRSS"][0])
    return Sample(jobs, role, memory, descriptors, int(status["Threads"][0]), ledger, rest + unnamed)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # gone since it was listed
        return 0


def _unnamed(link: Path) -> int:
    try:
        return link.stat().st_size if " (deleted)" in os.readlink(link) else 0
    except OSError:
        return 0


def main(words: Sequence[str]) -> int:
    """Run, print, write; the exit status says whether everything was flat and right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--parties", type=int, default=20)
    parser.add_argument("--wave", type=int, default=WAVE)
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="fedsvd-soak-") as root:
        found = soak(Path(root), asked.jobs, asked.parties, asked.wave)
    verdicts = found.verdicts()
    for name, verdict in verdicts.items():
        print(f"{name}: {'flat' if verdict['flat'] else 'GROWS'}, {verdict}")
    print(f"wrong: {found.wrong or 'none'}; ledger: {found.ledger_bytes_a_job:.0f} bytes a job at the CSP")
    record = {
        "machine": fingerprint(),
        "jobs": found.jobs,
        "parties": found.parties,
        "seconds": round(found.seconds, 1),
        "flat": found.flat,
        "wrong": list(found.wrong),
        "verdicts": verdicts,
        "ledger_bytes_a_job": round(found.ledger_bytes_a_job),
        "samples": [asdict(sample) for sample in found.samples],
    }
    whole = (asked.jobs, asked.parties) == (200, 20)
    name = "soak.json" if whole else f"soak-{asked.jobs}-{asked.parties}.json"
    (RESULTS / name).write_text(json.dumps(record) + "\n")
    return 0 if found.flat else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
