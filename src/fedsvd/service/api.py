"""Questions about jobs, as JSON over the ``Ask`` call: what may be asked of a CSP, by whom, and how it is read.

submit   researcher          a job file             -> the job
jobs     anybody             under way or all       -> the jobs the caller takes part in, in short, a page of them
job      member, submitter   id                     -> one job, with everybody's progress
wait     member, submitter   id, seconds            -> the same, once it changes
enlist   member              id, attempt, facts     -> the job
tell     member              id, progress           -> nothing
ended    member              id, attempt, failure?  -> the job
resume   member, submitter   id                     -> the job, recruiting again
stop     member, submitter   id                     -> the job, stopped
who      member, submitter   id                     -> the members' certificates, as far as they have called
now      anybody             -                      -> the CSP's clock and version

A question or an answer that is too large is an error of that question, and of nothing else. Texts of peers in an answer
are printable when they leave here; job files, plans and certificates are as they were, for they are compared.
"""

import json
import re
from typing import Any

from fedsvd.errors import ConfigError, FedSVDError, MalformedFrame, TransportError, printable
from fedsvd.service.jobs import failure_from, progress_from
from fedsvd.transport.calls import ASK, LARGEST_CALL
from fedsvd.transport.grpc_client import PinnedConnection
from fedsvd.wire.reader import malformed

LARGEST = 1 << 20  # bytes of a question
LARGEST_ANSWER = LARGEST_CALL - 4096
_ABOUT_A_JOB = ("submit", "job", "wait", "enlist", "ended", "resume", "stop")
_KINDS = {
    **dict.fromkeys(("id", "name", "state", "submitter"), str),
    **dict.fromkeys(("members", "finished", "failures"), list),
    **dict.fromkeys(("file", "enlisted"), dict),
    "attempt": int,
}


def asked(body: bytes) -> tuple[str, dict[str, Any]]:
    """The verb and its values, or ``MalformedFrame``."""
    if len(body) > LARGEST:
        raise malformed()
    try:
        question = json.loads(body)
        verb, values = question["ask"], question["with"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise malformed() from None
    if not isinstance(verb, str) or not isinstance(values, dict):
        raise malformed()
    return verb, values


def answered(value: Any) -> bytes:
    body = json.dumps({"answer": value}).encode()
    if len(body) > LARGEST_ANSWER:
        fault = f"the answer has {len(body):,} bytes, more than the {LARGEST_ANSWER:,} of one answer"
        raise ConfigError(fault, "ask the CSP's operator: this job has grown too large")
    return body


def refused(error: FedSVDError) -> bytes:
    """An error of ours as an answer: code, fault and fix reach the person who asked."""
    return json.dumps({"error": {"code": error.code, "fault": error.fault, "fix": error.fix}}).encode()


class Refused(FedSVDError):
    """The CSP answered with an error; its code is the CSP's."""

    def __init__(self, code: str, fault: str, fix: str) -> None:
        super().__init__(fault, fix)
        self.code = code if re.fullmatch(r"FSVD-\d{3}", code) else FedSVDError.code


class CspClient:
    """Asks a CSP about jobs."""

    def __init__(self, line: PinnedConnection) -> None:
        self._line = line
        self._listed: dict[bool, tuple[str, list[dict[str, Any]]]] = {}

    def ask(self, verb: str, **values: Any) -> Any:
        """The answer, or the error the CSP answered with."""
        question = json.dumps({"ask": verb, "with": values}).encode()
        if len(question) > LARGEST:
            raise ConfigError(f"a question of {len(question):,} bytes, more than {LARGEST:,}", "shorten the job file")
        body = self._line.call(ASK, question)
        try:
            reply = json.loads(body)
            if "error" in reply:
                error = reply["error"]
                raise Refused(str(error["code"]), str(error["fault"]), str(error["fix"]))
            return legible(verb, reply["answer"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise MalformedFrame("the CSP's answer is not one to this question") from None

    def jobs(self, under_way: bool = False) -> list[dict[str, Any]]:
        """The jobs of this caller in short, oldest first, page by page; not asked for again while none has changed.

        ``under_way``: those that wait for members or run, and those that ended badly after the caller was done.
        """
        seen, listed = self._listed.get(under_way, ("", []))
        page = self.ask("jobs", under_way=under_way, seen=seen)
        if page["seen"] == seen:
            return listed
        seen, listed = page["seen"], list(page["jobs"])
        while page["next"]:
            page = self.ask("jobs", under_way=under_way, after=page["next"])
            listed = listed + page["jobs"]
        self._listed[under_way] = seen, listed
        return listed

    @property
    def csp(self) -> bytes:
        """The certificate of the CSP that was asked, in PEM; it has passed every check that this kit can make."""
        return self._line.csp

    def close(self) -> None:
        self._line.close()


def legible(verb: str, answer: Any) -> Any:
    """An answer whose jobs are jobs and whose texts are printable."""
    if verb in _ABOUT_A_JOB:
        return _record(answer)
    if verb == "now":
        return {key: printable(answer[key], 200) for key in ("now", "fedsvd")}
    if verb == "jobs":
        jobs = [_record(job) for job in answer["jobs"]]
        return {"jobs": jobs, "next": str(answer["next"]), "seen": str(answer["seen"])}
    return answer


def _record(job: dict[str, Any]) -> dict[str, Any]:
    if not all(isinstance(job[key], kind) for key, kind in _KINDS.items()):
        raise TypeError
    texts = {key: printable(job[key], 200) for key, kind in _KINDS.items() if kind is str}
    names = {key: [printable(name, 200) for name in job[key]] for key in ("members", "finished")}
    failures = [failure_from(failure, failure["who"]) for failure in job["failures"]]
    more = {}
    if "progress" in job:
        more["progress"] = {printable(who, 200): progress_from(said) for who, said in job["progress"].items()}
    return {**job, **texts, **names, "failures": failures, **more}


def unreachable(error: FedSVDError) -> bool:
    """Whether asking again later may help."""
    return isinstance(error, TransportError)
