"""A federation on this machine: its kits, its data, and its roles, each a process or a thread, stopped at the end.

``start(..., how="processes")`` runs a role's command; ``how="threads"`` serves it in this process; ``start_with_fault``
gives it a process that has a fault. A test that looks into a role, or puts another in its place, runs the node itself:
``csp_node`` and ``member_nodes``. ``via`` puts something between a role and the CSP.
"""

import json
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from tests.e2e.commands import GENEROUS, Process
from tests.e2e.outcomes import LONGEST
from tests.tolerances import RESULT_BAR, assert_close, spectrum

from fedsvd.identity.names import KitRole
from fedsvd.identity.temporary import temporary_federation
from fedsvd.policy.policy_file import spelt_policy
from fedsvd.policy.rules import Policy
from fedsvd.service.callers import Callers
from fedsvd.service.client import Connection, CspClient
from fedsvd.service.csp import CspNode
from fedsvd.service.member import Member
from fedsvd.service.member_node import MemberNode
from fedsvd.service.serve import serve
from fedsvd.service.site import Site
from fedsvd.transport.grpc_client import PinnedConnection

PATIENCE = 6.0  # seconds, of a federation in trouble
PARTIES = ("a", "b", "c")


def free_port():
    """A port at which nothing listens, below those that the system gives to outgoing connections.

    A CSP that is stopped and started again must find its port free, whatever other tests dial meanwhile.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port


def joint_table(rows=360):
    return np.random.default_rng(5).normal(size=(rows, 6)) @ np.diag(np.logspace(0, -3, 6))


@dataclass
class Federation:
    """The kits, and what runs with them."""

    root: Path
    kits: dict[str, Path]
    parties: tuple[str, ...]
    how: str = "processes"  # or "threads": how a role is started unless ``start`` is given another way
    csp: str = ""  # its address, once it is known
    patience: float = 60.0
    before: Sequence[str] = ()  # words before a command of a role
    via: dict = field(default_factory=dict)  # another address of the CSP, for some
    processes: dict[str, Process] = field(default_factory=dict)
    threads: dict[str, tuple[threading.Thread, threading.Event]] = field(default_factory=dict)
    with_fault: dict[str, subprocess.Popen] = field(default_factory=dict)
    D: np.ndarray | None = None
    y: np.ndarray | None = None  # labels of a regression

    @property
    def port(self):
        return int(self.csp.rpartition(":")[2])

    # --- roles that come and go ---------------------------------------------------------------------------------------

    def start(self, *names, how=None, before=()):
        """Start roles by their names, the CSP first; they are ready when this returns.

        ``before`` stands before the commands of processes.
        """
        self.before = before
        begin = {"processes": self._process, "threads": self._thread}[how or self.how]
        for ready in [begin(name) for name in names]:
            ready()
        return self

    def _process(self, name):
        kind = name.partition("/")[0]
        words = [kind, "start", "--kit", self.kits[name], "--format", "json", "--patience", self.patience]
        if kind == "csp":
            words += ["--address", self._listening()]
        else:
            words += ["--csp", self._dialled(name), *(["--yes"] if kind == "party" else [])]
        process = self.processes[name] = Process(*words, before=self.before)

        def ready():
            return json.loads(process.said("ready", "out"))["ready"]

        if kind == "csp":
            self.csp = ready()["address"]
        return ready

    def _thread(self, name):
        stop, ready = threading.Event(), threading.Event()
        site, role = Site.at(self.kits[name], yes=True), KitRole(name.partition("/")[0])
        how = {"patience": self.patience, **self._addresses(name)}
        run = {"target": serve, "args": (site, role, stop, lambda started: ready.set()), "kwargs": how}
        thread = threading.Thread(**run, daemon=True)
        thread.start()
        self.threads[name] = (thread, stop)
        assert ready.wait(LONGEST), f"{name} was never ready"
        return lambda: None

    def _dialled(self, name):
        return self.via.get(name, self.csp)

    def _addresses(self, name):
        if name != "csp/csp":
            return {"csp": self._dialled(name)}
        return {"listen": self._listening()}

    def _listening(self):
        self.csp = self.csp or f"127.0.0.1:{free_port()}"
        return self.csp

    def start_with_fault(self, name, fault, before=()):
        """Serve a role in a process that has this fault; what it prints is in its log."""
        words = [f"--{key}={value}" for key, value in self._addresses(name).items()]
        role = name.partition("/")[0]
        command = [*before, sys.executable, "-m", "fedsvd.testing.unruly", fault, role, f"--kit={self.kits[name]}"]
        with self._log(name).open("ab") as log:
            process = subprocess.Popen([*command, *words, f"--patience={self.patience}"], stderr=log)
        self.with_fault[name] = process
        return process

    def _log(self, name):
        return self.root / f"{name.replace('/', '-')}.log"

    def log(self, name):
        """What a process with a fault has printed."""
        return self._log(name).read_text()

    def stop(self, name):
        """SIGTERM to a process, its exit code; a thread is asked to end, and has ended."""
        if name in self.threads:
            thread, stop = self.threads.pop(name)
            stop.set()
            thread.join(LONGEST)
            assert not thread.is_alive(), f"{name} does not end"
            return 0
        self.processes[name].signal(signal.SIGTERM)
        code = self.processes[name].ended()
        self.processes.pop(name).kill()
        return code

    def kill(self, name):
        """kill -9; the process is gone when this returns."""
        if name in self.with_fault:
            process = self.with_fault.pop(name)
            process.kill()
            process.wait()
        else:
            self.processes.pop(name).kill()

    def close(self):
        """End every role that still runs."""
        for name in [*self.with_fault, *self.processes]:
            self.kill(name)
        for name in reversed(list(self.threads)):
            self.stop(name)

    @contextmanager
    def csp_node(self, kind=CspNode, **how):
        """The CSP's node, of this class, in this process."""
        site = Site.at(self.kits["csp/csp"])
        how = {"patience": self.patience, "identity": site.kit.signing_key, **how}
        node = kind(site.listening("127.0.0.1:0"), site.authenticate, site.state, **how)
        node.start()
        self.csp = f"127.0.0.1:{node.port}"
        try:
            yield node
        finally:
            node.stop()

    @contextmanager
    def member_nodes(self, *names, owner=Site):
        """Members' nodes in this process, whose owner may be another than a folder."""
        with ExitStack() as stack:
            for name in names:
                site = owner.at(self.kits[name], True)
                dialling = site.dialling(self._dialled(name), self.patience)
                node = MemberNode(Member.of(site, dialling))
                thread = threading.Thread(target=node.run, daemon=True)
                thread.start()
                stack.callback(thread.join, GENEROUS)
                stack.callback(node.stop)
            yield

    # --- callers of the CSP -------------------------------------------------------------------------------------------

    def connect(self, name="researcher/res"):
        return Connection(self.kits[name], self.csp, patience=GENEROUS)

    @contextmanager
    def client(self, name="researcher/res"):
        site = Site.at(self.kits[name])
        client = CspClient(PinnedConnection(site.dialling(self.csp, LONGEST)), site.kit)
        try:
            yield client
        finally:
            client.close()

    # --- data and results ---------------------------------------------------------------------------------------------

    def folder(self, party, id):
        """Where a party's results of a job are."""
        (found,) = (self.kits[f"party/{party}"] / "results").glob(f"*-{id[:8]}")
        return found

    def took_part(self, name, session):
        """Whether a role has spent this session: it writes that down before its first word in it."""
        ledger = self.kits[name] / "state" / "ledger.jsonl"
        return session is not None and ledger.exists() and session in ledger.read_text()

    def lay_data(self, vertical=False, rows=360, holder=None):
        """Each party's table, its site that names it, and an owner who agrees to everything; ``holder`` has labels."""
        self.D = D = joint_table(rows)
        self.y = None if holder is None else np.random.default_rng(6).normal(size=rows)
        cuts = np.split(D, [2, 4], axis=1) if vertical else np.split(D, [rows * 3 // 10, rows * 6 // 10])
        for name, part in zip(self.parties, cuts, strict=True):
            path = self.root / f"{name}.csv"
            columns = [f"{name}{j}" if vertical else f"x{j}" for j in range(part.shape[1])]
            if name == holder:
                columns, part = [*columns, "y"], np.column_stack((part, self.y))
            table = np.column_stack((np.arange(len(part)), part)) if vertical else part
            header = ",".join((["id"] if vertical else []) + columns)
            np.savetxt(path, table, delimiter=",", header=header, comments="", fmt="%.17g")
            kit = self.kits[f"party/{name}"]
            (kit / "site.toml").write_text(f'[data]\ndefault = "{path}"\n')
            (kit / "policy.toml").write_text('records_for_full = 1\nrecords = 1\nschemes = ["sum", "mask"]\n')
        return self

    def expect_right(self):
        """Every party's singular values, or its coefficients, are those of the joint table, by NumPy."""
        if self.y is not None:
            found = [self._result(name, "coefficients").ravel() for name in self.parties]
            centred = self.D - self.D.mean(axis=0)
            expected = np.linalg.lstsq(centred, self.y - self.y.mean(), rcond=None)[0]
            return assert_close(centred @ np.concatenate(found), centred @ expected, RESULT_BAR)
        sigma = np.linalg.svd(self.D, compute_uv=False)
        for name in self.parties:
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
                Site.at(self.kits[member]).approvals().give(record)


@contextmanager
def federation_of(root, parties, tables=None, policy=None, organisations=None, now=None, **how):
    """Kits for these parties, an authority and a researcher; with ``tables`` each party's site names its own."""
    of = {"with_authority": True, "researcher": "res", "organisations": organisations}
    kits = temporary_federation(root / "kits", parties, now=now or datetime.now(UTC), **of)
    federation = Federation(root, kits, tuple(parties), **how)
    known = Callers(kits["csp/csp"] / "state" / "callers.jsonl")  # all called on an earlier day
    for member in kits:
        known.add(member)
    for name in parties:
        kit = kits[f"party/{name}"]
        (kit / "policy.toml").write_text(spelt_policy(policy or Policy.permissive()))
        if tables is not None:
            np.save(root / f"{name}.npy", tables[name])
            (kit / "site.toml").write_text(f'[data]\ndefault = "{root / f"{name}.npy"}"\n')
    try:
        yield federation
    finally:
        federation.close()


def federation_in_trouble(root):
    """Three parties, served in threads, with little patience; the role that is to fail is started with a fault."""
    yesterday = datetime.now(UTC) - timedelta(days=1)  # valid for those, too, whose clock is a little behind
    return federation_of(root, PARTIES, how="threads", now=yesterday, patience=PATIENCE)


def two_parties(root, **how):
    """Two parties with a table each, in processes."""
    _, tables = split_table(200, 5, ("a", "b"))
    return federation_of(root, ("a", "b"), tables, **how)


def split_table(rows, columns, parties, seed=3):
    """A well conditioned table, its rows split over parties of different sizes."""
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(rows, columns)) @ np.diag(np.linspace(1.0, 3.0, columns)) + np.linspace(-2, 5, columns)
    weights = np.arange(2, 2 + len(parties), dtype=float)
    cuts = np.cumsum(weights / weights.sum() * rows).astype(int)[:-1]
    return D, dict(zip(parties, np.split(D, cuts), strict=True))


def job_file(options=()):
    options = dict(options)
    job = {"name": "chaos", "task": "svd", "split": options.get("split", "horizontal")}
    job |= {key: options[key] for key in ("task", "label", "id", "memory") if key in options}
    file = {"job": job, "party": [{"name": name} for name in PARTIES]}
    if "scheme" in options:
        file["masks"] = {"scheme": options["scheme"]}
    if "align" in options:
        file["match"] = {"align": options["align"]}
    if options.get("authority"):
        file["authority"] = {"name": "ta"}
    return file
