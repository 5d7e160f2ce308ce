"""The Trusted Authority deals and goes: its process has ended before the parties' are started."""

import json
import os

import pytest
from tests.e2e.institutions import (
    GENEROUS,
    command,
    expect_equal,
    file_of,
    institutions,
    simulated,
    split_table,
    until,
)

from fedsvd.service.records import JobState

PARTIES = ("a", "b")


def house_of(tmp_path, **how):
    _, tables = split_table(200, 5, PARTIES)
    return institutions(tmp_path, PARTIES, tables, **how)


def approve(house, id, name, *words):
    at = ("--kit", house.kits[name], "--csp", house.csp, "--yes", "--format", "json")
    said = command("job", "approve", id, *at, *words)
    assert said.returncode == 0, said.stdout + said.stderr
    return json.loads(said.stdout)


def prekeys(house, name):
    return sorted((house.kits[name] / "state" / "prekeys").glob("*"))


def expect_right(house, id, **options):
    file = file_of("svd", PARTIES, house.root, authority="ta", **options)
    expected = simulated(file, house.root / f"sim-{id}")
    for name in PARTIES:
        expect_equal(house.folder(name, id), expected / "parties" / name)


@pytest.mark.parametrize("scheme", ["auto", pytest.param("paper", marks=pytest.mark.slow)])
def test_a_study_is_done_by_parties_that_start_when_the_authority_is_gone(tmp_path, scheme):
    options = {} if scheme == "auto" else {"masks": {"scheme": scheme}}
    with house_of(tmp_path) as house:
        house.start("csp/csp")
        with house.connect() as line:
            file = file_of("svd", PARTIES, authority="ta")
            id = line.submit({**file, **options})
            for name in PARTIES:  # commands, that have ended; no party runs
                assert approve(house, id, f"party/{name}", "--enlist")["enlisted"] is True
                (kept,) = prekeys(house, f"party/{name}")
                assert kept.stat().st_mode & 0o777 == 0o600
            house.start("authority/ta")
            until(lambda: "authority/ta" in line.job(id).finished)
            gone = house.processes["authority/ta"].popen.pid
            assert house.stop("authority/ta") == 0
            with pytest.raises(ProcessLookupError):
                os.kill(gone, 0)
            until(lambda: line.job(id).progress_of("csp").awaits == ("party/a", "party/b"))
            assert line.job(id).state == JobState.RUNNING
            house.start("party/a", "party/b")
            assert line.wait(id, timeout=GENEROUS).finished == ("party/a", "party/b", "authority/ta")
            assert line.job(id).attempt == 1
        assert prekeys(house, "party/a") == prekeys(house, "party/b") == []
        if scheme == "auto":
            expect_right(house, id)


@pytest.mark.slow
def test_parties_that_enlisted_and_went_come_back_when_the_authority_is_gone(tmp_path):
    """Longer than anybody's patience: what the TA left keeps."""
    with house_of(tmp_path, patience=8.0) as house:
        house.start("csp/csp", "party/a", "party/b")
        with house.connect() as line:
            id = line.submit(file_of("svd", PARTIES, authority="ta"))
            until(lambda: len(line.job(id).enlisted) == 2)
            for name in PARTIES:
                assert house.stop(f"party/{name}") == 0
            house.start("authority/ta")
            until(lambda: "authority/ta" in line.job(id).finished)
            assert house.stop("authority/ta") == 0
            house.start("party/b")
            until(lambda: line.job(id).progress_of("csp").awaits == ("party/a",))
            with pytest.raises(Exception, match="still running"):
                line.watch(id, timeout=house.patience + 4.0)
            house.start("party/a")
            line.wait(id, timeout=GENEROUS)
        expect_right(house, id)


@pytest.mark.slow
def test_a_broken_attempt_needs_the_authority_again_and_says_so(tmp_path):
    with house_of(tmp_path, patience=8.0) as house:
        house.start("csp/csp", "authority/ta", "party/b")
        with house.connect() as line:
            id = line.submit(file_of("svd", PARTIES, authority="ta"))
            approve(house, id, "party/a", "--enlist")
            until(lambda: "authority/ta" in line.job(id).finished)
            assert house.stop("authority/ta") == 0
            (old,) = prekeys(house, "party/a")
            # The party that had come dies: nobody knows the state of its session, so it is over.
            until(lambda: line.job(id).progress_of("csp").awaits == ("party/a",))
            house.kill("party/b")
            assert line.watch(id, timeout=GENEROUS).state == JobState.BROKEN
            at = ("--kit", house.kits["researcher/res"], "--csp", house.csp)
            said = command("job", "resume", id, *at)
            assert "authority/ta must be there once more" in " ".join(said.stdout.split())
            house.start("party/a", "party/b")
            until(lambda: len(line.job(id).enlisted) == 2)
            assert old not in prekeys(house, "party/a")
            assert line.job(id).state == JobState.RECRUITING
            house.start("authority/ta")
            line.wait(id, timeout=GENEROUS)
            sessions = (house.kits["authority/ta"] / "state" / "ledger.jsonl").read_text().splitlines()
            assert len(sessions) == len(set(sessions)) == 2
        expect_right(house, id)
