"""Asking a CSP about jobs, and ``fedsvd.connect(kit)``: submits jobs, watches them, and shows where results are.

``CspClient`` asks the questions of ``api.py``, under a kit's certificate. ``Connection`` is the same for people, from
Python and behind the ``fedsvd job`` commands. Data stays where it is: a researcher sees how a job stands, and gets what
all parties share if all of them agree; a party finds its own results in its own folder.
"""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Protocol, Self

from pydantic import ValidationError

from fedsvd.errors import ConfigError, FedSVDError, MalformedFrame, TimedOut
from fedsvd.identity.kit import Kit
from fedsvd.identity.names import KitRole
from fedsvd.protocol.asked import Asked
from fedsvd.protocol.certificate import Certificate
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.service import api
from fedsvd.service.api import A, Q, Verb
from fedsvd.service.enlist import member_callers
from fedsvd.service.failures import first_cause, not_finished
from fedsvd.service.records import (
    EnlistedFacts,
    Failure,
    JobHeading,
    JobRecord,
    JobState,
    JsonObject,
    ListedJob,
    Progress,
    WatchedJob,
)
from fedsvd.service.site import Site
from fedsvd.studies.doubts import doubts, warn_of
from fedsvd.studies.job_file import Job, job_from, read_job, study_of
from fedsvd.studies.submitted import submitted_file, submitted_job
from fedsvd.transport.calls import ASK
from fedsvd.transport.grpc_client import PinnedConnection
from fedsvd.wire.version import expect_version

if TYPE_CHECKING:
    from fedsvd.results.write import Draw

_PATIENCE = 20.0
_PAUSE = 2.0  # seconds between looks at a job where the CSP lets no more callers wait
_NUMBER = 16  # bytes of a number that is used once
_ENDS = (JobState.DONE, JobState.STOPPED, JobState.BROKEN)


class Refused(FedSVDError):
    """The CSP answered with an error; its code is the CSP's."""

    def __init__(self, code: str, fault: str, fix: str) -> None:
        super().__init__(fault, fix)
        self.code = code if re.fullmatch(r"FSVD-\d{3}", code) else FedSVDError.code


class Carrier(Protocol):
    """What carries questions to a CSP: a ``PinnedConnection``."""

    @property
    def csp(self) -> bytes:
        """The CSP's certificate, in PEM."""

    def call(self, method: str, body: bytes) -> bytes:
        """The answer to one call."""

    def close(self) -> None:
        """Disconnect."""


class CspClient:
    """Asks a CSP about jobs; with a researcher's kit it signs those that it submits."""

    def __init__(self, carrier: Carrier, kit: Kit | None = None, instance: str = "") -> None:
        self._carrier = carrier
        self._kit = kit
        self._instance = instance  # names the process of a member that goes on; a command has none
        self._listed: dict[bool, tuple[str, dict[str, ListedJob]]] = {}

    def ask(self, verb: Verb[Q, A], question: Q) -> A:
        """The answer, or the error the CSP answered with."""
        body = self._carrier.call(ASK, api.written_question(verb, question))
        try:
            reply = json.loads(body)
            if isinstance(reply, dict) and not reply.keys().isdisjoint(("answer", "error", "protocol")):
                expect_version(reply, "the CSP")
            if "error" in reply:
                error = reply["error"]
                raise Refused(str(error["code"]), str(error["fault"]), str(error["fix"]))
            return verb.answer.model_validate(reply["answer"])
        except (ValidationError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise MalformedFrame("the CSP's answer is not one to this question") from None

    def submit(self, file: JsonObject) -> JobRecord:
        """Submit a job, signed together with a number that no other job has."""
        if self._kit is None:
            raise ConfigError("a job is signed by the researcher who submits it", "submit it with a researcher's kit")
        return self.ask(api.SUBMIT, signed(self._kit, file, fresh_bytes(_NUMBER).hex()))

    def jobs(self, under_way: bool = False) -> list[ListedJob]:
        """The jobs of this caller in short, oldest first; those that have not changed are not sent again.

        ``under_way``: those that wait for members or run, and those that ended badly after the caller was done. One
        that has ended since it was listed stays in the list until ``forget``.
        """
        self.changed(under_way)
        return sorted(self._listed[under_way][1].values(), key=lambda job: job.number)

    def changed(self, under_way: bool, seconds: float = 0.0) -> bool:
        """Whether a job has changed since these were listed last; waits so long for that."""
        seen, listed = self._listed.get(under_way, ("", {}))
        page = self.ask(api.JOBS, self._list(under_way, seen, seconds=seconds))
        anew = page.anew
        news, listed = anew or bool(page.jobs), {} if anew else listed
        listed.update((job.id, job) for job in page.jobs)
        while page.more:
            page = self.ask(api.JOBS, self._list(under_way, page.seen, anew=anew))
            listed.update((job.id, job) for job in page.jobs)
        self._listed[under_way] = page.seen, listed
        return news

    def _list(self, under_way: bool, seen: str, *, anew: bool = False, seconds: float = 0.0) -> api.ListJobs:
        return api.ListJobs(under_way=under_way, seen=seen, anew=anew, seconds=seconds, instance=self._instance)

    def forget(self, id: str) -> None:
        """A job that is over needs no further look: it is not listed again unless it changes."""
        for _, listed in self._listed.values():
            listed.pop(id, None)

    def job(self, id: str) -> WatchedJob:
        return self.ask(api.JOB, api.About(id=id))

    def wait(self, id: str, seconds: float = 10.0, seen: str = "") -> WatchedJob:
        return self.ask(api.WAIT, api.Wait(id=id, seconds=seconds, seen=seen))

    def enlist(self, job: JobRecord, facts: EnlistedFacts) -> JobRecord:
        return self.ask(api.ENLIST, api.Enlist(id=job.id, attempt=job.attempt, stage=job.stage, facts=facts))

    def report(self, id: str, progress: Progress) -> None:
        self.ask(api.REPORT, api.Report(id=id, progress=progress))

    def ended(self, job: JobHeading, failure: Failure | None = None) -> JobRecord:
        return self.ask(api.ENDED, api.Ended(id=job.id, attempt=job.attempt, stage=job.stage, failure=failure))

    def resume(self, id: str) -> JobRecord:
        return self.ask(api.RESUME, api.About(id=id))

    def stop(self, id: str) -> JobRecord:
        return self.ask(api.STOP, api.About(id=id))

    def who(self, id: str) -> dict[str, str]:
        return self.ask(api.WHO, api.About(id=id)).root

    def hand_over(self, job: JobHeading, number: int, sealed: bytes) -> None:
        self.ask(api.HANDOVER, api.HandOver(id=job.id, attempt=job.attempt, number=number, sealed=sealed))

    def handed(self, id: str, member: str, number: int) -> bytes | None:
        return self.ask(api.HANDED, api.Handed(id=id, member=member, number=number)).sealed

    def taken(self, id: str) -> None:
        self.ask(api.TAKEN, api.About(id=id))

    def now(self) -> api.Clock:
        return self.ask(api.NOW, api.Now())

    @property
    def csp(self) -> bytes:
        """The certificate of the CSP that was asked, in PEM; it has passed every check that this kit can make."""
        return self._carrier.csp

    def close(self) -> None:
        self._carrier.close()


def signed(kit: Kit, file: JsonObject, nonce: str) -> api.Submit:
    """A job under the signature of this kit's owner, with a number that is used once."""
    asked = Asked(file, str(kit.identity), _members(file), nonce)
    signature, certificate = asked.signed_by(kit.signing_key), kit.certificate_pem.decode()
    return api.Submit(file=file, nonce=nonce, signature=signature, certificate=certificate)


def _members(file: JsonObject) -> tuple[str, ...]:
    """Who takes part in a submitted job; no one in a file that does not parse, which the CSP refuses."""
    try:
        return member_callers(submitted_job(file))
    except FedSVDError:
        return ()


@dataclass(frozen=True)
class Results:
    """How a job stands, and where this kit's own results are, if it has any."""

    job: str
    state: str
    finished: tuple[str, ...]
    awaited: tuple[str, ...]
    folder: Path | None = None
    warning: str = ""  # why these results should not be relied on, where the job did not end well
    why: str = ""  # of a researcher: why there are no results of a job that is done
    certificate: Certificate | None = None  # of a researcher: that of the study, whose signatures hold


class Connection:
    """A connection to a federation's CSP, as one of its members or as a researcher."""

    def __init__(self, kit: Path | str, address: str | None = None, *, patience: float = _PATIENCE) -> None:
        self.site = Site.at(Path(kit))
        if self.site.kit.identity.role is KitRole.CSP:
            raise ConfigError("this is the CSP's own kit", "connect as a researcher, a party or the authority")
        connection = PinnedConnection(self.site.dialling(address, patience=patience))
        self._client = CspClient(connection, self.site.kit)

    def __repr__(self) -> str:
        return f"Connection({self.site.caller})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *trouble: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect; jobs go on without us."""
        self._client.close()

    def submit(self, job: Job | Mapping[str, Any] | Path | str) -> str:
        """Submit a job, or the job file at a path; its id. Data that the file names is not submitted."""
        if isinstance(job, Path | str):
            job = read_job(Path(job))
        elif not isinstance(job, Job):
            job = job_from(job, Path())
        warn_of(doubts(study_of(job), ()))
        return self._client.submit(submitted_file(job)).id

    def jobs(self) -> list[ListedJob]:
        """The jobs this kit submitted or takes part in, oldest first."""
        return self._client.jobs()

    def job(self, id: str) -> WatchedJob:
        """One job as the CSP knows it; the beginning of an id will do, or a name: the newest job of that name."""
        if re.fullmatch(r"[0-9a-f]+", id) is None:
            named = [record.id for record in self.jobs() if record.name == id]
            if not named:
                raise ConfigError(f"no job of the name {id!r} is known here", "fedsvd job list shows the jobs")
            id = named[-1]
        return self._client.job(id)

    def csp(self) -> bytes:
        """The CSP's certificate, in PEM."""
        self._client.now()
        return self._client.csp

    def certificates(self, id: str) -> dict[str, str]:
        """The certificates that a job's members came with, by member; who has not called yet is not there."""
        return self._client.who(id)

    def watch(
        self, id: str, seen: Callable[[WatchedJob], None] | None = None, *, timeout: float | None = None
    ) -> WatchedJob:
        """The job once it is done, stopped or broken; ``seen`` is called with it whenever it has changed."""
        until = None if timeout is None else monotonic() + timeout
        id, version = self.job(id).id, ""
        while True:
            left = 10.0 if until is None else max(min(until - monotonic(), 10.0), 0.0)
            asked = monotonic()
            record = self._client.wait(id, left, version)
            if record.seen == version and record.state not in _ENDS:  # too many wait already, and we did not
                sleep(max(min(_PAUSE, left) - (monotonic() - asked), 0.0))
            if seen is not None and record.seen != version:
                seen(record)
            version = record.seen
            if record.state in _ENDS:
                return record
            if until is not None and monotonic() >= until:
                raise TimedOut(f"job {record.short} is still {record.state}", "go on waiting: fedsvd job watch")

    def wait(self, id: str, *, timeout: float | None = None) -> Results:
        """The results once there are any; the error of the member that failed, if one did."""
        record = self.watch(id, timeout=timeout)
        if record.state is not JobState.DONE:
            raise first_cause(record)[1]
        return self.results(record.id)

    def resume(self, id: str) -> JobRecord:
        """Another attempt at a broken job, in a new session with fresh seeds; what was compressed is not read again."""
        return self._client.resume(self.job(id).id)

    def stop(self, id: str) -> JobRecord:
        """End a job for good."""
        return self._client.stop(self.job(id).id)

    def results(self, id: str, out: Path | None = None, draw: "Draw | None" = None) -> Results:
        """How a job stands, and the folder with this kit's results; a researcher's are fetched and verified, once."""
        record = self.job(id)
        finished = tuple(member for member in record.members if member in record.finished)
        awaited = tuple(member for member in record.members if member not in finished)
        found, ours = Results(record.id, record.state, finished, awaited), self.site.caller == record.submitter
        if ours and record.state is JobState.DONE:
            return self._taken(found, record, out, draw)
        if out is not None:
            raise ConfigError(
                "there is nothing to fetch: the job is not done, or not yours",
                "leave --out out; fedsvd job watch shows where the job is",
            )
        if ours or not self.site.has_results(record):
            return found
        badly = record.state in (JobState.BROKEN, JobState.STOPPED)
        return replace(found, folder=self.site.results_of(record), warning=not_finished(record) if badly else "")

    def _taken(self, found: Results, record: JobRecord, out: Path | None, draw: "Draw | None") -> Results:
        from fedsvd.results.folder import fresh_folder
        from fedsvd.service.handover import take  # which brings the roles along

        target, held = out or self.site.results_of(record), self.site.results_of(record)
        if self.site.has_results(record):
            if out is not None:
                with fresh_folder(out) as folder:
                    shutil.copytree(held, folder, dirs_exist_ok=True)
            return replace(found, folder=target)
        taken = take(self.site.kit, record, partial(self._client.handed, record.id), target, draw)
        if taken.folder is not None:  # written whole: the CSP need not store it any longer
            self._client.taken(record.id)
        return replace(found, folder=taken.folder, why=taken.why, certificate=taken.certificate)


def connect(kit: Path | str, address: str | None = None, *, patience: float = _PATIENCE) -> Connection:
    """A connection to the federation that ``kit`` belongs to.

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
    ...     str(federation.job(job).state)
    'recruiting'
    """
    return Connection(kit, address, patience=patience)
