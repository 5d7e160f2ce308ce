"""Ctrl-C in Python: the study stops in about a second of CPU time, the interpreter lives on, and ends as it should.

Each run is a process of its own that fits one study after another and is interrupted at a random moment, counted in
CPU seconds because a test machine is busy. What was seen before: threads that went on for eleven seconds, and crashes
(SIGSEGV, SIGABRT) when the interpreter ended under them.
"""

import json
import signal
import subprocess
import sys
from time import sleep

import numpy as np
import pytest
from tests.e2e.commands import Process, command
from tests.e2e.federations import federation_of, split_table
from tests.e2e.outcomes import file_of

LONGEST = 1.0  # CPU seconds from the signal to KeyboardInterrupt
LATEST = 4.0  # CPU seconds into the studies

STUDIES = """
import os, signal, sys, threading, time, warnings
from itertools import cycle
import numpy as np
import fedsvd
from fedsvd.errors import PrivacyWarning

warnings.simplefilter("ignore", PrivacyWarning)
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a build starts its processes with it ignored
moment, first, hasty = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "hasty"
random = np.random.default_rng(3)

def parties(rows, columns):
    return [random.normal(size=(rows, columns)) for _ in range(3)]

def pca():
    fedsvd.FederatedPCA(n_components=4).fit(parties(900, 500))

def svd():
    fedsvd.FederatedSVD(split="vertical", ids="trust").fit(parties(800, 300))

def lsa():
    fedsvd.FederatedLSA(n_components=20).fit(parties(500, 700))

def regression():
    X = parties(1500, 200)
    fedsvd.FederatedLinearRegression().fit(X, [X_i @ np.arange(200.0) for X_i in X])

def small():
    X = parties(40, 6)
    fitted = fedsvd.FederatedSVD().fit(X)
    expected = np.linalg.svd(np.concatenate(X), compute_uv=False)
    np.testing.assert_allclose(fitted.singular_values_, expected, rtol=1e-12)

small()  # everything is imported: an interrupted import of another library cannot be made again
sent = []

def interrupt():
    until = time.process_time() + moment
    while time.process_time() < until:
        time.sleep(0.002)
    sent.append(time.process_time())
    os.kill(os.getpid(), signal.SIGINT)

studies = (pca, svd, lsa, regression)
before = threading.active_count()
alarm = threading.Thread(target=interrupt, daemon=True)
alarm.start()
try:
    for study in cycle((*studies[first:], *studies[:first])):
        study()
except KeyboardInterrupt:
    took = time.process_time() - sent[0]
    alarm.join()
    left = threading.active_count() - before
    print(f"{took:.3f} {left}", flush=True)
if not hasty:
    small()
    print("right")
"""


def interrupted(moment, first, hasty=False):
    """CPU seconds until KeyboardInterrupt, and threads left then; the same interpreter then runs a study, and ends."""
    words = [sys.executable, "-W", "error::RuntimeWarning", "-c", STUDIES, str(moment), str(first)]
    run = subprocess.run([*words, "hasty" if hasty else "again"], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert not run.stderr
    first_line, *rest = run.stdout.splitlines()
    assert rest == ([] if hasty else ["right"])
    took, left = first_line.split()
    return float(took), int(left)


def moments(count, seed):
    return [float(moment) for moment in np.random.default_rng(seed).uniform(0.0, LATEST, count)]


@pytest.mark.parametrize(("place", "moment"), list(enumerate(moments(4, seed=1))))
def test_ctrl_c_stops_a_study_at_once_and_the_interpreter_runs_the_next(place, moment):
    took, left = interrupted(moment, place)
    assert left == 0
    assert took < LONGEST


@pytest.mark.slow
@pytest.mark.parametrize(("place", "moment"), list(enumerate(moments(50, seed=2))))
def test_ctrl_c_at_fifty_moments_never_leaves_work_behind_nor_crashes_the_interpreter(place, moment):
    took, left = interrupted(moment, place % 4, hasty=place % 2 == 1)
    assert left == 0
    assert took < LONGEST


@pytest.mark.parametrize("format", ["text", "json"])
def test_an_interrupted_command_says_what_was_written_and_ends_with_130(tmp_path, format):
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(4).normal(size=(1500, 900)))
    process = Process("svd", "--party", "a.npy", "--party", "b.npy", "--format", format, cwd=tmp_path)
    try:
        process.said("expected:")
        sleep(0.5)
        process.signal(signal.SIGINT)
        assert process.ended() == 130
        # A slow machine is still compressing, a quick one is not: each says what is there.
        ends = ("nothing else was stored", "the same command goes on from what there is so far")
        said = [f"no results were written to results/svd; {end}" for end in ends]
        if format == "json":
            (line,) = process.out
            assert json.loads(line)["error"]["fault"] in said
        else:
            assert process.err[-1] in [f"interrupted: {text}\n" for text in said]
            assert not process.out
        assert not (tmp_path / "results" / "svd").exists()
        assert "Traceback" not in "".join(process.err)
    finally:
        process.kill()


def test_who_stops_watching_is_told_that_the_job_goes_on(tmp_path):
    _, tables = split_table(200, 5, ("a", "b"))
    with federation_of(tmp_path, ("a", "b"), tables) as federation:
        federation.start("csp/csp")
        with federation.connect() as connection:
            id = connection.submit(file_of("svd", ("a", "b")))
        kit = federation.kits["researcher/res"]
        process = Process("job", "watch", id, "--kit", kit, "--csp", federation.csp)
        try:
            process.said("recruiting")
            process.signal(signal.SIGINT)
            assert process.ended() == 130
            assert process.err[-1].startswith("interrupted: the job goes on; follow it again: fedsvd job watch")
        finally:
            process.kill()
        shown = command("job", "results", id, "--kit", kit, "--csp", federation.csp, "--format", "json")
        assert json.loads(shown.stdout)["state"] == "recruiting"
