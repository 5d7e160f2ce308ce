"""A table in which text columns are numbers: indicators of the joint levels, or values of an ordinal map.

The encoded columns stand where the text column stood and are called ``column_level``. Codes are read once, 4 bytes for
each row and text column; everything else is read as it is needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource, as_run
from fedsvd.errors import ConfigError, DataError
from fedsvd.prepare.categories import JointLevels, level_codes
from fedsvd.prepare.columns import listed
from fedsvd.prepare.derived import Derived, distinct, names_of, positions
from fedsvd.prepare.spellings import other_levels
from fedsvd.types import near


@dataclass(frozen=True)
class Indicators:
    """One column for each joint level but the ``reference``, which is left out ("" for none, "first" by ``first``)."""

    joint: JointLevels
    reference: str | None = None
    first: bool = False
    missing: str | None = None  # the level that a missing entry is, where it is one
    rare: tuple[str, ...] = ()  # levels that have no column, since too few records have them

    @property
    def shown(self) -> tuple[int, ...]:
        """The places of the levels that have a column."""
        every, reference = self.joint.all, self.reference
        if reference is None and not self.first:
            reference = self.joint.reference
        if reference is not None and reference not in every:
            name = self.joint.name
            raise ConfigError(f"column {name!r} has no level {reference!r}", f"one of {listed(every)}")
        left_out = 0 if self.first and reference is None else None
        left_out = every.index(reference) if reference is not None else left_out
        return tuple(place for place, level in enumerate(every) if place != left_out and level not in self.rare)


@dataclass(frozen=True)
class Ordinal:
    """One column with the number that the map gives to each level."""

    name: str
    values: tuple[tuple[str, float], ...]


Coding = Indicators | Ordinal


class Encoded(Derived):
    """A table with its text columns encoded; a text column without a coding stays text."""

    def __init__(self, base: MatrixSource, codings: Mapping[str, Coding]) -> None:
        names = names_of(base)
        unknown = [name for name in codings if name not in names]
        if unknown:
            raise DataError(
                f"the table has no column {listed(unknown)} to encode", f"check its names{near(unknown[0], names)}"
            )
        self._codes: dict[int, NDArray[Any]] = {}
        out: list[str] = []
        self._of: list[tuple[int, int]] = []  # base column, level; -1 for a column as it is
        for place, name in enumerate(names):
            coding = codings.get(name)
            if coding is None:
                out.append(name)
                self._of.append((place, -1))
            elif isinstance(coding, Ordinal):
                self._codes[place] = _ordinal_values(base, coding)
                out.append(name)
                self._of.append((place, -1))
            else:
                self._codes[place] = level_codes(base, coding.joint, coding.missing)
                out += [f"{name}_{coding.joint.all[level]}" for level in coding.shown]
                self._of += [(place, level) for level in coding.shown]
        self._left = base.text_names - set(codings)
        super().__init__(base, distinct(out))

    @property
    def text_names(self) -> frozenset[str]:
        return frozenset(self._left)

    def text(self, name: str) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        return self._base.text(name) if name in names_of(self._base) else super().text(name)

    def column(self, name: str) -> NDArray[Any]:
        return self._base.column(name) if name in self._left else super().column(name)

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        wanted = [self._of[j] for j in positions(columns, self.shape[1]).tolist()]
        count = len(positions(rows, self.shape[0]))
        out = np.empty((count, len(wanted)), order="F")
        plain = [place for place, (column, _) in enumerate(wanted) if column not in self._codes]
        if plain:
            read = np.array([wanted[place][0] for place in plain], dtype=np.intp)
            out[:, plain] = self._base.raw(rows, as_run(read))
        for place, (column, level) in enumerate(wanted):
            if column in self._codes:
                codes = self._codes[column][rows]
                out[:, place] = codes if level < 0 else np.where(codes < 0, np.nan, codes == level)
        return out

    def _place(self, row: int, column: int) -> str:
        return self._base._place(row, self._of[column][0])


def encoded(source: MatrixSource, codings: Sequence[Coding]) -> MatrixSource:
    """The table with these columns encoded."""
    by_name = {coding.name if isinstance(coding, Ordinal) else coding.joint.name: coding for coding in codings}
    return Encoded(source, by_name) if by_name else source


def _ordinal_values(source: MatrixSource, coding: Ordinal) -> NDArray[np.float64]:
    values, gaps = source.text(coding.name)
    held = dict(coding.values)
    levels, place = np.unique(values, return_inverse=True)
    strange = [level for level in np.unique(values[~gaps]).tolist() if level not in held]
    if strange:
        raise other_levels(coding.name, strange, tuple(held))
    numbers = np.array([held.get(level, np.nan) for level in levels.tolist()])[place]
    return np.where(gaps, np.nan, numbers)
