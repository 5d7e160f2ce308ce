"""The jobs a CSP knows of: who must take part, who has enlisted, what became of each attempt.

A job is submitted by a researcher, enlisted for by every party after its owner's approval, run as a session, and ends
done, failed or stopped. A job of several stages recruits again after each of them, for a session of its own. An attempt
that broke off can be resumed: the same job from its first stage, in new sessions with fresh seeds. Every change is in
the journal before it is answered, so a CSP that was killed knows what it was doing.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from fedsvd.errors import ConfigError, NotAuthenticated, PeerLost, StorageError
from fedsvd.protocol.certificate import Accounts, accounts_from
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.service.records import EnlistedFacts, Failure, JobRecord, JobState, PassedStage, Progress
from fedsvd.storage.journal import Journal
from fedsvd.studies.job_stages import Stage


class Jobs:
    """All jobs of one CSP."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._jobs: dict[str, JobRecord] = {}
        self._progress: dict[str, dict[str, Progress]] = {}
        self._boot, self._changes = fresh_bytes(4).hex(), 0
        self.changed = threading.Condition()
        for line in journal.records():
            if line.get("event") == "job":
                job = _read(line["job"], journal)
                self._jobs[job.id] = job
        with self.changed:
            for job in list(self._jobs.values()):
                if job.state is JobState.RUNNING:
                    failure = Failure(who="csp", code=PeerLost.code, text="the CSP was restarted")
                    self._write(job.changed(state=JobState.BROKEN, failures=(*job.failures, failure)))

    def submit(self, job: JobRecord) -> JobRecord:
        """Take a new job in."""
        with self.changed:
            if job.id in self._jobs:
                raise ConfigError(f"job {job.id} was submitted before", "submit it again under a new id")
            return self._write(job)

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
            return self._write(self._jobs[id].changed(**values))

    def breaks(self, id: str, **values: Any) -> JobRecord:
        """Change a job that has failed, durably if the disk lets us: after a restart a running job is broken anyway."""
        with self.changed:
            job = self._jobs[id].changed(**values)
            try:
                return self._write(job)
            except StorageError:
                return self._put(job)

    def enlist(self, id: str, caller: str, attempt: int, facts: EnlistedFacts, stage: Stage = Stage.STUDY) -> JobRecord:
        """A member joins this attempt; once for each of its stages."""
        with self.changed:
            job = self._jobs[id]
            if caller not in job.needed:
                raise NotAuthenticated(f"{caller} is not a member of this job")
            asked = job.session_key == (id, attempt, stage)
            if asked and job.enlisted.get(caller) == facts:
                return job  # the answer was lost, and the question came again
            if job.state is not JobState.RECRUITING or not asked:
                where = f"attempt {attempt}" if stage is Stage.STUDY else f"attempt {attempt}, {stage}"
                raise ConfigError(f"job {job.short} is not recruiting for {where}", "look again")
            return self._write(job.changed(enlisted={**job.enlisted, caller: facts}))

    def report(self, id: str, caller: str, progress: Progress) -> None:
        """How far a role has come; for those who watch, and forgotten with the process."""
        with self.changed:
            self._progress.setdefault(id, {})[caller] = progress
            self.changed.notify_all()

    def progress(self, id: str) -> Mapping[str, Progress]:
        """How far every role has come."""
        with self.changed:
            return dict(self._progress.get(id, {}))

    def resume(self, id: str) -> JobRecord:
        """Another attempt at a broken job: every member enlists anew, the session is a new one."""
        with self.changed:
            job = self._jobs[id]
            if job.state is not JobState.BROKEN:
                raise ConfigError(f"job {job.short} is {job.state}, not broken", "only broken jobs are resumed")
            first = job.passed[0].stage if job.passed else job.stage
            return self._write(_recruiting(job.changed(attempt=job.attempt + 1, failures=(), passed=()), first))

    def end(self, id: str, caller: str) -> tuple[JobRecord, bool]:
        """A member has ended this stage, and whether all have: then they enlist for the next, or the job is done."""
        with self.changed:
            job = self._jobs[id]
            job = job.changed(finished=tuple(sorted({*job.finished, caller})))
            if set(job.finished) != set(job.needed) or job.state is not JobState.RUNNING:
                return self._write(job), False
            rest = job.stages[job.stages.index(job.stage) + 1 :]
            if not rest:
                return self._write(job.changed(state=JobState.DONE)), True
            session = "" if job.plan is None else job.plan.session
            passed = PassedStage(stage=job.stage, session=session, plan_digest=job.plan_digest)
            self._progress.pop(id, None)
            return self._write(_recruiting(job.changed(passed=(*job.passed, passed)), rest[0])), True

    def _write(self, job: JobRecord) -> JobRecord:
        """On disk first, then in memory."""
        self._journal.append({"event": "job", "job": job.model_dump(mode="json")})
        return self._put(job)

    def _put(self, job: JobRecord) -> JobRecord:
        self._jobs[job.id] = job
        self._changes += 1
        self.changed.notify_all()
        return job


def accounts_sent(progress: Mapping[str, Progress]) -> Accounts:
    """The accounts that all roles sent at the end of a session; what is none is left out, and never an error."""
    found = Accounts()
    for each in progress.values():
        with suppress(ValueError):
            found = found.with_accounts(accounts_from(each.accounts()))
    return found


def _recruiting(job: JobRecord, stage: Stage) -> JobRecord:
    """The job as it waits for its members to enlist for a stage."""
    return job.changed(state=JobState.RECRUITING, stage=stage, enlisted={}, plan=None, plan_digest="", finished=())


def _read(said: object, journal: Journal) -> JobRecord:
    try:
        return JobRecord.model_validate(said)
    except ValidationError:
        raise StorageError(f"{journal.path.name} holds a job that is none", "restore it from a backup") from None
