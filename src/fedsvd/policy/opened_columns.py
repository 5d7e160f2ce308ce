"""Columns whose sums studies of a table opened, one row for each record that the party remembers: on its disk alone.

    columns-0001.npz    values, NaN where a study did not take the record; which studies took which columns

A study adds the columns that are new. A column is one that is there where both have the same values in all records of
both, but for records that were corrected since: those have their new values from then on. What it is called says
nothing: a job may rename columns. What follows from it: ``studies/opened_before.py``.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import StorageError
from fedsvd.storage import private
from fedsvd.types import Float

MOST_CELLS = 1 << 25
_FEWEST = 10  # records of both by which two columns are said to be the same
_BITS = 8.0  # of a column of numbers, which is not looked at
NOWHERE = -1
_NONE = np.empty(0, np.intp)


@dataclass(frozen=True, repr=False)
class StudyColumns:
    """The columns that a study sums, without weights: features, labels, then those that counts over time are of."""

    names: tuple[str, ...]
    values: Float  # (rows, columns)
    rows: NDArray[np.intp]  # of the table as it was opened
    labels: int = 0  # how many of the last columns are labels
    made: tuple[int, ...] = ()  # those that the job made
    few: tuple[int, ...] = ()  # those of at most 20 values
    roots: Float | None = None  # of the rows' weights
    gram: bool = False  # whether users come to hold sums of products of all of them
    bits: int = 0  # that the study opens; 0 where they are not counted
    held: float = 0.0  # bits of one record, where the columns themselves are too many to be stored
    directions: int = 0  # that the study opens by steps, at most
    described: bool = False  # whether its levels were counted (Table 1)
    by: int = NOWHERE  # the column whose levels made groups then
    counted: int = 0  # how many of the last columns are time, event and group of counts over time
    grid: "CountedAt | None" = None  # where these are counted
    grids: "tuple[CountedAt | None, ...]" = ()  # of the columns of a description; None of levels


@dataclass(frozen=True)
class CountedAt:
    """The times up to which a study counts records, and whether who is censored at one of them has left by then."""

    edges: tuple[float, ...]
    closed: bool
    least: int = 1  # what counts are rounded to multiples of


@dataclass(frozen=True)
class Opened:
    """What one study opened: places of its columns, and of the roots of its weights where it has some."""

    bits: int
    held: float
    gram: bool
    features: tuple[int, ...] = ()
    labels: tuple[int, ...] = ()
    roots: int = NOWHERE
    directions: int = 0
    described: bool = False
    by: int = NOWHERE
    counted: tuple[int, ...] = ()
    grid: CountedAt | None = None
    grids: tuple[CountedAt | None, ...] = ()


@dataclass(frozen=True, repr=False)
class OpenedColumns:
    """All columns that studies of one table opened sums of."""

    names: tuple[str, ...] = ()
    values: Float = field(default_factory=lambda: np.empty((0, 0)))  # (records, columns)
    made: frozenset[int] = frozenset()
    few: frozenset[int] = frozenset()
    corrected: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))  # whether a record ever was
    studies: Mapping[str, Opened] = field(default_factory=dict)  # by run, oldest first

    def places(self, values: Float, record: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where each of these columns is among the stored ones; ``record`` is that of every row, or -1."""
        found = np.full(values.shape[1], NOWHERE)
        known = np.flatnonzero((record >= 0) & (record < len(self.values)))
        known = known[~self.corrected[record[known]]]
        stored, now = self.values[record[known]], values[known] + 0.0
        taken = ~np.isnan(stored)
        masks: dict[bytes, list[int]] = {}
        for j in range(stored.shape[1]):
            masks.setdefault(taken[:, j].tobytes(), []).append(j)
        for columns in masks.values():
            both = taken[:, columns[0]]
            if both.sum() < _FEWEST:
                continue
            there = {stored[both, j].tobytes(): j for j in columns}
            for j in range(values.shape[1]):
                found[j] = there.get(now[both, j].tobytes(), found[j])
        return found

    def after(
        self, records: int, corrected: NDArray[np.intp] = _NONE, erased: NDArray[np.intp] = _NONE
    ) -> "OpenedColumns":
        """The same for this number of records, of which some are corrected now, and of some nothing may stay."""
        values = np.full((records, len(self.names)), np.nan)
        values[: len(self.values)] = self.values
        values[erased] = np.nan
        flags = np.zeros(records, np.bool_)
        flags[: len(self.corrected)] = self.corrected
        flags[corrected] = True
        return replace(self, values=values, corrected=flags)

    def with_study(self, run: str, study: StudyColumns, record: NDArray[np.intp]) -> "OpenedColumns":
        """With what a study opens; ``record`` is that of each of its rows. Too many columns are counted, not stored."""
        assert (record >= 0).all(), "a study has rows of records alone"
        about = Opened(study.bits, study.held, study.gram, directions=study.directions)
        columns = study.values if study.roots is None else np.column_stack((study.values, study.roots))
        names = study.names if study.roots is None else (*study.names, "the weights")
        at = self.places(columns, record)
        new = np.flatnonzero(at < 0)
        if (len(self.names) + len(new)) * len(self.values) > MOST_CELLS:
            held = study.held or _BITS * (len(study.names) - study.labels - study.counted)
            return replace(self, studies={**self.studies, run: replace(about, held=held)})
        at[new] = len(self.names) + np.arange(len(new))
        values = np.column_stack((self.values, np.full((len(self.values), len(new)), np.nan)))
        values[np.ix_(record, at)] = columns + 0.0
        places: list[int] = at[: len(study.names)].tolist()
        last = len(study.names) - study.counted
        split = last - study.labels
        roots = NOWHERE if study.roots is None else int(at[-1])
        by = NOWHERE if study.by == NOWHERE else places[study.by]
        about = replace(about, features=tuple(places[:split]), labels=tuple(places[split:last]), roots=roots, by=by)
        about = replace(about, described=study.described, counted=tuple(places[last:]), grid=study.grid)
        about = replace(about, grids=study.grids)
        return replace(
            self,
            names=(*self.names, *(names[j] for j in new.tolist())),
            values=values,
            made=self.made | {places[j] for j in study.made},
            few=self.few | {places[j] for j in study.few},
            studies={**{other: each for other, each in self.studies.items() if other != run}, run: about},
        )

    def without(self, run: str) -> "OpenedColumns":
        """Without a study that is forgotten, and the columns that it alone had."""
        studies = {other: each for other, each in self.studies.items() if other != run}
        every = (j for each in studies.values() for j in (*each.features, *each.labels, *each.counted, each.roots))
        used = sorted({*every} - {NOWHERE})
        new = {old: place for place, old in enumerate(used)} | {NOWHERE: NOWHERE}
        return OpenedColumns(
            tuple(self.names[j] for j in used),
            self.values[:, used],
            frozenset(new[j] for j in self.made if j in new),
            frozenset(new[j] for j in self.few if j in new),
            self.corrected,
            {
                other: replace(
                    each,
                    features=tuple(new[j] for j in each.features),
                    labels=tuple(new[j] for j in each.labels),
                    counted=tuple(new[j] for j in each.counted),
                    roots=new[each.roots],
                    by=new[each.by],
                )
                for other, each in studies.items()
            },
        )


def read_columns(folder: Path, number: int) -> OpenedColumns:
    """What is stored of a table; nothing where nothing was opened of it."""
    path = _path(folder, number)
    if not path.exists():
        return OpenedColumns()
    try:
        with np.load(io.BytesIO(private.read(path)), allow_pickle=False) as file:
            said: dict[str, Any] = json.loads(file["said"].tobytes())
            values, corrected = file["values"], file["corrected"]
        studies = {run: _opened(each) for run, each in said["studies"].items()}
        names, made, few = tuple(said["names"]), frozenset(said["made"]), frozenset(said["few"])
    except (OSError, ValueError, EOFError, KeyError, TypeError, BadZipFile):
        raise StorageError(f"{path} is damaged", "restore it from a backup: it protects your records") from None
    return OpenedColumns(names, values, made, few, corrected, studies)


def _opened(said: dict[str, Any]) -> Opened:
    """As it was written; versions before times and grids were remembered wrote none of them."""
    places = {key: tuple(said.get(key, ())) for key in ("features", "labels", "counted")}
    grids = tuple(_counted_at(each) for each in said.get("grids", ()))
    return Opened(**{**said, **places, "grid": _counted_at(said.get("grid")), "grids": grids})


def _counted_at(said: dict[str, Any] | None) -> CountedAt | None:
    return CountedAt(tuple(said["edges"]), said["closed"], said.get("least", 1)) if said else None


def write_columns(folder: Path, number: int, columns: OpenedColumns) -> None:
    """Store what was opened of a table; no file where that is nothing."""
    path = _path(folder, number)
    if not columns.studies:
        path.unlink(missing_ok=True)
        return
    said = {
        "names": columns.names,
        "made": sorted(columns.made),
        "few": sorted(columns.few),
        "studies": {run: asdict(each) for run, each in columns.studies.items()},
    }
    file = io.BytesIO()
    words = np.frombuffer(json.dumps(said).encode(), np.uint8)
    np.savez(file, said=words, values=columns.values, corrected=columns.corrected)
    private.replace(path, file.getvalue())


def _path(folder: Path, number: int) -> Path:
    return folder / f"columns-{number:04d}.npz"
