"""What members leave at the CSP for the researcher of a job: sealed messages on disk, of bounded number and length.

A message is written in one step, and may be sent again: the last one stays. The CSP opens none of them. They are stored
until the researcher has taken them, or for thirty days after the last of a job came: a CSP that stores what was fetched
fills its disk.
"""

import shutil
from contextlib import suppress
from pathlib import Path
from time import time

from fedsvd.errors import ConfigError
from fedsvd.service.enlist import plain_id
from fedsvd.storage import private

LARGEST_PART = 512 << 10  # bytes of one message
MOST_PARTS = 128  # messages of one job beyond one from each party
_TAKEN = "taken"
STORED = 30 * 86_400.0  # seconds


class Mailbox:
    """The sealed messages of all jobs of one CSP."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, job: str, place: int, number: int, sealed: bytes) -> None:
        """Message ``number`` of the member at this place; the files of a result come from the first alone."""
        if len(sealed) > LARGEST_PART or number > (MOST_PARTS if place == 0 else 0):
            raise ConfigError(
                f"message {number} for a researcher, of {len(sealed):,} bytes",
                "the results are too large to be handed over: each party has its own",
            )
        if not self.taken(job):
            private.replace(private.private_folder(self._folder / plain_id(job)) / f"{place}-{number}", sealed)
        self._remove_old()

    def get(self, job: str, place: int, number: int) -> bytes | None:
        """That message; None where none was sent."""
        path = self._folder / plain_id(job) / f"{place}-{number}"
        return private.read(path) if path.exists() else None

    def taken(self, job: str) -> bool:
        """Whether the researcher has everything of this job; what a party sends again is then let go."""
        return (self._folder / plain_id(job) / _TAKEN).exists()

    def remove(self, job: str) -> None:
        """Remove the messages of a job, which its researcher has, and remember that for as long as they were stored."""
        folder = private.private_folder(self._folder / plain_id(job))
        private.replace(folder / _TAKEN, b"")
        for message in folder.iterdir():
            if message.name != _TAKEN:
                message.unlink(missing_ok=True)

    def _remove_old(self) -> None:
        """Remove the messages of jobs to which none was added for thirty days."""
        oldest = time() - STORED
        for of_job in self._folder.iterdir():
            with suppress(OSError):  # another call has removed it
                if of_job.stat().st_mtime < oldest:
                    shutil.rmtree(of_job)
