"""A job under way, for a person: every role's stage, how much of it is done, bytes, rate and the time that is left.

A table that is drawn anew on a terminal, lines otherwise. Rates and times left come from earlier reports; where
nothing says how much there is to do, nothing is said of the time left.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from rich.console import Console
from rich.live import Live
from rich.table import Table

from fedsvd.cli.output import Output, duration
from fedsvd.protocol.certificate import READING
from fedsvd.service.records import AWAITS_APPROVAL, JobRecord, JobState, ListedJob, Progress, WatchedJob
from fedsvd.types import byte_size

_WORTH_A_LINE = 2.0  # seconds that a stage lasts
_HEADER = ("role", "stage", "done", "sent", "rate", "time left")


@dataclass(frozen=True)
class Row:
    """How far one role is."""

    role: str
    stage: str
    share: float | None = None  # of this stage, 0 to 1
    sent: int = 0  # bytes
    rate: float | None = None  # bytes a second
    left: float | None = None  # seconds

    def cells(self) -> tuple[str, ...]:
        return (
            self.role,
            self.stage,
            "" if self.share is None else f"{100 * self.share:.0f} %",
            byte_size(self.sent) if self.sent else "",
            "" if self.rate is None else f"{byte_size(self.rate)}/s",
            "" if self.left is None else duration(self.left),
        )

    def __str__(self) -> str:
        _, stage, share, sent, rate, left = self.cells()
        parts = [f"{stage} {share}".strip(), sent and f"{sent} sent", rate, left and f"{left} left"]
        return f"{self.role}: {', '.join(filter(None, parts))}"


@dataclass
class _Mark:
    """What a role reported when its stage began, and last."""

    stage: str
    began: float
    first_done: int
    last: float
    last_sent: int
    rate: float | None = None


class Pace:
    """Turns one record after another into rows."""

    def __init__(self) -> None:
        self._marks: dict[str, _Mark] = {}

    def rows(self, record: WatchedJob, now: float) -> list[Row]:
        """One row to each role of a job, as its record says at this time."""
        return [self._row(record, role, now) for role in ("csp", *record.members)]

    def _row(self, record: WatchedJob, role: str, now: float) -> Row:
        progress = record.progress_of(role)
        if record.state in (JobState.RECRUITING, JobState.QUEUED):
            return Row(role, "") if role == "csp" else Row(role, _recruited(record, role))
        if role in record.progress_of("csp").awaits:
            return Row(role, "awaited")
        stage, sent = progress.stage, progress.sent
        mark = self._marked(role, stage, progress.done, sent, now)
        share, left = self._share(progress, mark, now)
        over = stage == "done"
        return Row(role, stage, None if over else share, sent, None if over else mark.rate, None if over else left)

    def _marked(self, role: str, stage: str, done: int, sent: int, now: float) -> _Mark:
        mark = self._marks.get(role)
        if mark is None or mark.stage != stage:
            mark = self._marks[role] = _Mark(stage, now, done, now, sent)
        elif sent > mark.last_sent and now > mark.last:
            rate = (sent - mark.last_sent) / (now - mark.last)
            mark.rate = rate if mark.rate is None else 0.7 * mark.rate + 0.3 * rate
            mark.last, mark.last_sent = now, sent
        return mark

    def _share(self, progress: Progress, mark: _Mark, now: float) -> tuple[float | None, float | None]:
        """How much of the stage is done, and the seconds that the rest takes at the pace so far."""
        if not progress.total:
            return None, None
        done, total, first = progress.done, progress.total, mark.first_done
        share = min(done / total, 1.0)
        if done <= first or now <= mark.began:
            return share, None
        return share, max(total - done, 0) * (now - mark.began) / (done - first)


@contextmanager
def watched(output: Output) -> Iterator[Callable[[WatchedJob], None]]:
    """What is called with a job whenever it has changed."""
    pace = Pace()
    if output.quiet:
        yield lambda record: None
    elif sys.stderr.isatty():
        with Live(
            console=Console(stderr=True, highlight=False, markup=False), transient=True, refresh_per_second=4
        ) as live:
            yield lambda record: live.update(_table(record, pace.rows(record, monotonic())))
    else:
        yield _Lines(output, pace)


def _recruited(record: WatchedJob, role: str) -> str:
    if role in record.enlisted:
        return "enlisted"
    if record.progress_of(role).stage == READING:  # it enlists when it has read its data
        return READING
    if record.progress_of(role).stage == AWAITS_APPROVAL:
        return "awaited: its owner has not approved this, or must once more"
    again = role.startswith("authority/") and record.attempt > 1
    return "awaited once more: a new session needs fresh seeds" if again else "awaited"


def _state(record: WatchedJob) -> str:
    """How a job stands, in words; which attempt, and which session of it, where there are several."""
    attempt = f"attempt {record.attempt}" if record.attempt > 1 else ""
    session = "" if record.over else record.in_stage
    place = f"place {record.place}" if record.place else ""
    return ", ".join(filter(None, (str(record.state), place, attempt, session, awaited(record))))


def awaited(record: JobRecord | ListedJob) -> str:
    """The members that a job that recruits waits for, in words."""
    lacking = [member for member in record.members if member not in record.enlisted]
    return f"awaits {', '.join(lacking)}" if lacking and record.state is JobState.RECRUITING else ""


def _table(record: WatchedJob, rows: list[Row]) -> Table:
    table = Table(*_HEADER, title=f"{record.name} ({record.short}): {_state(record)}")
    for row in rows:
        table.add_row(*row.cells())
    return table


class _Lines:
    """A line when a role stays in a stage for a while or is done, and one for every ten per cent of a stage."""

    def __init__(self, output: Output, pace: Pace) -> None:
        self._output = output
        self._pace = pace
        self._state = ""
        self._session: tuple[str, int, str] = ("", 0, "")
        self._since: dict[str, tuple[str, float]] = {}  # which stage a role is in, and from when
        self._written: dict[tuple[str, str], int] = {}  # tenths of a role's stage that have a line

    def __call__(self, record: WatchedJob) -> None:
        now = monotonic()
        state = _state(record)
        # Whom it awaits from then on is in the lines of the roles.
        stands = state.removesuffix(awaited(record)).removesuffix(", ")
        if stands != self._state:
            self._state = stands
            self._written = {} if record.session_key != self._session else self._written
            self._session = record.session_key
            self._output.line(f"{record.name} ({record.short}): {state}")
        for row in self._pace.rows(record, now):
            stage, began = self._since.get(row.role, ("", now))
            if row.stage != stage:
                self._since[row.role] = row.stage, now
            lasts = row.stage == stage != "" and now - began >= _WORTH_A_LINE
            if (lasts or row.stage == "done") and self._is_news(row):
                self._output.line(str(row))

    def _is_news(self, row: Row) -> bool:
        key, tenth = (row.role, row.stage), int(10 * (row.share or 0.0))
        news = tenth > self._written.get(key, -1)
        self._written[key] = max(tenth, self._written.get(key, -1))
        return news
