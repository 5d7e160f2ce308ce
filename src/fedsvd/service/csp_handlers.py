"""What a CSP answers when it is asked about jobs: who may ask what, and what follows in the book.

The questions themselves are listed in ``questions.py``. What a job's last member sets off by enlisting, a session, is
``csp_node.py``'s.
"""

import hashlib
import json
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from fedsvd import __version__
from fedsvd.errors import ConfigError, FedSVDError, NotAuthenticated
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.service.api import answered, asked, refused
from fedsvd.service.enlist import job_of, member_callers
from fedsvd.service.jobs import JobRecord, Jobs, JobState, failure_from
from fedsvd.storage.journal import AuditLog

_log = logging.getLogger(__name__)
_RESEARCHER = "researcher/"
_PAGE = 100  # jobs in one answer
_PAGE_BYTES = 256 << 10
_MOST_FACTS = 16 << 10  # bytes that a member says of itself when it enlists, and of its progress


class CspHandlers(ABC):
    """The desk of one CSP, before its book of jobs."""

    def __init__(self, book: Jobs, audit: AuditLog) -> None:
        self.book = book
        self._audit = audit
        self._stopping = threading.Event()
        self._seen: dict[str, str] = {}  # callers and the certificates they came with, for owners who pin

    @abstractmethod
    def _open(self, job: JobRecord) -> JobRecord:
        """Every member has enlisted."""

    @abstractmethod
    def _broken(self, job: JobRecord, failure: dict[str, str]) -> JobRecord:
        """This attempt failed at a member."""

    @abstractmethod
    def _account(self, job: JobRecord) -> None:
        """Every member is done."""

    def _answer(self, caller: str, body: bytes) -> bytes:
        try:
            verb, values = asked(body)
            answers: Mapping[str, Callable[..., Any]] = {
                "submit": self._submit,
                "jobs": self._jobs,
                "job": self._job,
                "wait": self._wait,
                "enlist": self._enlist,
                "tell": self._tell,
                "ended": self._ended,
                "resume": self._resume,
                "stop": self._stop,
                "who": self._who,
                "now": self._now,
            }
            if verb not in answers:
                raise ConfigError(f"{verb[:40]!r} is not a question", f"one of {', '.join(answers)}")
            return answered(answers[verb](caller, **values))
        except NotAuthenticated:
            raise
        except FedSVDError as error:
            return refused(error)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError):
            return refused(ConfigError("a question with values it does not take", "run the same version everywhere"))
        except Exception as error:  # a defect of ours; the caller would take silence for a line that is down
            _log.exception("a question of %s", caller)
            return refused(FedSVDError(f"unexpected {type(error).__name__} at the CSP", "see the CSP's log"))

    def _submit(self, caller: str, file: dict[str, Any]) -> dict[str, Any]:
        if not caller.startswith(_RESEARCHER):
            raise NotAuthenticated(f"{caller} may not submit jobs")
        job = job_of(file)
        record = JobRecord(fresh_bytes(8).hex(), job.study.name, file, caller, member_callers(job))
        self._note("submitted", job=record.id, by=caller)
        return self.book.submit(record).shown()

    def _jobs(self, caller: str, under_way: bool = False, after: str = "", seen: str = "") -> dict[str, Any]:
        """A page of jobs in short, from the one after ``after`` on; empty where nothing has changed since ``seen``."""
        with self.book.changed:
            version, jobs = self.book.version, self.book.of(caller)
        if seen == version:
            return {"jobs": [], "next": "", "seen": version}
        jobs = [job for job in jobs if not under_way or _concerns(job, caller)]
        first = next((place + 1 for place, job in enumerate(jobs) if job.id == after), 0)
        page: list[dict[str, Any]] = []
        size = 0
        for job in jobs[first : first + _PAGE]:
            page.append({**job.shown(), "plan": None, "enlisted": dict.fromkeys(job.enlisted), "failures": []})
            size += len(json.dumps(page[-1]))
            if size > _PAGE_BYTES:
                break
        last = first + len(page)
        return {"jobs": page, "next": jobs[last - 1].id if last < len(jobs) else "", "seen": version}

    def _job(self, caller: str, id: str) -> dict[str, Any]:
        job = self.book.get(id, caller)
        return {**job.shown(), "progress": self.book.progress(job.id)}

    def _wait(self, caller: str, id: str, seconds: float = 10.0, seen: str = "") -> dict[str, Any]:
        job = self.book.get(id, caller)

        def changed() -> bool:
            return self._stopping.is_set() or _version(self.book.get(job.id), self.book.progress(job.id)) != seen

        with self.book.changed:
            self.book.changed.wait_for(changed, min(float(seconds), 15.0))
        now = self._job(caller, job.id)
        return {**now, "seen": _version(self.book.get(job.id), now["progress"])}

    def _enlist(self, caller: str, id: str, attempt: int, facts: dict[str, Any]) -> dict[str, Any]:
        _expect_short(facts, "what a member says of itself")
        with self.book.changed:  # whoever is last opens the session, and nothing comes in between
            job = self.book.enlist(self.book.get(id, caller).id, caller, attempt, facts)
            if job.state is JobState.RECRUITING and set(job.enlisted) == set(job.members):
                job = self._open(job)
        self._note("enlisted", job=job.id, by=caller, attempt=attempt)
        return job.shown()

    def _tell(self, caller: str, id: str, progress: dict[str, Any]) -> None:
        _expect_short(progress, "what a member says of its progress")
        self.book.told(self.book.get(id, caller).id, caller, progress)

    def _ended(self, caller: str, id: str, attempt: int, failure: dict[str, str] | None = None) -> dict[str, Any]:
        with self.book.changed:  # two members may end in the same instant
            job = self.book.get(id, caller)
            if job.attempt != attempt or caller not in job.members:
                return job.shown()
            if failure is not None:
                return self._broken(job, failure_from(failure, caller)).shown()
            finished = tuple(sorted({*job.finished, caller}))
            done = set(finished) == set(job.members) and job.state is JobState.RUNNING
            job = self.book.change(job.id, finished=finished, state=JobState.DONE if done else job.state)
        if done:
            self._account(job)
        return job.shown()

    def _resume(self, caller: str, id: str) -> dict[str, Any]:
        job = self.book.resume(self.book.get(id, caller).id)
        self._note("resumed", job=job.id, by=caller, attempt=job.attempt)
        return job.shown()

    def _stop(self, caller: str, id: str) -> dict[str, Any]:
        with self.book.changed:
            job = self.book.get(id, caller)
            if job.over:
                return job.shown()
            job = self.book.change(job.id, state=JobState.STOPPED)
        self._note("stopped by request", job=job.id, by=caller)
        return job.shown()

    def _who(self, caller: str, id: str) -> dict[str, str]:
        """The certificates that a job's members came with; whether they are who we say is for the caller to check."""
        members = self.book.get(id, caller).members
        return {member: self._seen[member] for member in members if member in self._seen}

    def _now(self, caller: str) -> dict[str, str]:
        return {"now": datetime.now(UTC).isoformat(), "fedsvd": __version__}

    def _note(self, event: str, **facts: str | int) -> None:
        self._audit.write(datetime.now(UTC).isoformat(timespec="seconds"), event, **facts)


def _version(job: JobRecord, progress: Mapping[str, Any]) -> str:
    counts = f"{job.state}/{job.attempt}/{len(job.enlisted)}/{len(job.finished)}/{len(job.failures)}"
    return hashlib.sha256(f"{counts}/{progress}".encode()).hexdigest()


def _concerns(job: JobRecord, caller: str) -> bool:
    """Whether a member has something to do for a job: take part in it, or mark results that it should not rely on."""
    if job.state in (JobState.RECRUITING, JobState.RUNNING):
        return True
    return job.state in (JobState.BROKEN, JobState.STOPPED) and caller in job.members


def _expect_short(said: Any, what: str) -> None:
    size = len(json.dumps(said))
    if size > _MOST_FACTS:
        raise ConfigError(f"{what} has {size:,} bytes", f"at most {_MOST_FACTS:,}")
