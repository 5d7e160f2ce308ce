"""What a description of a table (Table 1) is of, in the plan: variables as a dictionary describes them, and groups.

Levels, ranges and grids are public and the same at every party, so that no party's extreme value or rare level shows in
the length of a sum. A number's grid is the dictionary's bins; without them every value it can have where these are
few, else bins of equal width.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.protocol.model import MORE_BITS, Digits, moment_bits
from fedsvd.protocol.steps import CAPPED_AT
from fedsvd.types import Float

MOST_VALUES, BINS = 200, 64
"""Values of a number up to which its grid has all of them, and bins where they are more."""

FEWEST_QUANTILES, FEWEST_RANGE = 40, 200
"""Records of a group below which no quartile and no 5th and 95th percentile are opened or given."""

FIVES, EXACT = "fives", "exact"

RANK_BITS, PRODUCT_BITS = 24, 16

_FARTHEST = 1e150  # from the middle of a range: squares of all records still add up


@dataclass(frozen=True)
class Variable:
    """One column: a category with its levels, or a number with the range in which its values are."""

    name: str
    levels: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    decimals: int = -1  # -1 where the dictionary has none
    bins: tuple[float, ...] = ()  # where two of the dictionary's bins meet; () where it has none

    def __post_init__(self) -> None:
        if not self.levels and not self.low < self.high:
            fix = "give it a range in the dictionary: range = [0, 120]"
            raise ConfigError(f"column {self.name!r} is a number without a range", fix)
        if not self.levels and not (self.reach <= _FARTHEST and np.isfinite(self.middle)):
            fix = "take a larger unit of measurement: NAME = { factor = 0.001 } in the map of the table"
            raise ConfigError(f"squares of numbers in the range of column {self.name!r} are no float64", fix)

    @property
    def is_number(self) -> bool:
        return not self.levels

    @cached_property
    def edges(self) -> Float:
        """The grid: records are counted at or below each of these."""
        if self.bins:
            return np.array((*self.bins, self.high))
        values = round((self.high - self.low) * 10.0**self.decimals) + 1 if self.decimals >= 0 else MOST_VALUES + 1
        if values <= MOST_VALUES:
            return np.round(self.low + np.arange(values) * 10.0**-self.decimals, self.decimals)
        return np.linspace(self.low, self.high, BINS + 1)[1:]

    @property
    def every_value(self) -> bool:
        """Whether the grid has every value that an entry can have."""
        return not self.bins and (len(self.edges) != BINS or float(self.edges[0]) == self.low)

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def reach(self) -> float:
        """How far an entry can be from the middle."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class TablePlan:
    """The variables in the order of the table's columns, the one that makes groups, and what is opened of them."""

    variables: tuple[Variable, ...]
    by: str = ""  # the variable whose levels are the groups; "" for none
    nonnormal: tuple[str, ...] = ()  # numbers that tables show by median and quartiles
    counts: str = FIVES
    quantiles: bool = True
    correlations: bool = False
    digits: Digits = Digits.TABLE
    gaps: bool = True  # whether entries may be missing: an indicator for each variable follows the values
    least: int = CAPPED_AT

    def __post_init__(self) -> None:
        names = [each.name for each in self.variables]
        for name in (*((self.by,) if self.by else ()), *self.nonnormal):
            if name not in names:
                raise ConfigError(f"the table has no column {name!r} to describe", "name columns of the study")
        if self.by and self.variables[names.index(self.by)].is_number:
            fix = "name a category, or a group that the dictionary makes of the number"
            raise ConfigError(f"groups are made by {self.by!r}, which is a number", fix)
        wrong = [name for name in self.nonnormal if self.variables[names.index(name)].levels]
        if wrong:
            raise ConfigError(f"nonnormal names {wrong[0]!r}, which is a category", "name numbers alone")
        if not self.described:
            raise ConfigError("no column is left to describe next to the groups", "name more columns")

    @cached_property
    def place(self) -> int:
        """Of the variable that makes groups; -1 for none."""
        return next((j for j, each in enumerate(self.variables) if each.name == self.by), -1)

    @cached_property
    def described(self) -> tuple[Variable, ...]:
        """All variables but the one that makes groups."""
        return tuple(each for each in self.variables if each.name != self.by)

    @cached_property
    def numbers(self) -> tuple[Variable, ...]:
        return tuple(each for each in self.described if each.is_number)

    @cached_property
    def categories(self) -> tuple[Variable, ...]:
        return tuple(each for each in self.described if each.levels)

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The levels that make groups; one name where there is no grouping."""
        return self.variables[self.place].levels if self.by else ("Overall",)

    @property
    def multiple(self) -> int:
        """What counts on grids are multiples of; 1 where they are exact."""
        return 1 if self.counts == EXACT else self.least

    @property
    def columns(self) -> int:
        """Columns of every party's table."""
        return len(self.variables) * (1 + int(self.gaps))

    @property
    def cells(self) -> int:
        """Levels of all categories in all groups."""
        return len(self.groups) * sum(len(each.levels) for each in self.categories)

    @property
    def columns_shown(self) -> int:
        """Groups, and all records where there are several groups."""
        return len(self.groups) + int(bool(self.by))

    @property
    def grid(self) -> int:
        """Counts of all grids."""
        return self.columns_shown * sum(len(each.edges) for each in self.numbers)

    @property
    def rank_numbers(self) -> int:
        """Rank sums of each number, and their covariance."""
        free = len(self.groups) - 1
        return len(self.numbers) * (free + free * (free + 1) // 2)

    def bits(self, records: float) -> int:
        """Of the sums of a number over this many records; 0 where none are opened."""
        return moment_bits(records, self.digits)

    @property
    def rank_bits(self) -> int:
        return RANK_BITS if self.digits is Digits.TABLE else MORE_BITS

    @property
    def product_bits(self) -> int:
        return PRODUCT_BITS if self.digits is Digits.TABLE else MORE_BITS


def table_of(record: Mapping[str, Any]) -> TablePlan:
    """The inverse of its fields in JSON."""
    variables = tuple(
        Variable(**{**each, "levels": tuple(each["levels"]), "bins": tuple(each["bins"])})
        for each in record["variables"]
    )
    more = {"variables": variables, "nonnormal": tuple(record["nonnormal"]), "digits": Digits(record["digits"])}
    return TablePlan(**{**record, **more})
