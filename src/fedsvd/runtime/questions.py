"""Questions about jobs, as JSON over the ``Ask`` call: what may be asked of a CSP, by whom, and how it is read.

submit   researcher          a job file             -> the job
jobs     anybody             under way or newest    -> the jobs the caller takes part in
job      member, submitter   id                     -> one job, with everybody's progress
wait     member, submitter   id, seconds            -> the same, once it changes
enlist   member              id, attempt, facts     -> the job
tell     member              id, progress           -> nothing
ended    member              id, attempt, failure?  -> the job
resume   member, submitter   id                     -> the job, recruiting again
stop     member, submitter   id                     -> the job, stopped
who      member, submitter   id                     -> the members' certificates, as far as they have called
now      anybody             -                      -> the CSP's clock and version
"""

import json
from typing import Any

from fedsvd.errors import FedSVDError, MalformedFrame, TransportError
from fedsvd.transport.calls import ASK
from fedsvd.transport.grpc_client import Line
from fedsvd.wire.reader import malformed

LARGEST = 1 << 20


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
    return json.dumps({"answer": value}).encode()


def refused(error: FedSVDError) -> bytes:
    """An error of ours as an answer: code, fault and fix reach the person who asked."""
    return json.dumps({"error": {"code": error.code, "fault": error.fault, "fix": error.fix}}).encode()


class Refused(FedSVDError):
    """The CSP answered with an error; its code is the CSP's."""

    def __init__(self, code: str, fault: str, fix: str) -> None:
        super().__init__(fault, fix)
        self.code = code


class Desk:
    """Asks a CSP about jobs."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def ask(self, verb: str, **values: Any) -> Any:
        """The answer, or the error the CSP answered with."""
        body = self._line.call(ASK, json.dumps({"ask": verb, "with": values}).encode())
        try:
            reply = json.loads(body)
        except ValueError:
            raise MalformedFrame("the CSP's answer is not JSON") from None
        if "error" in reply:
            raise Refused(**reply["error"])
        return reply["answer"]

    @property
    def csp(self) -> bytes:
        """The certificate of the CSP that was asked, in PEM; it has passed every check that this kit can make."""
        return self._line.csp

    def close(self) -> None:
        self._line.close()


def unreachable(error: FedSVDError) -> bool:
    """Whether asking again later may help."""
    return isinstance(error, TransportError)
