"""kill -9 of every role in every state: after a restart, ``job resume`` ends in the right result, and nothing hangs.

The cases follow from the roles' tables: every state in which a role can hear something. The victim is a process of its
own that kills itself in that state; the others are threads here. What a case may end in is written down; the
table of cases and outcomes is printed as they end.
"""

import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest
from tests.tolerances import spectrum

from fedsvd.identity.names import KitRole
from fedsvd.identity.temporary import temporary_federation
from fedsvd.roles.service_provider.role import ServiceProvider
from fedsvd.roles.trusted_authority import TrustedAuthority
from fedsvd.roles.user.role import User
from fedsvd.runtime.questions import Desk
from fedsvd.runtime.service import serve
from fedsvd.runtime.site import Site
from fedsvd.transport.grpc_client import Line

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")]

PATIENCE = 6.0
LONGEST = 120.0  # a hang fails, at last
PARTIES = ("a", "b", "c")
# Which task reaches a state that an SVD among peers does not.
ELSEWHERE = {
    ("user", "CHECKING"): {"split": "vertical", "id": "id"},
    ("user", "RECOVERING"): {"scheme": "paper"},
}


def states(role):
    """The states of a role in which its table lets it hear something."""
    return sorted({state.name for state, _, _ in role.TABLE})


CASES = (
    [("csp/csp", state, {}) for state in states(ServiceProvider)]
    + [("party/b", state, ELSEWHERE.get(("user", state), {})) for state in states(User)]
    + [("party/a", "SUMMING", {})]  # the dealer, and the one whose signs count
    + [("authority/ta", state, {"authority": True}) for state in states(TrustedAuthority)]
)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@dataclass
class House:
    """A federation on this machine, whose roles come and go."""

    root: Path
    kits: dict
    port: int = field(default_factory=free_port)
    running: dict = field(default_factory=dict)
    children: list = field(default_factory=list)

    @property
    def csp(self):
        return f"127.0.0.1:{self.port}"

    def words(self, name):
        return {"listen": self.csp} if name == "csp/csp" else {"csp": self.csp}

    def start(self, name):
        """Serve a role in a thread."""
        stop, ready = threading.Event(), threading.Event()
        site, role = Site.at(self.kits[name], yes=True), KitRole(name.partition("/")[0])

        def run():
            serve(site, role, stop, lambda facts: ready.set(), patience=PATIENCE, **self.words(name))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.running[name] = (thread, stop)
        assert ready.wait(LONGEST)

    def doomed(self, name, state):
        """Serve a role in a process that dies in this state."""
        words = [f"--{key}={value}" for key, value in self.words(name).items()]
        role = name.partition("/")[0]
        command = [sys.executable, "-m", "fedsvd.testing.doomed", state, role, f"--kit={self.kits[name]}", *words]
        process = subprocess.Popen([*command, f"--patience={PATIENCE}"], stderr=subprocess.DEVNULL)
        self.children.append(process)
        return process

    def stop(self):
        for child in self.children:
            child.kill()
            child.wait()
        for thread, stop in reversed(self.running.values()):
            stop.set()
            thread.join(LONGEST)

    @contextmanager
    def desk(self):
        desk = Desk(Line(Site.at(self.kits["researcher/r"]).dialling(self.csp, LONGEST)))
        try:
            yield desk
        finally:
            desk.close()


def joint_table():
    return np.random.default_rng(5).normal(size=(360, 6)) @ np.diag(np.logspace(0, -3, 6))


@pytest.fixture
def house(tmp_path):
    kits = temporary_federation(tmp_path, PARTIES, with_authority=True, now=datetime.now(UTC), researcher="r")
    built = House(tmp_path, kits)
    yield built
    built.stop()


def lay_data(house, vertical):
    D = joint_table()
    cuts = np.split(D, [2, 4], axis=1) if vertical else np.split(D, [110, 230])
    for name, part in zip(PARTIES, cuts, strict=True):
        path = house.root / f"{name}.csv"
        columns = [f"{name}{j}" if vertical else f"x{j}" for j in range(part.shape[1])]
        rows = np.column_stack((np.arange(len(part)), part)) if vertical else part
        header = ",".join((["id"] if vertical else []) + columns)
        np.savetxt(path, rows, delimiter=",", header=header, comments="", fmt="%.17g")
        (house.kits[f"party/{name}"] / "site.toml").write_text(f'[data]\ndefault = "{path}"\n')
        (house.kits[f"party/{name}"] / "policy.toml").write_text(
            'records_for_full = 1\nrecords = 1\nschemes = ["compressed", "mixing", "paper"]\n'
        )
    return D


def job_file(options):
    job = {"name": "chaos", "task": "svd", "split": options.get("split", "horizontal")}
    if "id" in options:
        job["id"] = options["id"]
    file = {"job": job, "party": [{"name": name} for name in PARTIES]}
    if "scheme" in options:
        file["masks"] = {"scheme": options["scheme"]}
    if options.get("authority") or "scheme" in options:
        file["authority"] = {"name": "ta"}
    return file


def settled(desk, id, wanted):
    """The job once it is in one of these states; a job that gets nowhere fails the test."""
    deadline = monotonic() + LONGEST
    while monotonic() < deadline:
        record = desk.ask("job", id=id)
        if record["state"] in wanted:
            return record
        sleep(0.2)
    pytest.fail(f"the job is still {record['state']}: {record['failures']}")


@pytest.mark.parametrize(("victim", "state", "options"), CASES, ids=lambda value: str(value) if value else "")
def test_a_role_killed_in_any_state_comes_back_and_the_job_ends_right(house, victim, state, options, capsys):
    D = lay_data(house, options.get("split") == "vertical")
    needed = ["csp/csp", *(f"party/{name}" for name in PARTIES)]
    needed += ["authority/ta"] if "authority" in job_file(options) else []
    if victim == "csp/csp":
        process = house.doomed(victim, state)
    else:
        house.start("csp/csp")
        process = house.doomed(victim, state)
    for name in needed:
        if name not in (victim, "csp/csp"):
            house.start(name)
    with house.desk() as desk:
        record = desk.ask("submit", file=job_file(options))
        assert process.wait(LONGEST) == -9, "the victim was to die"
        house.start(victim)
        broken = settled(desk, record["id"], {"broken"})
        assert broken["failures"], "somebody must say what happened"
        desk.ask("resume", id=record["id"])
        done = settled(desk, record["id"], {"done", "broken"})
    assert done["state"] == "done", done["failures"]
    assert done["attempt"] == 2
    sigma = np.linalg.svd(D, compute_uv=False)
    for name in PARTIES:
        found = next((house.kits[f"party/{name}"] / "results").glob("*/singular_values.npy"))
        np.testing.assert_allclose(np.load(found), sigma, rtol=0, atol=spectrum(*D.shape) * sigma[0])
    with capsys.disabled():
        sys.stdout.write(f"\n  {victim} killed in {state}: {broken['failures'][0]['code']}, resumed, right\n")
