"""The Trusted Authority deals and goes: its process has ended before the parties' are started."""

import json
import os

import pytest
from tests.e2e.commands import GENEROUS, command, until
from tests.e2e.federations import federation_of, split_table
from tests.e2e.outcomes import expect_equal, file_of, simulated

from fedsvd.service.records import JobState

PARTIES = ("a", "b")


def with_authority(tmp_path, **how):
    _, tables = split_table(200, 5, PARTIES)
    return federation_of(tmp_path, PARTIES, tables, **how)


def approve(federation, id, name, *words):
    at = ("--kit", federation.kits[name], "--csp", federation.csp, "--yes", "--format", "json")
    said = command("job", "approve", id, *at, *words)
    assert said.returncode == 0, said.stdout + said.stderr
    return json.loads(said.stdout)


def prekeys(federation, name):
    return sorted((federation.kits[name] / "state" / "prekeys").glob("*"))


def expect_right(federation, id, **options):
    file = file_of("svd", PARTIES, federation.root, authority="ta", **options)
    expected = simulated(file, federation.root / f"sim-{id}")
    for name in PARTIES:
        expect_equal(federation.folder(name, id), expected / "parties" / name)


@pytest.mark.parametrize("scheme", ["auto", pytest.param("mask", marks=pytest.mark.slow)])
def test_a_study_is_done_by_parties_that_start_when_the_authority_is_gone(tmp_path, scheme):
    options = {} if scheme == "auto" else {"masks": {"scheme": scheme}}
    with with_authority(tmp_path) as federation:
        federation.start("csp/csp")
        with federation.connect() as line:
            file = file_of("svd", PARTIES, authority="ta")
            id = line.submit({**file, **options})
            for name in PARTIES:  # commands, that have ended; no party runs
                assert approve(federation, id, f"party/{name}", "--enlist")["enlisted"] is True
                (kept,) = prekeys(federation, f"party/{name}")
                assert kept.stat().st_mode & 0o777 == 0o600
            federation.start("authority/ta")
            until(lambda: "authority/ta" in line.job(id).finished)
            gone = federation.processes["authority/ta"].popen.pid
            assert federation.stop("authority/ta") == 0
            with pytest.raises(ProcessLookupError):
                os.kill(gone, 0)
            until(lambda: line.job(id).progress_of("csp").awaits == ("party/a", "party/b"))
            assert line.job(id).state == JobState.RUNNING
            federation.start("party/a", "party/b")
            assert line.wait(id, timeout=GENEROUS).finished == ("party/a", "party/b", "authority/ta")
            assert line.job(id).attempt == 1
        assert prekeys(federation, "party/a") == prekeys(federation, "party/b") == []
        if scheme == "auto":
            expect_right(federation, id)


@pytest.mark.slow
def test_parties_that_enlisted_and_went_come_back_when_the_authority_is_gone(tmp_path):
    """Longer than any role's patience: what the TA left stays valid."""
    with with_authority(tmp_path, patience=8.0) as federation:
        federation.start("csp/csp", "party/a", "party/b")
        with federation.connect() as line:
            id = line.submit(file_of("svd", PARTIES, authority="ta"))
            until(lambda: len(line.job(id).enlisted) == 2)
            for name in PARTIES:
                assert federation.stop(f"party/{name}") == 0
            federation.start("authority/ta")
            until(lambda: "authority/ta" in line.job(id).finished)
            assert federation.stop("authority/ta") == 0
            federation.start("party/b")
            until(lambda: line.job(id).progress_of("csp").awaits == ("party/a",))
            with pytest.raises(Exception, match="still running"):
                line.watch(id, timeout=federation.patience + 4.0)
            federation.start("party/a")
            line.wait(id, timeout=GENEROUS)
        expect_right(federation, id)


@pytest.mark.slow
def test_a_broken_attempt_needs_the_authority_again_and_says_so(tmp_path):
    with with_authority(tmp_path, patience=8.0) as federation:
        federation.start("csp/csp", "authority/ta", "party/b")
        with federation.connect() as line:
            id = line.submit(file_of("svd", PARTIES, authority="ta"))
            approve(federation, id, "party/a", "--enlist")
            until(lambda: "authority/ta" in line.job(id).finished)
            assert federation.stop("authority/ta") == 0
            (old,) = prekeys(federation, "party/a")
            # The party that had come dies: nobody knows the state of its session, so it is over.
            until(lambda: line.job(id).progress_of("csp").awaits == ("party/a",))
            federation.kill("party/b")
            assert line.watch(id, timeout=GENEROUS).state == JobState.BROKEN
            at = ("--kit", federation.kits["researcher/res"], "--csp", federation.csp)
            said = command("job", "resume", id, *at)
            assert "authority/ta must be there once more" in " ".join(said.stdout.split())
            federation.start("party/a", "party/b")
            until(lambda: len(line.job(id).enlisted) == 2)
            assert old not in prekeys(federation, "party/a")
            assert line.job(id).state == JobState.RECRUITING
            federation.start("authority/ta")
            line.wait(id, timeout=GENEROUS)
            ledger = (federation.kits["authority/ta"] / "state" / "ledger.jsonl").read_text().splitlines()
            sessions = [line for line in ledger if '"event":"session"' in line]
            assert len(sessions) == len(set(sessions)) == 2
            assert sum('"event":"nonce"' in line for line in ledger) == 1  # a resumed job has the one it had
        expect_right(federation, id)
