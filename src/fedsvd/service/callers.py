"""Who has called a CSP: the names that a job may have, remembered in ``state/callers.jsonl``.

A CSP has no list of the members whose certificates the operator issued; that a member exists shows when it calls for
the first time, with a certificate of this federation. A job that names another would wait for ever.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from time import monotonic

from fedsvd.errors import ConfigError, StorageError
from fedsvd.storage.journal import Journal
from fedsvd.types import closest

_SHOWN = 20  # names in one sentence
SETTLED = 60.0  # seconds after its start from which a CSP refuses names that have not called


class Callers:
    """Members that have called at some time, in this process or an earlier one of the CSP."""

    def __init__(self, path: Path, settled: float = 0.0) -> None:
        self._journal = Journal(path)
        self._from = monotonic() + settled
        self._known = {str(record["caller"]) for record in self._journal.records()}

    def add(self, caller: str) -> None:
        """A member has called; on a full disk this process alone remembers it."""
        if caller not in self._known:
            self._known.add(caller)
            with suppress(StorageError):
                self._journal.append({"caller": caller})

    def expect(self, members: Iterable[str]) -> None:
        """Raise ``ConfigError`` where one of these has never called; it names those of its role that have."""
        if monotonic() < self._from:
            return
        strangers = [member for member in members if member not in self._known]
        if not strangers:
            return
        role = strangers[0].partition("/")[0]
        known = [caller.partition("/") for caller in sorted([*self._known])]
        there = [name for each, _, name in known if each == role]
        more = f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
        knows = f"it knows {', '.join(map(repr, there[:_SHOWN]))}{more}" if there else "it knows none yet"
        missed = [name for each, _, name in (member.partition("/") for member in strangers) if each == role]
        meant = [(name, closest(name, there)) for name in missed]
        named = [f"{name!r}{f' (did you mean {near!r}?)' if near else ''}" for name, near in meant]
        raise ConfigError(
            f"this CSP knows no {role} {' nor '.join(named)}",
            f"{knows}; a new {role} starts first, fedsvd {role} start --kit KIT, and is known once it has called",
        )
