"""What a party brought to earlier studies, and with whom: keyed hashes of its records, on its own disk alone.

Two studies that differ by one record, or by one party, give that record or that party's Gram matrix away, so each is
compared with *all* earlier ones before anything is sent, at every attempt. The folder holds a key, the rounding step of
every column ever seen, one file for each version of a table, and a list of studies:

    key    steps.npz    version-0001.npz    studies.jsonl

The same pass over the data also gives its *source digest*, by which a table that changed after its approval is found.
"""

import hashlib
import hmac
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.hashed import begun_digest
from fedsvd.data.record_hashes import Hasher, Hashes, difference
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError, StorageError
from fedsvd.policy.earlier_rules import Compared, earlier_findings, version_findings
from fedsvd.policy.rules import Finding, Policy
from fedsvd.protocol.tasks import Split
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.randomness.seed import Seed
from fedsvd.storage import private
from fedsvd.storage.journal import Journal
from fedsvd.types import Float

if TYPE_CHECKING:
    from hashlib import _Hash

_log = logging.getLogger(__name__)
_PANEL_BYTES = 1 << 24
HELD = 1 << 26  # bytes of hashes that are held for a second look at the same data
_YEAR = timedelta(days=365)
FORGOTTEN_AFTER = timedelta(days=30)
_OLD = "0.1.0"
ORGANISATION = "organisation/"
"""Before the name of an organisation in a roster; parties without one have their own names."""


class Table(Protocol):
    """What a party brings: its table, its labels, its row ids."""

    @property
    def table(self) -> MatrixSource: ...

    @property
    def labels(self) -> Float | None: ...

    @property
    def ids(self) -> NDArray[Any] | None: ...


@dataclass(frozen=True)
class Asked:
    """The study that is asked for: its run, who takes part (by organisation), whether U and S are released."""

    run: str
    split: Split
    roster: frozenset[str]
    full: bool = False
    complete: bool = True  # whether the organisation of every party is known yet


@dataclass(frozen=True, repr=False)
class Brought:
    """A party's data for a study, read once and compared with all that it brought before."""

    asked: Asked
    source: str  # digest of the data, under the party's own key
    found: tuple[Finding, ...] = ()
    unlike: tuple[int, ...] = ()  # versions of the same columns that cannot be compared: the owner is asked
    version: int = 0  # the earlier version that this one equals; 0 for none
    hashes: Hashes | None = None


class Reading:
    """What a pass over a party's table gave, and gives again as long as ``unchanged`` holds; at most 64 MiB of it."""

    def __init__(self, unchanged: Callable[[], bool]) -> None:
        self._unchanged = unchanged
        self._given: dict[object, tuple[str, list[Hashes]]] = {}
        self._content: tuple[MatrixSource, bytes] | None = None

    def content(self, table: MatrixSource) -> bytes | None:
        """SHA-256 of a table's rows, as ``data.hashed`` has it of the transposed table; None where it must be read."""
        known = self._content is not None and self._content[0] is table and self._unchanged()
        return self._content[1] if known and self._content is not None else None

    def note(self, table: MatrixSource, content: bytes) -> None:
        """A pass over this table gave this digest of its rows."""
        self._content = table, content

    def once(self, key: object, read: Callable[[], tuple[str, list[Hashes]]]) -> tuple[str, list[Hashes]]:
        """The source digest and the hashes, read only if they are not there or the table may have changed."""
        if key in self._given and self._unchanged():
            return self._given[key]
        found = self._given[key] = read()
        if sum(one.records.nbytes + one.sketch.nbytes for one in found[1]) > HELD:
            self.clear()
        return found

    def clear(self) -> None:
        """Hold no hashes any more."""
        self._given = {}


class EarlierStudies:
    """The memory of one party, in a private folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = private.private_folder(folder)
        self._studies = Journal(self._folder / "studies.jsonl")
        self._set_old_aside()

    def compare(
        self,
        asked: Asked,
        data: Table,
        policy: Policy,
        now: datetime | None = None,
        reading: Reading | None = None,
    ) -> Brought:
        """Read all of the data, once, and say what a study with it would give away together with the earlier ones.

        With a ``reading`` of the same data, which has not changed since, it is not read again.
        """
        reading = reading or Reading(lambda: False)
        versions = dict(self._versions()) if policy.least_changed and not data.table.made_up else None
        key = id(data), None if versions is None else tuple(versions)
        source, found = reading.once(key, lambda: self._pass(data, versions, reading))
        if versions is None:
            return Brought(asked, source)
        ours, *restricted = found
        compared = {
            number: _compared(old, new, ours, asked)
            for (number, old), new in zip(versions.items(), restricted, strict=True)
        }
        complete = {number for number, old in versions.items() if set(old.columns) == set(ours.columns)}
        when = now or datetime.now(UTC)
        return self._judged(asked, source, ours, compared, complete, policy, when)

    def _pass(self, data: Table, versions: Mapping[int, Hashes] | None, reading: Reading) -> tuple[str, list[Hashes]]:
        """The source digest; and where records are compared, their hashes, and as the columns of each version show
        them."""
        digest = hmac.new(self._key().derive("source").reveal(), digestmod=hashlib.sha256)
        if data.table.made_up:
            digest.update(data.table.content_digest())
            return digest.hexdigest(), []
        found: list[Hashes] = []
        content = begun_digest(data.table.T.shape, 1)
        if versions is None:
            for _ in _panels(data, content):
                pass
        else:
            hasher = Hasher(_names(data), self._key())
            steps = self._steps(hasher, partial(_panels, data))
            subsets = [hasher.columns, *(old.columns for old in versions.values())]
            found = hasher.hashes(_panels(data, content), steps, subsets)
        reading.note(data.table, content.digest())
        digest.update(repr((data.table.shape, None if data.ids is None else data.ids.tolist())).encode())
        digest.update(content.digest())
        if data.labels is not None:
            digest.update(np.ascontiguousarray(data.labels).data)
        return digest.hexdigest(), found

    def alone(self) -> AbstractContextManager[None]:
        """While this lasts, no other study is compared and begun."""
        return private.locked(self._folder)

    def begin(self, brought: Brought) -> None:
        """A session with this data begins: from now on its study is an earlier one."""
        version = brought.version
        if brought.hashes is not None and not version:
            version = 1 + max((number for number, _ in self._files()), default=0)
            path, new = self._folder / f"version-{version:04d}.npz", brought.hashes
            try:
                with private.new_file(path) as file:
                    np.savez(file, columns=new.columns, records=new.records, sketch=new.sketch)
            except OSError as fault:
                path.unlink(missing_ok=True)  # a part of it would be taken for an earlier version
                reason = fault.strerror or type(fault).__name__
                raise StorageError(
                    f"{path} cannot be written: {reason}", "make space on that disk, then resume"
                ) from None
        if version:
            asked = brought.asked
            when = datetime.now(UTC).isoformat(timespec="seconds")
            study = {"event": "study", "run": asked.run, "when": when, "version": version}
            self._studies.append({**study, "roster": sorted(asked.roster), "full": asked.full})

    def studies(self) -> list[dict[str, Any]]:
        """The studies that this party remembers, oldest first."""
        every = list(self._studies.records())
        forgotten = {each["run"] for each in every if each["event"] == "forgotten"}
        return [each for each in every if each["event"] == "study" and each["run"] not in forgotten]

    def forget(self, study: str, now: datetime) -> str:
        """Compare nothing with a study any more, by its id or the beginning of it; refused for a recent one."""
        found = [each for each in self.studies() if study and each["run"].startswith(study)]
        runs = {each["run"] for each in found}
        if len(runs) != 1:
            fault = f"{len(runs)} studies in the memory of this site begin with {study[:80]!r}"
            raise ConfigError(fault, "name one of fedsvd table history")
        latest = max(datetime.fromisoformat(each["when"]) for each in found)
        if now - latest < FORGOTTEN_AFTER:
            days = FORGOTTEN_AFTER.days
            fault = f"this study began less than {days} days ago, and protects the records in it"
            raise ConfigError(fault, f"forget it {days} days after it began")
        (run,) = runs
        self._studies.append({"event": "forgotten", "run": run, "when": now.isoformat(timespec="seconds")})
        return str(run)

    def _judged(
        self,
        asked: Asked,
        source: str,
        ours: Hashes,
        compared: dict[int, Compared | None],
        complete: set[int],
        policy: Policy,
        now: datetime,
    ) -> Brought:
        related = {number: one for number, one in compared.items() if one is not None}
        same = [number for number, one in related.items() if one.same]
        equal = next((number for number in same if number in complete), 0)
        unlike = tuple(number for number, one in related.items() if not one.known)
        earlier, full = [], set()
        for study in self.studies():
            one = related.get(study["version"])
            if one is None:
                continue
            roster = frozenset(study["roster"])
            if not asked.complete and any(who.startswith(ORGANISATION) for who in roster):
                roster = asked.roster  # compared when the session begins, and all have shown their certificates
            earlier.append(replace(one, roster=roster))
            if study["full"] and now - datetime.fromisoformat(study["when"]) < _YEAR:
                full.add(study["version"])
        found = earlier_findings(earlier, asked.roster, policy)
        if asked.full and not same:
            found += version_findings(len(full), policy)
        return Brought(asked, source, found, unlike, equal, ours)

    # --- what lies in the folder ----------------------------------------------------------------------------------

    def _steps(self, hasher: Hasher, panels: partial[Iterator[Float]]) -> Float:
        """The step of every column: of the first version seen; one pass over the data where there is a new column."""
        path = self._folder / "steps.npz"
        known: dict[int, float] = {}
        if path.exists():
            stored = _read(path, "columns", "steps")
            known = dict(zip(stored["columns"].tolist(), stored["steps"].tolist(), strict=True))
        columns = hasher.columns.tolist()
        if any(column not in known for column in columns):
            for column, step in zip(columns, hasher.steps(panels()).tolist(), strict=True):
                known.setdefault(column, step)
            coming = self._folder / f"steps.{fresh_bytes(8).hex()}.coming"
            with private.new_file(coming) as file:
                np.savez(file, columns=np.array(list(known), np.uint64), steps=np.array(list(known.values())))
            coming.replace(path)
        return np.array([known[column] for column in columns])

    def _files(self) -> list[tuple[int, Path]]:
        paths = sorted(self._folder.glob("version-*.npz"))
        return [(int(path.stem.partition("-")[2]), path) for path in paths]

    def _versions(self) -> Iterator[tuple[int, Hashes]]:
        for number, path in self._files():
            stored = _read(path, "columns", "records", "sketch")
            yield number, Hashes(stored["columns"], stored["records"], stored["sketch"])

    def _key(self) -> Seed:
        path = self._folder / "key"
        if not path.exists():
            private.create(path, Seed.fresh().reveal())
        return Seed(private.read_secret(path))

    def _set_old_aside(self) -> None:
        """Exact fingerprints of version 0.1.0 cannot be compared with anything of this one."""
        old = sorted([*self._folder.glob("*.rows.npy"), *self._folder.glob("*.columns.npy")])
        if not old:
            return
        aside = private.private_folder(self._folder / _OLD)
        for path in old:
            path.replace(aside / path.name)
        _log.warning(
            "the records of %d studies made with version 0.1.0 cannot be compared any more; they are in %s. "
            "Refuse a study whose records differ from those by a few",
            len(old),
            aside,
        )


def _compared(old: Hashes, new: Hashes, ours: Hashes, asked: Asked) -> Compared | None:
    """This version against an earlier one; None where they have no column in common, and are of other tables."""
    if not len(new.columns):
        return None
    found = difference(old, new)
    columns = 0
    if asked.split is Split.VERTICAL:
        added = len(ours.columns) - len(new.columns)
        columns = max(found.columns, added + found.others)
    return Compared(frozenset(), found.known, found.changed, found.touched, columns)


def _panels(data: Table, content: "_Hash | None" = None) -> Iterator[Float]:
    """The table and its labels, by panels of rows; the table's go into the digest."""
    rows, columns = data.table.shape
    height = max(1, _PANEL_BYTES // (8 * columns))
    for start in range(0, rows, height):
        panel = data.table.rows(start, min(start + height, rows))
        if content is not None:
            content.update(np.ascontiguousarray(panel, "<f8").data)
        yield panel if data.labels is None else np.hstack((panel, data.labels[start : start + height]))


def _names(data: Table) -> list[str]:
    """Names of the columns, by their places where they have none; labels have names that no column has."""
    table = data.table
    names = list(table.names) if table.names is not None else [f"\x00{j}" for j in range(table.shape[1])]
    return [*names, *(f"\x00label {j}" for j in range(0 if data.labels is None else data.labels.shape[1]))]


def _read(path: Path, *names: str) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in names}
    except (OSError, ValueError, EOFError, KeyError):
        raise StorageError(f"{path} is damaged", "restore it from a backup: it protects your records") from None
