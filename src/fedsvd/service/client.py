"""A federation from Python: ``fedsvd.connect(kit)`` submits jobs, watches them, and says where results are.

The same questions to the CSP that the ``fedsvd job`` commands ask, under the same certificate. Data and results stay
where they are: a researcher hears how a job stands, a party besides finds its own results in its own folder.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Self

from fedsvd.errors import ConfigError, TimedOut
from fedsvd.identity.names import KitRole
from fedsvd.service.api import CspClient
from fedsvd.service.enlist import file_of
from fedsvd.service.failures import first_cause, not_finished
from fedsvd.service.jobs import JobState
from fedsvd.service.site import Site
from fedsvd.studies.doubts import doubts, warn_of
from fedsvd.studies.job_data import study_of
from fedsvd.studies.job_file import Job, job_from, read_job
from fedsvd.transport.grpc_client import PinnedConnection

_PATIENCE = 20.0
_ENDS = (JobState.DONE, JobState.STOPPED, JobState.BROKEN)


@dataclass(frozen=True)
class Results:
    """How a job stands, and where this kit's own results are, if it has any."""

    job: str
    state: str
    finished: tuple[str, ...]
    awaited: tuple[str, ...]
    folder: Path | None = None
    warning: str = ""  # why these results should not be relied on, where the job did not end well


class Connection:
    """A line to a federation's CSP, as one of its members or as a researcher."""

    def __init__(self, kit: Path | str, address: str | None = None, *, patience: float = _PATIENCE) -> None:
        self.site = Site.at(Path(kit))
        if self.site.kit.identity.role is KitRole.CSP:
            raise ConfigError("this is the CSP's own kit", "connect as a researcher, a party or the authority")
        self._desk = CspClient(PinnedConnection(self.site.dialling(address, patience=patience)))

    def __repr__(self) -> str:
        return f"Connection({self.site.caller})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *trouble: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; jobs go on without us."""
        self._desk.close()

    def submit(self, job: Job | Mapping[str, Any] | Path | str) -> str:
        """Submit a job, or the job file at a path; its id. Data that the file names is not submitted."""
        if isinstance(job, Path | str):
            job = read_job(Path(job))
        elif not isinstance(job, Job):
            job = job_from(job, Path())
        warn_of(doubts(study_of(job, 0), ()))
        return str(self._desk.ask("submit", file=file_of(job))["id"])

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs this kit submitted or takes part in, oldest first."""
        return self._desk.jobs()

    def job(self, id: str) -> dict[str, Any]:
        """One job as the CSP knows it; the beginning of an id will do, or a name: the newest job of that name."""
        if re.fullmatch(r"[0-9a-f]+", id) is None:
            named = [record["id"] for record in self.jobs() if record["name"] == id]
            if not named:
                raise ConfigError(f"no job of the name {id!r} is known here", "fedsvd job list shows the jobs")
            id = named[-1]
        return dict(self._desk.ask("job", id=id))

    def csp(self) -> bytes:
        """The CSP's certificate, in PEM."""
        self._desk.ask("now")
        return self._desk.csp

    def certificates(self, id: str) -> dict[str, str]:
        """The certificates that a job's members came with, by member; who has not called yet is not there."""
        return dict(self._desk.ask("who", id=id))

    def watch(
        self, id: str, seen: Callable[[Mapping[str, Any]], None] | None = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """The job once it is done, stopped or broken; ``seen`` is told how it stands whenever that changes."""
        until = None if timeout is None else monotonic() + timeout
        id, version = self.job(id)["id"], ""
        while True:
            left = 10.0 if until is None else max(min(until - monotonic(), 10.0), 0.0)
            record = dict(self._desk.ask("wait", id=id, seconds=left, seen=version))
            if seen is not None and record["seen"] != version:
                seen(record)
            version = record["seen"]
            if record["state"] in _ENDS:
                return record
            if until is not None and monotonic() >= until:
                raise TimedOut(f"job {record['id'][:8]} is still {record['state']}", "watch it again later")

    def wait(self, id: str, *, timeout: float | None = None) -> Results:
        """The results once there are any; the error of the member that failed, if one did."""
        record = self.watch(id, timeout=timeout)
        if record["state"] != JobState.DONE:
            raise first_cause(record)[1]
        return self.results(record["id"])

    def resume(self, id: str) -> dict[str, Any]:
        """Another attempt at a broken job, in a new session with fresh seeds; what was compressed is not read again."""
        return dict(self._desk.ask("resume", id=self.job(id)["id"]))

    def stop(self, id: str) -> dict[str, Any]:
        """End a job for good."""
        return dict(self._desk.ask("stop", id=self.job(id)["id"]))

    def results(self, id: str) -> Results:
        """How a job stands, and the folder with this party's results, for ``fedsvd.load``."""
        record = self.job(id)
        finished = tuple(member for member in record["members"] if member in record["finished"])
        awaited = tuple(member for member in record["members"] if member not in finished)
        folder = self.site.results_of(record) if self.site.caller in record["members"] else None
        there = folder is not None and self.site.has_results(record)
        ended_badly = record["state"] in (JobState.BROKEN, JobState.STOPPED)
        warning = not_finished(record) if there and ended_badly else ""
        return Results(record["id"], record["state"], finished, awaited, folder if there else None, warning)


def connect(kit: Path | str, address: str | None = None, *, patience: float = _PATIENCE) -> Connection:
    """A line to the federation that ``kit`` belongs to.

    Parameters
    ----------
    kit : path
        The folder of a researcher's, a party's or the authority's kit.
    address : str, optional
        ``host:port`` of the CSP; the kit's ``site.toml`` otherwise.
    patience : float
        Seconds without any answer after which a question is given up.

    Returns
    -------
    Connection
        With ``submit``, ``jobs``, ``watch``, ``wait``, ``resume``, ``stop`` and ``results``.

    Examples
    --------
    With a researcher's kit in this folder, and a CSP that is running:

    >>> import fedsvd
    >>> with fedsvd.connect("researcher") as federation:
    ...     job = federation.submit("job.toml")
    ...     federation.job(job)["state"]
    'recruiting'
    """
    return Connection(kit, address, patience=patience)
