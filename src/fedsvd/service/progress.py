"""How far a role has come, for those who watch: the stage, how much of it is done, bytes in and out.

A member reports to the CSP, the CSP writes its own progress where it stores its jobs. Twice a second at most, and never
at the cost of the session: a session does not fail because its progress is lost. What is reported at the end goes into
the result's certificate.
"""

from collections.abc import Mapping
from time import monotonic
from typing import Protocol

from fedsvd.engine.player import Played, accounts
from fedsvd.errors import FedSVDError
from fedsvd.protocol.parties import CSP, Party
from fedsvd.service.jobs import Jobs
from fedsvd.service.records import Progress
from fedsvd.transport.grpc_server import SessionLinks
from fedsvd.transport.metered import Meter

_PAUSE = 0.5  # seconds
Accounts = Mapping[str, Mapping[str, int | float]]


class Listener(Protocol):
    """To whom progress is reported: a ``CspClient``."""

    def report(self, id: str, progress: Progress) -> None:
        """One report."""


class ProgressReporter:
    """Reports to the CSP how far a member is."""

    def __init__(self, client: Listener, id: str) -> None:
        self._client = client
        self._id = id
        self._last = 0.0
        self._reported = Progress()
        self.meter = Meter()

    def stage(self, stage: str) -> None:
        self._report(Progress(stage=stage), urgent=True)

    def progress(self, stage: str, done: int, total: int) -> None:
        # What has one part cannot be counted: it would be at 0 % until it is over.
        counted = Progress(stage=stage, done=done, total=total) if total > 1 else Progress(stage=stage)
        begins = stage != self._reported.stage
        if total > 1 or begins:
            self._report(counted, urgent=begins or done == total)

    def look(self) -> None:
        """Bytes go out while the stage stays what it is."""
        if self.meter.total != self._reported.sent:
            self._report(self._reported)

    def done(self, accounts: Accounts) -> None:
        self._report(Progress.model_validate({"stage": "done", **accounts}), urgent=True)

    def _report(self, progress: Progress, urgent: bool = False) -> None:
        if not urgent and monotonic() - self._last < _PAUSE:
            return
        self._last = monotonic()
        self._reported = progress.model_copy(update={"sent": self.meter.total})
        try:
            self._client.report(self._id, self._reported)
        except FedSVDError:
            return


class CspProgress:
    """Writes how far the CSP itself is."""

    def __init__(self, jobs: Jobs, id: str, meter: Meter, links: SessionLinks, callers: Mapping[Party, str]) -> None:
        self._jobs = jobs
        self._id = id
        self._meter = meter
        self._links = links
        self._callers = callers
        self._stage = ""
        self._counted: dict[str, int] = {}
        self._last = 0.0

    def stage(self, stage: str) -> None:
        self._counted = self._counted if stage == self._stage else {}
        self._stage = stage
        self._report()

    def progress(self, stage: str, done: int, total: int) -> None:
        """How much of a stage is done, where it has more than one part."""
        self._stage, self._counted = stage, {"done": done, "total": total} if total > 1 else {}
        self.look()

    def look(self) -> None:
        if monotonic() - self._last > _PAUSE:
            self._report()

    def done(self, played: Played) -> None:
        """The end: what was sent on every link and how long each stage took, for the result's certificate."""
        self._stage = "done"
        self._report(accounts(CSP, self._meter, played).accounts_record())

    def _report(self, accounts: Accounts | None = None) -> None:
        self._last = monotonic()
        awaits = sorted(self._callers[party] for party in self._links.absent)
        seen = {"sent": self._meter.total, "received": self._links.received, "awaits": awaits}
        values = {"stage": self._stage, **seen, **self._counted, **(accounts or {})}
        self._jobs.report(self._id, "csp", Progress.model_validate(values))
