"""A table as a party remembers it: the values that studies took of every record, and the class of each record.

    table-0001-0003.npy    numbers, one row for each record
    table-0001-0003.npz    names of columns, texts, classes, keyed words of ids

The second number is the revision: a new one is written as a whole, then named in the list of studies, and the old one
goes. Files lie in the party's private folder. Where records have ids, the columns that studies took are stored, and of
a record that was withdrawn nothing but the word of its id: it does not come back. Where they have none, a record is its
content, and all columns are stored. Of a table with more than 2^27 numbers as many columns are stored as fit, chosen by
the party's key.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.checks import not_numeric
from fedsvd.data.earlier_cells import EarlierCells
from fedsvd.data.source import Index, MatrixSource, as_run, pick
from fedsvd.errors import DataError, StorageError
from fedsvd.policy.record_words import PANEL_CELLS, id_words, names_of, places
from fedsvd.policy.row_sets import Classes
from fedsvd.randomness.seed import Seed
from fedsvd.storage import private
from fedsvd.storage.faults import what_helps
from fedsvd.types import Float, Ring

MOST_CELLS = 1 << 27
_DAMAGED = "restore it from a backup: it protects your records"


class StoredTable(MatrixSource):
    """One revision of a remembered table."""

    def __init__(self, folder: Path, number: int, revision: int) -> None:
        self.number, self.revision = number, revision
        paths = _paths(folder, number, revision)
        try:
            with paths[1].open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                stored = {name: file[name] for name in file.files}
            self.classes: Classes = stored["classes"]
            self.ids: tuple[str, ...] = tuple(stored["ids"].tolist())
            self.words: Ring = stored["words"]
            self.gone: NDArray[np.bool_] = stored["gone"]  # withdrawn, and left without values
            numbers, texts = stored["numbers"].tolist(), stored["texts"].tolist()
            self._text = {name: (stored[f"text{k}"], stored[f"gaps{k}"]) for k, name in enumerate(texts)}
            self._numbers: NDArray[Any] = np.load(paths[0], mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError, KeyError, BadZipFile):
            raise StorageError(f"{paths[1]} is damaged", _DAMAGED) from None
        super().__init__((len(self.classes), len(numbers) + len(texts)), np.dtype(np.float64), [*numbers, *texts])
        self.numbers, self.texts = tuple(numbers), tuple(texts)

    @property
    def text_names(self) -> frozenset[str]:
        return frozenset(self._text)

    def id_words(self, ids: Sequence[str], key: Seed) -> Ring | None:
        """A word for each record by the columns that name it; None where these are not stored."""
        if tuple(ids) == self.ids:
            return self.words
        return id_words(self, ids, key) if ids and set(ids) <= set(self.names or ()) and not self.ids else None

    def _text_values(self, position: int) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        if position < len(self.numbers):
            return super()._text_values(position)
        return self._text[self.texts[position - len(self.numbers)]]

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        wanted = np.arange(self.shape[1])[columns]
        if wanted.size and int(wanted.max()) >= len(self.numbers):
            raise not_numeric("a column of text", "text")
        return np.array(pick(self._numbers, rows, columns))


@dataclass(frozen=True, repr=False)
class Brought:
    """A table that is brought now, and where each record to be stored is in it; -1 where it is not."""

    table: MatrixSource
    names: tuple[str, ...]  # of the columns to be stored
    at: NDArray[np.intp]
    classes: Classes
    ids: tuple[str, ...] = ()  # the columns that name records; none where their content does
    words: Ring = field(default_factory=lambda: np.empty(0, np.uint64))


def write_table(folder: Path, number: int, revision: int, brought: Brought, old: StoredTable | None, key: Seed) -> None:
    """Write a revision: of records in the table as it is brought its values there, of others what ``old`` has."""
    now, at = brought.table, brought.at
    every = [*([] if old is None else names_of(old)), *brought.names]
    names = _chosen([name for name in every if name not in brought.ids], len(at), key)
    text = now.text_names | (frozenset() if old is None else old.text_names)
    numbers, texts = ([name for name in names if (name in text) is kind] for kind in (False, True))
    paths = _paths(folder, number, revision)
    try:
        with private.new_file(paths[0]) as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": (len(at), len(numbers))}
            np.lib.format.write_array_header_1_0(file, header)
            for panel in _merged(brought, old, numbers):
                file.write(np.ascontiguousarray(panel, "<f8").data)
        columns: dict[str, Any] = {
            "classes": brought.classes,
            "gone": (at < 0) & bool(brought.ids),
            "ids": _texts(brought.ids),
            "words": brought.words,
            "numbers": _texts(numbers),
            "texts": _texts(texts),
        }
        for k, name in enumerate(texts):
            columns[f"text{k}"], columns[f"gaps{k}"] = _merged_text(brought, old, name)
        with private.new_file(paths[1]) as file:
            np.savez(file, **columns)
    except DataError:
        _remove(paths)
        raise
    except OSError as fault:
        _remove(paths)
        reason = fault.strerror or type(fault).__name__
        fix = what_helps(fault, "move the kit to another disk; then resume")
        raise StorageError(f"{paths[0]} cannot be written: {reason}", fix) from None


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def differing_rows(stored: StoredTable, table: MatrixSource, record: NDArray[np.intp]) -> NDArray[np.intp]:
    """The rows of a table whose record is remembered with another value in a column of both."""
    found = [rows[differ.any(axis=1)] for _, rows, differ, _, _ in _compared(stored, table, record)]
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.intp)


def earlier_cells(
    stored: StoredTable, table: MatrixSource, record: NDArray[np.intp], rows: NDArray[np.intp]
) -> dict[str, EarlierCells]:
    """What is remembered of these rows where it differs, by column."""
    chosen, found = np.full(len(record), -1, np.intp), {}
    chosen[rows] = record[rows]
    parts: dict[str, list[EarlierCells]] = {}
    for names, at, differ, values, gaps in _compared(stored, table, chosen):
        for k in np.flatnonzero(differ.any(axis=0)).tolist():
            some = differ[:, k]
            cells = EarlierCells(at[some], values[some, k], None if gaps is None else gaps[some, k])
            parts.setdefault(names[k], []).append(cells)
    for name, each in parts.items():
        gaps = None if each[0].gaps is None else np.concatenate([one.gaps for one in each if one.gaps is not None])
        found[name] = EarlierCells(
            np.concatenate([one.rows for one in each]), np.concatenate([one.values for one in each]), gaps
        )
    return found


_Part = tuple[Sequence[str], NDArray[np.intp], NDArray[np.bool_], NDArray[Any], NDArray[np.bool_] | None]


def _compared(stored: StoredTable, table: MatrixSource, record: NDArray[np.intp]) -> Iterator[_Part]:
    """Parts of both tables: columns, rows of remembered records, where they differ, and what is remembered there."""
    text = stored.text_names | table.text_names
    held = set(names_of(stored))
    both = [name for name in names_of(table) if name in held]
    numbers, known = [name for name in both if name not in text], np.flatnonzero(record >= 0)
    if numbers:
        here, there = places(table, numbers), places(stored, numbers)
        height = max(1, PANEL_CELLS // len(numbers))
        for start in range(0, len(known), height):
            rows = known[start : start + height]
            now, before = table.raw(as_run(rows), here), stored.raw(record[rows], there)
            yield numbers, rows, (now != before) & ~(np.isnan(now) & np.isnan(before)), before, None
    for name in both:
        if name in text:
            texts, gaps = table.text(name)
            earlier, missing = stored.text(name)
            texts, gaps, earlier, missing = texts[known], gaps[known], earlier[record[known]], missing[record[known]]
            differ = (gaps != missing) | (~gaps & (texts != earlier))
            yield [name], known, differ[:, None], earlier[:, None], missing[:, None]


def place_of(table: MatrixSource, name: str) -> int:
    """Where a column is."""
    return list(names_of(table)).index(name)


def remove_others(folder: Path, number: int, revision: int) -> None:
    """Remove all revisions of a table but this one."""
    kept = _paths(folder, number, revision)
    _remove([path for path in folder.glob(f"table-{number:04d}-*") if path not in kept])


def _merged(brought: Brought, old: StoredTable | None, names: Sequence[str]) -> Iterator[Float]:
    """The numbers to be stored, by panels of records."""
    if not names:
        return
    here = set(brought.names)
    now = [k for k, name in enumerate(names) if name in here]
    held = set() if old is None else set(old.numbers)
    before = [k for k, name in enumerate(names) if name in held]
    known = 0 if old is None else len(old.classes)
    height = max(1, PANEL_CELLS // len(names))
    for start in range(0, len(brought.at), height):
        at = brought.at[start : start + height]
        out = np.full((len(at), len(names)), np.nan)
        if old is not None and before and start < known:
            stop = min(start + height, known)
            out[: stop - start, before] = old.raw(slice(start, stop), places(old, [names[k] for k in before]))
        present = np.flatnonzero(at >= 0)
        if brought.ids:
            out[at < 0] = np.nan  # of a record that was withdrawn nothing stays
        if now and present.size:
            columns = places(brought.table, [names[k] for k in now])
            out[np.ix_(present, np.array(now))] = brought.table.raw(as_run(at[present]), columns)
        yield out


def _merged_text(brought: Brought, old: StoredTable | None, name: str) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
    values, gaps = np.full(len(brought.at), "", object), np.ones(len(brought.at), np.bool_)
    if old is not None and name in names_of(old):
        values[: len(old.classes)], gaps[: len(old.classes)] = old.text(name)
    if brought.ids:
        values[brought.at < 0], gaps[brought.at < 0] = "", True
    if name in brought.names:
        present = np.flatnonzero(brought.at >= 0)
        texts, missing = brought.table.text(name)
        values[present], gaps[present] = texts[brought.at[present]], missing[brought.at[present]]
    return _texts(values.tolist()), gaps


def _texts(values: Sequence[str]) -> NDArray[np.str_]:
    return np.array(values, np.str_) if len(values) else np.empty(0, "<U1")


def _chosen(names: Sequence[str], records: int, key: Seed) -> list[str]:
    """The names without repetition; where they are too many, those that the key chooses."""
    distinct, most = list(dict.fromkeys(names)), max(1, MOST_CELLS // max(1, records))
    if len(distinct) <= most:
        return distinct
    secret = key.derive("columns").reveal()
    chosen = sorted(distinct, key=lambda name: hashlib.blake2b(name.encode(), digest_size=8, key=secret).digest())
    return sorted(chosen[:most])


def _paths(folder: Path, number: int, revision: int) -> tuple[Path, Path]:
    stem = f"table-{number:04d}-{revision:04d}"
    return folder / f"{stem}.npy", folder / f"{stem}.npz"
