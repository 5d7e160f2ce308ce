"""What both ends of the control plane know of a job: typed records, read once from the wire or from the CSP's journal.

What members report of their progress and failures is shown on terminals and pages: here it becomes text that can be
shown, and numbers that are numbers. Job files, plans and certificates are as they were sent, because they are compared.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictInt,
    model_serializer,
    model_validator,
)

from fedsvd.errors import FedSVDError, printable
from fedsvd.protocol.asked import Asked, bound_digest
from fedsvd.protocol.certificate import ACCOUNTS
from fedsvd.studies.job_file import MOST_PARTIES, Job
from fedsvd.studies.job_stages import Stage, stages_of
from fedsvd.studies.planning import LONGEST_SIDE
from fedsvd.studies.submitted import submitted_job

_LONGEST_WORD = 200  # characters of a stage, a name, a key
_LONGEST_REASON = 500  # characters of a failure's text
_LONGEST_CERTIFICATE = 16 << 10
_MOST_ENTRIES = 5000
_LARGEST_COUNT = 2**63 - 1
MOST_EARLIER = 1000
"""Earlier jobs on its table that a member names: the newest ones."""


def _shown(longest: int) -> BeforeValidator:
    return BeforeValidator(lambda value: printable(value, longest) if isinstance(value, str) else value)


Word = Annotated[str, _shown(_LONGEST_WORD)]
Words = Annotated[tuple[Word, ...], Field(max_length=MOST_PARTIES + 1)]
Compared = Annotated[str, Field(max_length=_LONGEST_WORD)]  # shown nowhere, and so as it was
Certificate = Annotated[str, Field(max_length=_LONGEST_CERTIFICATE)]
Count = Annotated[StrictInt, Field(ge=0, le=_LARGEST_COUNT)]
Extent = Annotated[StrictInt, Field(ge=0, le=LONGEST_SIDE)]  # rows or columns of one member's table
JsonObject = dict[str, JsonValue]


class Record(BaseModel):
    """Values that do not change, with no key beyond those that are named."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, hide_input_in_errors=True)


class _Partial(Record):
    """A record of which only what was set is written."""

    @model_serializer(mode="wrap")
    def _only_said(self, write: SerializerFunctionWrapHandler) -> JsonObject:
        return {key: value for key, value in write(self).items() if key in self.model_fields_set}


# --- what members report of themselves --------------------------------------------------------------------------------


class EnlistedFacts(_Partial):
    """What a member enlists with: shapes, never values; an authority sends its certificate and key alone."""

    certificate: Certificate = ""
    signing: Compared = ""  # the public key, in hexadecimal
    rows: Extent = 0
    columns: Extent = 0
    label: StrictBool = False  # whether the labels are here
    features: Compared = ""  # digest of the column names, where they must agree
    names: Compared = ""  # the same of the names in their own order, whichever the table has them in
    prekey: Annotated[str, Field(max_length=1000)] = ""
    earlier: Annotated[tuple[Compared, ...], Field(max_length=MOST_EARLIER)] = ()  # digests of jobs with this table

    def also(self, other: "EnlistedFacts") -> "EnlistedFacts":
        """These facts, and those set in the other."""
        return self.model_copy(update={name: getattr(other, name) for name in other.model_fields_set})


class Failure(Record):
    """How an attempt failed at a role, as it can be shown to the others; what cannot be is cut or left out."""

    who: Word = ""
    code: str = ""
    stage: str = ""
    text: str = ""  # empty where it concerns the member's own data

    @model_validator(mode="before")
    @classmethod
    def _as_shown(cls, said: object) -> object:
        if not isinstance(said, dict):
            return said
        longest = {"who": _LONGEST_WORD, "code": 16, "stage": _LONGEST_WORD, "text": _LONGEST_REASON}
        return {key: printable(said[key], longest[key]) for key in longest if key in said}


AWAITS_APPROVAL = "awaiting approval"  # the stage of a member whose owner has not agreed to a job, or must once more


class Progress(_Partial):
    """How far a role has come; what cannot be shown is left out, and never an error: no job fails because of it."""

    stage: str = ""
    done: Count = 0
    total: Count = 0
    sent: Count = 0  # bytes
    received: Count = 0
    awaits: tuple[str, ...] = ()  # members that have not joined yet
    bytes_by_link: dict[str, int | float] = {}
    messages_by_link: dict[str, int | float] = {}
    seconds_by_stage: dict[str, int | float] = {}
    began_by_stage: dict[str, int | float] = {}
    bytes_by_kind: dict[str, int | float] = {}
    peak_memory: dict[str, int | float] = {}

    @model_validator(mode="before")
    @classmethod
    def _as_shown(cls, said: object) -> object:
        return _progress_values(said)

    def accounts(self) -> dict[str, dict[str, int | float]]:
        """What the role sent and how long it took, for the certificate; there once it is done."""
        return {name: getattr(self, name) for name in ACCOUNTS if name in self.model_fields_set}


def _progress_values(said: object) -> dict[str, object]:
    """The entries of a progress that have the type they should have."""
    found: dict[str, object] = {}
    for key, value in said.items() if isinstance(said, dict) else ():
        if key == "stage" and isinstance(value, str):
            found[key] = printable(value, _LONGEST_WORD)
        elif key in ("done", "total", "sent", "received") and _is_number(value):
            found[key] = int(value)
        elif key == "awaits" and isinstance(value, list | tuple):
            texts = (each for each in value[:_MOST_ENTRIES] if isinstance(each, str))
            found[key] = tuple(printable(each, _LONGEST_WORD) for each in texts)
        elif key in ACCOUNTS and isinstance(value, dict):
            pairs = list(value.items())[:_MOST_ENTRIES]
            found[key] = {printable(name, _LONGEST_WORD): each for name, each in pairs if _is_number(each)}
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT


# --- jobs -------------------------------------------------------------------------------------------------------------


class JobState(StrEnum):
    """Where a job stands; the last two are ends."""

    RECRUITING = "recruiting"
    QUEUED = "queued"  # every member has enlisted, and the CSP runs as many sessions as it may
    RUNNING = "running"
    BROKEN = "broken"  # an attempt ended badly; it may be resumed
    DONE = "done"
    STOPPED = "stopped"


class ProposedPlan(Record):
    """The CSP's plan; a member makes its own from the same facts, and takes these three values from here."""

    model_config = ConfigDict(extra="allow")

    session: Compared
    certain_bound: StrictBool = False
    csp_identity: Compared = ""


class PassedStage(Record):
    """A session of this attempt that all members have ended."""

    stage: Stage
    session: Compared
    plan_digest: Compared


class JobHeading(Record):
    """What lists say of a job, and what a member decides by."""

    id: Word
    name: Word
    submitter: Word
    members: Words  # callers that must enlist
    state: JobState = JobState.RECRUITING
    attempt: Count = 1
    stage: Stage = Stage.STUDY  # which session members enlist for, or take part in
    finished: Words = ()

    @property
    def short(self) -> str:
        """The beginning of the id, by which people refer to a job."""
        return self.id[:8]

    @property
    def needed(self) -> tuple[str, ...]:
        """The members that take part in this stage: no authority deals for a matching."""
        if self.stage is not Stage.MATCH:
            return self.members
        return tuple(member for member in self.members if member.startswith("party/"))

    @property
    def over(self) -> bool:
        return self.state in (JobState.DONE, JobState.STOPPED)

    @property
    def under_way(self) -> bool:
        """Whether a session of this attempt is waited for, or runs."""
        return self.state in (JobState.RECRUITING, JobState.QUEUED, JobState.RUNNING)

    @property
    def attempt_key(self) -> tuple[str, int]:
        """What names one attempt at this job."""
        return self.id, self.attempt

    @property
    def session_key(self) -> tuple[str, int, Stage]:
        """What names one session of it: a stage of an attempt."""
        return self.id, self.attempt, self.stage

    def changed(self, **values: Any) -> Self:
        """The same job with these values."""
        return self.model_copy(update=values)


class JobRecord(JobHeading):
    """One job as the CSP knows it; nothing in it is secret from its parties."""

    file: JsonObject  # the job file, without data paths, as it was submitted
    nonce: Compared = ""  # a number of the submitter's, used once; parties spend it
    signature: Compared = ""  # of the submitter, over file, submitter, members and nonce
    certificate: Certificate = ""  # the submitter's
    # The stages before this one, in this attempt.
    passed: Annotated[tuple[PassedStage, ...], Field(max_length=len(Stage))] = ()
    enlisted: Annotated[dict[Word, EnlistedFacts], Field(max_length=MOST_PARTIES + 1)] = {}
    plan: ProposedPlan | None = None
    plan_digest: Compared = ""
    failures: Annotated[tuple[Failure, ...], Field(max_length=_MOST_ENTRIES)] = ()  # of this attempt
    certain_bound: StrictBool = False  # an attempt overflowed: the next takes the certain bound

    @cached_property
    def job(self) -> Job:
        """The job file, parsed and checked."""
        return submitted_job(self.file)

    @property
    def complete(self) -> bool:
        """Whether all members of this stage have enlisted."""
        return set(self.enlisted) == set(self.needed)

    @property
    def asked(self) -> Asked:
        """What the submitter signs, owners approve, and every plan of this job holds the digest of."""
        return Asked(self.file, self.submitter, self.members, self.nonce)

    @property
    def bound(self) -> str:
        """What the plan of this session holds: the digest of the job, and of the sessions of it that came before.

        Tables are prepared by what an earlier session gave: parties with answers of different ones have no plan.
        """
        earlier = [[str(each.stage), each.session, each.plan_digest] for each in self.passed]
        digest = self.asked.digest
        return bound_digest(digest, earlier) if earlier else digest

    def parsed_as(self, job: Job) -> Self:
        """The same record where its submitter reads it, who has parsed the job file already."""
        self.__dict__["job"] = job
        return self

    @property
    def task(self) -> str:
        """The task's name, for lists; empty for a job file that does not parse."""
        try:
            return str(self.job.study.task)
        except FedSVDError:
            return ""

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """All stages of this job, in order."""
        return stages_of(self.job)

    @property
    def in_stage(self) -> str:
        """Which of its sessions a job is at, for people; empty for a job of one."""
        try:
            return in_stage(self.stage, self.stages)
        except FedSVDError:
            return ""


def in_stage(stage: Stage, stages: tuple[Stage, ...]) -> str:
    """Which session of a job this is, for people; empty for a job of one."""
    if len(stages) < 2 or stage not in stages:
        return ""
    return f"session {stages.index(stage) + 1} of {len(stages)}, {stage}"


class ListedJob(JobHeading):
    """A job in a list: without its file, its members' facts, its plan and its failures."""

    number: Count  # jobs are counted as they are submitted
    task: Word = ""
    stages: tuple[Stage, ...] = ()
    enlisted: Words = ()
    digest: Compared = ""  # of what an owner approves, as the CSP has it
    place: Count = 0  # in the queue, from 1; 0 for a job that does not wait in it

    @property
    def in_stage(self) -> str:
        return in_stage(self.stage, self.stages)


class WatchedJob(JobRecord):
    """A job with the progress of its roles, by caller; the CSP itself is ``csp``."""

    progress: Annotated[dict[Word, Progress], Field(max_length=MOST_PARTIES + 2)] = {}
    seen: Word = ""  # another text whenever anything of this has changed
    place: Count = 0  # in the CSP's queue, from 1; 0 for a job that does not wait in it

    def progress_of(self, role: str) -> Progress:
        return self.progress.get(role, Progress())

    @classmethod
    def of(cls, job: JobRecord, progress: Mapping[str, Progress], seen: str, place: int = 0) -> Self:
        """The job with this progress, and its place in the queue."""
        fields = {name: getattr(job, name) for name in JobRecord.model_fields}
        return cls.model_construct(**fields, progress=dict(progress), seen=seen, place=place)
