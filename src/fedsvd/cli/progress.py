"""Progress of a run on standard error: moving bars on a terminal, plain lines elsewhere, and the time that is left.

A plain line says which party finished which pass over its data, and every few seconds how far a long pass is, so that
a log shows life without filling up. Time left is by the pace of this very pass, from where it began: one that goes on
from a checkpoint begins there.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fedsvd.cli.voice import Voice, duration
from fedsvd.protocol.parties import named

if TYPE_CHECKING:
    from fedsvd.runtime.federation import Progress as Report

_SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def shown(voice: Voice, names: tuple[str, ...]) -> Iterator["Report | None"]:
    """What a run calls with (party, stage, done, total); None when the person asked for quiet."""
    if voice.quiet:
        yield None
    elif sys.stderr.isatty():
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        ) as bars:
            yield _Bars(bars, names)
    else:
        yield _Lines(voice, names)


class _Bars:
    """One bar for each pass of each party."""

    def __init__(self, bars: Progress, names: tuple[str, ...]) -> None:
        self._bars = bars
        self._names = names
        self._tasks: dict[tuple[str, str], object] = {}

    def __call__(self, party: str, stage: str, done: int, total: int) -> None:
        key = (party, stage)
        if key not in self._tasks:
            self._tasks[key] = self._bars.add_task(f"{named(party, self._names)}: {stage}", total=total)
        self._bars.update(self._tasks[key], completed=done, total=total)  # type: ignore[arg-type]


class _Lines:
    """One line for each pass of each party, and more for long ones."""

    def __init__(self, voice: Voice, names: tuple[str, ...]) -> None:
        self._voice = voice
        self._names = names
        self._last: dict[tuple[str, str], float] = {}
        self._first: dict[tuple[str, str], tuple[float, int]] = {}

    def __call__(self, party: str, stage: str, done: int, total: int) -> None:
        now, key = monotonic(), (party, stage)
        began, first = self._first.setdefault(key, (now, done))
        if done < total and now - self._last.setdefault(key, now) < _SECONDS_BETWEEN_LINES:
            return
        self._last[key] = now
        left = ""
        if first < done < total:
            left = f", {duration((now - began) * (total - done) / (done - first))} left"
        self._voice.line(f"{named(party, self._names)}: {stage} {100 * done // max(total, 1)} %{left}")
