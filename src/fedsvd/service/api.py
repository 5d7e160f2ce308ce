"""What may be asked of a CSP, by whom, and what it answers: typed records, the same at both ends of the ``Ask`` call.

submit   researcher          a job file, signed     -> JobRecord
jobs     any caller          under way or all       -> JobPage: the caller's jobs in short that changed since ``seen``,
                             seen, seconds             a page of them; with ``seconds``, once there are any
job      member, submitter   id                     -> WatchedJob, with the progress of all roles
wait     member, submitter   id, seconds            -> WatchedJob, once it changes
enlist   member              id, attempt, facts     -> JobRecord
report   member              id, progress           -> Nothing
ended    member              id, attempt, failure?  -> JobRecord
resume   member, submitter   id                     -> JobRecord, recruiting again
stop     member, submitter   id                     -> JobRecord, stopped
who      member, submitter   id                     -> Certificates of the members, as far as they have called
handover party               id, number, sealed     -> Nothing: a sealed message for the researcher
handed   submitter           id, member, number     -> Sealed: that message, or nothing
taken    submitter           id                     -> Nothing: the researcher has them; the CSP removes them
now      any caller          -                      -> Clock: the CSP's clock and version

A question is ``{"ask": verb, "with": values}``, an answer ``{"answer": record}`` or ``{"error": ...}``, in JSON, each
with the version of its sender, which is looked at before anything else (``wire/version.py``). Both
are parsed once, here; unknown keys, wrong types and long values are refused. Texts of peers are printable when they
leave here; job files, plans and certificates are as they were, because they are compared. A question or an answer that
is too large is an error of that question, and of nothing else.
"""

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, Field, PlainSerializer, PlainValidator, RootModel, StrictBool, ValidationError

from fedsvd.errors import ConfigError, FedSVDError
from fedsvd.service.records import (
    Certificate,
    Compared,
    Count,
    EnlistedFacts,
    Failure,
    JobRecord,
    JsonObject,
    ListedJob,
    Progress,
    Record,
    WatchedJob,
    Word,
)
from fedsvd.studies.job_file import MOST_PARTIES
from fedsvd.studies.job_stages import Stage
from fedsvd.transport.calls import LARGEST_CALL
from fedsvd.wire.reader import malformed
from fedsvd.wire.version import MARK, expect_version

LARGEST = 1 << 20  # bytes of a question
LARGEST_ANSWER = LARGEST_CALL - 4096
_LONGEST_SECONDS = 3600.0
_MOST_LISTED = 1000  # jobs of an answer
_FEW = Field(max_length=MOST_PARTIES + 1)
_SAME_VERSION = "check what is asked, and run the same version everywhere"
_LARGEST_FACTS = 16 << 10  # bytes of a question with facts about the member itself


def _from_base64(value: object) -> bytes:
    return value if isinstance(value, bytes) else b64decode(str(value), validate=True)


Base64Bytes = Annotated[bytes, PlainValidator(_from_base64), PlainSerializer(lambda body: b64encode(body).decode())]


# --- answers ----------------------------------------------------------------------------------------------------------


class JobPage(Record):
    """A caller's jobs in short that changed since a version, up to the version ``seen``."""

    jobs: Annotated[tuple[ListedJob, ...], Field(max_length=_MOST_LISTED)]
    seen: Word
    more: StrictBool = False  # there are others: ask again with ``seen``
    anew: StrictBool = False  # all jobs are listed: the version that was asked for is not known here


class Certificates(RootModel[Annotated[dict[Word, Annotated[str, Field(max_length=_LARGEST_FACTS)]], _FEW]]):
    """Certificates in PEM, by the callers that came with them."""


class Clock(Record):
    """The CSP's clock, in ISO 8601, and its version."""

    now: Word
    fedsvd: Word


class Sealed(Record):
    """A message that a party sealed for the researcher; None where it sent none."""

    sealed: Base64Bytes | None = None


class Nothing(RootModel[None]):
    """No answer is needed."""

    root: None = None


# --- questions and verbs ----------------------------------------------------------------------------------------------

Seconds = Annotated[float, Field(ge=0, le=_LONGEST_SECONDS, allow_inf_nan=False)]


class Submit(Record):
    file: JsonObject
    nonce: Compared = ""
    signature: Compared = ""
    certificate: Certificate = ""


class ListJobs(Record):
    under_way: StrictBool = False
    seen: Word = ""
    anew: StrictBool = False  # this asks for another page of a list that began anew
    instance: Word = ""  # which process of a member asks, where it goes on asking
    seconds: Seconds = 0.0


class About(Record):
    id: Word


class Wait(About):
    seconds: Seconds = 10.0
    seen: Word = ""


class Enlist(About):
    attempt: Count
    stage: Stage = Stage.STUDY
    facts: EnlistedFacts


class Report(About):
    progress: Progress


class Ended(About):
    attempt: Count
    stage: Stage = Stage.STUDY
    failure: Failure | None = None


class HandOver(About):
    attempt: Count
    number: Count
    sealed: Base64Bytes


class Handed(About):
    member: Word
    number: Count


class Now(Record):
    """No values."""


Q = TypeVar("Q", bound=BaseModel)
A = TypeVar("A", bound=BaseModel)


@dataclass(frozen=True)
class Verb(Generic[Q, A]):
    """One question that may be asked, and the answer to it."""

    name: str
    question: type[Q]
    answer: type[A]
    largest: int = LARGEST  # bytes of the question


SUBMIT = Verb("submit", Submit, JobRecord)
JOBS = Verb("jobs", ListJobs, JobPage)
JOB = Verb("job", About, WatchedJob)
WAIT = Verb("wait", Wait, WatchedJob)
ENLIST = Verb("enlist", Enlist, JobRecord, _LARGEST_FACTS)
REPORT = Verb("report", Report, Nothing, _LARGEST_FACTS)
ENDED = Verb("ended", Ended, JobRecord)
RESUME = Verb("resume", About, JobRecord)
STOP = Verb("stop", About, JobRecord)
WHO = Verb("who", About, Certificates)
HANDOVER = Verb("handover", HandOver, Nothing)
HANDED = Verb("handed", Handed, Sealed)
TAKEN = Verb("taken", About, Nothing)
NOW = Verb("now", Now, Clock)
VERBS: dict[str, Verb[Any, Any]] = {
    verb.name: verb
    for verb in (SUBMIT, JOBS, JOB, WAIT, ENLIST, REPORT, ENDED, RESUME, STOP, WHO, HANDOVER, HANDED, TAKEN, NOW)
}


def written_question(verb: Verb[Q, A], question: Q) -> bytes:
    """A question as it is sent."""
    body = json.dumps({**MARK, "ask": verb.name, "with": question.model_dump(mode="json")}).encode()
    if len(body) > LARGEST:
        raise ConfigError(f"a question of {len(body):,} bytes, more than {LARGEST:,}", "shorten the job file")
    return body


def read_question(body: bytes) -> tuple[Verb[Any, Any], BaseModel]:
    """The verb and its question; ``MalformedFrame`` for what is no question, ``ConfigError`` for wrong values."""
    if len(body) > LARGEST:
        raise malformed()
    try:
        said = json.loads(body)
        if isinstance(said, dict) and "ask" in said:
            expect_version(said, "the caller")
        name, values = said["ask"], said["with"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise malformed() from None
    if not isinstance(name, str) or not isinstance(values, dict):
        raise malformed()
    verb = VERBS.get(name)
    if verb is None:
        raise ConfigError(f"{name[:40]!r} is not a question", f"one of {', '.join(VERBS)}")
    if len(body) > verb.largest:
        raise ConfigError(f"a question {name!r} of {len(body):,} bytes", f"at most {verb.largest:,}")
    try:
        return verb, verb.question.model_validate(values)
    except ValidationError as fault:
        raise ConfigError(f"a question with values it does not take: {_first(fault)}", _SAME_VERSION) from None
    except RecursionError:
        raise ConfigError("a question with values it does not take", _SAME_VERSION) from None


def _first(fault: ValidationError) -> str:
    """Where the first fault of a question is and what would be right; no value of it."""
    first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part.isidentifier())
    return f"{place[:80]}: {first['msg'][:200]}"


def written_answer(answer: BaseModel) -> bytes:
    """An answer as it is sent."""
    body = json.dumps({**MARK, "answer": answer.model_dump(mode="json")}).encode()
    if len(body) > LARGEST_ANSWER:
        fault = f"the answer has {len(body):,} bytes, more than the {LARGEST_ANSWER:,} of one answer"
        raise ConfigError(fault, "ask the CSP's operator: this job has grown too large")
    return body


def written_error(error: FedSVDError) -> bytes:
    """An error of ours as an answer: code, fault and fix reach the person who asked."""
    return json.dumps({**MARK, "error": {"code": error.code, "fault": error.fault, "fix": error.fix}}).encode()
