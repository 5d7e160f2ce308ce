"""A site's own table as a study reads it: its columns under other names, in other units, with other codes.

``table_map.py`` has the words. Nothing is copied: cells are changed as they are read. What text becomes (levels, days,
ids) is worked out once for a column, when it is first asked for, 8 bytes for each row.
"""

from datetime import date, datetime
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.checks import to_column, to_gapped
from fedsvd.data.files import settings_of
from fedsvd.data.open import is_address, open_source, opened
from fedsvd.data.source import Index, MatrixSource, Reopen
from fedsvd.data.written import PLAIN, Writing
from fedsvd.errors import DataError, NotFinite
from fedsvd.prepare.columns import ColumnChoice, chosen
from fedsvd.prepare.derived import Derived, names_of, positions
from fedsvd.prepare.table_map import NOTHING, ColumnMap, TableMap, as_number
from fedsvd.types import Float, near

_YEAR = 365.25  # days
_AS_IT_IS = ColumnMap()


def open_mapped(data: object, words: TableMap = NOTHING, scratch: str | PathLike[str] | None = None) -> MatrixSource:
    """A table, a file of one or anything else that ``open_source`` takes, mapped by these words."""
    if is_address(data) or not isinstance(data, str | PathLike):
        return mapped(open_source(data, scratch=scratch), words)
    return mapped(opened(data, settings_of(Path(data), words.settings()), scratch=scratch), words)


def mapped(source: MatrixSource, words: TableMap) -> MatrixSource:
    """A table that is open already, mapped; a name in the words that it does not have is another table's."""
    if words.asks_nothing or source.made_up:
        return source
    held = set(names_of(source))
    table = Mapped(source, words) if _changes(source, words) else source
    return chosen(table, ColumnChoice(rename=tuple(each for each in words.names().items() if each[0] in held)))


def not_there(table: MatrixSource, words: TableMap) -> list[str]:
    """Columns that the map is of and the mapped table does not have: a sentence for each, with the nearest name."""
    held, called = () if table.made_up else names_of(table), words.names()
    lacking = [own for own in words.map if held and called.get(own, own) not in held]
    return [f"the map is of column {own!r}, and the table has none of that name{near(own, held)}" for own in lacking]


def _changes(source: MatrixSource, words: TableMap) -> bool:
    """Whether an entry may become another: a table that has other names alone is read as it is."""
    held = set(names_of(source))
    plain = {"name": None}
    here = (each for own, each in words.map.items() if own in held)
    return bool(words.missing) or any(each.model_copy(update=plain) != _AS_IT_IS for each in here)


class Mapped(Derived):
    """A table with its entries changed, under its own names."""

    def __init__(self, base: MatrixSource, words: TableMap) -> None:
        super().__init__(base, names_of(base))
        self._words = words
        self._rules = [words.map.get(name, _AS_IT_IS) for name in names_of(base)]
        self._codes = [{*words.missing, *rule.missing} for rule in self._rules]
        self._text = {j for j, name in enumerate(names_of(base)) if name in base.text_names}
        self._numbers: dict[int, Float] = {}  # of columns that hold text in the file, and numbers here
        for j, rule in enumerate(self._rules):
            if rule.date is not None or (j in self._text and not rule.makes_text and self._is_number(j)):
                self._numbers[j] = self._dates(j, rule) if rule.date is not None else self._parsed(j)

    @property
    def text_names(self) -> frozenset[str]:
        return frozenset(name for j, name in enumerate(names_of(self)) if self._is_text(j))

    def elsewhere(self) -> Reopen | None:
        base = self._base.elsewhere()
        return None if base is None else partial(_again, base, self._words)

    def column(self, name: str) -> NDArray[Any]:
        names = names_of(self)
        if name not in names:
            return self._base.column(name)
        j = names.index(name)
        if not self._is_text(j):
            changed = (
                j in self._numbers or self._codes[j] or self._rules[j].model_copy(update={"name": None}) != _AS_IT_IS
            )
            if not changed:
                return self._base.column(name)
            values = self.raw(slice(0, self.shape[0]), slice(j, j + 1))[:, 0]
            return to_column(values, name)
        texts, gaps = self.text(name)
        if gaps.any():
            raise NotFinite(
                f"{int(gaps.sum())} of {len(gaps)} entries of column {name!r} are missing",
                "fill them in, or leave these rows out",
            )
        return texts

    def _is_text(self, j: int) -> bool:
        return self._rules[j].makes_text or (j in self._text and j not in self._numbers)

    def _text_values(self, position: int) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        if not self._is_text(position):
            return super()._text_values(position)
        rule = self._rules[position]
        values, gaps = self._own_text(position)
        if rule.levels:
            levels, place = np.unique(values, return_inverse=True)
            values = np.array([rule.levels.get(level, level) for level in levels.tolist()], dtype=np.str_)[place]
        if rule.width:
            values = np.strings.zfill(values, rule.width)
        return np.where(gaps, "", values).astype(np.str_), gaps

    def _own_text(self, position: int) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        """The texts of the file, with gaps where a code stands for one."""
        values, gaps = self._base._text_values(position)
        return values, gaps | np.isin(values, list(self._codes[position]))

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        wanted = positions(columns, self.shape[1])
        made = np.array([j in self._numbers for j in wanted.tolist()], dtype=np.bool_)
        if not made.any():
            cells = to_gapped(self._base._cells(rows, columns), lambda i, j: self._place(i, int(wanted[j])))
            out: Float = np.array(cells)
        else:
            out = np.empty((len(positions(rows, self.shape[0])), wanted.size), order="F")
            if not made.all():
                out[:, ~made] = self._base.raw(rows, wanted[~made])
            for place in np.flatnonzero(made).tolist():
                out[:, place] = self._numbers[int(wanted[place])][rows]
        for place, j in enumerate(wanted.tolist()):
            self._change(out[:, place], j)
        return out

    def _change(self, values: Float, j: int) -> None:
        """One column in place: codes that are numbers become gaps, then the unit is changed."""
        rule = self._rules[j]
        if j not in self._numbers:
            codes = [found for code in self._codes[j] if (found := as_number(code)) is not None]
            if codes:
                values[np.isin(values, codes)] = np.nan
        if rule.factor != 1.0:
            values *= rule.factor
        if rule.offset != 0.0:
            values += rule.offset

    def _is_number(self, j: int) -> bool:
        """Whether a column of text holds numbers once codes for missing entries are taken out of it."""
        rule = self._rules[j]
        if not self._codes[j] and rule.factor == 1.0 and rule.offset == 0.0 and rule.marks is None:
            return False
        values, gaps = self._own_text(j)
        held = np.unique(values[~gaps]).tolist()
        changed = bool(gaps.any()) or rule.marks is not None
        return bool(held) and changed and all(_writing(rule).number(each) is not None for each in held)

    def _parsed(self, j: int) -> Float:
        values, gaps = self._own_text(j)
        levels, place = np.unique(values, return_inverse=True)
        read = [_writing(self._rules[j]).number(each) for each in levels.tolist()]
        numbers = np.array([np.nan if found is None else found for found in read])
        return np.where(gaps, np.nan, numbers[place])

    def _dates(self, j: int, rule: ColumnMap) -> Float:
        values, gaps = self._own_text(j)
        levels, place = np.unique(values[~gaps], return_inverse=True)
        days = [_day(each, str(rule.date)) for each in levels.tolist()]
        wrong = [day is None for day in days]
        if any(wrong):
            rows = int(np.isin(place, np.flatnonzero(wrong)).sum())
            name = names_of(self)[j]
            fault = f"{rows} entries of column {name!r} are not dates written {rule.date}"
            raise DataError(fault, "correct date in the map of this column, or list what stands for no date as missing")
        found = np.array([_counted(day, rule) for day in days if day is not None], dtype=np.float64)
        out = np.full(len(values), np.nan)
        out[~gaps] = found[place] if found.size else np.nan
        return out

    def _place(self, row: int, column: int) -> str:
        return self._base._place(row, column)


def _writing(rule: ColumnMap) -> Writing:
    return PLAIN if rule.marks is None else Writing(*rule.marks)


def _again(base: Reopen, words: TableMap) -> MatrixSource:
    return Mapped(base(), words)


def _day(text: str, written: str) -> date | None:
    # What a database or a sheet makes of a day has a time behind it.
    for each in (text, text.partition(" ")[0], text.partition("T")[0]):
        try:
            return datetime.strptime(each, written).date()
        except ValueError:
            continue
    return None


def _counted(day: date, rule: ColumnMap) -> float:
    if rule.since is None:
        return float(day.year)
    days = (day - rule.since).days
    return days / _YEAR if rule.count == "years" else float(days)
