"""Table 1 as people print it: the rows of Python's ``tableone``, or the wording of R's ``gtsummary``.

A row for a number is ``age (mean (SD))`` or ``age (median [IQR])``, a row for each level ``sex = F (%)``. Footnotes say
what a reader cannot see: levels that were joined, counts that were rounded, ranks within sites, small expected counts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from fedsvd.errors import ConfigError
from fedsvd.statistics import documents
from fedsvd.statistics.describe import Category, Description, Number
from fedsvd.statistics.group_tests import Test
from fedsvd.types import Float

TABLEONE, GTSUMMARY = "tableone", "gtsummary"
_NONE = "-"
_MEDIAN = 2  # of the probabilities whose quantiles are given


@dataclass(frozen=True)
class TableOne:
    """A header, rows of texts, and notes: what every format is written from."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """A table of HTML; every text is escaped."""
        head = "".join(f"<th>{escape(cell)}</th>" for cell in self.header)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows)
        notes = "".join(f"<p>{escape(note)}.</p>" for note in self.notes)
        return f"<table><caption>{escape(self.title)}</caption><tr>{head}</tr>{body}</table>{notes}"

    def to_latex(self) -> str:
        """A table of LaTeX, with the rules of booktabs."""
        return documents.latex(self.title, self.header, self.rows, self.notes)

    def to_docx(self, path: str | Path | None = None) -> bytes:
        """A Word document: its bytes, which are written to ``path`` where one is given."""
        return documents.written(documents.docx(self.title, self.header, self.rows, self.notes), path)

    def __str__(self) -> str:
        lines = [self.header, *self.rows]
        widths = [max(len(row[j]) for row in lines) for j in range(len(self.header))]
        shown = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in lines]
        shown = [line.rstrip() for line in shown]
        return "\n".join([shown[0], "-" * max(map(len, shown)), *shown[1:], *(f"{note}." for note in self.notes)])


def table_one(found: Description, style: str = TABLEONE, decimals: int = 1) -> TableOne:
    """The table in one of both wordings."""
    if style not in (TABLEONE, GTSUMMARY):
        raise ConfigError(f"style is {style!r}", f"one of {TABLEONE}, {GTSUMMARY}")
    maker = _Rows(found, style, decimals)
    rows = [row for variable in found.variables for row in maker.rows(variable)]
    return TableOne("Table 1", maker.header, (maker.sizes, *rows), (*_notes(found),))


class _Rows:
    """Rows of one table; the last columns are p, test and standardised difference where there are groups."""

    def __init__(self, found: Description, style: str, decimals: int) -> None:
        self._found, self._decimals = found, decimals
        self._plain = style == TABLEONE
        sizes = [_whole(size) for size in found.sizes]
        shown = zip(found.columns, sizes, strict=True)
        columns = tuple(found.columns) if self._plain else tuple(f"{name}, N = {size}" for name, size in shown)
        more: tuple[str, ...] = ()
        if found.groups:
            two = len(found.groups) == 2
            more = ("p" if self._plain else "p-value", "test", "SMD" if self._plain or not two else "Difference")
        self.header = ("" if self._plain else "Characteristic", "Missing", *columns, *more)
        self.sizes = ("n" if self._plain else "N", "", *sizes, *[""] * len(more))
        self._more = len(more)

    def rows(self, variable: Number | Category) -> list[tuple[str, ...]]:
        if isinstance(variable, Number):
            return [self._number(variable)]
        return self._levels(variable)

    def _number(self, variable: Number) -> tuple[str, ...]:
        ranked = variable.name in self._found.nonnormal
        if ranked:
            cells = [self._quartiles(variable, column) for column in range(len(self._found.columns))]
            said = "median [IQR]" if self._plain else "Median (IQR)"
        else:
            cells = [self._mean(mean, sd) for mean, sd in zip(variable.mean, variable.sd, strict=True)]
            said = "mean (SD)" if self._plain else "Mean (SD)"
        name = f"{variable.name} ({said})" if self._plain else f"{variable.name}, {said}"
        return (name, _whole(variable.missing[-1]), *cells, *self._tested(shown_test(variable, ranked), variable))

    def _mean(self, mean: float, sd: float) -> str:
        if not math.isfinite(mean):
            return _NONE
        return f"{_fixed(mean, self._decimals)} ({_fixed(sd, self._decimals)})"

    def _quartiles(self, variable: Number, column: int) -> str:
        if variable.quantiles is None or not math.isfinite(variable.quantiles[_MEDIAN, column]):
            return _NONE
        low, middle, high = (_fixed(value, self._decimals) for value in variable.quantiles[1:4, column])
        between, around = (",", "[]") if self._plain else (", ", "()")
        return f"{middle} {around[0]}{low}{between}{high}{around[1]}"

    def _levels(self, variable: Category) -> list[tuple[str, ...]]:
        found, present = [], variable.present
        tested = self._tested(shown_test(variable, False), variable)
        if not self._plain:
            found.append((f"{variable.name}, n (%)", _whole(variable.missing[-1]), *[""] * len(present), *tested))
        for place, level in enumerate(variable.levels):
            counts = zip(variable.counts[place], present, strict=True)
            cells = [f"{_whole(count)} ({_share(count, n, self._decimals, self._plain)})" for count, n in counts]
            first = place == 0 and self._plain
            name = f"{variable.name} = {level} (%)" if self._plain else f"    {level}"
            last = tested if first else ("",) * self._more
            found.append((name, _whole(variable.missing[-1]) if first else "", *cells, *last))
        return found

    def _tested(self, test: Test | None, variable: Number | Category) -> tuple[str, ...]:
        if not self._more:
            return ()
        smd = shown_smd(variable)
        shown = (_NONE, "Not tested") if test is None else (p_value(test.p), test.name)
        return (*shown, f"{smd:.3f}" if math.isfinite(smd) else _NONE)


def shown_test(variable: Number | Category, ranked: bool) -> Test | None:
    """The test that the table prints: the first, or that of ranks."""
    if isinstance(variable, Number) and ranked:
        return next((test for test in variable.tests if "within sites" in test.name), None)
    usual = [test for test in variable.tests if "within sites" not in test.name]
    return usual[0] if usual else None


def shown_smd(variable: Number | Category) -> float:
    """The standardised difference of two groups; of more, as R's ``tableone`` prints it, the mean size of all pairs'.

    NaN where one of them has none.
    """
    smd = [*variable.smd.values()]
    return smd[0] if len(smd) == 1 else sum(map(abs, smd)) / len(smd) if smd else math.nan


def _notes(found: Description) -> list[str]:
    notes = []
    if found.by:
        notes.append(f"Groups are made by {found.by}; records without one are left out")
    if len(found.groups) > 2:
        notes.append("SMD: the mean of the standardised differences of all pairs of groups, each without its sign")
    if found.pooled:
        notes.append(f"Groups joined as they have too few records outside of one party: {', '.join(found.pooled)}")
    for variable in found.variables:
        if isinstance(variable, Category) and variable.pooled:
            few = "joined as they have too few records outside of one party"
            notes.append(f"Levels of {variable.name} {few}: {', '.join(variable.pooled)}")
    numbers = [each for each in found.variables if isinstance(each, Number)]
    if found.off and any(each.name in found.nonnormal for each in numbers):
        notes.append(f"Medians and quartiles in fives: counts behind them are off by at most {found.off:.0f} records")
    ranked = any(each.name in found.nonnormal and shown_test(each, True) is not None for each in numbers)
    if ranked and found.groups:
        notes.append("Tests of ranks are within sites: records are compared with those of their own site")
    small = [each.name for each in found.variables if isinstance(each, Category) and each.few]
    if small:
        notes.append(f"Expected counts below 5: {', '.join(small)}")
    if any(not math.isfinite(value) for each in numbers for value in each.mean.tolist()):
        notes.append("No mean of fewer than 10 records; none of all records where a group has fewer")
    return notes


def p_value(p: float) -> str:
    """As ``tableone`` prints it."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _fixed(value: float, decimals: int) -> str:
    return f"{value:.{decimals}f}"


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _share(count: float, n: float, decimals: int, plain: bool) -> str:
    if not n:
        return _NONE
    share = f"{100 * count / n:.{decimals}f}"
    return share if plain else f"{share}%"


def numbers_of(found: Description) -> dict[str, list[object]]:
    """Everything in long form, a row for each variable, level and column: unrounded."""
    columns: dict[str, list[object]] = {
        key: [] for key in ("variable", "level", "column", "n", "missing", "count", "share", "mean", "sd")
    }
    quantiles = ("q05", "q25", "median", "q75", "q95")
    columns |= {key: [] for key in quantiles}
    for variable in found.variables:
        for place, column in enumerate(found.columns):
            for row in _long(variable, place):
                for key, value in zip(columns, (variable.name, row[0], column, *row[1:]), strict=True):
                    columns[key].append(value)
    return columns


def _long(variable: Number | Category, place: int) -> list[tuple[object, ...]]:
    n, missing = float(variable.present[place]), float(variable.missing[place])
    if isinstance(variable, Number):
        none: Sequence[float] | Float = [math.nan] * 5
        quantiles = none if variable.quantiles is None else variable.quantiles[:, place].tolist()
        return [("", n, missing, n, math.nan, float(variable.mean[place]), float(variable.sd[place]), *quantiles)]
    return [
        (level, n, missing, float(count), float(count) / n if n else math.nan, *[math.nan] * 7)
        for level, count in zip(variable.levels, variable.counts[:, place], strict=True)
    ]


def tests_of(found: Description) -> dict[str, list[object]]:
    """Every test of every variable."""
    columns: dict[str, list[object]] = {key: [] for key in ("variable", "test", "statistic", "df", "df2", "p")}
    for variable in found.variables:
        for test in variable.tests:
            first, second = (*test.freedom, math.nan, math.nan)[:2]
            row = variable.name, test.name, test.statistic, first, second, test.p
            for key, value in zip(columns, row, strict=True):
                columns[key].append(value)
    return columns


def histograms_of(found: Description) -> dict[str, list[object]]:
    """Counts between edges, of every number and column."""
    columns: dict[str, list[object]] = {key: [] for key in ("variable", "column", "edge", "count")}
    for variable in found.variables:
        if not isinstance(variable, Number) or variable.grid is None or variable.edges is None:
            continue
        for column, stairs in zip(found.columns, variable.grid, strict=True):
            before = 0.0
            for edge, count in zip(variable.edges.tolist(), stairs.tolist(), strict=True):
                for key, value in zip(columns, (variable.name, column, edge, count - before), strict=True):
                    columns[key].append(value)
                before = count
    return columns
