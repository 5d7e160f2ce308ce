"""Which sessions a member has ended well, on disk: what is finished here stays finished, whatever the CSP remembers.

The CSP may be killed before it has written that a member ended, or the member before it has said so. Each end is
reported again until the CSP shows it, and remembered until the job itself is over.
"""

import threading

from fedsvd.service.records import JobHeading
from fedsvd.storage.journal import Journal
from fedsvd.studies.job_stages import Stage

Key = tuple[str, int, Stage]


class Ends:
    """The sessions that one member has ended, of jobs that are not known to be over."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._ended: set[Key] = set()
        for line in journal.records():
            if line.get("event") == "ended":
                self._ended.add((line["job"], line["attempt"], Stage(line["stage"])))
            elif line.get("event") == "closed":
                self._drop(line["job"])

    def add(self, job: JobHeading) -> None:
        """This session has ended here; known from now on even where the disk is full."""
        id, attempt, stage = job.session_key
        with self._lock:
            if job.session_key not in self._ended:
                self._ended.add(job.session_key)
                self._journal.append({"event": "ended", "job": id, "attempt": attempt, "stage": str(stage)})

    def __contains__(self, key: Key) -> bool:
        with self._lock:
            return key in self._ended

    @property
    def jobs(self) -> set[str]:
        """The jobs with sessions that ended here."""
        with self._lock:
            return {id for id, _, _ in self._ended}

    def close(self, id: str) -> None:
        """A job is over: nothing of it is reported any more."""
        with self._lock:
            if any(job == id for job, _, _ in self._ended):
                self._drop(id)
                self._journal.append({"event": "closed", "job": id})

    def _drop(self, id: str) -> None:
        self._ended = {key for key in self._ended if key[0] != id}
