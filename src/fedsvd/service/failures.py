"""Why a job failed, from what its members told the CSP: the first cause, not its echo at the others."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsvd import errors
from fedsvd.errors import FedSVDError, PeerAborted, PeerLost
from fedsvd.protocol.parties import named
from fedsvd.service.enlist import job_of
from fedsvd.storage import private

_KINDS = {kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, FedSVDError)}


def error_of(code: str, fault: str, fix: str = "") -> FedSVDError:
    """The error with this code, of the class that has it."""
    error = _KINDS.get(code, FedSVDError)(fault, fix)
    error.code = code
    return error


def first_cause(record: Mapping[str, Any]) -> tuple[str, FedSVDError]:
    """Who failed first, and with which error; parties are called by their names."""
    failures = record["failures"]
    if not failures:
        return "", PeerLost(f"the job is {record['state']}", "see the CSP's log")
    # A session that breaks off is reported by everybody in it; who was merely told has the least to say.
    failure = next((each for each in failures if each["code"] != PeerAborted.code), failures[0])
    names = tuple(party.name for party in job_of(record["file"]).parties)
    stage = f" in {failure['stage']}" if failure.get("stage") else ""
    fix = "put it right there, then resume the job"
    said = f": {named(failure['text'], names)}" if failure["text"] else ""  # what concerns its own data stays there
    return failure["who"], error_of(failure["code"], f"{failure['who']}{stage}{said}", fix)


def not_finished(record: Mapping[str, Any]) -> str:
    """What a party that has results of a job should know when that job is broken or stopped."""
    who, error = first_cause(record)
    why = f": {error.code}, {error.fault}" if who else ""
    return (
        f"Job {record['name']} ({record['id'][:8]}) is {record['state']}{why}. These results were written before that, "
        "and other parties may have none. To run the job again, each party with results approves it again ('fedsvd job "
        "approve'), and then 'fedsvd job resume': new results go beside these."
    )


def write_failure(path: Path, attempt: int, error: FedSVDError, stage: str) -> None:
    """Why an attempt failed at this site, for the eyes of its owner."""
    private.private_folder(path.parent)
    why = {"attempt": attempt, "stage": stage, "code": error.code, "fault": error.fault, "fix": error.fix}
    private.replace(path, json.dumps(why).encode())


def read_failure(path: Path, attempt: int) -> dict[str, Any] | None:
    """What was written of this attempt; None where it did not fail here."""
    if not path.exists():
        return None
    why: dict[str, Any] = json.loads(private.read(path))
    return why if why["attempt"] == attempt else None
