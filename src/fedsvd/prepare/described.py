"""A party's table as the consortium's dictionary describes it, and where it falls short of that.

``shortfalls`` is for the owner, at home: it names columns, counts, and levels that the dictionary does not list, with
the nearest that it does. ``described`` is what a study reads: the dictionary's columns in its order, categories
as text, its groups as further columns; what falls short is refused there, in counts alone.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.checks import not_numeric
from fedsvd.data.source import Index, MatrixSource, as_run
from fedsvd.errors import DataError, FedSVDError, together
from fedsvd.prepare.columns import arranged
from fedsvd.prepare.derived import Derived, names_of, positions, row_panels
from fedsvd.prepare.dictionary import Column, Dictionary, Group
from fedsvd.types import Float, near

_HOW = "in the map of the table"


@dataclass(frozen=True)
class Shortfall:
    """What of one column is not as the dictionary says; ``refused`` where a study would end at it."""

    column: str
    text: str
    fix: str
    refused: bool = True

    def error(self) -> FedSVDError:
        return DataError(f"column {self.column!r}: {self.text}", self.fix)

    def __str__(self) -> str:
        return f"column {self.column!r}: {self.text}. {self.fix}"


def shortfalls(
    source: MatrixSource, dictionary: Dictionary, least_count: int = 5, by_name: bool = False
) -> list[Shortfall]:
    """All that falls short of the dictionary; with ``by_name`` texts name levels of the data, for its owner alone."""
    held, found = set(names_of(source)), []
    known = {name: column for name, column in dictionary.described.items() if name in held}
    for name in dictionary.described:
        if name not in held:
            fix = f"say what it is called here {_HOW}{near(name, held)}"
            found.append(Shortfall(name, "the table does not have it", fix, refused=False))
    texts = [name for name, column in known.items() if column.holds == "number" and name in source.text_names]
    for name in texts:
        fix = f"say what stands for a missing entry, or how numbers are written, {_HOW}"
        found.append(Shortfall(name, "holds text, and is a number in the dictionary", fix))
    numbers = {name: column for name, column in known.items() if column.holds == "number" and name not in texts}
    found += _of_numbers(source, numbers)
    for name, column in known.items():
        if column.levels:
            found += _of_levels(source, name, column.levels, least_count, by_name)
    return [*found, *_of_zeros(source, dictionary)]


def _of_zeros(source: MatrixSource, dictionary: Dictionary) -> Iterator[Shortfall]:
    """Records in combinations that cannot occur: a code was taken for another, or the dictionary is wrong."""
    held = set(names_of(source))
    for zero in dictionary.structural_zeros:
        if not held.issuperset(zero):
            continue
        inside = np.ones(source.shape[0], np.bool_)
        for name, level in zero.items():
            values, gaps = source.text(name)
            inside &= ~gaps & (values == level)
        if inside.any():
            said = " and ".join(f"{name} = {level}" for name, level in zero.items())
            text = f"{int(inside.sum())} of {source.shape[0]} records have {said}, which cannot occur"
            yield Shortfall(next(iter(zero)), text, f"correct them, or say what a code stands for {_HOW}")


def _of_numbers(source: MatrixSource, columns: dict[str, Column]) -> Iterator[Shortfall]:
    if not columns:
        return
    table = arranged(source, list(columns))
    low = np.array([-np.inf if each.range is None else each.range[0] for each in columns.values()])
    high = np.array([np.inf if each.range is None else each.range[1] for each in columns.values()])
    digits = np.array([17.0 if each.decimals is None else each.decimals for each in columns.values()])
    outside, gaps, finer = (np.zeros(len(columns), np.int64) for _ in range(3))
    for _, panel in row_panels(table):
        missing = np.isnan(panel)
        gaps += missing.sum(axis=0)
        outside += (~missing & ((panel < low) | (panel > high))).sum(axis=0)
        scaled = np.where(missing, 0.0, panel) * 10.0**digits
        finer += ((np.abs(scaled - np.rint(scaled)) > 1e-6 * np.maximum(1.0, np.abs(scaled))) & (digits < 17)).sum(
            axis=0
        )
    for j, (name, column) in enumerate(columns.items()):
        if outside[j]:
            said = f"{outside[j]} of {source.shape[0]} entries are outside of {low[j]:g} to {high[j]:g}"
            unit = f" (the dictionary has {column.unit})" if column.unit else ""
            fix = f"correct them, list their code as missing, or change the unit by factor and offset {_HOW}"
            fix = f"{fix}; if they are right, widen the range of the dictionary"
            yield Shortfall(name, f"{said}{unit}", fix)
        if gaps[j]:
            yield Shortfall(
                name, f"{gaps[j]} of {source.shape[0]} entries are missing", "a study says what becomes of them", False
            )
        if finer[j]:
            said = f"{finer[j]} entries have more than {column.decimals} decimals"
            yield Shortfall(name, said, "nothing is rounded; decimals in the dictionary may be too few", False)


def _of_levels(
    source: MatrixSource, name: str, levels: tuple[str, ...], least_count: int, by_name: bool
) -> Iterator[Shortfall]:
    values, gaps = source.text(name)
    texts, counts = np.unique(values[~gaps], return_counts=True)
    strange = [(text, count) for text, count in zip(texts.tolist(), counts.tolist(), strict=True) if text not in levels]
    if strange:
        rows = sum(count for _, count in strange)
        said = f"{rows} of {source.shape[0]} entries have none of its levels"
        if by_name:
            shown = ", ".join(f"{text!r} ({count}{near(text, levels)})" for text, count in strange[:10])
            said = f"{said}: {shown}{f' and {len(strange) - 10} more' if len(strange) > 10 else ''}"
        like = f'{name} = {{ levels = {{ "..." = "{levels[0]}" }} }}'
        yield Shortfall(name, said, f"the levels are {', '.join(levels[:20])}; recode with {like} {_HOW}")
    if gaps.any():
        said = f"{int(gaps.sum())} of {source.shape[0]} entries are missing"
        yield Shortfall(name, said, "a study says what becomes of them", False)
    small = [
        text
        for text, count in zip(texts.tolist(), counts.tolist(), strict=True)
        if text in levels and count < least_count
    ]
    if small:
        which = ", ".join(map(repr, small[:10])) if by_name else f"{len(small)} levels"
        yield Shortfall(
            name, f"fewer than {least_count} records have {which}", "groups of the dictionary may join levels", False
        )


class Described(Derived):
    """The dictionary's columns that a table has, in the dictionary's order; categories, ids and groups are text."""

    def __init__(self, base: MatrixSource, dictionary: Dictionary) -> None:
        held = set(names_of(base))
        own = [name for name in dictionary.described if name in held]
        if not own:
            raise DataError(
                f"the table has no column of the dictionary {dictionary.shown}",
                f"say what its columns are called here {_HOW}",
            )
        self.dictionary = dictionary
        self._groups = {name: group for name, group in dictionary.groups.items() if group.of in held}
        super().__init__(arranged(base, own), [*own, *self._groups])
        self._free = {name for name in own if dictionary.described[name].holds == "text"}
        self._levels = {name for name in own if dictionary.described[name].levels}
        self._made: dict[str, tuple[NDArray[np.str_], NDArray[np.bool_]]] = {}

    @property
    def text_names(self) -> frozenset[str]:
        free = self._free & self._base.text_names
        return frozenset({*free, *self._levels, *self._groups})

    def text(self, name: str) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        if name not in self._groups:
            return self._base.text(name)
        if name not in self._made:
            self._made[name] = _grouped(self._base, self._groups[name])
        return self._made[name]

    def _text_values(self, position: int) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        return self.text(names_of(self)[position])

    def column(self, name: str) -> NDArray[Any]:
        if name not in self._groups and name not in self._levels:
            return self._base.column(name)
        values, gaps = self.text(name)
        if gaps.any():
            fix = 'leave these rows out (missing = "drop" with a view)'
            raise DataError(f"{int(gaps.sum())} of {len(gaps)} entries of column {name!r} are missing", fix)
        return values

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        names = names_of(self)
        wanted = positions(columns, self.shape[1])
        for j in wanted.tolist():
            if names[j] in self.text_names:
                raise not_numeric(f"column {names[j]!r}", "a category of the dictionary", name=names[j])
        return self._base._cells(rows, as_run(wanted))

    def _place(self, row: int, column: int) -> str:
        return self._base._place(row, column)


def _grouped(base: MatrixSource, group: Group) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
    if group.by_level:
        values, gaps = base.text(group.of)
        texts, place = np.unique(values, return_inverse=True)
        named = np.array([group.by_level.get(text, "") for text in texts.tolist()], dtype=np.str_)
        return named[place], gaps
    numbers: Float = base.raw(slice(0, base.shape[0]), slice(*_at(base, group.of)))[:, 0]
    gaps = np.isnan(numbers)
    levels = np.array(group.levels, dtype=np.str_)
    return np.where(gaps, "", levels[np.searchsorted(group.cuts, np.where(gaps, 0.0, numbers), side="right")]), gaps


def _at(base: MatrixSource, name: str) -> tuple[int, int]:
    place = names_of(base).index(name)
    return place, place + 1


def described(source: MatrixSource, dictionary: Dictionary | None, needed: Collection[str] = ()) -> MatrixSource:
    """The table as a study reads it; refused where a column that it needs falls short of the dictionary."""
    if dictionary is None or dictionary.takes_any:
        return source
    table, groups = Described(source, dictionary), dictionary.groups
    columns = {groups[name].of if name in groups else name for name in needed}
    # Only what the study reads: a column that another study needs is that study's business.
    read = [name for name in names_of(source) if name in columns] or list(dictionary.described)
    taken = arranged(source, [name for name in read if name in names_of(source)])
    wrong = [each.error() for each in shortfalls(taken, dictionary) if each.refused and each.column in read]
    if wrong:
        raise together(wrong)
    return table
