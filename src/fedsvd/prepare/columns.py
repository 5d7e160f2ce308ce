"""Columns by name: which ones a study takes, under which names, in which order; what a party lacks or has too much.

Names are public to the members of a study. Everything wrong is said at once, for all columns and for all parties.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource
from fedsvd.data.views import Without
from fedsvd.errors import ConfigError, DataError, FedSVDError, together
from fedsvd.prepare.derived import Derived, names_of

_LISTED = 10


@dataclass(frozen=True)
class ColumnChoice:
    """First ``rename`` (old name, new name), then only ``columns``, in this order (empty: all), less ``drop``."""

    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    rename: tuple[tuple[str, str], ...] = ()

    @property
    def changes_nothing(self) -> bool:
        return not (self.columns or self.drop or self.rename)


class Renamed(Derived):
    """A source with other column names."""

    def __init__(self, base: MatrixSource, names: Sequence[str]) -> None:
        super().__init__(base, names)
        self._dtype = base.dtype
        old = names_of(base)
        self._old = dict(zip(names, old, strict=True))

    @property
    def text_names(self) -> frozenset[str]:
        held = self._base.text_names
        return frozenset(new for new, old in self._old.items() if old in held)

    def column(self, name: str) -> NDArray[Any]:
        return self._base.column(self._old.get(name, name))

    def text(self, name: str) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        return self._base.text(self._old.get(name, name))

    def _text_values(self, position: int) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        return self._base._text_values(position)

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        return self._base._cells(rows, columns)

    def _place(self, row: int, column: int) -> str:
        return self._base._place(row, column)


def chosen(source: MatrixSource, choice: ColumnChoice) -> MatrixSource:
    """The table with the columns that the choice names; everything it asks for and cannot have is one error."""
    if choice.changes_nothing:
        return source
    names = names_of(source)
    problems = _problems(names, choice)
    if problems:
        raise together(problems)
    if choice.rename:
        new = dict(choice.rename)
        names = tuple(new.get(name, name) for name in names)
        source = Renamed(source, names)
    wanted = [name for name in choice.columns or names if name not in choice.drop]
    return arranged(source, wanted)


def arranged(source: MatrixSource, names: Sequence[str]) -> MatrixSource:
    """The columns of these names in this order; refused when some are missing."""
    have = {name: place for place, name in enumerate(names_of(source))}
    missing = [name for name in names if name not in have]
    if missing:
        raise DataError(f"the table has no column {listed(missing)}", "add the column, or take it out of the study")
    if tuple(names) == names_of(source):
        return source
    return Without(source, [have[name] for name in names])


def _problems(names: Sequence[str], choice: ColumnChoice) -> list[FedSVDError]:
    found: list[FedSVDError] = []
    new = dict(choice.rename)
    unknown = [old for old in new if old not in names]
    if unknown:
        found.append(ConfigError(f"rename: the table has no column {listed(unknown)}", "check the spelling"))
    after = [new.get(name, name) for name in names]
    twice = sorted({name for name in after if after.count(name) > 1}) if new else []
    if twice:
        found.append(ConfigError(f"rename: more than one column would be called {listed(twice)}", "give other names"))
    for word, asked in (("columns", choice.columns), ("drop", choice.drop)):
        missing = [name for name in asked if name not in after]
        if missing:
            found.append(ConfigError(f"{word}: the table has no column {listed(missing)}", "check the spelling"))
    repeated = sorted({name for name in choice.columns if choice.columns.count(name) > 1})
    if repeated:
        found.append(ConfigError(f"columns: {listed(repeated)} is named more than once", "name it once"))
    if choice.columns and set(choice.columns) <= set(choice.drop):
        found.append(ConfigError("columns and drop leave no column", "drop fewer columns"))
    return found


def every(names: Sequence[str]) -> str:
    """All names, for what an owner approves."""
    return ", ".join(map(repr, names))


def listed(names: Sequence[str]) -> str:
    """Names for an error, the first ten of them."""
    rest = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(map(repr, names[:_LISTED])) + rest
