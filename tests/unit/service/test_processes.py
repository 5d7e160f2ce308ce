"""Processes of one machine share its cores, and what a user set for all of them is shared, too."""

import subprocess
import sys

import pytest

from fedsvd.service import processes
from fedsvd.service.processes import RoleProcess, environment_for

GENEROUS = 60.0  # seconds

NAMES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def threads(role, members):
    """The threads of a role in its environment, which all libraries have alike."""
    (found,) = {environment_for(role, members)[name] for name in NAMES}
    return int(found)


def parties(count):
    return [f"party/{i}" for i in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 16, 17, 40])
def test_parties_share_all_threads_and_each_has_one_at_least(count, monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(processes, "cores", lambda: 16)
    members = [*parties(count), "authority/ta"]
    shares = [threads(member, members) for member in parties(count)]
    assert sum(shares) == max(16, count)
    assert max(shares) - min(shares) <= 1
    assert threads("csp/csp", members) == 16  # the parties wait while it computes
    assert threads("authority/ta", members) == 1


@pytest.mark.parametrize(("given", "party", "csp"), [("1", 1, 1), ("0", 1, 1), ("6", 3, 6), ("4096", 8, 16)])
def test_a_number_of_threads_that_is_set_is_that_of_all_processes_together(given, party, csp, monkeypatch):
    monkeypatch.setattr(processes, "cores", lambda: 16)
    for name in NAMES:
        monkeypatch.setenv(name, given)
    assert (threads("party/0", parties(2)), threads("csp/csp", parties(2))) == (party, csp)


def test_a_member_that_is_given_no_address_by_its_parent_ends(tmp_path):
    words = ["party", "start", "--kit", str(tmp_path), "--csp", "-", "--with-parent"]
    ended = subprocess.run(
        [sys.executable, "-m", "fedsvd", *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=GENEROUS
    )
    assert ended.returncode == 1


def test_a_member_that_waits_for_an_address_is_ended_by_a_signal_at_once(tmp_path):
    words = ["party", "start", "--kit", str(tmp_path), "--csp", "-"]
    process = RoleProcess("party/a", words, tmp_path / "log", environment_for("party/a", ["party/a"]))
    process.stop(GENEROUS)
    assert not process.running
    assert process.ended().fault.startswith("the process of party/a was killed by signal")
