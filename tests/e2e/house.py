"""A federation on this machine whose roles come and go: threads here, or processes of their own that misbehave.

Three parties with a table each, a CSP, an authority, a researcher. ``via`` puts something between a role and the CSP.
What is expected of every trouble is here as well: the job ends right, or it is broken with a code at every member; and
once the trouble is over ``resume`` ends right.
"""

import json
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep

import numpy as np
from tests.tolerances import RESULT_BAR, assert_close, spectrum

from fedsvd.errors import FedSVDError
from fedsvd.identity.names import KitRole
from fedsvd.identity.temporary import temporary_federation
from fedsvd.service.client import CspClient
from fedsvd.service.records import WatchedJob
from fedsvd.service.serve import serve
from fedsvd.service.site import Site
from fedsvd.transport.grpc_client import PinnedConnection

PATIENCE = 6.0
LONGEST = 120.0
PARTIES = ("a", "b", "c")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def joint_table(rows=360):
    return np.random.default_rng(5).normal(size=(rows, 6)) @ np.diag(np.logspace(0, -3, 6))


@dataclass
class House:
    """The kits, and whatever runs with them."""

    root: Path
    kits: dict
    port: int = field(default_factory=free_port)
    via: dict = field(default_factory=dict)  # another address of the CSP, for some
    running: dict = field(default_factory=dict)
    children: dict = field(default_factory=dict)
    D: np.ndarray | None = None
    y: np.ndarray | None = None  # labels of a regression

    @property
    def csp(self):
        return f"127.0.0.1:{self.port}"

    def words(self, name):
        return {"listen": self.csp} if name == "csp/csp" else {"csp": self.via.get(name, self.csp)}

    def start(self, *names):
        """Serve roles in threads; ready when this returns."""
        for name in names:
            stop, ready = threading.Event(), threading.Event()
            site, role = Site.at(self.kits[name], yes=True), KitRole(name.partition("/")[0])
            how = {"patience": PATIENCE, **self.words(name)}

            def run(site=site, role=role, stop=stop, ready=ready, how=how):
                serve(site, role, stop, lambda facts: ready.set(), **how)

            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            self.running[name] = (thread, stop)
            assert ready.wait(LONGEST)

    def unruly(self, name, fault, before=()):
        """Serve a role in a process that has this fault."""
        words = [f"--{key}={value}" for key, value in self.words(name).items()]
        role = name.partition("/")[0]
        command = [*before, sys.executable, "-m", "fedsvd.testing.unruly", fault, role, f"--kit={self.kits[name]}"]
        log = (self.root / f"{name.replace('/', '-')}.log").open("ab")
        process = subprocess.Popen([*command, *words, f"--patience={PATIENCE}"], stderr=log)
        log.close()
        self.children[name] = process
        return process

    def took_part(self, name, session):
        """Whether a role has spent this session: it writes that down before its first word in it."""
        ledger = self.kits[name] / "state" / "ledger.jsonl"
        return session is not None and ledger.exists() and session in ledger.read_text()

    def log(self, name):
        """What an unruly process has said."""
        return (self.root / f"{name.replace('/', '-')}.log").read_text()

    def away(self, name):
        """End an unruly process, and wait until it is gone."""
        child = self.children.pop(name)
        child.kill()
        child.wait()

    def stop(self):
        for name in list(self.children):
            self.away(name)
        for thread, stop in reversed(self.running.values()):
            stop.set()
            thread.join(LONGEST)

    @contextmanager
    def client(self):
        client = CspClient(PinnedConnection(Site.at(self.kits["researcher/r"]).dialling(self.csp, LONGEST)))
        try:
            yield client
        finally:
            client.close()

    def lay_data(self, vertical=False, rows=360, holder=None):
        """Each party's table, its site that names it, and an owner who agrees to everything; ``holder`` has labels."""
        self.D = D = joint_table(rows)
        self.y = None if holder is None else np.random.default_rng(6).normal(size=rows)
        cuts = np.split(D, [2, 4], axis=1) if vertical else np.split(D, [rows * 3 // 10, rows * 6 // 10])
        for name, part in zip(PARTIES, cuts, strict=True):
            path = self.root / f"{name}.csv"
            columns = [f"{name}{j}" if vertical else f"x{j}" for j in range(part.shape[1])]
            if name == holder:
                columns, part = [*columns, "y"], np.column_stack((part, self.y))
            table = np.column_stack((np.arange(len(part)), part)) if vertical else part
            header = ",".join((["id"] if vertical else []) + columns)
            np.savetxt(path, table, delimiter=",", header=header, comments="", fmt="%.17g")
            kit = self.kits[f"party/{name}"]
            (kit / "site.toml").write_text(f'[data]\ndefault = "{path}"\n')
            (kit / "policy.toml").write_text('records_for_full = 1\nrecords = 1\nschemes = ["sum", "mask", "paper"]\n')
        return self

    def expect_right(self):
        """Every party's singular values, or its coefficients, are those of the joint table, by NumPy."""
        if self.y is not None:
            found = [self._result(name, "coefficients").ravel() for name in PARTIES]
            centred = self.D - self.D.mean(axis=0)
            expected = np.linalg.lstsq(centred, self.y - self.y.mean(), rcond=None)[0]
            return assert_close(centred @ np.concatenate(found), centred @ expected, RESULT_BAR)
        sigma = np.linalg.svd(self.D, compute_uv=False)
        for name in PARTIES:
            found = self._result(name, "singular_values")
            np.testing.assert_allclose(found, sigma, rtol=0, atol=spectrum(*self.D.shape) * sigma[0])

    def _result(self, name, what):
        """What a party's newest results say."""
        found = (self.kits[f"party/{name}"] / "results").glob(f"*/{what}.npy")
        return np.load(max(found, key=lambda path: path.stat().st_mtime_ns))

    def approve_again(self, record):
        """Owners whose parties have results agree once more: their approvals are spent.

        What their own folders say counts: a CSP may have forgotten who had finished.
        """
        for member in record.members:
            if member.startswith("party/") and Site.at(self.kits[member]).has_results(record):
                Site.at(self.kits[member]).approve(record)


@contextmanager
def a_house(root):
    yesterday = datetime.now(UTC) - timedelta(days=1)  # valid for those, too, whose clock is a little behind
    kits = temporary_federation(root, PARTIES, with_authority=True, now=yesterday, researcher="r")
    built = House(root, kits)
    try:
        yield built
    finally:
        built.stop()


def job_file(options=()):
    options = dict(options)
    job = {"name": "chaos", "task": "svd", "split": options.get("split", "horizontal")}
    job |= {key: options[key] for key in ("task", "label", "id", "memory") if key in options}
    file = {"job": job, "party": [{"name": name} for name in PARTIES]}
    if "scheme" in options:
        file["masks"] = {"scheme": options["scheme"]}
    if options.get("authority"):
        file["authority"] = {"name": "ta"}
    return file


def settled(client, id, wanted):
    """The job once it is in one of these states; a job that gets nowhere fails the test."""
    record = _watched(client, id, lambda record: record.state in wanted)
    assert record.state in wanted, f"the job is still {record.state}: {record.failures}"
    return record


def begun(client, id, who):
    """A role is in the middle of its session."""
    record = _watched(client, id, lambda record: who in record.progress)
    assert who in record.progress


def broken_everywhere(house, client, id):
    """The codes by who, once everybody who took part in the session has said how it ended."""

    def over(record):
        session = record.plan and record.plan.session
        return all(member in _codes(record) for member in record.members if house.took_part(member, session))

    settled(client, id, {"broken"})
    record = _watched(client, id, over)
    codes = _codes(record)
    assert codes, "nobody said what happened"
    assert over(record), f"some never said how it ended: {json.dumps(codes)}"
    assert all(code.startswith("FSVD-") or code == "finished" for code in codes.values())
    return codes


def _codes(record):
    told = {failure.who: failure.code for failure in reversed(record.failures)}
    return {**dict.fromkeys(record.finished, "finished"), **told}


def _watched(client, id, true):
    deadline = monotonic() + LONGEST
    record = WatchedJob(id="", name="", file={}, submitter="", members=(), plan_digest="unknown")
    while monotonic() < deadline:
        try:
            record = client.job(id)
        except FedSVDError:
            sleep(0.1)
            continue
        if true(record):
            break
        sleep(0.1)
    return record


def agreed(codes):
    """For a table: that owners had to agree once more, where their parties had finished."""
    finished = any(who.startswith("party/") and code == "finished" for who, code in codes.items())
    return "approved again where it had finished, " if finished else ""


def spoken(codes):
    """Codes by who, for a table: those of one code together."""
    by_code = {}
    for who, code in sorted(codes.items()):
        by_code.setdefault(code, []).append(who)
    return ", ".join(f"{code} at {' '.join(who)}" for code, who in sorted(by_code.items()))
