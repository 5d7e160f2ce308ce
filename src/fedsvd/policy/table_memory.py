"""What a party remembers of its tables, and of the studies that it brought them to: on its own disk alone.

    key    studies.jsonl    table-0001-0003.npy    table-0001-0003.npz    columns-0001.npz

A version of a table is the same table as one that is remembered while more than half of their records are common
(``record_words.py``), and inherits all that is remembered of it. Which records a study takes, and with which values,
follows from their classes (``row_sets.py``); what they opened sums of is in ``opened_columns.py``. A table is written
when a session with it begins, whether it ends well or not; before that nothing has left the site.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.earlier_cells import WithEarlierCells
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError, DataError
from fedsvd.policy.opened_columns import OpenedColumns, StudyColumns, read_columns, write_columns
from fedsvd.policy.record_words import by_content, by_ids, id_words, names_of, persons, places
from fedsvd.policy.row_sets import Classes, Flags, Persons, Taken, corrected, newcomers, size, smallest_part, taken
from fedsvd.policy.stored_table import (
    MOST_CELLS,
    Brought,
    StoredTable,
    differing_rows,
    earlier_cells,
    place_of,
    remove_others,
    write_table,
)
from fedsvd.randomness.seed import Seed
from fedsvd.storage import private
from fedsvd.storage.journal import Journal
from fedsvd.types import Ring

_log = logging.getLogger(__name__)
FORGOTTEN_AFTER = timedelta(days=30)
COUNTED_AGAIN = timedelta(days=365)
NEW, GONE = -1, -2  # a record that no study had, and one that was withdrawn and came back
_OLDER = {"*.rows.npy": "0.1.0", "*.columns.npy": "0.1.0", "version-*.npz": "0.2.0", "steps.npz": "0.2.0"}


@dataclass(frozen=True, repr=False)
class Recognised:
    """A table as it is brought, next to what is remembered of it: ``table`` has earlier values where these are used."""

    table: MatrixSource
    opened: MatrixSource  # the same as the file has it
    names: tuple[str, ...]  # of the columns that were compared
    least: int
    seen: Mapping[int, int]  # the revisions of all tables that it was compared with
    record: NDArray[np.intp]  # of every row, its place among those that are remembered, NEW, or GONE
    ids: tuple[str, ...] = ()  # the columns that name records
    words: Ring = field(default_factory=lambda: np.empty(0, np.uint64))  # of the rows' ids
    number: int = 0  # of the remembered table; 0 for a new one
    classes: Classes = field(default_factory=lambda: np.empty(0, np.int64))
    order: Ring = field(default_factory=lambda: np.empty(0, np.uint64))
    person: Persons = None  # of every record that is remembered, where persons have several
    waiting: int = 0  # corrected records whose earlier values are used
    changed: frozenset[str] = frozenset()  # columns with corrections that are used now
    corrected: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))  # records with such
    jobs: tuple[str, ...] = ()  # digests of those to which it was brought, oldest first
    unlike: tuple[int, ...] = ()  # remembered tables of the same columns and other records

    def rows(self, wanted: NDArray[np.intp]) -> "RowSet":
        """The rows that a study may take of those that it wants."""
        record = self.record[wanted]
        known, new = record >= 0, record == NEW
        found = taken(self.classes, self._flags(record[known]), self.order, self.least, self.person)
        held = new & (newcomers(self._new(wanted[new]), len(self.classes), self.least) > 0)
        held[known] = found.taken[record[known]]
        return RowSet(found, wanted[held], len(wanted) - int(held.sum()))

    def smallest_part(self, wanted: NDArray[np.intp]) -> int:
        """The fewest records that a study of these rows would tell from others; 0 where that is enough of them."""
        record = self.record[wanted]
        known, new = record >= 0, self._new(wanted[record == NEW])
        parts = [smallest_part(self.classes, self._flags(record[known]), self.least, self.person)]
        parts += [new if newcomers(new, len(self.classes), self.least) != new else 0]
        return min((size for size in parts if size), default=0)

    def _new(self, rows: NDArray[np.intp]) -> int:
        """How many new records, or persons, these rows are."""
        return size(rows, persons(self.words) if len(self.words) else None)

    def _flags(self, records: NDArray[np.intp]) -> Flags:
        flags = np.zeros(len(self.classes), np.bool_)
        flags[records] = True
        return flags


@dataclass(frozen=True, repr=False)
class RowSet:
    """The rows of a study, as the classes of records allow it."""

    found: Taken
    rows: NDArray[np.intp]
    left_out: int  # of the rows that were wanted

    def same(self, other: "RowSet") -> bool:
        """Whether both take the same rows."""
        return np.array_equal(np.sort(self.rows), np.sort(other.rows))


class TableMemory:
    """The memory of one party, in a private folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = private.private_folder(folder)
        self._studies = Journal(self._folder / "studies.jsonl")
        self._set_older_aside()

    def alone(self) -> AbstractContextManager[None]:
        """While this lasts, no other study is compared and begun."""
        return private.locked(self._folder)

    def key(self) -> Seed:
        """The party's own key."""
        path = self._folder / "key"
        if not path.exists():
            private.create(path, Seed.fresh().reveal())
        return Seed(private.read_secret(path))

    def recognised(
        self, table: MatrixSource, ids: Sequence[str], least: int, taken: Collection[str] = ()
    ) -> Recognised:
        """A table, with the records that are remembered; a column that cannot be read is no study's, nor compared.

        ``ids`` are the columns that name its records, where there are some; ``taken`` those that the study reads, where
        not all.
        """
        wanted = {*taken, *ids} if taken and ids else set(table.names or ())
        left_out = [name for name in table.names or () if name not in wanted]
        read = table.without(left_out)
        try:
            return self._recognised(table, read, ids, least)
        except DataError:
            table.expect_unchanged()
            bad = _unreadable(read)
            if not bad or len(bad) == read.shape[1]:
                raise
            return self._recognised(table, read.without(bad), ids, least)

    def _recognised(self, table: MatrixSource, read: MatrixSource, ids: Sequence[str], least: int) -> Recognised:
        seen, best, unlike, key = self._revisions(), None, [], self.key()
        words = id_words(table, ids, key) if ids else np.empty(0, np.uint64)
        for stored in self._tables():
            before = stored.id_words(ids, key) if ids else None
            found = by_content(stored, read, key) if before is None else by_ids(before, words)
            common = 0 if found is None else found.common
            if found is not None and 2 * common > min(stored.shape[0], table.shape[0]):
                best = (stored, found) if best is None or common > best[1].common else best
            elif set(names_of(stored)) == set(names_of(read)) and not set(ids) & set(names_of(read)):
                unlike.append(stored.number)
        new = Recognised(
            table, table, tuple(names_of(read)), least, seen, np.full(table.shape[0], NEW), tuple(ids), words
        )
        if best is None:
            return replace(new, unlike=tuple(unlike))
        stored, found = best
        record = np.where((found.record >= 0) & stored.gone[found.record], GONE, found.record)
        differ = differing_rows(stored, read, record)
        flags = np.zeros(stored.shape[0], np.bool_)
        flags[record[differ]] = True
        person = persons(found.words) if ids else None
        after = corrected(stored.classes, flags, found.words, least, person)
        used = after.taken[record[differ]]
        earlier = earlier_cells(stored, read, record, differ[~used])
        held = {place_of(table, name): cells for name, cells in earlier.items()}
        return replace(
            new,
            table=WithEarlierCells(table, held) if held else table,
            number=stored.number,
            jobs=tuple(dict.fromkeys(each["job"] for each in self.studies(stored.number) if each.get("job"))),
            record=record,
            classes=after.classes,
            order=found.words,
            person=person,
            waiting=int((~used).sum()),
            changed=frozenset(earlier_cells(stored, read, record, differ[used])),
            corrected=record[differ[used]],
        )

    def current(self, brought: Recognised) -> bool:
        """Whether no table has been written since that this one was not compared with."""
        return dict(brought.seen) == self._revisions()

    def opened(self, brought: Recognised) -> OpenedColumns:
        """What studies opened of this table, with the corrections that are used now."""
        stored = read_columns(self._folder, brought.number) if brought.number else OpenedColumns()
        return stored.after(len(brought.classes), brought.corrected)

    def begin(
        self,
        study: Mapping[str, Any],
        brought: Recognised | None,
        rows: NDArray[np.intp] | None,
        opens: StudyColumns | None = None,
    ) -> int:
        """A session with these rows of a table begins: from now on its study is an earlier one. The table's number."""
        number = 0
        if brought is not None and rows is not None:
            taken_rows = brought.rows(rows)
            number = self._write(brought, taken_rows)
            self._open(number, brought, taken_rows, study["run"], opens)
        when = datetime.now(UTC).isoformat(timespec="seconds")
        self._studies.append({"event": "study", "when": when, "table": number, **study})
        return number

    def _write(self, brought: Recognised, taken_rows: RowSet) -> int:
        """The number of the table, with what this study takes of it."""
        old = next((stored for stored in self._tables() if stored.number == brought.number), None)
        record = brought.record[taken_rows.rows]
        new = taken_rows.rows[record == NEW]
        at = np.full(len(brought.classes) + len(new), -1, np.intp)
        known = np.flatnonzero(brought.record >= 0)
        at[brought.record[known]] = known
        at[len(brought.classes) :] = new
        classes = taken_rows.found.classes
        classes = np.concatenate((classes, np.full(len(new), 1 + classes.max(initial=0), np.int64)))
        ids, words = self._named(brought, old, new)
        what = Brought(brought.table, brought.names, at, classes, ids, words)
        if old is not None and _same(old, what, brought.changed):
            return old.number
        revisions = self._revisions()
        number = brought.number or 1 + max(revisions, default=0)
        revision = 1 + revisions.get(number, 0)
        remove_others(self._folder, number, revision - 1)  # what a kill left half written
        try:
            write_table(self._folder, number, revision, what, old, self.key())
        except DataError:
            # The first study of a table: no one has read the columns that it does not take.
            bad = _unreadable(brought.table)
            if not bad:
                raise
            names = tuple(name for name in brought.names if name not in bad)
            write_table(self._folder, number, revision, replace(what, names=names), old, self.key())
        self._studies.append({"event": "table", "table": number, "revision": revision})
        remove_others(self._folder, number, revision)
        return number

    def _open(
        self, number: int, brought: Recognised, taken_rows: "RowSet", run: str, opens: StudyColumns | None
    ) -> None:
        """Write which columns this study opens; of records that were withdrawn nothing stays."""
        record = brought.record.copy()
        new = taken_rows.rows[record[taken_rows.rows] == NEW]
        record[new] = len(brought.classes) + np.arange(len(new))
        gone = np.setdiff1d(np.arange(len(brought.classes)), record) if brought.ids else np.empty(0, np.intp)
        stored = self.opened(brought).after(len(brought.classes) + len(new), brought.corrected, gone)
        if opens is not None:
            stored = stored.with_study(run, opens, record[opens.rows])
        write_columns(self._folder, number, stored)

    def _named(
        self, brought: Recognised, old: StoredTable | None, new: NDArray[np.intp]
    ) -> tuple[tuple[str, ...], Ring]:
        """The columns that name the records to be stored, and a word for each of these; none where content does."""
        key, nothing = self.key(), ((), np.empty(0, np.uint64))
        if old is None:
            return (brought.ids, brought.words[new]) if brought.ids else nothing
        ids = brought.ids or old.ids
        before = old.id_words(ids, key)
        if not ids or before is None or not set(ids) <= set(names_of(brought.table)):
            return nothing
        words = brought.words if brought.ids else id_words(brought.table, ids, key)
        return ids, np.concatenate((before, words[new]))

    def counted(self, table: int, counts: Mapping[tuple[str, str], int], now: datetime) -> dict[tuple[str, str], int]:
        """What this party adds to joint counts of a table: what it added first within a year, else its counts of now.

        So a second sum of one roster tells no one anything, and sums of one year differ by whole parties alone.
        """
        held: dict[tuple[str, str], int] = {}
        for each in self._studies.records():
            if each["event"] == "table" and each["table"] == table and not each["revision"]:
                held = {}  # another table had this number
            elif each["event"] == "counted" and each["table"] == table and _within_a_year(each["when"], now):
                held = {(name, what): count for name, what, count in each["counts"]} | held
        new = {item: count for item, count in counts.items() if item not in held}
        if new:
            when, added = now.isoformat(timespec="seconds"), [[*item, count] for item, count in new.items()]
            self._studies.append({"event": "counted", "table": table, "when": when, "counts": added})
        return {item: held.get(item, count) for item, count in counts.items()}

    def studies(self, table: int | None = None) -> list[dict[str, Any]]:
        """The studies that this party remembers, oldest first; of one table."""
        every = list(self._studies.records())
        forgotten = {each["run"] for each in every if each["event"] == "forgotten"}
        held = [each for each in every if each["event"] == "study" and each["run"] not in forgotten]
        return held if table is None else [each for each in held if table and each.get("table") == table]

    def forget(self, study: str, now: datetime) -> str:
        """Compare nothing with a study any more, by its id or the beginning of it; refused for a recent one.

        A table goes with the last of its studies.
        """
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
        for number in {each.get("table", 0) for each in found} - {0}:
            write_columns(self._folder, number, read_columns(self._folder, number).without(run))
            if not self.studies(number):
                write_columns(self._folder, number, OpenedColumns())  # numbers of tables are given again
                self._studies.append({"event": "table", "table": number, "revision": 0})
                remove_others(self._folder, number, 0)
        return str(run)

    def _revisions(self) -> dict[int, int]:
        """The newest revision of every table that is remembered."""
        found = {each["table"]: each["revision"] for each in self._studies.records() if each["event"] == "table"}
        return {number: revision for number, revision in found.items() if revision}

    def _tables(self) -> list[StoredTable]:
        return [StoredTable(self._folder, *each) for each in self._revisions().items()]

    def _set_older_aside(self) -> None:
        """Hashes of records that older versions wrote cannot be compared with anything of this one."""
        old = {path: version for pattern, version in _OLDER.items() for path in self._folder.glob(pattern)}
        for path, version in old.items():
            path.replace(private.private_folder(self._folder / version) / path.name)
        if old:
            _log.warning(
                "the records of studies made with version %s cannot be compared any more; what is left of them is in "
                "%s. Refuse a study whose records differ from those by a few",
                " and ".join(sorted(set(old.values()))),
                self._folder,
            )


def _same(old: StoredTable, new: Brought, changed: Collection[str]) -> bool:
    """Whether a study makes nothing new of a remembered table."""
    known = {*names_of(old), *new.ids}.issuperset(new.names) or len(names_of(old)) * len(new.classes) >= MOST_CELLS
    there = not (new.ids and (new.at < 0).any())  # a record that is withdrawn leaves nothing behind
    return known and there and not changed and old.ids == new.ids and np.array_equal(old.classes, new.classes)


def _within_a_year(when: str, now: datetime) -> bool:
    return now - datetime.fromisoformat(when) < COUNTED_AGAIN


def _unreadable(table: MatrixSource) -> list[str]:
    """Columns that are neither numbers nor known to be text, or have infinite entries."""
    bad = []
    for name in table.names or ():
        try:
            if name not in table.text_names:
                table.raw(slice(0, table.shape[0]), places(table, [name]))
        except DataError:
            bad.append(name)
    return bad
