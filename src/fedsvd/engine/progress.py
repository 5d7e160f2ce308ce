"""How far a study in this process is: moving bars on a terminal or in a notebook, a few lines in a log.

Roles report (party, stage, done, total). A stage of one part, such as an SVD, cannot be counted: its bar moves, and
says how long it has taken. A log gets a line to a stage and ten per cent of it, at most one in a second, and none of a
party's stages that have one part and are over within a second. Time left is by the pace of this very stage, from where
it began: one that goes on from a checkpoint begins there.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from fedsvd.protocol.parties import CSP, named

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

Progress = Callable[[str, str, int, int], None]  # party, stage, done, total
_SECONDS_BETWEEN_LINES = 1.0


@contextmanager
def shown(names: tuple[str, ...], line: Callable[[str], None] | None = None) -> Iterator[Progress]:
    """What a run reports to while the block lasts; ``line`` writes a line of a log, to standard error if not given."""
    # Imported here: a study without a display needs no rich.
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal and not console.is_jupyter:
        yield Lines(names, line or _to_standard_error)
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    with RichProgress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[share]:>5}"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as bars:
        yield Bars(bars, names)


class Bars:
    """One bar to each role, for the stage it is in."""

    def __init__(self, bars: "RichProgress", names: tuple[str, ...]) -> None:
        self.bars = bars
        self._names = names
        self._lock = threading.Lock()  # parties that work side by side report from threads of their own
        self._tasks: dict[str, tuple[TaskID, str]] = {}

    def __call__(self, party: str, stage: str, done: int, total: int) -> None:
        counted = total > 1 or done > 0
        share = f"{100 * done // max(total, 1)} %" if counted else ""
        description = f"{named(party, self._names)}: {stage}"
        with self._lock:
            task, before = self._tasks.get(party, (None, ""))
            if task is None:
                task = self.bars.add_task(description, share=share)
            elif before != stage:
                self.bars.reset(task, description=description)
            # Without a total a bar moves to and fro; ``update`` and ``reset`` take no total for an old one.
            next(each for each in self.bars.tasks if each.id == task).total = total if counted else None
            self.bars.update(task, completed=done, share=share)
            self._tasks[party] = task, stage


class Lines:
    """A line to a stage and ten per cent; of the CSP's, which can hardly be counted, one when they begin."""

    def __init__(self, names: tuple[str, ...], line: Callable[[str], None]) -> None:
        self._names = names
        self._line = line
        self._lock = threading.Lock()
        self._began: dict[tuple[str, str], tuple[float, int]] = {}
        self._last: dict[tuple[str, str], tuple[float, int]] = {}  # when a line was written, and its tenth

    def __call__(self, party: str, stage: str, done: int, total: int) -> None:
        with self._lock:
            text = self._text(party, stage, done, max(total, 1))
        if text:
            self._line(f"{named(party, self._names)}: {stage}{text}")

    def _text(self, party: str, stage: str, done: int, total: int) -> str:
        now, key = monotonic(), (party, stage)
        if done == 0:
            self._began[key] = now, 0
            self._last.pop(key, None)
            return " begins" if party == CSP.name and total == 1 else ""
        began, first = self._began.setdefault(key, (now, done))
        when, tenth = self._last.get(key, (began, 0))
        if 10 * done // total <= tenth or (done < total and now - when < _SECONDS_BETWEEN_LINES):
            return ""
        if total == 1 and party != CSP.name and now - began < _SECONDS_BETWEEN_LINES:
            return ""
        self._last[key] = now, 10 * done // total
        left = (now - began) * (total - done) / (done - first) if first < done < total else None
        return f" {100 * done // total} %" + ("" if left is None else f", {_duration(left)} left")


def _to_standard_error(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _duration(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 60 else f"{int(seconds // 60)} min {seconds % 60:.0f} s"
