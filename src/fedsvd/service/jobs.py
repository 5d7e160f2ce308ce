"""The jobs a CSP knows of: who must take part, who has enlisted, what became of each try.

A job is submitted by a researcher, enlisted for by every party after its owner's approval, run as a session, and ends
done, failed or stopped. A try that broke off can be resumed: the same job, a new session with fresh seeds. Every change
is in the journal before it is answered, so a CSP that was killed knows what it was doing. What members say of their
progress and failures is shown on terminals and pages: here it becomes text that can be, and numbers that are numbers.
"""

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from fedsvd.errors import ConfigError, NotAuthenticated, StorageError, printable
from fedsvd.protocol.certificate import ACCOUNTS
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.storage.journal import Journal

_LONGEST_WORD = 200  # characters of a stage, a name, a key
_LONGEST_REASON = 500  # characters of a failure's text
_MOST_ENTRIES = 5000
_LARGEST = 2**63 - 1
_COUNTS = ("done", "total", "sent", "received")


class JobState(StrEnum):
    """Where a job stands; the last three are ends."""

    RECRUITING = "recruiting"
    RUNNING = "running"
    BROKEN = "broken"  # a try ended badly; it may be resumed
    DONE = "done"
    STOPPED = "stopped"


@dataclass(frozen=True)
class JobRecord:
    """One job as the CSP knows it; nothing in it is secret from its parties."""

    id: str
    name: str
    file: dict[str, Any]  # the job file, without data paths
    submitter: str
    members: tuple[str, ...]  # callers that must enlist
    state: JobState = JobState.RECRUITING
    attempt: int = 1
    enlisted: dict[str, dict[str, Any]] = field(default_factory=dict)
    plan: dict[str, Any] | None = None
    plan_digest: str = ""
    finished: tuple[str, ...] = ()
    failures: tuple[dict[str, str], ...] = ()  # of this attempt: who, code, stage, text
    certain_bound: bool = False  # an attempt overflowed: the next takes the certain bound

    @property
    def over(self) -> bool:
        return self.state in (JobState.DONE, JobState.STOPPED)

    def shown(self) -> dict[str, Any]:
        """The record as plain values, for an answer."""
        return {**asdict(self), "state": str(self.state)}


class Jobs:
    """All jobs of one CSP."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._jobs: dict[str, JobRecord] = {}
        self._progress: dict[str, dict[str, dict[str, Any]]] = {}
        self._boot, self._changes = fresh_bytes(4).hex(), 0
        self.changed = threading.Condition()
        for record in journal.records():
            if record.get("event") == "job":
                job = _read(record["job"])
                self._jobs[job.id] = job
        with self.changed:
            for job in list(self._jobs.values()):
                if job.state is JobState.RUNNING:
                    failure = {"who": "csp", "code": "FSVD-501", "stage": "", "text": "the CSP was restarted"}
                    self._keep(replace(job, state=JobState.BROKEN, failures=(*job.failures, failure)))

    def submit(self, job: JobRecord) -> JobRecord:
        """Take a new job in."""
        with self.changed:
            if job.id in self._jobs:
                raise ConfigError(f"job {job.id} was submitted before", "submit it again under a new id")
            return self._keep(job)

    def get(self, id: str, caller: str | None = None) -> JobRecord:
        """A job by its id, or by the beginning of it; only its members and its submitter see it."""
        with self.changed:
            found = [job for job in self._jobs.values() if job.id.startswith(id)]
        if len(found) != 1:
            raise ConfigError(f"{len(found)} jobs match {id!r}", "see 'fedsvd job watch' for ids")
        job = found[0]
        if caller is not None and caller not in (job.submitter, *job.members):
            raise NotAuthenticated(f"{caller} takes no part in this job")
        return job

    def of(self, caller: str) -> list[JobRecord]:
        """The jobs a caller takes part in or submitted, oldest first."""
        with self.changed:
            return [job for job in self._jobs.values() if caller in (job.submitter, *job.members)]

    def all(self) -> list[JobRecord]:
        """Every job, oldest first: for the CSP's own operator."""
        with self.changed:
            return list(self._jobs.values())

    @property
    def version(self) -> str:
        """Another text whenever any job has changed."""
        return f"{self._boot}-{self._changes}"

    def change(self, id: str, **values: Any) -> JobRecord:
        """Change a job, durably."""
        with self.changed:
            return self._keep(replace(self._jobs[id], **values))

    def breaks(self, id: str, **values: Any) -> JobRecord:
        """Change a job that has failed, durably if the disk lets us: who finds it running after a restart breaks it."""
        with self.changed:
            job = replace(self._jobs[id], **values)
            try:
                return self._keep(job)
            except StorageError:
                return self._put(job)

    def enlist(self, id: str, caller: str, attempt: int, facts: Mapping[str, Any]) -> JobRecord:
        """A member joins this attempt; once per attempt."""
        with self.changed:
            job = self._jobs[id]
            if caller not in job.members:
                raise NotAuthenticated(f"{caller} is not a member of this job")
            if job.attempt == attempt and job.enlisted.get(caller) == dict(facts):
                return job  # the answer was lost, and the question came again
            if job.state is not JobState.RECRUITING or job.attempt != attempt:
                raise ConfigError(f"job {job.id[:8]} is not recruiting for attempt {attempt}", "look again")
            return self._keep(replace(job, enlisted={**job.enlisted, caller: dict(facts)}))

    def told(self, id: str, caller: str, progress: Mapping[str, Any]) -> None:
        """How far a member has come; for those who watch, and forgotten with the process."""
        with self.changed:
            self._progress.setdefault(id, {})[caller] = progress_from(progress)
            self.changed.notify_all()

    def progress(self, id: str) -> dict[str, dict[str, Any]]:
        """How far every member has come."""
        with self.changed:
            return dict(self._progress.get(id, {}))

    def resume(self, id: str) -> JobRecord:
        """Another attempt at a broken job: everybody enlists anew, the session is a new one."""
        with self.changed:
            job = self._jobs[id]
            if job.state is not JobState.BROKEN:
                raise ConfigError(f"job {job.id[:8]} is {job.state}, not broken", "only broken jobs are resumed")
            again = replace(job, state=JobState.RECRUITING, attempt=job.attempt + 1, enlisted={})
            return self._keep(replace(again, plan=None, plan_digest="", finished=(), failures=()))

    def _keep(self, job: JobRecord) -> JobRecord:
        self._journal.append({"event": "job", "job": job.shown()})
        return self._put(job)

    def _put(self, job: JobRecord) -> JobRecord:
        self._jobs[job.id] = job
        self._changes += 1
        self.changed.notify_all()
        return job


def progress_from(said: object) -> dict[str, Any]:
    """What a role said of its progress, as far as it can be shown; what cannot is left out, and never an error."""
    pairs = list(said.items())[:_MOST_ENTRIES] if isinstance(said, Mapping) else []
    found = {printable(key, _LONGEST_WORD): _value_from(value) for key, value in pairs}
    found = {key: value for key, value in found.items() if value is not None}
    counts = {key: int(found[key]) if isinstance(found[key], int | float) else 0 for key in _COUNTS if key in found}
    found = {key: value for key, value in found.items() if key not in ACCOUNTS or isinstance(value, dict)}
    stage = found.get("stage", "")
    return {**found, **counts, "stage": stage if isinstance(stage, str) else ""}


def _value_from(value: object) -> Any:
    """A text, a number from 0 on, texts, or numbers by name; None for anything else."""
    if isinstance(value, str):
        return printable(value, _LONGEST_WORD)
    if isinstance(value, list | tuple):
        return [printable(each, _LONGEST_WORD) for each in value[:_MOST_ENTRIES] if isinstance(each, str)]
    if isinstance(value, Mapping):
        pairs = list(value.items())[:_MOST_ENTRIES]
        return {printable(key, _LONGEST_WORD): each for key, each in pairs if _number(each) is not None}
    return _number(value)


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and 0 <= value <= _LARGEST else None


def failure_from(said: object, who: str) -> dict[str, str]:
    """What a member said of its failure, as it can be shown."""
    parts = said if isinstance(said, Mapping) else {}
    longest = {"code": 16, "stage": _LONGEST_WORD, "text": _LONGEST_REASON}
    return {
        "who": printable(who, _LONGEST_WORD),
        **{key: printable(parts.get(key, ""), longest[key]) for key in longest},
    }


def _read(record: dict[str, Any]) -> JobRecord:
    values = dict(record)
    values["state"] = JobState(values["state"])
    for key in ("members", "finished"):
        values[key] = tuple(values[key])
    values["failures"] = tuple(failure_from(failure, failure["who"]) for failure in values["failures"])
    return JobRecord(**values)
