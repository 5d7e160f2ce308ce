"""How many bits each job opened of a site's tables: ``KIT/state/records/opened.json``, on the site's own disk alone.

A study that opens little may open too much after others of the same columns. What a job opens is written before its
session begins, once for each job; bits and column names stand there, no value of a table.
"""

import json
from pathlib import Path
from typing import Any

from fedsvd.errors import StorageError
from fedsvd.policy.bits_held import Earlier
from fedsvd.storage import private

_FILE = "opened.json"


class OpenedBits:
    """The bits that jobs of a site opened, by table."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, table: str, but: str = "") -> tuple[Earlier, ...]:
        """What all jobs ``but`` this one opened of a table."""
        jobs = self._read().get(table, {})
        return tuple(Earlier(said["bits"], said["columns"]) for job, said in jobs.items() if job != but)

    def add(self, table: str, job: str, opens: Earlier | None) -> None:
        """A session of this job begins; ``opens`` is what it will have opened, None where that is not counted."""
        if opens is None:
            return
        private.private_folder(self._folder)
        with private.locked(self._folder):
            found = self._read()
            found.setdefault(table, {})[job] = {"bits": opens.bits, "columns": dict(opens.columns)}
            private.replace(self._folder / _FILE, json.dumps(found).encode())

    def forget(self, job: str) -> None:
        """What this job opened counts no more."""
        with private.locked(self._folder):
            found = {
                table: {id: said for id, said in jobs.items() if id != job} for table, jobs in self._read().items()
            }
            private.replace(self._folder / _FILE, json.dumps(found).encode())

    def _read(self) -> dict[str, dict[str, dict[str, Any]]]:
        path = self._folder / _FILE
        try:
            found: dict[str, dict[str, dict[str, Any]]] = json.loads(private.read(path)) if path.exists() else {}
        except ValueError:
            raise StorageError(
                f"{path} is damaged", "move it away: what earlier jobs opened is then forgotten"
            ) from None
        return found
