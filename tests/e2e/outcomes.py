"""What is expected of a job between institutions: the results of the sim rung, or a code at every member.

The sim rung works on the same files, and other tests hold it against NumPy and scikit-learn. Whatever the trouble, a
job ends right, or it is broken with a code at every member; and once the trouble is over ``resume`` ends right.
"""

import json
from pathlib import Path
from time import monotonic, sleep

import numpy as np
from tests.tolerances import RESULT_BAR, assert_close

from fedsvd.errors import FedSVDError
from fedsvd.policy.rules import Policy
from fedsvd.results.report.page import render
from fedsvd.results.write import write_job
from fedsvd.service.records import Progress, WatchedJob
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import job_from
from fedsvd.studies.jobs import results_of, run_job

LONGEST = 120.0  # seconds that a job in trouble may take to end


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


def expect_simulated(federation, id, task="svd", **options):
    """Each party's results are those of the sim rung."""
    file = file_of(task, federation.parties, federation.root, **options)
    expected = simulated(file, federation.root / f"sim-{id}")
    for name in federation.parties:
        expect_equal(federation.folder(name, id), expected / "parties" / name)


def stage_of(node, id, caller):
    """The stage that a member has reported to the CSP."""
    return node.jobs.progress(id).get(caller, Progress()).stage


def settled(client, id, wanted):
    """The job once it is in one of these states; a job that gets nowhere fails the test."""
    record = _watched(client, id, lambda record: record.state in wanted)
    assert record.state in wanted, f"the job is still {record.state}: {record.failures}"
    return record


def begun(client, id, who):
    """A role is in the middle of its session: it has joined, and read its data."""

    def joined(record):
        return record.state == "running" and record.progress_of(who).stage not in ("", "reading")

    assert joined(_watched(client, id, joined))


def broken_everywhere(federation, client, id):
    """The codes by who, once every party that took part in the session has said how it ended."""

    def over(record):
        session = record.plan and record.plan.session
        return all(member in _codes(record) for member in record.members if federation.took_part(member, session))

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
