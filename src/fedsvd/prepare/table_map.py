"""How a site's own table becomes what a consortium's dictionary describes: ``[table]`` of ``site.toml``, or a file.

[table]
encoding = "latin-1"                  # of a text table; UTF-8 where left out
decimal = ","                         # and delimiter, thousands: found from the first lines where left out
missing = ["-9", "unknown"]           # in every column; the usual spellings (empty, NA, null) need not be listed
[table.map]
"Gewicht (kg)" = "weight"             # what a column is called in studies
sex = { levels = { m = "male", w = "female" } }
bili = { name = "bilirubin", factor = 17.1, missing = ["999"] }
wbc = { thousands = "." }             # 1.564 is 1564 in this column, whatever points are elsewhere; decimal likewise
born = { name = "age", date = "%d.%m.%Y", since = "2026-01-01", count = "years", factor = -1 }
pid = { name = "patient", width = 8 }

The words are this site's own business: its owner reads them back before a study (``lines``), and no one else does.
What they do to a table is ``mapped.py``; the file itself is only read.
"""

import math
from collections.abc import Mapping
from datetime import date as Day
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StringConstraints, model_validator
from pydantic import ValidationError as Invalid

from fedsvd.data.csv_layout import Given
from fedsvd.data.files import TextSettings
from fedsvd.errors import ConfigError
from fedsvd.storage.toml import first_fault, read_toml

_PAGE = "docs/howto/dictionary.md"
_MOST = 10_000

Name = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


def _code(value: object) -> object:
    """A code as text: -9 and "-9" are the same."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a text or a number")
    return f"{value:g}" if isinstance(value, float) else str(value)


def _day(value: object) -> object:
    if isinstance(value, str):
        try:
            return Day.fromisoformat(value)
        except ValueError:
            raise ValueError("a day such as 2000-01-31") from None
    return value


def _format(value: str) -> str:
    if "%Y" not in value and "%y" not in value:
        raise ValueError('how dates are written, such as "%d.%m.%Y" or "%Y-%m-%d"')
    return value


Code = Annotated[str, BeforeValidator(_code), StringConstraints(min_length=1, max_length=1000)]
Codes = Annotated[tuple[Code, ...], Field(max_length=100)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Words(BaseModel):
    """A table of a file that people write: no key that is not listed, and no change once it is parsed."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ColumnMap(Words):
    """What is done to one column: its name in studies, its levels, units, dates, ids."""

    name: Name | None = None
    levels: Annotated[dict[Code, Code], Field(max_length=_MOST)] = Field(default_factory=dict)
    missing: Codes = ()
    decimal: Literal[".", ","] | None = None
    thousands: Literal[".", ",", "'", " "] | None = None
    factor: Finite = 1.0
    offset: Finite = 0.0
    date: Annotated[str, StringConstraints(max_length=40), BeforeValidator(_format)] | None = None
    since: Annotated[Day, BeforeValidator(_day)] | None = None
    count: Literal["days", "years"] = "days"
    width: Annotated[StrictInt, Field(ge=0, le=100)] = 0

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        numbers = self.factor != 1.0 or self.offset != 0.0 or self.marks is not None
        if self.marks is not None and (self.marks[0] == self.marks[1] or self.date is not None):
            raise ValueError("decimal and thousands are two marks inside of numbers, and dates have none")
        if self.factor == 0.0:
            raise ValueError("factor is 0: every entry would be the same")
        if self.since is not None and self.date is None:
            raise ValueError('since counts from a day, and date does not say how days are written: date = "%Y-%m-%d"')
        if bool(self.levels) + bool(self.width) + (numbers or self.date is not None) > 1:
            raise ValueError(
                "levels, width, and numbers (factor, offset, date, decimal, thousands) exclude each other in one column"
            )
        return self

    @property
    def marks(self) -> tuple[str, str] | None:
        """The decimal mark of this column and the one between thousands; None where they are the table's."""
        if self.decimal is None and not self.thousands:
            return None
        return self.decimal or ("," if self.thousands == "." else "."), self.thousands or ""

    @property
    def makes_text(self) -> bool:
        """Whether the column holds texts, whatever it held."""
        return bool(self.levels) or bool(self.width)

    def lines(self) -> list[str]:
        """What is done, for the owner of the table."""
        said = [f"{old!r} is {new!r}" for old, new in self.levels.items()]
        if self.date is not None:
            since = "the year" if self.since is None else f"{self.count} since {self.since.isoformat()}"
            said.append(f"dates written {self.date} become {since}")
        if self.marks is not None:
            between = f", {self.thousands!r} between thousands" if self.thousands else ""
            said.append(f"read with {self.marks[0]!r} before decimals{between}")
        if self.factor != 1.0:
            said.append(f"times {self.factor!r}")
        if self.offset != 0.0:
            said.append(f"{'plus' if self.offset > 0.0 else 'minus'} {abs(self.offset)!r}")
        if self.width:
            said.append(f"ids have {self.width} digits, zeros in front")
        if self.missing:
            said.append(f"{', '.join(map(repr, self.missing))} is missing")
        return said


def _named(value: object) -> object:
    """``weight = "gewicht"`` is short for ``{ name = "gewicht" }``."""
    return {"name": value} if isinstance(value, str) else value


OneColumn = Annotated[ColumnMap, BeforeValidator(_named)]


class TableMap(Words):
    """How a table is read, and what is done to its columns."""

    encoding: Annotated[str, StringConstraints(max_length=40)] | None = None
    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=1)] | None = None
    decimal: Literal[".", ","] | None = None
    thousands: Literal[".", ",", "'", " "] | None = None
    missing: Codes = ()
    map: Annotated[dict[Name, Annotated[ColumnMap, BeforeValidator(_named)]], Field(max_length=_MOST)] = Field(
        default_factory=dict
    )

    @property
    def asks_nothing(self) -> bool:
        """Whether tables are taken as they are."""
        return self == type(self)()

    def settings(self) -> TextSettings:
        """How a text table is read; codes that are numbers are compared as numbers later, in every format."""
        inside = {name: _texts(each.missing) for name, each in self.map.items() if _texts(each.missing)}
        marks = {name: each.marks for name, each in self.map.items() if each.marks is not None}
        given = Given(self.encoding, self.thousands, _texts(self.missing), inside, marks)
        return TextSettings(self.delimiter, self.decimal, given=given)

    def names(self) -> dict[str, str]:
        """What columns are called in studies, by the names they have here; those that keep their names are left out."""
        return {own: each.name for own, each in self.map.items() if each.name is not None and each.name != own}

    def told(self) -> set[str]:
        """The columns, as studies call them, of which the map says how their numbers are written."""
        return {each.name or own for own, each in self.map.items() if each.marks is not None}

    def lines(self) -> list[str]:
        """What is done to the table as a whole, for its owner."""
        marks = {"encoding": self.encoding, "delimiter": self.delimiter, "decimal": self.decimal}
        read = [f"{word} {mark!r}" for word, mark in (marks | {"thousands": self.thousands}).items() if mark]
        said = [f"read with {', '.join(read)}"] if read else []
        return said + ([f"{', '.join(map(repr, self.missing))} is missing in every column"] if self.missing else [])

    def sentences(self) -> list[str]:
        """All that is done, to the table and to each column, for its owner."""
        said = {
            own: [*([] if each.name in (None, own) else [f"called {each.name!r}"]), *each.lines()]
            for own, each in self.map.items()
        }
        return [*self.lines(), *(f"column {own!r}: {'; '.join(lines)}" for own, lines in said.items() if lines)]

    def record(self) -> dict[str, Any]:
        """As JSON, and as TOML: what ``map_of`` reads."""
        return self.model_dump(mode="json", exclude_defaults=True, exclude_none=True)


NOTHING = TableMap()


def _texts(codes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(code for code in codes if as_number(code) is None)


def as_number(code: str) -> float | None:
    """The number that a code is; None for one of text."""
    try:
        found = float(code)
    except ValueError:
        return None
    return found if math.isfinite(found) and code.isascii() and "_" not in code else None


def map_of(record: Mapping[str, Any], where: str) -> TableMap:
    """The words of a parsed file; ``where`` is its name, for errors."""
    try:
        return TableMap.model_validate(record)
    except Invalid as invalid:
        raise first_fault(where, invalid, TableMap, _PAGE) from None


def given_map(words: object) -> TableMap:
    """What a caller gives for a map: a file, its keys as a mapping, or the columns of its ``map`` alone."""
    if words is None or isinstance(words, TableMap):
        return words or NOTHING
    if isinstance(words, str | PathLike):
        return read_map(Path(words))
    if not isinstance(words, Mapping):
        raise ConfigError(f"map is of the type {type(words).__name__}", "give a file, or a dict with its keys")
    keys = set(TableMap.model_fields)
    return map_of(words if set(words) <= keys else {"map": words}, "map")


def read_map(path: Path) -> TableMap:
    """The words in a TOML file, which has the keys of ``[table]``."""
    return map_of(read_toml(path, _PAGE), str(path))
