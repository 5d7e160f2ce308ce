"""Record ids as they are compared: normalised, joined from several columns, distinct, and hashed under a key.

Two spellings of one id must become one text at every party, without the parties comparing them in the clear. So the
rule is part of the plan: Unicode in normal form (NFKC), case folded, blanks trimmed or removed, dates as ISO text, and
whole numbers alike whether a file stores them as text or as numbers. A linkage map made elsewhere (anonlink, splink)
replaces ids by the ids of entities.

``RecordIds`` is that rule: which columns, and how they are normalised. It stands in the plan as
text, so that all parties agree on it and predictions are aligned by the same rule later. ``identified`` gives a table
whose id columns are no features any more and whose ids are read by one name, ``RecordIds.name``; with a linkage map,
records that it does not know are left out, and the ids are those of entities.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.data.views import Without
from fedsvd.errors import ConfigError, DataError, EmptyData, NotFinite, RepeatedIds
from fedsvd.randomness.seed import Seed

HASH_BYTES = 16
Hashes = NDArray[np.uint8]
"""Shape (records, 16): one keyed hash for each record."""

_BETWEEN = " | "
_ISO = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ].*)?")
_PACKED = re.compile(r"(\d{4})(\d{2})(\d{2})")
_LOCAL = re.compile(r"(\d{1,2})[./-](\d{1,2})[./-](\d{4})")


@dataclass(frozen=True)
class IdRule:
    """How ids are normalised; the same at every party."""

    fold_case: bool = True
    blanks: str = "trim"  # or "remove", or "exact"
    dates: tuple[str, ...] = ()  # columns that hold dates
    month_first: bool = False  # of 03/04/2024, which Europe reads as a day in April

    def __post_init__(self) -> None:
        if self.blanks not in ("trim", "remove", "exact"):
            raise ConfigError(f"blanks = {self.blanks!r}", 'one of "trim", "remove" and "exact"')


def record_ids(source: MatrixSource, columns: Sequence[str], rule: IdRule) -> NDArray[np.str_]:
    """The id of every record, from one column or several, normalised; refused when a part of one is missing."""
    if not columns:
        raise ConfigError("no id column is named", "name one, or several")
    parts = [_normalised_column(source, name, rule) for name in columns]
    if len(parts) == 1:
        return parts[0]
    joined = [_BETWEEN.join(map(_marked, row)) for row in zip(*(p.tolist() for p in parts), strict=True)]
    return np.array(joined, dtype=np.str_)


def expect_distinct(ids: NDArray[np.str_]) -> None:
    """Refuse ids that occur more than once, with how many."""
    repeated = len(ids) - len(np.unique(ids))
    if repeated:
        raise RepeatedIds(
            f"{repeated} of {len(ids)} record ids occur more than once after normalisation",
            "give one record for each id, or name further id columns",
        )


def hashed(ids: NDArray[np.str_], key: Seed) -> Hashes:
    """A keyed hash of each id: without the key it can be compared and not guessed."""
    secret = key.derive("record ids").reveal()
    blake, size = hashlib.blake2b, HASH_BYTES
    digests = b"".join([blake(text.encode(), digest_size=size, key=secret).digest() for text in ids.tolist()])
    return np.frombuffer(digests, np.uint8).reshape(-1, HASH_BYTES)


@dataclass(frozen=True, repr=False)
class Linkage:
    """A linkage map: which entity a party's own id belongs to."""

    ids: NDArray[np.str_]  # sorted
    entities: NDArray[np.str_]

    def apply(self, ids: NDArray[np.str_]) -> tuple[NDArray[np.str_], NDArray[np.intp]]:
        """The entities of those ids that the map knows, and the positions of these ids."""
        place = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        known = self.ids[place] == ids
        return self.entities[place[known]], np.flatnonzero(known)


def read_linkage(table: MatrixSource, own: str, entity: str, rule: IdRule) -> Linkage:
    """The linkage map in two columns of a table; an id that is mapped to two entities is refused.

    Entities are normalised as ids are: at a party without a map they may be the ids themselves. An id whose entity is
    missing is one that the map does not know.
    """
    ids, (entities, gaps) = _normalised_column(table, own, rule), _as_text(table, entity)
    ids, entities = ids[~gaps], normalised(entities[~gaps], rule)
    if not len(ids):
        raise DataError("the linkage map names no entity", "give a row for each record: own id, entity")
    order = np.argsort(ids, kind="stable")
    ids, entities = ids[order], entities[order]
    same = ids[1:] == ids[:-1]
    conflicting = int((same & (entities[1:] != entities[:-1])).sum())
    if conflicting:
        raise DataError(f"{conflicting} ids of the linkage map belong to two entities", "make the linkage one to one")
    first = np.concatenate(([True], ~same))
    return Linkage(ids[first], entities[first])


def _marked(part: str) -> str:
    """A part of an id, the sign between parts marked in it: ("a|b", "c") and ("a", "b|c") are different records."""
    return part.replace("\\", "\\\\").replace("|", "\\|") if "|" in part or "\\" in part else part


def normalised(values: NDArray[np.str_], rule: IdRule) -> NDArray[np.str_]:
    """Texts in the one spelling that the rule gives them."""
    levels, place = np.unique(values, return_inverse=True)
    return np.array([_normal(text, rule) for text in levels.tolist()], dtype=np.str_)[place]


def iso_date(text: str, month_first: bool = False) -> str | None:
    """A date as ISO text; None when it is not a date."""
    text = text.strip()
    if found := (_ISO.fullmatch(text) or _PACKED.fullmatch(text)):
        year, month, day = (int(part) for part in found.groups())
    elif found := _LOCAL.fullmatch(text):
        one, two, year = (int(part) for part in found.groups())
        day, month = (two, one) if month_first else (one, two)
    else:
        return None
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None


def _normalised_column(source: MatrixSource, name: str, rule: IdRule) -> NDArray[np.str_]:
    values, missing = _as_text(source, name)
    if missing.any():
        raise NotFinite(
            f"{int(missing.sum())} of {len(missing)} entries of the id column {name!r} are missing",
            "give every record an id, or leave these records out",
        )
    if name not in rule.dates:
        return normalised(values, rule)
    levels, place = np.unique(values, return_inverse=True)
    dates = [iso_date(text, rule.month_first) for text in levels.tolist()]
    wrong = dates.count(None)
    if wrong:
        raise DataError(f"{wrong} different entries of column {name!r} are no dates", "write them as 2024-12-31")
    return np.array([text or "" for text in dates], dtype=np.str_)[place]


def _as_text(source: MatrixSource, name: str) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
    """An id column as text: exactly as it is written where the file says so (007), also for the labels of rows."""
    try:
        values = source.column(name)
    except NotFinite:
        return source.text(name)
    if values.dtype.kind == "f" and bool((values == np.floor(values)).all()) and bool((np.abs(values) < 2.0**53).all()):
        values = values.astype(np.int64)
    return values.astype(np.str_), np.zeros(len(values), dtype=np.bool_)


def _normal(text: str, rule: IdRule) -> str:
    text = unicodedata.normalize("NFKC", text)
    if rule.fold_case:
        # Folding may leave the normal form (a capital with a dot); NFKC again makes it one spelling.
        text = unicodedata.normalize("NFKC", text.casefold())
    if rule.blanks == "trim":
        return " ".join(text.split())
    return "".join(text.split()) if rule.blanks == "remove" else text


BETWEEN = " + "
"""Between the names of several id columns, in the name of the id they make together."""


@dataclass(frozen=True)
class RecordIds:
    """Which columns an id is made of, and how they are normalised; the same at every party."""

    columns: tuple[str, ...]
    rule: IdRule = field(default_factory=IdRule)

    def __post_init__(self) -> None:
        if not self.columns or len(set(self.columns)) < len(self.columns):
            raise ConfigError("id names no column, or one twice", "name each id column once")
        unknown = [name for name in self.rule.dates if name not in self.columns]
        if unknown:
            raise ConfigError(f"dates names {unknown[0]!r}, which is no id column", f"one of {', '.join(self.columns)}")

    @property
    def name(self) -> str:
        """What the ids are read by."""
        return BETWEEN.join(self.columns)

    def text(self) -> str:
        """As it stands in a plan: the same text for the same rule."""
        return json.dumps({"columns": list(self.columns), **asdict(self.rule)}, sort_keys=True, ensure_ascii=False)

    def __str__(self) -> str:
        """For a person."""
        rule = self.rule
        said = ["upper and lower case alike" if rule.fold_case else "upper and lower case apart"]
        said += {"trim": ["blanks trimmed"], "remove": ["blanks removed"]}.get(rule.blanks, [])
        if rule.dates:
            order = "month first" if rule.month_first else "day first"
            said.append(f"{', '.join(rule.dates)} as dates ({order} where it is not year-month-day)")
        return f"{', '.join(self.columns)}: {', '.join(said)}"


def of_text(text: str) -> RecordIds:
    """The rule that ``RecordIds.text`` wrote; ``DataError`` for anything else."""
    try:
        record = json.loads(text)
        rule = IdRule(record["fold_case"], record["blanks"], tuple(record["dates"]), record["month_first"])
        return RecordIds(tuple(record["columns"]), rule)
    except (ValueError, TypeError, KeyError):
        raise DataError("the plan's rule of record ids cannot be read", "check that all run the same version") from None


class Identified(Without):
    """A table without its id columns, whose ids are read by one name."""

    def __init__(self, base: MatrixSource, name: str, ids: NDArray[np.str_], aside: tuple[str, ...]) -> None:
        names = base.names or ()
        super().__init__(base, [j for j in range(base.shape[1]) if not names or names[j] not in aside])
        self._id, self._ids = name, ids

    def column(self, name: str) -> NDArray[Any]:
        return self._ids if name == self._id else super().column(name)

    def text(self, name: str) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        return (self._ids, np.zeros(len(self._ids), np.bool_)) if name == self._id else super().text(name)


@dataclass(frozen=True, repr=False)
class IdentifiedTable:
    """The table, and how many of its records a linkage map does not know."""

    table: MatrixSource
    without_link: int = 0


def identified(source: MatrixSource, ids: RecordIds, link: Linkage | None = None) -> IdentifiedTable:
    """The table with one id for each record; refused where one occurs twice."""
    found, without_link = record_ids(source, ids.columns, ids.rule), 0
    table: MatrixSource = Identified(source, ids.name, found, ids.columns)
    if link is not None:
        found, known = link.apply(found)
        without_link = source.shape[0] - len(known)
        if not len(known):
            raise EmptyData("the linkage map knows none of this table's records", "check the map and the id columns")
        table = Identified(source.reordered(known), ids.name, found, ids.columns)
    expect_distinct(found)
    return IdentifiedTable(table, without_link)


def read_link(table: MatrixSource, rule: IdRule) -> Linkage:
    """A linkage map made elsewhere, as a table of two columns: this party's own id, then the entity it belongs to."""
    names = table.names or ()
    if len(names) != 2:
        fix = "two columns: this party's own id, then the entity"
        raise ConfigError(f"a linkage map with {table.shape[1]} columns", fix)
    return read_linkage(table, names[0], names[1], rule)
