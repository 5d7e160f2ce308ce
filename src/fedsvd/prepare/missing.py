"""Missing values: what a party counts, what it adds to a joint sum, and the table with its gaps filled.

``mean`` fills a column with the exact joint mean of its present entries: every party adds one vector of totals and
counts to a secure sum, and fills its own gaps with what comes out. ``constant`` and ``drop`` need no other party. Which
columns get an indicator is decided by the joint counts, so that all parties have the same columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource
from fedsvd.errors import ConfigError, DataError, EmptyData, NotFinite
from fedsvd.prepare.columns import listed
from fedsvd.prepare.derived import Derived, distinct, names_of, positions, row_panels
from fedsvd.types import Float, expect_shape, near

_LISTED = 10
INDICATOR = "{}_missing"


class Missing(StrEnum):
    """What happens to missing values."""

    ERROR = "error"
    MEAN = "mean"
    CONSTANT = "constant"
    DROP = "drop"
    LOW_RANK = "low-rank"

    @property
    def fills(self) -> bool:
        """Whether something is put in place of a missing entry."""
        return self in (Missing.MEAN, Missing.CONSTANT, Missing.LOW_RANK)


@dataclass(frozen=True)
class Gaps:
    """How many entries a party's own table misses, column by column; never sent."""

    names: tuple[str, ...]
    rows: int
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @property
    def size(self) -> int:
        """How many entries the table has, missing or not."""
        return self.rows * len(self.names)

    def describe(self, most: int | None = None) -> str:
        """The columns with gaps and how many, the largest first: ``weight (12), age (3)``; all, or the first."""
        order = np.argsort(-self.counts, kind="stable")
        held = [f"{self.names[j]} ({self.counts[j]})" for j in order.tolist() if self.counts[j]]
        rest = f" and {len(held) - most} more columns" if most is not None and len(held) > most else ""
        return ", ".join(held[:most]) + rest


def gaps(source: MatrixSource) -> Gaps:
    """One pass: the missing entries of every column."""
    counts = np.zeros(source.shape[1], np.int64)
    for _, panel in row_panels(source):
        counts += np.isnan(panel).sum(axis=0)
    return Gaps(names_of(source), source.shape[0], counts)


def expect_no_gaps(found: Gaps, ways: str = '"mean", "constant" or "drop"') -> None:
    """Refuse a table with missing entries, with the counts of one's own columns in the text."""
    if found.total:
        raise NotFinite(
            f"{found.total} of {found.size} entries are missing: {found.describe(_LISTED)}",
            f"say how they are treated: missing = {ways}",
        )


@dataclass(frozen=True)
class Totals:
    """Sums of present entries, how many there are, and the number of rows: one party's, or all parties' together."""

    totals: Float  # (columns,)
    present: Float  # (columns,), whole numbers
    rows: float

    def vector(self) -> Float:
        """What goes into a secure sum, shape (2 columns + 1,)."""
        return np.concatenate((self.totals, self.present, [self.rows]))

    @classmethod
    def of_vector(cls, vector: Float, columns: int) -> "Totals":
        """The inverse of ``vector``."""
        expect_shape("the sum of totals and counts", vector, 2 * columns + 1)
        present = np.rint(vector[columns : 2 * columns])
        return cls(vector[:columns], present, float(np.rint(vector[-1])))

    def means(self, names: Sequence[str]) -> Float:
        """The mean of every column; refused where no party has an entry."""
        empty = [name for name, count in zip(names, self.present.tolist(), strict=True) if not count]
        if empty:
            raise DataError(f"no party has an entry in column {listed(empty)}", "leave the column out (drop)")
        return self.totals / self.present

    def expect_enough(self, names: Sequence[str], least: int) -> None:
        """Refuse a joint mean of fewer entries than ``least``: it would say much of each."""
        few = [name for name, count in zip(names, self.present.tolist(), strict=True) if 0 < count < least]
        if few:
            fault = f"column {listed(few)} has fewer than {least} entries over all parties"
            raise DataError(fault, "leave the column out (drop), or lower the least count (minimum)")

    def with_gaps(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns in which some party misses an entry: those that get an indicator."""
        held = zip(names, self.present.tolist(), strict=True)
        return tuple(name for name, count in held if count < self.rows)


def totals(source: MatrixSource) -> Totals:
    """One pass: what this party adds to the joint sum."""
    added, present = np.zeros(source.shape[1]), np.zeros(source.shape[1])
    for _, panel in row_panels(source):
        held = ~np.isnan(panel)
        added += np.where(held, panel, 0.0).sum(axis=0)
        present += held.sum(axis=0)
    return Totals(added, present, float(source.shape[0]))


def squares(source: MatrixSource, means: Float) -> Float:
    """One pass: the squared deviations of present entries from ``means``, column by column; for a secure sum."""
    total = np.zeros(source.shape[1])
    for _, panel in row_panels(source):
        total += np.nansum((panel - means) ** 2, axis=0)
    return total


class Filled(Derived):
    """A table with its gaps filled, column by column, and after it indicator columns: 1 where an entry was missing."""

    def __init__(
        self,
        base: MatrixSource,
        fills: Float,
        indicators: Sequence[str] = (),
        decimals: Mapping[str, int] | None = None,
    ) -> None:
        names = names_of(base)
        unknown = [name for name in indicators if name not in names]
        if unknown:
            raise ConfigError(
                f"no column {listed(unknown)} to give an indicator to",
                f"name columns of the table{near(unknown[0], names)}",
            )
        super().__init__(base, distinct((*names, *(INDICATOR.format(name) for name in indicators))))
        expect_shape("the values to fill in", fills, len(names))
        if not np.isfinite(fills).all():
            raise ConfigError("a value to fill in is not finite", "give one finite number for each column")
        self.gapped, self.fills = base, fills
        self.decimals = decimals
        """Of columns whose means are rounded to them; None where the job says what fills gaps."""
        self.marked = tuple(INDICATOR.format(name) for name in indicators)
        """The indicators."""
        self._of = np.concatenate((np.arange(len(names)), [names.index(name) for name in indicators])).astype(np.intp)

    @property
    def text_names(self) -> frozenset[str]:
        return self._base.text_names

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        wanted = positions(columns, self.shape[1])
        read, place = np.unique(self._of[wanted], return_inverse=True)
        cells = self._base.raw(rows, slice(int(read[0]), int(read[-1]) + 1) if np.all(np.diff(read) == 1) else read)
        missing = np.isnan(cells)
        values = np.where(missing, self.fills[read], cells)[:, place]
        flags = wanted >= self._base.shape[1]
        if flags.any():
            values[:, flags] = missing[:, place[flags]]
        return values

    def _place(self, row: int, column: int) -> str:
        return self._base._place(row, int(self._of[column]))


def filled_with_constant(source: MatrixSource, constant: float, indicators: Sequence[str] = ()) -> Filled:
    """The table with one constant in every gap."""
    return Filled(source, np.full(source.shape[1], float(constant)), indicators)


def complete_rows(
    source: MatrixSource, text: Sequence[str] = (), among: NDArray[np.bool_] | None = None
) -> NDArray[np.intp]:
    """The rows in which nothing is missing, neither in the matrix nor in these columns of text; of those ``among``."""
    held = np.ones(source.shape[0], np.bool_) if among is None else among.copy()
    for rows, panel in row_panels(source):
        held[rows] &= ~np.isnan(panel).any(axis=1)
    for name in text:
        held &= ~source.text(name)[1]
    complete = np.flatnonzero(held)
    if not complete.size:
        raise EmptyData("every row has a missing entry, so that none is left", "leave out the columns with most gaps")
    return complete


@dataclass(frozen=True)
class FillReport:
    """What was done to a party's table; in detail for its owner, ``filled`` and ``dropped`` in joint totals."""

    how: Missing
    gaps: Gaps
    dropped: int = 0

    @property
    def filled(self) -> int:
        return self.gaps.total if self.how.fills else 0

    def __str__(self) -> str:
        if not self.gaps.total:
            return "no entry was missing"
        if self.how is Missing.DROP:
            return f"{self.dropped} of {self.gaps.rows} rows were left out for missing entries: {self.gaps.describe()}"
        return f"{self.filled} of {self.gaps.size} entries were filled in ({self.how}): {self.gaps.describe()}"
