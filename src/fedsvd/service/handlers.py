"""What a CSP answers when it is asked about jobs: who may ask what, and what follows for the job.

The questions and answers are those of ``api.py``. The session that a job's last member opens by enlisting is in
``csp.py``.
"""

import hashlib
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fedsvd import __version__
from fedsvd.errors import ConfigError, FedSVDError, KitRunsTwice, NotAuthenticated, StorageError, TooManyJobs
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.service import api
from fedsvd.service.callers import Callers
from fedsvd.service.enlist import member_callers
from fedsvd.service.failures import for_others
from fedsvd.service.instances import Instances
from fedsvd.service.jobs import Jobs
from fedsvd.service.mailbox import Mailbox
from fedsvd.service.records import Failure, JobRecord, JobState, ListedJob, Progress, WatchedJob
from fedsvd.storage.faults import of_machine, without_places
from fedsvd.storage.journal import AuditLog
from fedsvd.studies.job_stages import stages_of
from fedsvd.studies.submitted import submitted_job
from fedsvd.transport.places import Places

_log = logging.getLogger(__name__)
_RESEARCHER = "researcher/"
_SUBMITTERS = "fetch the results of a job that is done with the kit that submitted it"
PAGE = 100  # jobs in one answer
PAGE_BYTES = 256 << 10
_LONGEST_WAIT = 15.0  # seconds
MOST_WATCHING, MOST_WATCHING_OF_ONE = 16, 4  # who watch a job and wait for a change; others are answered at once
MOST_WAITING = 64  # members whose look at the jobs waits for a change; each takes a thread


class CspHandlers(ABC):
    """The answers of one CSP."""

    def __init__(self, jobs: Jobs, open_jobs: int, state: Path, callers: Callers | None = None) -> None:
        self.jobs = jobs
        self._callers = callers  # whom jobs may name; None: anyone
        self._mailbox = Mailbox(state / "handed-over")
        self._folder = state.parent  # of this CSP's files, whose name no caller is sent
        self._open_jobs = open_jobs
        self._instances = Instances()
        self._audit = AuditLog(state / "audit.jsonl")
        self._stopping = threading.Event()
        self._waiting = threading.Semaphore(MOST_WAITING)
        self._watching = Places(MOST_WATCHING, MOST_WATCHING_OF_ONE)
        self._seen: dict[str, str] = {}  # callers and the certificates they came with, for owners who pin
        self._handlers: Mapping[str, Callable[[str, Any], BaseModel]] = {
            api.SUBMIT.name: self._submit,
            api.JOBS.name: self._list,
            api.JOB.name: self._job,
            api.WAIT.name: self._wait,
            api.ENLIST.name: self._enlist,
            api.REPORT.name: self._report,
            api.ENDED.name: self._ended,
            api.RESUME.name: self._resume,
            api.STOP.name: self._stop,
            api.WHO.name: self._who,
            api.HANDOVER.name: self._hand_over,
            api.HANDED.name: self._handed,
            api.TAKEN.name: self._taken,
            api.NOW.name: self._now,
        }

    def saw(self, caller: str, certificate: str) -> None:
        """A caller came with this certificate, which is of this federation."""
        self._seen[caller] = certificate
        if self._callers is not None:
            self._callers.add(caller)

    @abstractmethod
    def _admit(self, job: JobRecord) -> bool:
        """Every member has enlisted: whether a session is to be opened now; else one is waited for."""

    @abstractmethod
    def _open(self, job: JobRecord) -> JobRecord:
        """Open the session of a job that was admitted. Called without the lock on all jobs: planning takes time."""

    @abstractmethod
    def _fill(self) -> None:
        """Open sessions for jobs that wait, as far as there is a place."""

    @abstractmethod
    def _broken(self, job: JobRecord, failure: Failure) -> JobRecord:
        """This attempt failed at a member."""

    @abstractmethod
    def _account(self, job: JobRecord) -> None:
        """Every member has ended a stage, or with the last of them the job."""

    def answer(self, caller: str, body: bytes) -> bytes:
        """The answer to one question; an error of ours is an answer, too, unless the caller may not ask at all."""
        try:
            verb, asked = api.read_question(body)
            return api.written_answer(self.handle(verb, caller, asked))
        except NotAuthenticated:
            raise
        except FedSVDError as error:
            return api.written_error(for_others(error, self._folder))
        except Exception as error:  # a defect of ours; the caller would take silence for a lost connection
            if (ours := of_machine(error)) is not None:
                _log.error("a question of %s: %s", caller, ours)
                return api.written_error(without_places(ours))
            _log.exception("a question of %s", caller)
            return api.written_error(FedSVDError(f"unexpected {type(error).__name__} at the CSP", "see the CSP's log"))

    def handle(self, verb: api.Verb[Any, Any], caller: str, asked: BaseModel) -> BaseModel:
        """What follows from one question; a CSP that is to answer otherwise, in a test, overrides this."""
        return self._handlers[verb.name](caller, asked)

    def _submit(self, caller: str, asked: api.Submit) -> JobRecord:
        if not caller.startswith(_RESEARCHER):
            raise NotAuthenticated(f"{caller} may not submit jobs", "submit it with a researcher's kit")
        job = submitted_job(asked.file)
        record = JobRecord(
            id=fresh_bytes(8).hex(),
            name=job.study.name,
            file=asked.file,
            submitter=caller,
            members=member_callers(job),
            nonce=asked.nonce,
            signature=asked.signature,
            certificate=asked.certificate,
            stage=stages_of(job)[0],
        )
        before = self.jobs.numbered(record)
        if before is not None:
            return before  # the answer was lost, and the question came again
        if self._callers is not None:
            self._callers.expect(record.members)
        if self.jobs.open_of(caller) >= self._open_jobs:
            fault = f"{caller} has {self._open_jobs} open jobs, as many as this CSP takes of a researcher"
            raise TooManyJobs(fault, "stop those that are not needed: fedsvd job list, fedsvd job stop")
        self._note("submitted", job=record.id, by=caller)
        return self.jobs.submit(record)

    def _list(self, caller: str, asked: api.ListJobs) -> api.JobPage:
        """A page of the caller's jobs in short that changed since ``seen``; job files are not in lists."""
        self._expect_one(caller, asked.instance)
        self._await_change(asked)
        with self.jobs.changed:
            version = self.jobs.version
            changes, anew = self.jobs.changes(caller, asked.seen)
            if asked.under_way and (anew or asked.anew):  # later, a job that has ended is listed once, too
                changes = [(seen, job) for seen, job in changes if _concerns(job, caller)]
            page: list[ListedJob] = []
            size = 0
            for _, job in changes[:PAGE]:
                page.append(self.jobs.listed(job))
                size += len(page[-1].model_dump_json())
                if size > PAGE_BYTES:
                    break
        if len(page) < len(changes):
            return api.JobPage(jobs=tuple(page), seen=changes[len(page) - 1][0], more=True, anew=anew)
        return api.JobPage(jobs=tuple(page), seen=version, anew=anew)

    def _expect_one(self, caller: str, instance: str) -> None:
        """One process has this caller's kit; of two, neither is listed jobs to take part in."""
        try:
            self._instances.expect_one(caller, instance)
        except KitRunsTwice as twice:
            _log.warning("%s", twice)
            if self._instances.is_news(caller):
                self._note("kit runs twice", by=caller)
            raise

    def _await_change(self, asked: api.ListJobs) -> None:
        """Until a job has changed since ``seen``, or for so long; not at all where too many wait already."""

        def changed() -> bool:
            return self._stopping.is_set() or asked.seen != self.jobs.version

        if asked.seconds > 0 and self._waiting.acquire(blocking=False):
            try:
                with self.jobs.changed:
                    self.jobs.changed.wait_for(changed, min(asked.seconds, _LONGEST_WAIT))
            finally:
                self._waiting.release()

    def _job(self, caller: str, asked: api.About) -> WatchedJob:
        return self._watched(self.jobs.get(asked.id, caller).id)

    def _watched(self, id: str) -> WatchedJob:
        with self.jobs.changed:
            job, progress, place = self.jobs.get(id), self.jobs.progress(id), self.jobs.place(id)
        return WatchedJob.of(job, progress, _version(job, progress, place), place)

    def _wait(self, caller: str, asked: api.Wait) -> WatchedJob:
        id = self.jobs.get(asked.id, caller).id

        def changed() -> bool:
            job, progress, place = self.jobs.get(id), self.jobs.progress(id), self.jobs.place(id)
            return self._stopping.is_set() or _version(job, progress, place) != asked.seen

        with self._watching.place(caller) as free, self.jobs.changed:
            self.jobs.changed.wait_for(changed, min(asked.seconds, _LONGEST_WAIT) if free else 0.0)
        return self._watched(id)

    def _enlist(self, caller: str, asked: api.Enlist) -> JobRecord:
        with self.jobs.changed:  # of two questions in one instant, one is the last
            job = self.jobs.enlist(self.jobs.get(asked.id, caller).id, caller, asked.attempt, asked.facts, asked.stage)
            complete = job.state is JobState.RECRUITING and job.complete
            opens = complete and self._admit(job)
        if complete:
            job = self._open(job) if opens else self.jobs.get(job.id)
            self._fill()
        self._note("enlisted", job=job.id, by=caller, attempt=asked.attempt)
        return job

    def _report(self, caller: str, asked: api.Report) -> api.Nothing:
        self.jobs.report(self.jobs.get(asked.id, caller).id, caller, asked.progress)
        return api.Nothing()

    def _ended(self, caller: str, asked: api.Ended) -> JobRecord:
        with self.jobs.changed:  # two members may end in the same instant
            job = self.jobs.get(asked.id, caller)
            if job.session_key != (job.id, asked.attempt, asked.stage) or caller not in job.needed:
                return job
            if asked.failure is not None:
                return self._broken(job, asked.failure.model_copy(update={"who": caller}))
            try:
                job, all_ended = self.jobs.end(job.id, caller)
            except StorageError as full:  # broken until there is space: the member reports its end again
                if job.state is JobState.RUNNING:
                    self._broken(job, Failure(who="csp", code=full.code, text=full.fault))
                raise
        if all_ended:
            self._account(job)
        return job

    def _resume(self, caller: str, asked: api.About) -> JobRecord:
        job = self.jobs.resume(self.jobs.get(asked.id, caller).id)
        self._note("resumed", job=job.id, by=caller, attempt=job.attempt)
        return job

    def _stop(self, caller: str, asked: api.About) -> JobRecord:
        with self.jobs.changed:
            job = self.jobs.get(asked.id, caller)
            if job.over:
                return job
            job = self.jobs.change(job.id, state=JobState.STOPPED)
        self._note("stopped by request", job=job.id, by=caller)
        return job

    def _who(self, caller: str, asked: api.About) -> api.Certificates:
        """The certificates that a job's members came with; whether they are who we say is for the caller to check."""
        members = self.jobs.get(asked.id, caller).members
        return api.Certificates({member: self._seen[member] for member in members if member in self._seen})

    def _hand_over(self, caller: str, asked: api.HandOver) -> api.Nothing:
        """A party leaves a sealed message for the researcher of a job whose last session it takes part in."""
        job = self.jobs.get(asked.id, caller)
        parties = [member for member in job.members if member.startswith("party/")]
        began = job.state in (JobState.RUNNING, JobState.BROKEN, JobState.DONE)
        if caller not in parties or job.attempt != asked.attempt or job.stage is not job.stages[-1] or not began:
            raise NotAuthenticated(
                f"{caller} has no results of this attempt to hand over", "resume the job, if it is broken"
            )
        self._mailbox.put(job.id, parties.index(caller), asked.number, asked.sealed)
        self._note("sealed message for the researcher", job=job.id, by=caller, bytes=len(asked.sealed))
        return api.Nothing()

    def _handed(self, caller: str, asked: api.Handed) -> api.Sealed:
        job = self.jobs.get(asked.id, caller)
        parties = [member for member in job.members if member.startswith("party/")]
        if caller != job.submitter or asked.member not in parties:
            raise NotAuthenticated(
                f"{caller} is not the researcher of this job, or {asked.member} no party of it", _SUBMITTERS
            )
        if self._mailbox.taken(job.id):
            raise ConfigError(
                f"the results of job {job.short} were fetched before, and are no longer at the CSP",
                "use the folder into which they were written then, or ask a party for its folder of what all share",
            )
        return api.Sealed(sealed=self._mailbox.get(job.id, parties.index(asked.member), asked.number))

    def _taken(self, caller: str, asked: api.About) -> api.Nothing:
        """The researcher has what was sealed for it, or knows that it gets nothing; the messages are removed."""
        job = self.jobs.get(asked.id, caller)
        if caller != job.submitter or job.state is not JobState.DONE:
            raise NotAuthenticated(f"{caller} is not the researcher of this job, or it is not done", _SUBMITTERS)
        self._mailbox.remove(job.id)
        self._note("sealed messages taken by the researcher", job=job.id, by=caller)
        return api.Nothing()

    def _now(self, caller: str, asked: api.Now) -> api.Clock:
        return api.Clock(now=datetime.now(UTC).isoformat(), fedsvd=__version__)

    def _note(self, event: str, **facts: str | int) -> None:
        self._audit.write(datetime.now(UTC).isoformat(timespec="seconds"), event, **facts)


def _version(job: JobRecord, progress: Mapping[str, Progress], place: int) -> str:
    counts = (
        f"{place}/{job.state}/{job.attempt}/{job.stage}/{len(job.enlisted)}/{len(job.finished)}/{len(job.failures)}"
    )
    said = "/".join(f"{who} {each.model_dump_json()}" for who, each in progress.items())
    return hashlib.sha256(f"{counts}/{said}".encode()).hexdigest()


def _concerns(job: JobRecord, caller: str) -> bool:
    """Whether a member has something to do for a job: take part in it, or mark results that it should not rely on."""
    if job.under_way:
        return True
    return job.state in (JobState.BROKEN, JobState.STOPPED) and caller in job.members
