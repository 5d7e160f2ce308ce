"""What a report is made of: sections with text, drawings and small tables; and the names that its reader knows.

A report is about one ``PartyResult``: the study as one reader may see it. What a reader may not see is not in there.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fedsvd.protocol.parties import CSP, TA, Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split
from fedsvd.results.result import PartyResult


@dataclass(frozen=True)
class Grid:
    """A small table; ``title`` is its caption."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    facts: bool = False  # names and short values, set side by side where the page is wide

    @property
    def numeric(self) -> frozenset[int]:
        """The columns that hold numbers alone, which are aligned at their ends."""
        return frozenset(j for j in range(1, len(self.header)) if all(_is_number(row[j]) for row in self.rows))


@dataclass(frozen=True)
class Figure:
    """A drawing with what it shows, and its numbers for those who prefer to read them."""

    drawing: str
    caption: str
    numbers: Grid | None = None


@dataclass(frozen=True)
class Section:
    """One part of the page, under a heading."""

    id: str
    title: str
    words: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    grids: tuple[Grid, ...] = ()
    lines: tuple[str, ...] = ()  # a list
    code: str = ""
    first: tuple[Grid, ...] = ()  # tables above the figures and the words: where there are any, they are the result
    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()  # lists under headings of their own


_NUMBER = re.compile(r"(<|±)?[+-]?(\d[\d,]*(\.\d+)?(e[+-]?\d+)?|inf|nan)( (s|%|[KMGT]?i?B))?|-?")


def _is_number(cell: str) -> bool:
    """Whether a cell is a number, with a unit at most, or the dash that stands for none."""
    return _NUMBER.fullmatch(cell) is not None


def facts_of(title: str, rows: Sequence[Sequence[object]]) -> Grid:
    """What is said of a model as one: names and values."""
    return replace(grid(title, ("what", "value"), rows), facts=True)


def grid(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Grid:
    """A table from anything that prints."""
    return Grid(title, tuple(header), tuple(tuple(str(cell) for cell in row) for row in rows))


def columns_grid(
    title: str, columns: Mapping[str, Sequence[object]], digits: str, none: str = "-", most: int = 0
) -> Grid:
    """A table of columns by name, numbers in these digits; the first ``most`` rows, or all."""

    def shown(value: object) -> str:
        return (none if math.isnan(value) else format(value, digits)) if isinstance(value, float) else str(value)

    rows = [[shown(value) for value in row] for row in zip(*columns.values(), strict=True)]
    return grid(title, tuple(columns), rows[:most] if most else rows)


def task_name(plan: SessionPlan) -> str:
    """What was computed, in words; a foreign task by its own name."""
    return plan.task.heading if plan.foreign is None else f"{plan.task.heading} {plan.foreign.name}"


def role_name(party: Party, names: tuple[str, ...]) -> str:
    """A user by its name; the CSP and the TA as a reader knows them."""
    if party in (CSP, TA):
        return "CSP" if party == CSP else "authority"
    return names[party.index - 1] if 1 <= party.index <= len(names) else party.name


def reader_name(result: PartyResult) -> str:
    """For whom this report is, in words."""
    if result.reader is None:
        return "all parties of the study"
    known = {CSP: "the computing server (CSP)", TA: "the trusted authority"}
    return known.get(result.reader, f"party {result.party}")


def split_words(plan: SessionPlan) -> str:
    """How the table was divided, in words."""
    return (
        "different rows of the same columns" if plan.split is Split.HORIZONTAL else "different columns of the same rows"
    )
