"""What an owner agreed to, job by job, and what is left of it: an approval is for one study, and is spent by it.

    KIT/approvals/JOB.json     the job's digest, the data's digest, every attempt that began, when it finished here
    KIT/approvals/refusals     the jobs that our own table refused, by researcher and table

A study that runs again shows the same data under new masks, and every repetition shows a little more; so an approval
ends when the job has finished here, or after as many failed attempts as the policy allows. An attempt counts from the
first sum on, whichever of its stages that is in; one that failed while keys were exchanged does not, nor does the one
that is repeated under the certain bound (FSVD-301).
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from fedsvd.errors import ApprovalSpent, ReleaseRefused, SourceChanged, StorageError
from fedsvd.policy.rules import NOTHING, SHARED, Finding, Policy
from fedsvd.service.enlist import plain_id
from fedsvd.service.records import JobHeading, JobRecord, ListedJob
from fedsvd.storage import private
from fedsvd.studies.job_stages import Stage

MOST_REFUSALS = 3
"""Refusals of one researcher's jobs on one table, after which its next jobs wait for the owner. Each is one bit of that
table, and a search by halves needs few of them."""

_REFUSALS = "refusals"
_BEFORE_ANY_SUM = ("new", "keys", "seeding", "checking")


@dataclass(frozen=True)
class Begun:
    """One session of an attempt at a job that began here."""

    attempt: int
    when: str
    certain: bool  # under the certain bound
    counts: bool  # False for one that failed before any sum
    stage: str = Stage.STUDY  # the session of it that began


@dataclass(frozen=True)
class Approval:
    """What one owner agreed to, and what has become of it."""

    job: str
    digest: str  # of the job file, its submitter, its members and its number
    when: str
    source: str = ""  # digest of the data; empty until it is read, where jobs are approved without being asked
    answered: tuple[str, ...] = ()  # rules that asked the owner, who agreed
    attempts: tuple[Begun, ...] = ()
    finished: str = ""
    researcher: str = NOTHING  # what the researcher gets where all parties agree

    @property
    def failed(self) -> int:
        """Attempts that count; the one that the certain bound repeats does not."""
        counted = [attempt for attempt in self.attempts if attempt.counts]
        repeated = {attempt.certain for attempt in counted} == {False, True}
        # An attempt has one session of each stage; a CSP that shows the same one twice asks for one more attempt.
        sessions = Counter((attempt.attempt, attempt.stage) for attempt in counted)
        attempts = {number: 0 for number, _ in sessions}
        for (number, _), times in sessions.items():
            attempts[number] = max(attempts[number], times)
        return sum(attempts.values()) - repeated

    @property
    def history(self) -> str:
        """What became of it, in words; empty where no session has begun."""
        if self.finished:
            return f"approved {self.when}, finished here {self.finished}: its results stay, new ones go next to them"
        if not self.attempts:
            return ""
        began = len({one.attempt for one in self.attempts})
        return f"approved {self.when}, {began} attempt(s) failed here, of which {self.failed} count"

    def spent(self, failed_attempts: int, job: JobHeading) -> bool:
        """Whether the owner must be asked again before this session."""
        try:
            self.expect_unspent(failed_attempts, job)
        except ApprovalSpent:
            return True
        return False

    def expect_unspent(self, failed_attempts: int, record: JobHeading | None = None) -> None:
        """Raise ``ApprovalSpent`` where the owner must be asked again; earlier stages of this attempt did not fail."""
        if record is not None:
            passed = [(record.attempt, str(stage)) for stage in record.stage.earlier]
            rest = tuple(one for one in self.attempts if (one.attempt, one.stage) not in passed)
            return replace(self, attempts=rest).expect_unspent(failed_attempts)
        again = "look at what happened, then approve it again: fedsvd job approve"
        if self.finished:
            raise ApprovalSpent(f"job {self.job[:8]} has already run here, and its approval is spent", again)
        if self.failed and self.failed >= failed_attempts:
            raise ApprovalSpent(
                f"{self.failed} attempts at job {self.job[:8]} failed here, and its approval covers no more", again
            )


class Approvals:
    """All approvals of one kit."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, record: JobRecord) -> Approval | None:
        """The approval of this job as it stands; None where it was not approved, or has changed since."""
        path = self._path(record.id)
        if not path.exists():
            return None
        approval = _read(path)
        return approval if approval.digest == record.asked.digest else None

    def digests(self) -> set[str]:
        """The digests of all jobs that were approved here."""
        return {_read(path).digest for path in self._folder.glob("*.json")}

    def standing(self, job: ListedJob, failed_attempts: int) -> str:
        """What became of the approval of a job in a list, in words; whether it is as it was, the CSP says here."""
        path = self._path(job.id)
        approval = _read(path) if path.exists() else None
        if approval is None or approval.digest != job.digest:
            return "awaits approval"
        return "approval spent" if approval.spent(failed_attempts, job) else "approved"

    def changed(self, record: JobRecord) -> bool:
        """Whether a job of this id was approved, and is another one now."""
        return self._path(record.id).exists() and self.of(record) is None

    def of_or_given(self, record: JobRecord, always: bool, researcher: str) -> Approval | None:
        """What the owner agreed to; with ``always`` a job without an approval is agreed to now, once."""
        found = self.of(record)
        if found is None and always and not self.changed(record):
            return self.give(record, researcher=researcher)
        return found

    def give(
        self,
        record: JobRecord,
        source: str = "",
        researcher: str = NOTHING,
        answered: tuple[str, ...] = (),
    ) -> Approval:
        """The owner agrees to this job as it stands, with this data; whatever became of an earlier approval."""
        asked = record.asked.digest
        return self._write(Approval(record.id, asked, _now(), source, answered, researcher=researcher))

    def expect_answered(
        self, record: JobRecord, approval: Approval | None, found: Iterable[Finding], table: str | None
    ) -> None:
        """Raise where our own table is below the policy, or asks something that no person answered for this job."""
        try:
            expect_answered(approval, found)
        except ReleaseRefused:
            self._refuse(record, table)
            raise

    def _refuse(self, record: JobRecord, table: str | None) -> None:
        """Our own table refused this job of this researcher on this table; once for each job."""
        private.private_folder(self._folder)
        with private.locked(self._folder):
            found = self._refusals()
            jobs = found.setdefault(f"{record.submitter} {table}", [])
            if record.id not in jobs:
                jobs.append(record.id)
                private.replace(self._folder / _REFUSALS, json.dumps(found).encode())

    def refused_often(self, record: JobRecord, table: str | None) -> bool:
        """Whether jobs of this researcher on this table wait for the owner from now on."""
        return len(self._refusals().get(f"{record.submitter} {table}", [])) >= MOST_REFUSALS

    def _refusals(self) -> dict[str, list[str]]:
        path = self._folder / _REFUSALS
        try:
            found: dict[str, list[str]] = json.loads(private.read(path)) if path.exists() else {}
        except ValueError:
            raise StorageError(f"{path} is damaged", "look at its jobs, then remove it") from None
        return found

    def bring(self, approval: Approval, source: str) -> None:
        """This data is brought; ``SourceChanged`` unless it is what was approved."""
        if not approval.source:
            self._write(replace(approval, source=source))
        elif approval.source != source:
            raise SourceChanged(
                "the data changed since this job was approved", "approve it again: fedsvd job approve shows it again"
            )

    def begin(self, record: JobRecord) -> None:
        """A session of this attempt begins; until it is known to have failed early, it counts."""
        begun = Begun(record.attempt, _now(), record.certain_bound, counts=True, stage=str(record.stage))
        self._change(record, lambda approval: replace(approval, attempts=(*approval.attempts, begun)))

    def fail(self, record: JobRecord, stage: str) -> None:
        """This attempt failed; one that failed before any sum does not count."""

        def forgiven(approval: Approval) -> Approval:
            failed = record.attempt, record.stage  # its earlier stages, which had sums, count as they did
            attempts = (
                replace(one, counts=one.counts and (one.attempt, one.stage) != failed) for one in approval.attempts
            )
            return replace(approval, attempts=tuple(attempts))

        if stage in _BEFORE_ANY_SUM:
            self._change(record, forgiven)

    def spend(self, record: JobRecord) -> None:
        """The job has finished here."""
        self._change(record, lambda approval: replace(approval, finished=_now()))

    def _change(self, record: JobRecord, change: Callable[[Approval], Approval]) -> None:
        """Change an approval while no one else does: its owner may be approving in another process."""
        if self.of(record) is None:
            return
        with private.locked(self._folder):
            approval = self.of(record)
            if approval is not None:
                self._write(change(approval))

    def _write(self, approval: Approval) -> Approval:
        private.private_folder(self._folder)
        private.replace(self._path(approval.job), json.dumps(asdict(approval)).encode())
        return approval

    def _path(self, id: str) -> Path:
        return self._folder / f"{plain_id(id)}.json"


def researcher_gets(policy: Policy, answer: str | None = None) -> str:
    """What the researcher of a job gets: what the owner answers, or else what the policy says; nothing if neither does.

    ``ReleaseRefused`` for an answer that the policy does not allow.
    """
    if answer == SHARED and policy.researcher == NOTHING:
        raise ReleaseRefused(
            "your policy gives no result to a researcher", 'leave --researcher out, or policy.toml: researcher = "ask"'
        )
    return answer or (SHARED if policy.researcher == SHARED else NOTHING)


def expect_answered(approval: Approval | None, found: Iterable[Finding]) -> None:
    """Raise where a finding is below the policy, or asks something that this approval has no answer to."""
    answered = () if approval is None else approval.answered
    for finding in found:
        if finding.below:
            raise ReleaseRefused(f"this study is below your policy: {finding}", "ask for other columns, or refuse it")
        if finding.asks and finding.rule not in answered:
            raise ReleaseRefused(
                f"this study asks its owner, and was approved without an answer: {finding}",
                "approve it yourself, without --yes: fedsvd job approve; or policy.toml: "
                f'answered = ["{finding.rule}"] if you always agree',
            )


def expect_covered(approval: Approval | None, found: Iterable[Finding]) -> None:
    """Raise where data is below the policy next to that of earlier studies, or the owner was not asked about it."""
    held = tuple(found)
    below = [finding for finding in held if finding.below]
    if below:
        way = "bring the records of the earlier study, or many new ones" if below[0].rule == "re-run" else "refuse it"
        fix = f"{way}; fedsvd table forget makes this site forget a study, 30 days after it began"
        raise ReleaseRefused(f"this study is below your policy: {below[0]}", fix)
    expect_answered(approval, held)


def _read(path: Path) -> Approval:
    try:
        values = json.loads(private.read(path))
        values.pop("unlike", None)  # of 0.2.0: versions that it could not compare
        values["answered"] = tuple(values.get("answered", ()))
        values["attempts"] = tuple(Begun(**one) for one in values.get("attempts", ()))
        return Approval(**values)
    except (ValueError, TypeError, AttributeError):
        raise StorageError(f"{path} is damaged", "remove it and approve the job again") from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
