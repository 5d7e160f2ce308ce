"""A party's table as matching has it: one id for each record, made from one column or several, by the rule of the
study.

``RecordIds`` is that rule: which columns, and how they are normalised (``identifiers.py``). It stands in the plan as
text, so that all parties agree on it and predictions are aligned by the same rule later. ``identified`` gives a table
whose id columns are no features any more and whose ids are read by one name, ``RecordIds.name``; with a linkage map,
records that it does not know are left out, and the ids are those of entities.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.data.views import Without
from fedsvd.errors import ConfigError, DataError, EmptyData
from fedsvd.prepare.identifiers import IdRule, Linkage, expect_distinct, read_linkage, record_ids

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
