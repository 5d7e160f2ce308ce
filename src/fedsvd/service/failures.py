"""Why a job failed, from what its members reported to the CSP: the first cause, not its echo at the others."""

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from fedsvd import errors
from fedsvd.errors import FedSVDError, LocalProtocolError, NotConverged, PeerAborted, PeerLost, StorageError
from fedsvd.protocol.parties import named
from fedsvd.service.records import Failure, JobRecord, JobState
from fedsvd.storage import private
from fedsvd.storage.faults import of_machine

_KINDS = {kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, FedSVDError)}


# A path from a root, and the last name in it.
_ABSOLUTE = re.compile(r"(?<![\w.:/])(?:[A-Za-z]:)?[/\\](?:[^\s/\\'\"]+[/\\])+([^\s/\\'\"]*)")


def error_of(code: str, fault: str, fix: str = "") -> FedSVDError:
    """The error with this code, of the class that has it."""
    error = _KINDS.get(code, FedSVDError)(fault, fix)
    error.code = code
    return error


def without_paths(text: str, folder: Path) -> str:
    """A text for others, in which files of this machine have names and no folders; ``folder`` is where ours are."""
    for ours in {str(folder), str(folder.resolve())}:
        text = text.replace(f"{ours}{os.sep}", "")
    return _ABSOLUTE.sub(r"\1", text)


def for_others(error: FedSVDError, folder: Path) -> FedSVDError:
    """An error as others may read it: what the folders of this machine are called is no concern of theirs."""
    return error_of(error.code, without_paths(error.fault, folder), without_paths(error.fix, folder))


def first_cause(record: JobRecord) -> tuple[str, FedSVDError]:
    """Who failed first, and with which error; parties are called by their names."""
    if not record.failures:
        ended = "it has ended for good: submit it again, if it is still wanted"
        stopped = record.state == JobState.STOPPED
        return "", PeerLost(f"the job is {record.state}", ended if stopped else "see the CSP's log")
    # A session that breaks off is reported by every role in it; one that only received the abort knows the least.
    failure = next((each for each in record.failures if each.code != PeerAborted.code), record.failures[0])
    names = tuple(party.name for party in record.job.parties)
    stage = f" in {failure.stage}" if failure.stage else ""
    again = f"then resume the job: fedsvd job resume {record.name}"
    fix = f"put it right there, {again}"
    if not failure.text:  # what concerns its own data stays there
        fix = f"ask {failure.who}: its log has the details; once it is put right, {again.removeprefix('then ')}"
    if failure.code == NotConverged.code:  # the same data would end the same way, so nothing is to be put right there
        fix = f"{NotConverged.usual_fix}; the log of {failure.who} has the details"
    return failure.who, error_of(failure.code, f"{failure.who}{stage}: {named(what_failed(failure), names)}", fix)


def what_failed(failure: Failure) -> str:
    """What a member reported; the kind of error where it reported a code alone."""
    if failure.text:
        return failure.text
    kind = (_KINDS.get(failure.code, FedSVDError).__doc__ or "it failed").partition("\n")[0].strip().rstrip(".")
    return f"{kind[:1].lower()}{kind[1:]}"


def not_finished(record: JobRecord) -> str:
    """What a party that has results of a job should know when that job is broken or stopped."""
    who, error = first_cause(record)
    why = f": {error.code}, {error.fault}" if who else ""
    return (
        f"Job {record.name} ({record.short}) is {record.state}{why}. These results were written before that, "
        "and other parties may have none. To run the job again, each party with results approves it again ('fedsvd job "
        "approve'), and then 'fedsvd job resume': new results go next to these."
    )


@dataclass(frozen=True)
class OwnFailure:
    """Why an attempt failed at this site, for its owner alone."""

    attempt: int
    stage: str
    code: str
    fault: str
    fix: str

    @property
    def text(self) -> str:
        return f"{self.fault}. Fix: {self.fix}" if self.fix else self.fault


def write_failure(path: Path, attempt: int, error: FedSVDError, stage: str) -> None:
    """Write why an attempt failed at this site, for the owner's terminal: no other program reads the file."""
    private.private_folder(path.parent)
    failure = OwnFailure(attempt, stage, error.code, error.fault, error.at_home or error.fix)
    private.replace(path, json.dumps(asdict(failure)).encode())


def read_failure(path: Path, attempt: int) -> OwnFailure | None:
    """What was written of this attempt; None where it did not fail here."""
    if not path.exists():
        return None
    try:
        failure = OwnFailure(**json.loads(private.read(path)))
    except (ValueError, TypeError):
        raise StorageError(f"{path} is damaged", "remove it; the job's log says more") from None
    return failure if failure.attempt == attempt else None


def failure_at_csp(error: FedSVDError, stage: str = "") -> Failure:
    """How an attempt failed at the CSP, for its record."""
    return Failure(who="csp", code=error.code, stage=stage, text=error.fault)


def unexpected(error: Exception) -> FedSVDError:
    """An error of another program: what it says of the machine, or its name."""
    return of_machine(error) or FedSVDError(f"unexpected {type(error).__name__}", LocalProtocolError.usual_fix)
