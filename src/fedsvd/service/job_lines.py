"""Jobs as lines of the CSP's ledger: one holds a job as it was submitted, those that follow what changed in it.

A line of 0.2.0 holds a job whole at every change, and is read like the first.
"""

from typing import Any

from pydantic import ValidationError

from fedsvd.errors import StorageError
from fedsvd.service.records import JobRecord, JobState
from fedsvd.storage.journal import Journal

_ADDED = ("enlisted", "finished", "failures")  # fields that grow entry by entry, and are written so


def difference(before: JobRecord, now: JobRecord) -> dict[str, Any]:
    """What a line says of a change: values that are other ones, and entries that came to those there were."""
    was, is_now = before.model_dump(mode="json"), now.model_dump(mode="json")
    values = {name: value for name, value in is_now.items() if value != was[name]}
    added: dict[str, Any] = {}
    for name in _ADDED:
        if name in values and (more := _more(was[name], values[name])) is not None:
            added[name] = more
            del values[name]
    return {"set": values, "add": added}


def _more(was: Any, now: Any) -> Any:
    """The entries that were added; None where others are gone."""
    if isinstance(was, dict):
        kept = all(name in now and now[name] == value for name, value in was.items())
        return {name: value for name, value in now.items() if name not in was} if kept else None
    rest = list(now)
    for each in was:
        if each not in rest:
            return None
        rest.remove(each)
    return rest


def folded(journal: Journal, queue: list[str]) -> list[JobRecord]:
    """The jobs of a journal as its last lines leave them, oldest first; ``queue``: those that wait, in order."""
    jobs: dict[str, dict[str, Any]] = {}
    for line in journal.records():
        try:
            if line.get("event") == "job":  # also every line of 0.2.0
                job = line["job"]
                jobs[job["id"]] = job
            elif line.get("event") == "change":
                job = jobs[line["id"]]
                job.update(line["set"])
                for name, more in line["add"].items():
                    job[name] = _joined(job.get(name), more)
            else:
                continue
        except (KeyError, TypeError, AttributeError):
            raise _damaged(journal) from None
        if job["id"] in queue:
            queue.remove(job["id"])
        if job.get("state") == JobState.QUEUED:
            queue.append(job["id"])
    return [_read(job, journal) for job in jobs.values()]


def _joined(there: Any, more: Any) -> Any:
    if isinstance(more, dict):
        return {**(there or {}), **more}
    return [*(there or ()), *more]


def _read(said: object, journal: Journal) -> JobRecord:
    try:
        job = JobRecord.model_validate(said)
    except ValidationError:
        raise _damaged(journal) from None
    return job.changed(finished=tuple(sorted(set(job.finished))))


def _damaged(journal: Journal) -> StorageError:
    return StorageError(f"{journal.path.name} holds a job that cannot be read", "restore it from a backup")
