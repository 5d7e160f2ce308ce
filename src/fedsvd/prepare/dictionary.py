"""``dictionary.toml``: a consortium's codebook, public and the same at every party.

name = "liver"
tables = ["stage", "age_group"]        # columns and groups whose levels may be the columns of a table, or curves
[columns.age]
unit = "years"
range = [18, 110]
decimals = 0
bins = [30, 40, 50, 60, 70, 80]        # between which quantiles and histograms are counted
groups = { age_group = [40, 65] }      # a further column: below 40, from 40 to below 65, from 65
knots = [25, 45, 60, 80]               # of ns(age) in a formula; the first and last are the boundary
[columns.months]
role = "time"
times = [6, 12, 18, 24]                # at which survival curves count events and departures
[columns.relapse]
levels = ["no", "yes"]
thresholds = [0.1, 0.2]                # probabilities at which a ROC curve has sensitivity and specificity
[columns.stage]
levels = ["I", "II", "III", "IV"]
pool = true                            # levels that too few records have are joined as "other"
groups = { late = { no = ["I", "II"], yes = ["III", "IV"] } }
[columns.patient]
role = "id"
[views]
main = ["age", "stage"]                # rows that miss nothing of these are one row set
[[structural_zeros]]                   # a combination that cannot occur: no one is asked about its empty cell
sex = "male"
pregnant = "yes"

``columns = "*"`` stands for any columns of numbers, for matrices without names. A job that names a dictionary names its
columns, and nothing else (``studies/job_dictionary.py``); a table is compared with it in ``described.py``.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    StrictInt,
    StringConstraints,
    Tag,
    model_validator,
)
from pydantic import ValidationError as Invalid

from fedsvd.errors import ConfigError, printable
from fedsvd.prepare.table_map import Code, Finite, Name, Words
from fedsvd.statistics.fives import MOST_EDGES, MOST_THRESHOLDS
from fedsvd.storage.toml import first_fault, read_toml, spelt_fields
from fedsvd.types import near

FILE = "dictionary.toml"
ANY = "*"
PAGE = "docs/howto/dictionary.md"
LARGEST_FILE = 4 << 20  # bytes
MOST_COLUMNS = 100_000
_MOST_LEVELS = 1000
_MOST_CUTS = 100
_MOST_KNOTS = 20


class Role(StrEnum):
    """What a column is for, where it is no feature like others."""

    ID = "id"
    WEIGHTS = "weights"
    OFFSET = "offset"
    CLUSTER = "cluster"
    TIME = "time"
    EVENT = "event"
    LABEL = "label"


def _rising(numbers: tuple[float, ...]) -> tuple[float, ...]:
    if any(b <= a for a, b in pairwise(numbers)):
        raise ValueError("numbers that rise, each larger than the one before")
    return numbers


Cuts = Annotated[tuple[Finite, ...], Field(min_length=1, max_length=_MOST_CUTS), AfterValidator(_rising)]
Knots = Annotated[tuple[Finite, ...], Field(min_length=3, max_length=_MOST_KNOTS), AfterValidator(_rising)]
Times = Annotated[tuple[Finite, ...], Field(min_length=1, max_length=MOST_EDGES), AfterValidator(_rising)]
Bins = Annotated[tuple[Finite, ...], Field(min_length=1, max_length=MOST_EDGES - 1), AfterValidator(_rising)]
Thresholds = Annotated[
    tuple[Annotated[Finite, Field(gt=0, lt=1)], ...],
    Field(min_length=1, max_length=MOST_THRESHOLDS),
    AfterValidator(_rising),
]
Levels = Annotated[tuple[Code, ...], Field(min_length=1, max_length=_MOST_LEVELS)]
Range = Annotated[tuple[Finite, Finite], AfterValidator(_rising)]


def _starred(value: object) -> object:
    if value != ANY and not isinstance(value, Mapping):
        raise ValueError('each column is a table of its own, [columns.NAME]; or columns = "*"')
    if value != ANY and ANY in value:
        raise ValueError('columns = "*" stands alone')
    return {ANY: {}} if value == ANY else value


def _grouped(value: object) -> str:
    return "levels" if isinstance(value, Mapping) else "cuts"


Grouping = Annotated[
    Annotated[Cuts, Tag("cuts")] | Annotated[dict[Code, Levels], Tag("levels")], Discriminator(_grouped)
]


class Column(Words):
    """One column: a number with unit, range and decimals, or a category with its levels."""

    kind: Literal["number", "category"] | None = None
    meaning: Annotated[str, StringConstraints(max_length=1000)] = ""
    unit: Annotated[str, StringConstraints(max_length=100)] = ""
    range: Range | None = None
    decimals: Annotated[StrictInt, Field(ge=0, le=17)] | None = None
    levels: Annotated[tuple[Code, ...], Field(max_length=_MOST_LEVELS)] = ()
    pool: bool = False
    groups: Annotated[dict[Name, Grouping], Field(max_length=100)] = Field(default_factory=dict)
    knots: Knots | None = None
    times: Times | None = None
    bins: Bins | None = None
    thresholds: Thresholds | None = None
    role: Role | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        number = bool(self.unit) or any(
            each is not None for each in (self.range, self.decimals, self.knots, self.times, self.bins)
        )
        category = bool(self.levels)
        if self.kind == "category" and not self.levels:
            raise ValueError('a category lists its levels: levels = ["female", "male"]')
        if (self.kind == "category" or category) and (number or self.kind == "number"):
            raise ValueError("unit, range, decimals, knots, times and bins are of numbers, levels of categories")
        twice = [level for level, times in Counter(self.levels).items() if times > 1]
        if twice:
            raise ValueError(f"the level {twice[0]!r} stands there twice: list it once")
        if self.pool and not category:
            raise ValueError("pool = true is of categories: rare levels are joined")
        low, high = self.range or (-float("inf"), float("inf"))
        if self.knots is not None and not all(low <= knot <= high for knot in self.knots):
            raise ValueError("its knots leave the range of the column")
        self._expect_bins()
        for name, group in self.groups.items():
            self._expect_group(name, group)
        return self

    def _expect_bins(self) -> None:
        if self.bins is None:
            return
        if self.range is None:
            raise ValueError("the first of its bins begins, and the last ends, with its range: range = [0, 120]")
        if not self.range[0] < self.bins[0] <= self.bins[-1] < self.range[1]:
            raise ValueError("its bins meet inside of the range, whose ends are not listed")

    def _expect_group(self, name: str, group: Any) -> None:
        if isinstance(group, Mapping) != bool(self.levels):
            how = "lists of levels" if self.levels else "cut points"
            raise ValueError(f"groups of a {self.holds} are made of {how}: {name!r} is not")
        if not self.levels:
            low, high = self.range or (-float("inf"), float("inf"))
            if not all(low <= cut <= high for cut in group):
                raise ValueError(f"the cut points of {name!r} leave the range of the column")
            return
        held = [level for levels in group.values() for level in levels]
        if Counter(held) != Counter(self.levels):
            raise ValueError(f"the groups of {name!r} have every level once, and no other: {', '.join(self.levels)}")

    @property
    def holds(self) -> str:
        """number, category, or text for ids and clusters, whose entries no dictionary lists."""
        if self.levels:
            return "category"
        free = self.kind is None and self.role in (Role.ID, Role.CLUSTER) and self.range is None
        return "text" if free else "number"

    @property
    def is_feature(self) -> bool:
        """Whether a study takes it where no columns are named."""
        return self.role is None


class Group:
    """A column that the dictionary makes of another: levels of cut points, or of other levels."""

    def __init__(self, name: str, of: str, column: Column) -> None:
        self.name, self.of = name, of
        made = column.groups[name]
        self.by_level: dict[str, str] = {}
        self.cuts: tuple[float, ...] = ()
        if isinstance(made, Mapping):
            self.by_level = {level: group for group, levels in made.items() for level in levels}
            self.levels = tuple(made)
            return
        low, high = column.range or (-float("inf"), float("inf"))
        self.cuts = tuple(cut for cut in made if low < cut <= high)  # no one is below the range, or beyond it
        self.levels = _intervals(self.cuts)


def _intervals(cuts: tuple[float, ...]) -> tuple[str, ...]:
    if not cuts:
        return ("all",)
    between = (f"{a:.15g} to <{b:.15g}" for a, b in pairwise(cuts))
    return (f"<{cuts[0]:.15g}", *between, f">={cuts[-1]:.15g}")


class Dictionary(Words):
    """A codebook; equal ones have one digest, whatever the order of their columns or the layout of the file."""

    name: Annotated[str, StringConstraints(max_length=100)] = ""
    columns: Annotated[dict[Name, Column], BeforeValidator(_starred), Field(min_length=1, max_length=MOST_COLUMNS)]
    views: Annotated[
        dict[Name, Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_COLUMNS)]], Field(max_length=1000)
    ] = Field(default_factory=dict)
    structural_zeros: Annotated[tuple[dict[Name, Code], ...], Field(max_length=10_000)] = ()
    tables: Annotated[tuple[Name, ...], Field(max_length=1000)] | None = None

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        if self.takes_any:
            if self.views or self.structural_zeros or self.tables is not None:
                raise ValueError('columns = "*" names no column, and views, structural_zeros and tables do')
            return self
        for text in self._texts():
            if printable(text) != text:
                raise ValueError(f"{printable(text, 80)!r} has control characters, line ends or marks of direction")
        made = [name for column in self.described.values() for name in column.groups]
        twice = sorted(name for name, times in Counter([*self.described, *made]).items() if times > 1)
        if twice:
            raise ValueError(f"two columns or groups are called {twice[0]!r}: rename one of them")
        for view, names in self.views.items():
            self._expect_columns(f"the view {view!r}", names)
        for name in self.tables or ():
            if name not in self.names:
                raise ValueError(f"tables names {name!r}, which is no column or group{near(name, self.names)}")
            if not self.levels_of(name):
                raise ValueError(f"tables names {name!r}, which has no levels: name a category, or groups of a number")
        for zero in self.structural_zeros:
            self._expect_columns("structural_zeros", zero)
            if len(zero) < 2:
                raise ValueError("a structural zero is a combination of two columns or more")
            for name, level in zero.items():
                self._expect_level(name, level)
        return self

    def _texts(self) -> Iterator[str]:
        yield self.name
        yield from self.views
        for name, column in self.described.items():
            yield from (name, column.meaning, column.unit, *column.levels)
            for group, made in column.groups.items():
                yield from (group, *(made if isinstance(made, Mapping) else ()))

    def _expect_columns(self, where: str, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.described:
                raise ValueError(f"{where} names {name!r}, which is no column{near(name, self.described)}")

    def _expect_level(self, name: str, level: str) -> None:
        levels = self.described[name].levels
        if levels and level not in levels:
            raise ValueError(f"structural_zeros: column {name!r} has no level {level!r}{near(level, levels)}")

    @property
    def takes_any(self) -> bool:
        """Whether any columns of numbers will do: ``columns = "*"``."""
        return list(self.columns) == [ANY]

    @property
    def described(self) -> dict[str, Column]:
        """The columns by name; none where any column of numbers will do."""
        return {} if self.takes_any else self.columns

    @property
    def groups(self) -> dict[str, Group]:
        """The columns that it makes of others, by name."""
        every = self.described.items()
        return {made: Group(made, name, column) for name, column in every for made in column.groups}

    @property
    def names(self) -> tuple[str, ...]:
        """All that a job may name."""
        return (*self.described, *self.groups)

    @property
    def features(self) -> tuple[str, ...]:
        """The columns of a study that names none."""
        return tuple(name for name, column in self.described.items() if column.is_feature)

    def levels_of(self, name: str) -> tuple[str, ...]:
        """The levels of a category, in the dictionary's order; none for numbers."""
        groups = self.groups
        return groups[name].levels if name in groups else self.described[name].levels

    @property
    def digest(self) -> str:
        """SHA-256 of what it says, in hexadecimal."""
        content = json.dumps(self.record(), sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
        return hashlib.sha256(b"fedsvd/dictionary/1\x00" + content).hexdigest()

    def record(self) -> dict[str, Any]:
        """As JSON, and as TOML."""
        found = self.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
        return {**found, "columns": ANY} if self.takes_any else found

    def expect_names(self, where: str, names: Iterable[str]) -> None:
        """Raise where a job names what is no column of this dictionary."""
        if self.takes_any:
            return
        known = self.names
        for name in names:
            if name not in known:
                fix = f"name its columns and groups alone{near(name, known)}"
                raise ConfigError(f"{where} names {name!r}, which is not in the dictionary {self.shown}", fix)

    def expect_groups_of(self, name: str | None) -> None:
        """Raise where a study makes groups by a column that the dictionary does not have among its ``tables``."""
        if self.tables is None or name is None or name in self.tables:
            return
        listed = ", ".join(map(repr, self.tables))
        fault = f"groups are made by {name!r}, which is not among the tables of the dictionary {self.shown}"
        fix = f"name one of {listed}" if self.tables else "leave groups out: its tables are none"
        raise ConfigError(fault, f"{fix}{near(name, self.tables)}, or agree on further ones: tables = [...]")

    @property
    def shown(self) -> str:
        """How people speak of it: its name, and the beginning of its digest."""
        return f"{self.name or 'without a name'} ({self.digest[:12]})"

    def difference(self, other: "Dictionary") -> str:
        """Where two dictionaries differ first, in words."""
        ours, theirs = self.described, other.described
        for name in sorted({*ours, *theirs}):
            if ours.get(name) != theirs.get(name):
                mine, its = (each.get(name) for each in (ours, theirs))
                if mine is None or its is None:
                    return f"the column {name!r} is in one of them alone"
                keys = [key for key in type(mine).model_fields if getattr(mine, key) != getattr(its, key)]
                return f"{' and '.join(keys)} of the column {name!r}"
        if self.tables != other.tables:
            return "tables"
        return "its name" if self.name != other.name else "views or structural zeros"


def dictionary_of(record: Mapping[str, Any], where: str = FILE) -> Dictionary:
    """The dictionary that a parsed file describes."""
    try:
        return Dictionary.model_validate(record)
    except Invalid as invalid:
        raise first_fault(where, invalid, Dictionary, PAGE) from None


def read_dictionary(path: Path) -> Dictionary:
    """The dictionary in a TOML file."""
    if path.is_file() and path.stat().st_size > LARGEST_FILE:
        raise ConfigError(f"{path} is larger than {LARGEST_FILE:,} bytes", "a dictionary lists columns, not records")
    return dictionary_of(read_toml(path, PAGE), str(path))


def spelt_dictionary(dictionary: Dictionary) -> str:
    """A file that ``read_dictionary`` reads as this dictionary."""
    return spelt_fields(dictionary.record())
