"""How far a role has come, told to those who watch: the stage, how much of it is done, bytes in and out.

A member tells the CSP, the CSP tells its own book. Twice a second at most, and never at the cost of the session: a
session does not fail for want of an audience. What is told at the end goes into the result's certificate.
"""

from collections.abc import Mapping
from time import monotonic
from typing import Any

from fedsvd.engine.player import Played, accounts
from fedsvd.errors import FedSVDError
from fedsvd.protocol.parties import CSP, Party
from fedsvd.service.api import CspClient
from fedsvd.service.jobs import Jobs
from fedsvd.transport.grpc_server import SessionLinks
from fedsvd.transport.metered import Meter

_PAUSE = 0.5  # seconds


class ProgressReporter:
    """Tells the CSP how far a member is."""

    def __init__(self, desk: CspClient, id: str) -> None:
        self._desk = desk
        self._id = id
        self._last = 0.0
        self._told: dict[str, Any] = {}
        self.meter = Meter()

    def stage(self, stage: str) -> None:
        self._tell({"stage": stage}, urgent=True)

    def progress(self, stage: str, done: int, total: int) -> None:
        # What has one part cannot be counted: it would be at 0 % until it is over.
        counted = {"done": done, "total": total} if total > 1 else {}
        begins = stage != self._told.get("stage")
        if counted or begins:
            self._tell({"stage": stage, **counted}, urgent=begins or done == total)

    def look(self) -> None:
        """Bytes go out while the stage stays what it is."""
        if self.meter.total != self._told.get("sent"):
            self._tell(self._told)

    def done(self, accounts: Mapping[str, Any]) -> None:
        self._tell({"stage": "done", **accounts}, urgent=True)

    def _tell(self, progress: Mapping[str, Any], urgent: bool = False) -> None:
        if not urgent and monotonic() - self._last < _PAUSE:
            return
        self._last = monotonic()
        self._told = {**progress, "sent": self.meter.total}
        try:
            self._desk.ask("tell", id=self._id, progress=self._told)
        except FedSVDError:
            return


class Watch:
    """Tells the book how far the CSP itself is."""

    def __init__(self, book: Jobs, id: str, meter: Meter, links: SessionLinks, callers: Mapping[Party, str]) -> None:
        self._book = book
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
        self._tell()

    def progress(self, stage: str, done: int, total: int) -> None:
        """How much of a stage is done, where it has more than one part."""
        self._stage, self._counted = stage, {"done": done, "total": total} if total > 1 else {}
        self.look()

    def look(self) -> None:
        if monotonic() - self._last > _PAUSE:
            self._tell()

    def done(self, played: Played) -> None:
        """The end: what was sent on every link and how long each stage took, for the result's certificate."""
        self._stage = "done"
        self._tell(**accounts(CSP, self._meter, played))

    def _tell(self, **more: Any) -> None:
        self._last = monotonic()
        awaits = sorted(self._callers[party] for party in self._links.absent)
        told = {"stage": self._stage, "sent": self._meter.total, "received": self._links.received, "awaits": awaits}
        told |= self._counted
        self._book.told(self._id, "csp", {**told, **more})
