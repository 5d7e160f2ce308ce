"""The jobs a CSP knows of: who must take part, who has enlisted, what became of each attempt.

A job is submitted by a researcher, enlisted for by every party after its owner's approval, run as a session, and ends
done, failed or stopped. A job of several stages recruits again after each of them, for a session of its own. An attempt
that broke off can be resumed: the same job from its first stage, in new sessions with fresh seeds. Every change is in
the journal before it is answered, so a CSP that was killed knows what it was doing. A line of the journal holds what
changed and no more: a job among n members takes bytes in proportion to n, not to its square.

A job that ran when the CSP was killed may be finished: its members have what they need, and report their ends again.
It is broken only if they do not (``break_interrupted``). A job all of whose members ended is done, whatever was thought
of it before.
"""

import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from fedsvd.errors import ConfigError, FedSVDError, NotAuthenticated, PeerLost, StorageError
from fedsvd.protocol.certificate import Accounts, accounts_from
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.service.job_lines import difference, folded
from fedsvd.service.records import (
    EnlistedFacts,
    Failure,
    JobRecord,
    JobState,
    ListedJob,
    PassedStage,
    Progress,
    ProposedPlan,
)
from fedsvd.storage.journal import Journal
from fedsvd.studies.job_stages import Stage

_OWN_JOBS = "fedsvd job list shows the jobs of this kit"
_REMEMBERED = 32  # jobs that are over whose roles' last progress is still shown


class Jobs:
    """All jobs of one CSP."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._jobs: dict[str, JobRecord] = {}
        self._progress: dict[str, dict[str, Progress]] = {}
        self._boot, self._changes = fresh_bytes(4).hex(), 0
        self._changed_at: dict[str, int] = {}  # the count of changes when a job changed last
        self._numbers: dict[str, int] = {}
        self._digests: dict[str, str] = {}
        self._queue: list[str] = []  # jobs in the order in which they began to wait; some do not any more
        self.changed = threading.Condition()
        with self.changed:
            for job in folded(journal, self._queue):
                self._put(job)
        self._interrupted = [job for job in self._jobs.values() if job.state is JobState.RUNNING]

    @property
    def interrupted(self) -> list[JobRecord]:
        """The jobs that ran when an earlier process of this CSP ended, and of which no end is known yet."""
        with self.changed:
            now = [self._jobs[job.id] for job in self._interrupted]
            return [
                job
                for job, then in zip(now, self._interrupted, strict=True)
                if job.state is JobState.RUNNING and job.session_key == then.session_key
            ]

    def break_interrupted(self) -> list[JobRecord]:
        """The members of these jobs have had time to report their ends again, and some have not: they are broken."""
        failure = Failure(who="csp", code=PeerLost.code, text="the CSP was restarted")
        with self.changed:
            return [
                self.breaks(job.id, state=JobState.BROKEN, failures=(*job.failures, failure))
                for job in self.interrupted
            ]

    def queue_enlisted(self) -> None:
        """Queue the jobs for which all members had enlisted when an earlier process ended before it opened a session.

        No member enlists twice for one session, so no call would open it, and they would wait for ever.
        """
        with self.changed:
            for job in list(self._jobs.values()):
                if job.state is JobState.RECRUITING and job.complete:
                    self.change(job.id, state=JobState.QUEUED)

    def submit(self, job: JobRecord) -> JobRecord:
        """Take a new job in."""
        with self.changed:
            if job.id in self._jobs:
                raise ConfigError(f"job {job.id} was submitted before", "submit it again under a new id")
            return self._write(job)

    def numbered(self, asked: JobRecord) -> JobRecord | None:
        """The job that was submitted with this number before; refused where that is another job."""
        with self.changed:
            numbers = {(job.submitter, job.nonce): job for job in self._jobs.values() if job.nonce}
        before = numbers.get((asked.submitter, asked.nonce))
        if before is not None and before.asked != asked.asked:
            raise ConfigError("another job was submitted with this number", "sign every job with a number of its own")
        return before

    def get(self, id: str, caller: str | None = None) -> JobRecord:
        """A job by its id, or by the beginning of it; only its members and its submitter see it."""
        with self.changed:
            found = [job for job in self._jobs.values() if job.id.startswith(id)]
        if not found:
            raise ConfigError(f"no job has an id that begins with {id!r}", "fedsvd job list shows the jobs")
        if len(found) > 1:
            raise ConfigError(f"{len(found)} jobs match {id!r}", "give more of its id: fedsvd job list shows the jobs")
        job = found[0]
        if caller is not None and caller not in (job.submitter, *job.members):
            raise NotAuthenticated(f"{caller} takes no part in this job", _OWN_JOBS)
        return job

    def of(self, caller: str) -> list[JobRecord]:
        """The jobs a caller takes part in or submitted, oldest first."""
        with self.changed:
            return [job for job in self._jobs.values() if caller in (job.submitter, *job.members)]

    def all(self) -> list[JobRecord]:
        """Every job, oldest first: for the CSP's own operator."""
        with self.changed:
            return list(self._jobs.values())

    def open_of(self, submitter: str) -> int:
        """How many jobs of a researcher are not over."""
        with self.changed:
            return sum(job.submitter == submitter and not job.over for job in self._jobs.values())

    @property
    def version(self) -> str:
        """Another text whenever any job has changed."""
        return f"{self._boot}-{self._changes}"

    def changes(self, caller: str, seen: str) -> tuple[list[tuple[str, JobRecord]], bool]:
        """A caller's jobs that changed since this version, each with its own, in that order; whether these are all."""
        boot, _, count = seen.partition("-")
        anew = boot != self._boot or not count.isdecimal()
        known = 0 if anew else int(count)
        with self.changed:
            found = [job for job in self.of(caller) if self._changed_at[job.id] > known]
            found.sort(key=lambda job: self._changed_at[job.id])
            return [(f"{self._boot}-{self._changed_at[job.id]}", job) for job in found], anew

    def listed(self, job: JobRecord) -> ListedJob:
        """A job as lists show it."""
        heading = {name: getattr(job, name) for name in ListedJob.model_fields if name in JobRecord.model_fields}
        try:
            stages = job.stages
        except FedSVDError:
            stages = ()
        more = {"task": job.task, "stages": stages, "enlisted": tuple(job.enlisted), "digest": self._digest(job)}
        return ListedJob(**{**heading, **more}, number=self._numbers[job.id], place=self.place(job.id))

    def _digest(self, job: JobRecord) -> str:
        return self._digests.setdefault(job.id, job.asked.digest)

    # --- the queue ----------------------------------------------------------------------------------------------------

    def queued(self) -> list[JobRecord]:
        """The jobs that wait for a session, the next one first; one that has passed a stage goes before the others."""
        with self.changed:
            waiting = [self._jobs[id] for id in self._queue]
            return sorted(waiting, key=lambda job: not job.passed)

    def place(self, id: str) -> int:
        """Where a job stands in the queue, from 1; 0 for one that does not wait in it."""
        with self.changed:
            if self._jobs[id].state is not JobState.QUEUED:
                return 0
            return 1 + [job.id for job in self.queued()].index(id)

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
                raise NotAuthenticated(f"{caller} is not a member of this job", _OWN_JOBS)
            asked = job.session_key == (id, attempt, stage)
            if asked and job.enlisted.get(caller) == facts:
                return job  # the answer was lost, and the question came again
            if job.state is not JobState.RECRUITING or not asked:
                where = f"attempt {attempt}" if stage is Stage.STUDY else f"attempt {attempt}, {stage}"
                raise ConfigError(
                    f"job {job.short} is not recruiting for {where}",
                    "the site asks again by itself; fedsvd job watch shows where the job is",
                )
            return self._write(job.changed(enlisted={**job.enlisted, caller: facts}))

    def enlisting(self) -> list[tuple[JobRecord, str]]:
        """Members that have begun to enlist and have not ended it, with their jobs."""
        with self.changed:
            begun = [(self._jobs[id], who) for id, said in self._progress.items() for who in said if id in self._jobs]
        return [
            (job, who)
            for job, who in begun
            if job.state is JobState.RECRUITING and who in job.needed and who not in job.enlisted
        ]

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
                raise ConfigError(
                    f"job {job.short} is {job.state}, not broken",
                    "only broken jobs are resumed: fedsvd job watch shows where it is",
                )
            first = job.passed[0].stage if job.passed else job.stage
            self._progress.pop(id, None)
            return self._write(_recruiting(job.changed(attempt=job.attempt + 1, failures=(), passed=()), first))

    def end(self, id: str, caller: str) -> tuple[JobRecord, bool]:
        """A member has ended this stage, and whether all have: then they enlist for the next, or the job is done.

        Also where the attempt was taken for broken, after a restart or because a member was not heard of for a while.
        """
        with self.changed:
            job = self._jobs[id]
            job = job.changed(finished=tuple(sorted({*job.finished, caller})))
            if set(job.finished) != set(job.needed) or job.state not in (JobState.RUNNING, JobState.BROKEN):
                return self._write(job), False
            job = job.changed(failures=())
            rest = job.stages[job.stages.index(job.stage) + 1 :]
            if not rest:
                return self._write(job.changed(state=JobState.DONE)), True
            session = "" if job.plan is None else job.plan.session
            passed = PassedStage(stage=job.stage, session=session, plan_digest=job.plan_digest)
            self._progress.pop(id, None)
            return self._write(_recruiting(job.changed(passed=(*job.passed, passed)), rest[0])), True

    def _write(self, job: JobRecord) -> JobRecord:
        """On disk first, then in memory."""
        before = self._jobs.get(job.id)
        if before is None:
            self._journal.append({"event": "job", "job": job.model_dump(mode="json")})
        elif job != before:
            self._journal.append({"event": "change", "id": job.id, **difference(before, job)})
        return self._put(job)

    def _put(self, job: JobRecord) -> JobRecord:
        job = _in_short(job) if job.over else job
        self._jobs[job.id] = job
        self._numbers.setdefault(job.id, len(self._numbers) + 1)
        self._changes += 1
        self._changed_at[job.id] = self._changes
        if job.state is JobState.QUEUED and job.id not in self._queue:
            self._queue.append(job.id)
        elif job.state is not JobState.QUEUED and job.id in self._queue:
            self._queue.remove(job.id)
        if job.over:
            self._forget_progress()
        self.changed.notify_all()
        return job

    def _forget_progress(self) -> None:
        over = [id for id in self._progress if self._jobs[id].over]
        for id in over[:-_REMEMBERED]:
            del self._progress[id]


def accounts_sent(progress: Mapping[str, Progress]) -> Accounts:
    """The accounts that all roles sent at the end of a session; what does not parse is left out, and never an error."""
    found = Accounts()
    for each in progress.values():
        with suppress(ValueError):
            found = found.with_accounts(accounts_from(each.accounts()))
    return found


def _recruiting(job: JobRecord, stage: Stage) -> JobRecord:
    """The job as it waits for its members to enlist for a stage."""
    return job.changed(state=JobState.RECRUITING, stage=stage, enlisted={}, plan=None, plan_digest="", finished=())


def _in_short(job: JobRecord) -> JobRecord:
    """A job that is over, without what only its sessions needed: certificates, prekeys and the plan's sizes."""
    plan = job.plan
    if plan is not None:
        plan = ProposedPlan(session=plan.session, certain_bound=plan.certain_bound, csp_identity=plan.csp_identity)
    # A CSP remembers all its jobs: names and shapes that many of them have are held once.
    members = tuple(map(sys.intern, job.members))
    shapes = {sys.intern(who): _shape(said.rows, said.columns) for who, said in job.enlisted.items()}
    finished = members if job.finished == members else tuple(map(sys.intern, job.finished))
    return job.changed(enlisted=shapes, plan=plan, members=members, finished=finished)


@lru_cache(maxsize=4096)
def _shape(rows: int, columns: int) -> EnlistedFacts:
    return EnlistedFacts(rows=rows, columns=columns)
