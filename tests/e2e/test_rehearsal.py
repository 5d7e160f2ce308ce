"""From nothing to the results of a job on the prod rung: five commands, typed as the first of them says."""

import os
import shlex
import signal
import socket
import tomllib

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from tests.e2e.commands import Process, command, still_running
from tests.tolerances import product


def test_five_commands_lead_from_nothing_to_verified_results(tmp_path):
    founded = command("federation", "rehearse", "five-commands", cwd=tmp_path)
    assert founded.returncode == 0, founded.stderr
    assert "The dictionary (five-commands/dictionary.toml) was made" in " ".join(founded.stdout.split())
    commands = [shlex.split(line)[1:] for line in founded.stdout.splitlines() if line.startswith("  fedsvd ")]
    assert 1 + len(commands) <= 5
    start, submit, approve, watch = commands
    roles = Process(*start, cwd=tmp_path)
    try:
        assert "REHEARSAL" in roles.said("are running", "out")
        assert command(*submit, cwd=tmp_path).returncode == 0
        approved = command(*approve, "--yes", cwd=tmp_path)
        assert approved.returncode == 0, approved.stderr
        assert "│ new" not in approved.stdout  # every key was pinned at the founding
        watched = command(*watch, cwd=tmp_path)
        assert watched.returncode == 0, watched.stderr
        assert "report.html" in watched.stdout
        roles.signal(signal.SIGINT)
        assert roles.ended() == 0
    finally:
        roles.kill()
    assert not still_running("--kit five-commands/")
    for name in ("hospital-a", "hospital-b", "hospital-c"):
        (results,) = (tmp_path / "five-commands" / name / "results").iterdir()
        found = np.load(results / "components.npy")
        twin = PCA(5, svd_solver="full").fit(StandardScaler().fit_transform(load_breast_cancer().data))
        np.testing.assert_allclose(np.abs(found), np.abs(twin.components_), rtol=0, atol=product(569, 50))
    log = (tmp_path / "five-commands" / "logs" / "csp-csp.log").read_text()
    assert "REHEARSAL" in log
    made = [path for path in (tmp_path / "five-commands").rglob("*") if not path.is_symlink()]
    assert len(made) > 100
    assert [path for path in made if path.stat().st_mode & 0o077] == [], (
        "kits, states, logs and results are their owner's"
    )


def test_when_one_role_ends_all_end_and_the_log_is_named(tmp_path):
    assert command("federation", "rehearse", "one-ends", cwd=tmp_path).returncode == 0
    roles = Process("federation", "start", "one-ends", cwd=tmp_path)
    try:
        roles.said("are running", "out")
        again = command("federation", "start", "one-ends", cwd=tmp_path)
        assert again.returncode == 1
        assert "running already" in again.stderr
        (line,) = still_running("--kit one-ends/hospital-b")
        party_b = int(line.split()[0])
        os.kill(party_b, signal.SIGKILL)
        assert roles.ended() == 1
        assert "party-hospital-b.log" in "".join(roles.err)
    finally:
        roles.kill()
    assert not still_running("--kit one-ends/hospital")


def test_a_port_that_is_taken_is_said_and_no_process_crashes(tmp_path):
    assert command("federation", "rehearse", "port-taken", cwd=tmp_path).returncode == 0
    site = tomllib.loads((tmp_path / "port-taken" / "csp" / "site.toml").read_text())
    host, _, port = site["csp"]["listen"].rpartition(":")
    with socket.create_server((host, int(port))):
        ended = command("federation", "start", "port-taken", cwd=tmp_path)
    assert ended.returncode == 1
    assert f"csp/csp did not start: cannot listen at {host}:{port}" in ended.stderr
    assert "Fatal Python error" not in (tmp_path / "port-taken" / "logs" / "csp-csp.log").read_text()
