"""Progress shows life: bars on a terminal, a line to ten per cent in a log, and every stage of every role."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest

from fedsvd.engine import progress
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.run import run_study
from fedsvd.testing.federation import Federation

NAMES = ("bank", "shop")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


def test_a_terminal_gets_a_bar_to_each_role_for_the_stage_it_is_in(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with progress.shown(NAMES) as report:
        report("user-2", "compress", 1, 4)
        report("user-2", "compress", 4, 4)
        report("csp", "factorise", 0, 1)
        assert len(report.bars.tasks) == 2
        (shop, csp) = report.bars.tasks
        assert (shop.description, shop.completed, shop.total) == ("party shop: compress", 4, 4)
        assert (csp.description, csp.total) == ("csp: factorise", None)  # a bar that moves and promises nothing
        report("user-2", "masking", 0, 1)
        assert [task.description for task in report.bars.tasks] == ["party shop: masking", "csp: factorise"]
        assert report.bars.tasks[0].total is None
        report("user-2", "masking", 1, 1)
        assert report.bars.tasks[0].finished
    assert "party shop: masking" in terminal.getvalue()
    assert "100 %" in terminal.getvalue()


def lines_of(clock, ticks) -> list[str]:
    """What a log gets of these (second, party, stage, done, total)."""
    written: list[str] = []
    report = progress.Lines(NAMES, written.append)
    for now, *tick in ticks:
        clock[0] = now
        report(*tick)
    return written


def test_a_log_gets_a_line_to_ten_per_cent_however_many_ticks_there_are(clock):
    ticks = [(float(done), "user-1", "scores", done, 1000) for done in range(1, 1001)]
    written = lines_of(clock, ticks)
    assert len(written) == 10
    assert written[0] == "party bank: scores 10 %, 15 min 0 s left"
    assert written[-1] == "party bank: scores 100 %"


def test_a_pass_that_is_over_in_a_moment_gets_one_line(clock):
    ticks = [(done / 1000, "user-1", "scores", done, 100) for done in range(1, 101)]
    assert lines_of(clock, ticks) == ["party bank: scores 100 %"]


def test_what_goes_on_from_a_checkpoint_is_timed_from_there(clock):
    ticks = [(0.0, "user-2", "compress", 50, 100), (5.0, "user-2", "compress", 75, 100)]
    assert lines_of(clock, ticks) == ["party shop: compress 75 %, 5 s left"]


def test_a_stage_of_one_part_gets_a_line_where_it_took_long_and_the_csps_also_when_it_begins(clock):
    ticks = [
        (0.0, "user-1", "norm", 0, 1),
        (0.1, "user-1", "norm", 1, 1),
        (0.1, "user-1", "masking", 0, 1),
        (9.0, "user-1", "masking", 1, 1),
        (9.0, "csp", "factorise", 0, 1),
        (9.1, "csp", "factorise", 1, 1),
    ]
    assert lines_of(clock, ticks) == ["party bank: masking 100 %", "csp: factorise begins", "csp: factorise 100 %"]


def test_a_stage_that_comes_again_is_counted_again(clock):
    ticks = [(0.0, "user-1", "scores", 2, 2), (1.0, "user-1", "scores", 0, 2), (3.0, "user-1", "scores", 2, 2)]
    assert lines_of(clock, ticks) == ["party bank: scores 100 %"] * 2


def federation(task: Task, rows: int = 120, columns: int = 8, **asked) -> Federation:
    """Two parties with normal numbers; rows are split, but for a regression, whose label the first party holds."""
    rng = np.random.default_rng(3)
    X, split = rng.standard_normal((rows, columns)), Split.VERTICAL if task is Task.LR else Split.HORIZONTAL
    tables = np.array_split(X, 2, axis=1 if task is Task.LR else 0)
    labels = [X @ np.ones(columns), None] if task is Task.LR else None
    return Federation(tables, task, split, labels=labels, **asked)


def ticks_of(federation: Federation, scratch: Path | None = None) -> list[tuple[str, str, int, int]]:
    ticks: list[tuple[str, str, int, int]] = []
    how = {"policy": Policy.permissive(), "scratch": scratch}
    run_study(federation.study, federation.parties, **how, progress=lambda *tick: ticks.append(tick))
    return ticks


STAGES = {
    Task.SVD: {"compress", "share", "gram", "factorise", "right vectors"},  # the parties open the sum themselves
    Task.PCA: {"compress", "share", "uploading", "unmask", "scores"},
    Task.LR: {"columns", "uploading", "challenge", "intercept"},
}
OF_THE_CSP = {Task.SVD: set(), Task.PCA: {"aggregating", "factorise"}, Task.LR: {"aggregating", "factorise"}}


@pytest.mark.parametrize("task", STAGES)
def test_every_stage_of_every_role_is_reported_from_its_beginning_to_its_end(task):
    ticks = ticks_of(federation(task))
    for party in ("user-1", "user-2"):
        assert STAGES[task] <= {stage for who, stage, *_ in ticks if who == party}
    assert {stage for who, stage, *_ in ticks if who == "csp"} == OF_THE_CSP[task]
    last = {(who, stage): (done, total) for who, stage, done, total in ticks}
    assert all(done == total for done, total in last.values())
    assert all(0 <= done <= total for _, _, done, total in ticks)


@pytest.mark.usefixtures("mixing_masks")
def test_an_upload_of_many_batches_moves(tmp_path):
    ticks = ticks_of(federation(Task.SVD, 3000, 40, scheme="mask", components=5, memory=1 << 20), tmp_path)
    for who, stage in (("user-1", "uploading"), ("user-2", "uploading"), ("csp", "aggregating")):
        sent = [(done, total) for each, of, done, total in ticks if (each, of) == (who, stage)]
        total = sent[0][1]
        assert total > 4
        assert sent == [(done, total) for done in range(1, total + 1)]
