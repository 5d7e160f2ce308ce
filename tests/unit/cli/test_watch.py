"""A job under way: stages, shares, rates and times left are those that follow from what was told, and no others."""

import io
import sys

import pytest

from fedsvd.cli import watch
from fedsvd.cli.output import Format, Output
from fedsvd.cli.watch import Pace, watched
from fedsvd.service.enlist import plan_of
from fedsvd.service.records import EnlistedFacts, ProposedPlan, WatchedJob
from fedsvd.studies.job_file import job_from
from fedsvd.types import SessionId

FILE = {"job": {"name": "study", "task": "svd"}, "party": [{"name": "a"}, {"name": "b"}]}
MEMBERS = ["party/a", "party/b"]


def record(state="running", **progress):
    facts = {"rows": 1000, "columns": 20, "label": False, "features": ""}
    enlisted = {member: EnlistedFacts(**facts, signing=f"{place:064x}") for place, member in enumerate(MEMBERS)}
    plan = plan_of(job_from(FILE, None), enlisted, SessionId("ab" * 16))
    return WatchedJob(
        id="0123456789abcdef",
        name="study",
        file=FILE,
        submitter="researcher/r",
        state=state,
        members=MEMBERS,
        enlisted=enlisted if state != "recruiting" else {"party/a": EnlistedFacts()},
        plan=ProposedPlan(session=plan.session),
        plan_digest=plan.digest,
        progress={f"party/{name}" if len(name) == 1 else name: said for name, said in progress.items()},
    )


def test_a_party_that_reads_its_data_before_it_enlists_says_so():
    rows = Pace().rows(record("recruiting", b={"stage": "reading"}), 0.0)
    assert [(row.role, row.stage) for row in rows] == [("csp", ""), ("party/a", "enlisted"), ("party/b", "reading")]


def test_a_job_that_recruits_says_who_is_awaited():
    rows = Pace().rows(record("recruiting"), 0.0)
    assert [(row.role, row.stage) for row in rows] == [("csp", ""), ("party/a", "enlisted"), ("party/b", "awaited")]


def test_the_time_left_follows_from_what_was_done_in_which_time():
    pace = Pace()
    told = {"stage": "compress", "total": 1000, "sent": 0}
    (_, first, _) = pace.rows(record(a={**told, "done": 100}), 10.0)
    assert (first.share, first.left) == (0.1, None)  # one look says nothing of the pace
    (_, second, _) = pace.rows(record(a={**told, "done": 400}), 13.0)
    assert (second.share, second.left) == (0.4, pytest.approx(6.0))  # 300 in 3 s, 600 to go


def test_a_new_stage_begins_anew():
    pace = Pace()
    pace.rows(record(a={"stage": "compress", "done": 1, "total": 2, "sent": 0}), 0.0)
    (_, row, _) = pace.rows(record(a={"stage": "scores", "done": 1, "total": 4, "sent": 0}), 5.0)
    assert (row.stage, row.share, row.left) == ("scores", 0.25, None)


def test_an_upload_is_measured_by_its_batches_and_its_rate_by_its_bytes():
    pace = Pace()
    pace.rows(record(a={"stage": "uploading", "done": 1, "total": 9, "sent": 500}), 0.0)
    (_, row, _) = pace.rows(record(a={"stage": "uploading", "done": 3, "total": 9, "sent": 2500}), 2.0)
    assert row.share == pytest.approx(1 / 3)
    assert row.left == pytest.approx(6.0)
    assert row.rate == pytest.approx(1000.0)


def test_nothing_is_said_of_the_time_where_nothing_is_known():
    pace = Pace()
    for now in (0.0, 1.0):
        (csp, row, silent) = pace.rows(record(a={"stage": "waiting", "sent": 7}, csp={"stage": "factorise"}), now)
        assert (row.share, row.left, row.rate) == (None, None, None)
    assert str(row) == "party/a: waiting, 7 B sent"
    assert str(csp) == "csp: factorise"
    assert silent.stage == ""


def test_who_is_done_has_no_rate():
    pace = Pace()
    pace.rows(record(a={"stage": "done", "sent": 10}), 0.0)
    (_, row, _) = pace.rows(record(a={"stage": "done", "sent": 5000}), 1.0)
    assert str(row) == "party/a: done, 4.9 KiB sent"


@pytest.fixture
def log(monkeypatch):
    """A function that shows a record at a second to a watcher whose standard error is no terminal."""
    clock = [0.0]
    monkeypatch.setattr(watch, "monotonic", lambda: clock[0])
    with watched(Output(Format.JSON)) as seen:

        def at(now, *state, **progress):
            clock[0] = now
            seen(record(*state, **progress))

        yield at


def test_a_log_gets_a_line_of_a_stage_that_lasts_and_one_to_ten_per_cent(log, capsys):
    at = log
    for second in range(101):
        at(float(second), a={"stage": "compress", "done": second, "total": 100, "sent": 0})
    at(101.0, "done", a={"stage": "done", "sent": 9})
    first, *compress, last, end = capsys.readouterr().err.splitlines()
    assert (first, last) == ("study (01234567): running", "study (01234567): done")
    assert end == "party/a: done, 9 B sent"
    assert compress[0] == "party/a: compress 2 %, 1 min 38 s left"
    assert compress[1] == "party/a: compress 10 %, 1 min 30 s left"
    assert compress[-1] == "party/a: compress 100 %, 0 s left"
    assert len(compress) == 11


def test_a_stage_that_cannot_be_counted_gets_one_line_and_a_short_one_none(log, capsys):
    at = log
    at(0.0, csp={"stage": "preparing"}, a={"stage": "keys"})
    at(0.5, csp={"stage": "factorise"}, a={"stage": "waiting"})
    for second in range(1, 60):
        at(float(second), csp={"stage": "factorise"}, a={"stage": "waiting", "sent": 7})
    assert capsys.readouterr().err.splitlines() == [
        "study (01234567): running",
        "csp: factorise",
        "party/a: waiting, 7 B sent, 14 B/s",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_table(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with watched(Output(Format.TEXT)) as seen:
        seen(record(a={"stage": "compress", "done": 3, "total": 4, "sent": 2048}))
    for word in ("study (01234567): running", "party/a", "compress", "75 %", "2.0 KiB"):
        assert word in terminal.getvalue()


def test_quiet_is_quiet(monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with watched(Output(Format.TEXT, quiet=True)) as seen:
        seen(record())
    assert log.getvalue() == ""


NONSENSE = (None, 3, "text", [], {"stage": {}}, {"stage": "x", "done": "1", "total": {}, "sent": None}, {"sent": 1e400})


@pytest.mark.parametrize("said", [*NONSENSE, {"stage": "uploading", "sent": -1, "total": "ten"}])
@pytest.mark.parametrize("who", ["a", "csp"])
def test_progress_of_a_wrong_type_is_no_progress_and_no_error(who, said):
    rows = Pace().rows(record(**{who: said}), 1.0)
    assert [row.role for row in rows] == ["csp", *MEMBERS]
    assert all(isinstance(str(row), str) for row in rows)


def test_nothing_that_a_peer_says_reaches_a_terminal_as_a_command(monkeypatch):
    log, clock = io.StringIO(), [0.0]
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(watch, "monotonic", lambda: clock[0])
    with watched(Output(Format.TEXT)) as seen:
        for clock[0] in (0.0, 3.0):
            seen(record(a={"stage": "up\x1b[2J\u202eloading\n", "sent": 1}))
    assert log.getvalue().splitlines() == ["study (01234567): running", "party/a: up?[2J?loading, 1 B sent"]


@pytest.mark.parametrize("stage", ["[/]", "[link=http://example.org]up[/link]", "[red]up"])
def test_nothing_that_a_peer_says_is_markup_of_the_live_table(monkeypatch, stage):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    log = Terminal()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    with watched(Output(Format.TEXT)) as seen:
        seen(record(a={"stage": stage, "sent": 1}))
    assert stage in log.getvalue()
    assert "\x1b]8;" not in log.getvalue()
