"""The local rung: one process per role, mutual TLS, the numbers of the sim rung, and nothing left behind."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.e2e.commands import Process, command, still_running, until
from tests.e2e.federations import split_table
from tests.e2e.outcomes import expect_equal, file_of, simulated
from tests.tolerances import RESULT_BAR, VALUES_BAR, assert_close

import fedsvd
from fedsvd.policy.rules import Policy
from fedsvd.results.report.page import render
from fedsvd.service.local import local_federation
from fedsvd.studies.job_file import job_from

NAMES = ("ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal")
SCORED = ["coefficients", "intercept", "score"]
SAME = ("format", "job", "task", "split", "party", "index", "label_holder", "features", "targets", "id", "shape")
TASKS = {
    "svd": {},
    "pca": {"components": 3, "release": ["components", "mean", "spectrum"]},
    "lsa": {"components": 3},
    "lr": {"label": "outcome", "alpha": 0.5},
    "lr, vertical": {
        "split": "vertical",
        "label": "outcome",
        "id": "patient",
        "release": SCORED,
    },
    "svd, vertical": {"split": "vertical", "id": "patient"},
    "pca, by steps": {"components": 2, "release": ["components", "mean", "spectrum", "own part"]},
    "lsa, by steps, vertical": {"split": "vertical", "id": "patient", "components": 2},
}


def write_tables(folder: Path, parties) -> None:
    """Every party's rows, and every party's columns, of one table with ids and an outcome."""
    D, split = split_table(40 * len(parties), 2 * len(parties), parties)
    y = D @ np.linspace(-1, 1, D.shape[1]) + np.random.default_rng(1).normal(size=len(D))
    names = [f"x{j}" for j in range(D.shape[1])]
    start = 0
    for name, D_i in split.items():
        table = pd.DataFrame(D_i, columns=names)
        table["outcome"] = y[start : start + len(D_i)]
        table.to_parquet(folder / f"{name}-rows-lr.parquet")
        table.drop(columns="outcome").to_parquet(folder / f"{name}-rows.parquet")
        start += len(D_i)
    ids = [f"p{i}" for i in range(len(D))]
    for i, name in enumerate(parties):
        table = pd.DataFrame(D[:, 2 * i : 2 * i + 2], columns=names[2 * i : 2 * i + 2])
        table.insert(0, "patient", ids)
        table.to_parquet(folder / f"{name}-columns.parquet")
        table["outcome"] = y
        table.to_parquet(folder / f"{name}-columns-lr.parquet")


def job_file(folder: Path, task: str, parties, authority: str | None):
    options = TASKS[task]
    word = task.partition(",")[0]
    file = file_of(word, parties, authority=authority, **options)
    if "by steps" in task:
        file["masks"] = {"scheme": "steps"}
    for party in file["party"]:
        kind = "columns" if options.get("split") == "vertical" else "rows"
        # Where columns are split, the last party alone has the outcome.
        labelled = word == "lr" and (kind == "rows" or party["name"] == parties[-1])
        party["data"] = str(folder / f"{party['name']}-{kind}{'-lr' if labelled else ''}.parquet")
    return file


def expect_the_numbers_of_the_sim_rung(tmp_path, parties, cases):
    """Run these (task, authority) on one federation of processes, and on the sim rung."""
    write_tables(tmp_path, parties)
    first = job_from(job_file(tmp_path, "svd", parties, "ta"), Path())
    with local_federation(first, policy=Policy.permissive(), scratch=tmp_path) as federation:
        assert len(federation.processes) == len(parties) + 2
        assert len({process.pid for process in federation.processes}) == len(parties) + 2
        for place, (task, authority) in enumerate(cases):
            file = job_file(tmp_path, task, parties, authority)
            target, expected = tmp_path / f"local-{place}", simulated(file, tmp_path / f"sim-{place}")
            federation.run(job_from(file, Path())).write(target, draw=render)
            expect_equal(target, expected)
            for name in parties:
                expect_equal(target / "parties" / name, expected / "parties" / name)
            for folder in (".", *(f"parties/{name}" for name in parties)):
                assert_same_files(target / folder, expected / folder)
    assert still_running(tmp_path) == []


def assert_same_files(found: Path, expected: Path) -> None:
    """The same files with the same facts about them; times, bytes and last digits aside."""
    assert sorted(path.name for path in found.iterdir()) == sorted(path.name for path in expected.iterdir())
    ours, theirs = (json.loads((folder / "manifest.json").read_text()) for folder in (found, expected))
    assert sorted(ours) == sorted(theirs)
    for key in SAME:
        assert ours[key] == theirs[key], key
    assert ours["rank"] == theirs["rank"]
    assert sorted(ours["facts"]) == sorted(theirs["facts"])
    links = {
        link for link in theirs["certificate"]["bytes_by_link"] if ours["party"] is None or link.startswith("user")
    }
    assert set(ours["certificate"]["bytes_by_link"]) == links  # a party counts what it sends
    for path in found.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_three_parties_and_an_authority_get_the_numbers_of_the_sim_rung(tmp_path):
    cases = [("pca", "ta"), ("svd", None), ("lr, vertical", "ta"), ("pca, by steps", None)]
    expect_the_numbers_of_the_sim_rung(tmp_path, NAMES[:3], cases)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3, 8])
def test_every_task_and_trust_gives_the_numbers_of_the_sim_rung(tmp_path, count):
    cases = [(task, authority) for task in TASKS for authority in (None, "ta")]
    expect_the_numbers_of_the_sim_rung(tmp_path, NAMES[:count], cases)


@pytest.fixture
def three(tmp_path):
    """Three parties' files and a job file on them, in a folder with a temporary folder of its own."""
    _, tables = split_table(60, 4, NAMES[:3])
    for name, table in tables.items():
        np.save(tmp_path / f"{name}.npy", table)
    lines = ["[job]", 'name = "three"', 'task = "svd"']
    for name in tables:
        lines += ["[[party]]", f'name = "{name}"', f'data = "{name}.npy"']
    (tmp_path / "job.toml").write_text("\n".join(lines) + "\n")
    (tmp_path / "tmp").mkdir()
    return tmp_path


def left_behind(folder: Path) -> list:
    return [*still_running(folder), *(folder / "tmp").iterdir()]


def local(folder, *words):
    return command("run", "job.toml", "--env", "local", *words, cwd=folder, TMPDIR=str(folder / "tmp"))


def test_a_job_file_runs_as_processes_with_live_lines_and_nothing_is_left(three):
    ran = local(three, "--consent", "--format", "json")
    assert ran.returncode == 0, ran.stderr
    record = json.loads(ran.stdout)
    for role in ("csp", *(f"party/{name}" for name in NAMES[:3])):
        # How many stages are seen on the way depends on the machine; the end is.
        assert re.search(rf"^{role}: done, .*sent$", ran.stderr, re.MULTILINE), ran.stderr
    assert record["out"] == "results/three"
    assert record["bytes"] > 0
    D = np.concatenate([np.load(three / f"{name}.npy") for name in NAMES[:3]])
    found = np.load(three / "results" / "three" / "singular_values.npy")
    assert_close(found, np.linalg.svd(D, compute_uv=False), RESULT_BAR)
    assert left_behind(three) == []


def test_small_data_is_refused_before_anything_starts(three):
    ran = local(three, "--format", "json")
    assert ran.returncode == 1
    error = json.loads(ran.stdout)["error"]
    assert error["code"] == "FSVD-110"
    assert "party ada brings" in error["fault"]
    assert "starting" not in ran.stderr
    assert not (three / "results").exists()
    assert left_behind(three) == []


def test_the_papers_scheme_is_refused_and_the_refusal_names_the_lab(three):
    job = three / "job.toml"
    job.write_text(job.read_text() + '\n[masks]\nscheme = "paper"\n[authority]\nname = "ta"\n')
    ran = local(three, "--format", "json")
    assert ran.returncode == 1
    error = json.loads(ran.stdout)["error"]
    assert error["code"] == "FSVD-100"
    assert "[masks] scheme" in error["fault"]
    assert "fedsvd-lab" in error["fix"]


def test_a_policy_of_the_owners_is_kept_to(three):
    (three / "policy.toml").write_text('records_for_full = 10\ntasks = ["pca"]\n')
    ran = local(three, "--policy", "policy.toml")
    assert (ran.returncode, "FSVD-110" in ran.stderr, "the task svd" in ran.stderr) == (1, True, True)
    assert command("run", "job.toml", "--consent", cwd=three).returncode == 1  # sim refuses nothing, so none is given


@pytest.mark.slow
def test_a_fault_in_a_partys_data_is_told_in_its_own_words(three):
    table = np.load(three / "bob.npy")
    table[3, 1] = np.nan
    np.save(three / "bob.npy", table)
    ran = local(three, "--consent", "--format", "json")
    assert ran.returncode == 1
    error = json.loads(ran.stdout)["error"]
    assert error["code"] == "FSVD-201"
    assert "bob" in error["fault"] or "party" in error["fault"]
    assert error["fix"]
    assert left_behind(three) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("when", ["starting", "recruiting"])
def test_interrupted_it_puts_everything_away(three, how, when):
    process = Process("run", "job.toml", "--env", "local", "--consent", cwd=three, TMPDIR=str(three / "tmp"))
    try:
        process.said(when)
        until(lambda: still_running(three / "tmp"), "no role was ever started")
        process.signal(how)
        assert process.ended() == 128 + how
        if how is signal.SIGINT:
            assert process.err[-1] == "interrupted: no results were written to results/three; nothing else was stored\n"
        assert left_behind(three) == []
        assert not (three / "results").exists()
    finally:
        process.kill()


@pytest.mark.slow
def test_roles_end_when_the_process_that_started_them_is_killed(three):
    process = Process("run", "job.toml", "--env", "local", "--consent", cwd=three, TMPDIR=str(three / "tmp"))
    try:
        process.said("recruiting")
    finally:
        process.kill()
    until(lambda: not still_running(three / "tmp"), "a role outlived the run")


@pytest.mark.slow
def test_a_role_that_is_killed_ends_the_run_with_its_name(three):
    process = Process("run", "job.toml", "--env", "local", "--consent", cwd=three, TMPDIR=str(three / "tmp"))
    try:
        process.said("starting")
        (line,) = until(lambda: [line for line in still_running(three / "tmp") if "party-bob" in line])
        os.kill(int(line.split()[0]), signal.SIGKILL)
        assert process.ended() == 1
        assert "FSVD-501: the process of party/bob was killed by signal 9" in "".join(process.err)
        assert left_behind(three) == []
    finally:
        process.kill()


@pytest.mark.slow
def test_parties_and_csp_may_each_have_a_cluster_of_their_own(tmp_path):
    D = np.random.default_rng(8).normal(size=(600, 8))
    for name, part in zip("abc", np.array_split(D, 3), strict=True):
        np.save(tmp_path / f"{name}.npy", part)
    words = [word for name in "abc" for word in ("--party", str(tmp_path / f"{name}.npy"))]
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-m", "fedsvd", "svd", *words, "--env", "local", "--engine", "dask", "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    got = fedsvd.load(out).singular_values_
    assert_close(got, np.linalg.svd(D, compute_uv=False), VALUES_BAR)


def test_rows_that_are_not_compared_are_announced_before_and_after_and_in_every_report(tmp_path):
    rng = np.random.default_rng(21)
    (tmp_path / "tmp").mkdir()
    for name in NAMES[:2]:
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(60, 4)))
    parties = "".join(f'[[party]]\nname = "{name}"\ndata = "{name}.npy"\n' for name in NAMES[:2])
    head = '[job]\nname = "side-by-side"\ntask = "svd"\nsplit = "vertical"\n'
    (tmp_path / "job.toml").write_text(head + parties)
    ran = local(tmp_path, "--consent")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.index("Rows: no row ids are compared") < ran.stderr.index("starting 3 processes")
    assert any(line.startswith("rows ") and "NOT COMPARED" in line for line in ran.stdout.splitlines())
    reports = list((tmp_path / "results" / "side-by-side").rglob("report.html"))
    assert len(reports) == 4  # for all, for each party, for the CSP
    assert all("rows not compared</span>" in report.read_text() for report in reports)
    (tmp_path / "job.toml").write_text(head + 'ids = "trust"\n' + parties)
    ran = local(tmp_path, "--consent", "--overwrite", "--format", "json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["rows"] == 'taken together by position, on the word of the study: ids = "trust"'
    assert not any("row ids" in notice for notice in json.loads(ran.stdout)["notices"])
    assert "rows not compared" not in (tmp_path / "results" / "side-by-side" / "report.html").read_text()
