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
from fedsvd.protocol.certificate import ACCOUNTS
from fedsvd.studies.job_file import MOST_PARTIES, Job
from fedsvd.studies.job_stages import Stage, stages_of
from fedsvd.studies.submitted import submitted_job

_LONGEST_WORD = 200  # characters of a stage, a name, a key
_LONGEST_REASON = 500  # characters of a failure's text
_LONGEST_CERTIFICATE = 16 << 10
_MOST_ENTRIES = 5000
_LARGEST_COUNT = 2**63 - 1


def _shown(longest: int) -> BeforeValidator:
    return BeforeValidator(lambda value: printable(value, longest) if isinstance(value, str) else value)


Word = Annotated[str, _shown(_LONGEST_WORD)]
Words = Annotated[tuple[Word, ...], Field(max_length=MOST_PARTIES + 1)]
Compared = Annotated[str, Field(max_length=_LONGEST_WORD)]  # shown nowhere, and so as it was
Count = Annotated[StrictInt, Field(ge=0, le=_LARGEST_COUNT)]
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

    certificate: Annotated[str, Field(max_length=_LONGEST_CERTIFICATE)] = ""
    signing: Compared = ""  # the public key, in hexadecimal
    rows: Count = 0
    columns: Count = 0
    label: StrictBool = False  # whether the labels are here
    features: Compared = ""  # digest of the column names, where they must agree
    names: Compared = ""  # the same of the names in their own order, whichever the table has them in
    prekey: Annotated[str, Field(max_length=1000)] = ""

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


class JobRecord(Record):
    """One job as the CSP knows it; nothing in it is secret from its parties."""

    id: Word
    name: Word
    file: JsonObject  # the job file, without data paths, as it was submitted
    submitter: Word
    members: Words  # callers that must enlist
    state: JobState = JobState.RECRUITING
    attempt: Count = 1
    stage: Stage = Stage.STUDY  # which session members enlist for, or take part in
    passed: tuple[PassedStage, ...] = ()  # the stages before it, in this attempt
    enlisted: dict[Word, EnlistedFacts] = {}
    plan: ProposedPlan | None = None
    plan_digest: Compared = ""
    finished: Words = ()
    failures: tuple[Failure, ...] = ()  # of this attempt
    certain_bound: StrictBool = False  # an attempt overflowed: the next takes the certain bound

    @cached_property
    def job(self) -> Job:
        """The job file, parsed and checked."""
        return submitted_job(self.file)

    def parsed_as(self, job: Job) -> Self:
        """The same record where its submitter reads it, who has parsed the job file already."""
        self.__dict__["job"] = job
        return self

    @property
    def short(self) -> str:
        """The beginning of the id, by which people refer to a job."""
        return self.id[:8]

    @property
    def task(self) -> str:
        """The task's name, for lists; empty for a job file that is none."""
        try:
            return str(self.job.study.task)
        except FedSVDError:
            return ""

    @property
    def needed(self) -> tuple[str, ...]:
        """The members that take part in this stage: no authority deals for a matching."""
        if self.stage is not Stage.MATCH:
            return self.members
        return tuple(member for member in self.members if member.startswith("party/"))

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """All stages of this job, in order."""
        return stages_of(self.job)

    @property
    def in_stage(self) -> str:
        """Which of its sessions a job is at, for people; empty for a job of one."""
        try:
            stages = self.stages
        except FedSVDError:
            return ""
        if len(stages) < 2 or self.stage not in stages:
            return ""
        return f"session {stages.index(self.stage) + 1} of {len(stages)}, {self.stage}"

    @property
    def over(self) -> bool:
        return self.state in (JobState.DONE, JobState.STOPPED)

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


class WatchedJob(JobRecord):
    """A job with the progress of its roles, by caller; the CSP itself is ``csp``."""

    progress: dict[Word, Progress] = {}
    seen: Word = ""  # another text whenever anything of this has changed

    def progress_of(self, role: str) -> Progress:
        return self.progress.get(role, Progress())

    @classmethod
    def of(cls, job: JobRecord, progress: Mapping[str, Progress], seen: str) -> Self:
        """The job with this progress."""
        fields = {name: getattr(job, name) for name in JobRecord.model_fields}
        return cls.model_construct(**fields, progress=dict(progress), seen=seen)
