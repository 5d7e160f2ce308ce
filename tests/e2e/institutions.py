"""Institutions on this machine: every role a process of its own, at ports of the system, stopped when the test ends.

Expected results come from the sim rung on the same files, which other tests hold against NumPy and scikit-learn.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep

import numpy as np
from tests.tolerances import RESULT_BAR, assert_close

from fedsvd.identity.temporary import temporary_federation
from fedsvd.policy.policy_file import spelt_policy
from fedsvd.policy.rules import Policy
from fedsvd.results.report.page import render
from fedsvd.results.write import write_job
from fedsvd.service.client import Connection
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import job_from
from fedsvd.studies.jobs import results_of, run_job

GENEROUS = 180.0  # seconds after which a test that hangs fails; no test that passes comes near
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "120", "PYTHONUNBUFFERED": "1"}


def until(true, what="it never came true"):
    """Wait for something that must happen."""
    deadline = monotonic() + GENEROUS
    while not (value := true()):
        assert monotonic() < deadline, what
        sleep(0.02)
    return value


def command(*words, cwd=None, **environment):
    """``python -m fedsvd`` with these words, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "fedsvd", *map(str, words)],
        cwd=cwd,
        env={**ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        timeout=GENEROUS,
        check=False,
    )


def heed_interrupts():
    """In a child: SIGINT is not ignored, though a build may start its processes so."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Process:
    """A command that goes on; what it says is kept."""

    def __init__(self, *words, cwd=None, **environment):
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "fedsvd", *map(str, words)],
            cwd=cwd,
            env={**ENVIRONMENT, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heed_interrupts,
        )
        self.out, self.err = [], []
        self._new = queue.SimpleQueue()
        self._readers = [
            threading.Thread(target=self._read, args=(pipe, kept), daemon=True)
            for pipe, kept in ((self.popen.stdout, self.out), (self.popen.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, pipe, kept):
        for line in pipe:
            kept.append(line)

    def said(self, word, where="err"):
        """Wait until a line with this word has come."""
        lines = getattr(self, where)
        until(
            lambda: any(word in line for line in lines) or self.popen.poll() is not None,
            f"{word!r} was never said",
        )
        for reader in self._readers if self.popen.poll() is not None else ():
            reader.join(GENEROUS)
        return next(line for line in lines if word in line)

    def ended(self):
        """Wait for the end; the exit code."""
        code = self.popen.wait(GENEROUS)
        for reader in self._readers:
            reader.join(GENEROUS)
        return code

    def signal(self, number):
        self.popen.send_signal(number)

    def kill(self):
        """kill -9, and gone when this returns."""
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait(GENEROUS)
        for reader in self._readers:
            reader.join(GENEROUS)
        self.popen.stdout.close()
        self.popen.stderr.close()


@dataclass
class Institutions:
    """A federation's kits, and the processes that run with them."""

    root: Path
    kits: dict[str, Path]
    csp: str = ""
    processes: dict[str, Process] = field(default_factory=dict)
    patience: float = 60.0

    def start(self, *names):
        """Start roles by their names, the CSP first, and wait until they are ready."""
        for name in names:
            kind = name.partition("/")[0]
            words = [kind, "start", "--kit", self.kits[name], "--format", "json", "--patience", self.patience]
            if kind == "csp":
                words += ["--address", self.csp or "127.0.0.1:0"]
            else:
                words += ["--csp", self.csp, *(["--yes"] if kind == "party" else [])]
            self.processes[name] = Process(*words)
            if kind == "csp":
                self.csp = self._ready(name)["address"]
        for name in names:
            self._ready(name)
        return self

    def _ready(self, name):
        return json.loads(self.processes[name].said("ready", "out"))["ready"]

    def stop(self, name):
        """SIGTERM; the exit code."""
        self.processes[name].signal(signal.SIGTERM)
        code = self.processes[name].ended()
        self.processes.pop(name).kill()
        return code

    def kill(self, name):
        """kill -9."""
        self.processes.pop(name).kill()

    def connect(self, name="researcher/res"):
        return Connection(self.kits[name], self.csp, patience=GENEROUS)

    def close(self):
        for process in self.processes.values():
            process.kill()

    def folder(self, party, id):
        """Where a party's results of a job are."""
        (found,) = (self.kits[f"party/{party}"] / "results").glob(f"*-{id[:8]}")
        return found


@contextmanager
def institutions(root, parties, tables=None, policy=None, organisations=None, **how):
    """Kits for these parties, an authority and a researcher; with ``tables`` each party's site names its own."""
    of = {"with_authority": True, "researcher": "res", "organisations": organisations}
    kits = temporary_federation(root / "kits", parties, now=datetime.now(UTC), **of)
    house = Institutions(root, kits, **how)
    for name in parties:
        kit = kits[f"party/{name}"]
        (kit / "policy.toml").write_text(spelt_policy(policy or Policy.permissive()))
        if tables is not None:
            np.save(root / f"{name}.npy", tables[name])
            (kit / "site.toml").write_text(f'[data]\ndefault = "{root / f"{name}.npy"}"\n')
    try:
        yield house
    finally:
        house.close()


def split_table(rows, columns, parties, seed=3):
    """A well conditioned table, its rows split over parties of different sizes."""
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(rows, columns)) @ np.diag(np.linspace(1.0, 3.0, columns)) + np.linspace(-2, 5, columns)
    weights = np.arange(2, 2 + len(parties), dtype=float)
    cuts = np.cumsum(weights / weights.sum() * rows).astype(int)[:-1]
    return D, dict(zip(parties, np.split(D, cuts), strict=True))


def file_of(task, parties, folder=None, authority=None, **options):
    """A job file, parsed; with data where it lies in a folder under its party's name."""
    data = {} if folder is None else {name: {"data": str(Path(folder) / f"{name}.npy")} for name in parties}
    job = {"job": {"name": f"test-{task}", "task": task, **options}}
    job |= {"authority": {"name": authority}} if authority else {}
    return {**job, "party": [{"name": name, **data.get(name, {})} for name in parties]}


def simulated(file, target):
    """The same job on the sim rung, its results in a folder."""
    prepared = prepare(job_from(file, Path()))
    write_job(target, results_of(prepared, run_job(prepared, policy=Policy.permissive())), draw=render)
    return target


def arrays_in(folder):
    return {path.name: np.load(path) for path in sorted(Path(folder).glob("*.npy"))}


def expect_equal(found, expected):
    """Two results folders hold the same arrays, to rounding."""
    found, expected = arrays_in(found), arrays_in(expected)
    assert sorted(found) == sorted(expected)
    for name, array in expected.items():
        if array.dtype.kind == "U":
            assert (found[name] == array).all()
        else:
            assert_close(found[name], array, RESULT_BAR, max(np.abs(array).max(), 1.0))


def still_running(word):
    """The processes whose command line has this word in it."""
    listed = subprocess.run(["ps", "-ewwo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(word) in line and "ps -ewwo" not in line]
