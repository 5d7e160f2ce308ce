"""Joint counts: which levels, gaps and other values of the dictionary's columns too few records have to be columns.

Each party counts its own records of every level, with a gap, and off the commonest value of a column of numbers, cut at
five. Where three parties or more take part these are added up: ``joint counts``. A party sees by how much the others
come to between one and four, and says only whether: ``rare`` is an OR over all parties. What is rare is joined
with a common level where the dictionary says so, left out where the factors of the table are the study, and ends the
study elsewhere, at all parties alike. Two parties add up nothing: each judges its own counts.

*Law*: what passes has, outside of each party, no records or at least five. A pool passes, too: a level joins it that at
least five records have outside of each party.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.errors import DataError
from fedsvd.prepare.categories import JointLevels
from fedsvd.prepare.columns import Renamed, arranged, every, listed
from fedsvd.prepare.derived import names_of, row_panels
from fedsvd.prepare.job_made import persons
from fedsvd.protocol.steps import CAPPED_AT
from fedsvd.types import Float

COUNTS, RARE = "joint counts", "rare"
"""The sums: counts, each cut at five, and an OR of those that are too small."""

_GAP, _OFF, _LEVEL = "gap", "off", "level "
_FIRST = 2 * CAPPED_AT - 1  # of as many values of a column, more than half are the one that all but four are

Item = tuple[str, str]
"""A column, and what of it is counted: gaps, values off the commonest, or one level."""

Counts = dict[Item, int]


@dataclass(frozen=True)
class CountRule:
    """What becomes of what is rare."""

    summed: bool = True  # whether counts are added up: three parties or more
    drop: bool = False  # columns of numbers and of levels are left out
    pooled: tuple[str, ...] = ()  # categories whose rare levels are joined


@dataclass(frozen=True)
class Rare:
    """What the parties came to; ``current`` are this party's columns that were counted as they are now."""

    columns: tuple[str, ...] = ()  # of numbers, left out
    levels: tuple[tuple[str, str], ...] = ()  # left out, or joined
    gaps: tuple[str, ...] = ()  # columns that get no indicator of their gaps
    current: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """What was left out or joined, in sentences: every party has the same."""
        few = f"fewer than {CAPPED_AT} records outside of one party"
        found = [f"left out, since {few} are off its commonest value: {every(self.columns)}"] if self.columns else []
        found += [
            f"level {level!r} of column {name!r} is joined or left out: {few} have it" for name, level in self.levels
        ]
        found += [f"no indicator says which entries miss {name!r}: {few} do" for name in self.gaps]
        return found


def rare_of(record: Mapping[str, Any]) -> Rare:
    """The inverse of its fields in JSON."""
    pairs = tuple((name, level) for name, level in record["levels"])
    return Rare(**{each.name: tuple(record[each.name]) for each in fields(Rare)} | {"levels": pairs})


class Counted(Renamed):
    """A table with its party's own counts, of all its rows and not only of those that a study takes."""

    def __init__(self, base: MatrixSource, counts: Counts, whole: bool = True) -> None:
        super().__init__(base, names_of(base))
        self.now = counts
        self._whole = whole  # whether studies take all rows that were counted, at every party
        self.counts = counts
        """What the party adds: counts of now, or those of an earlier study of this year."""

    @property
    def current(self) -> tuple[str, ...]:
        """Columns whose counts are those of now, and of the rows that the study takes."""
        if not self._whole:
            return ()
        moved = {name for (name, what), count in self.now.items() if self.counts.get((name, what)) != count}
        return tuple(dict.fromkeys(name for name, _ in self.now if name not in moved))


def counted_items(names: Sequence[str], levels: Mapping[str, Sequence[str]], text: Sequence[str]) -> list[Item]:
    """All that is counted of these columns, in order; text without listed levels is agreed on by other sums."""
    found = []
    for name in names:
        if name in levels:
            found += [(name, _GAP), *((name, f"{_LEVEL}{level}") for level in levels[name])]
        elif name not in text:
            found += [(name, _GAP), (name, _OFF)]
    return found


def own_counts(items: Sequence[Item], table: MatrixSource, whole: MatrixSource) -> Counts:
    """This party's counts, each cut at five: of the ``whole`` table, and of ``table`` for columns that were made.

    Persons are counted where the dictionary has an id and a person has several rows.
    """
    who, held = persons(whole), set(names_of(whole)) - whole.text_names
    numbers = dict.fromkeys(name for name, what in items if what == _OFF)
    brought = [name for name in numbers if name in held]
    found: Counts = dict(_of_numbers(whole, brought) if who is None else _of_persons(whole, brought, who))
    found |= dict(_of_numbers(table, [name for name in numbers if name not in held]))
    for name in dict.fromkeys(name for name, what in items if what.startswith(_LEVEL)):
        values, gaps = whole.text(name)
        found[name, _GAP] = _number(gaps, who)
        for text in np.unique(values[~gaps]).tolist():
            found[name, f"{_LEVEL}{text}"] = _number(~gaps & (values == text), who)
    return {item: min(found.get(item, 0), CAPPED_AT) for item in items}


def _number(flags: NDArray[np.bool_], who: NDArray[np.intp] | None) -> int:
    return int(flags.sum()) if who is None else len(np.unique(who[flags]))


def _of_persons(source: MatrixSource, names: Sequence[str], who: NDArray[np.intp]) -> Iterator[tuple[Item, int]]:
    """The same in persons: those with a gap, and those with an entry off the commonest value."""
    for name in names:
        values = arranged(source, [name]).raw(slice(0, source.shape[0]), slice(0, 1))[:, 0]
        missing = np.isnan(values)
        held, rows = np.unique(values[~missing], return_counts=True)
        common = held[np.argmax(rows)] if len(held) else np.nan
        off = _number(~missing & (values != common), who)
        yield (name, _GAP), _number(missing, who)
        yield (name, _OFF), off if _number(values == common, who) >= CAPPED_AT else _number(~missing, who)


def _of_numbers(source: MatrixSource, names: Sequence[str]) -> Iterator[tuple[Item, int]]:
    """Gaps, and entries off the commonest value, or all entries where fewer than five have that.

    The value that all but four records have is that of more than half of the first nine: their median. Where it is
    another, five records or more are off any value.
    """
    if not names:
        return
    read = arranged(source, names)
    first, held = _first_entries(read)
    common = np.where(held == _FIRST, np.median(first, axis=0), np.nan)
    gaps, off = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
    for _, panel in row_panels(read):
        missing = np.isnan(panel)
        gaps += missing.sum(axis=0)
        off += (~missing & (panel != common)).sum(axis=0)
    for j, name in enumerate(names):
        yield (name, _GAP), int(gaps[j])
        yield (name, _OFF), int(off[j]) if held[j] == _FIRST else _off_few(first[: held[j], j].tolist())


def _first_entries(source: MatrixSource) -> tuple[Float, NDArray[np.int64]]:
    """The first nine entries of every column that are not missing, and how many there are."""
    found, held = np.zeros((_FIRST, source.shape[1])), np.zeros(source.shape[1], np.int64)
    for _, panel in row_panels(source):
        present = ~np.isnan(panel)
        order = held + np.cumsum(present, axis=0)
        for place in range(_FIRST):
            rows, columns = np.nonzero(present & (order == place + 1))
            found[place, columns] = panel[rows, columns]
        held = np.minimum(held + present.sum(axis=0), _FIRST)
        if (held == _FIRST).all():
            break
    return found, held


def _off_few(values: Sequence[float]) -> int:
    """Of a few entries, those off the commonest value; all where fewer than five have it."""
    most = max(np.unique(values, return_counts=True)[1].tolist(), default=0)
    return len(values) - most if most >= CAPPED_AT else len(values)


# --- what all parties decide alike ------------------------------------------------------------------------------------


def too_few(own: Float, total: Float | None) -> NDArray[np.bool_]:
    """What this party objects to: counts of all others together, or its own of two parties, of one to four."""
    others = own if total is None else total - own
    return (others > 0) & (others < CAPPED_AT)


def fewer_now(own: Float, now: Float, total: Float | None) -> NDArray[np.bool_]:
    """What this party objects to since it has fewer records now than in the counts that it added before.

    Another party may have one of the few that are left; how many it has at most is all that is known of it.
    """
    if total is None:
        return too_few(now, None)
    left = total - own + now
    return (now < own) & (left > 0) & (left - np.minimum(CAPPED_AT, left - now) < CAPPED_AT)


def common_levels(items: Sequence[Item], total: Float) -> dict[str, dict[str, float]]:
    """The levels that a rare one may join, by column, with their counts: outside of each party at least five have it.

    A party adds five at most, so that ten are five without any one of them.
    """
    return _by_level(items, total, lambda count: count >= 2 * CAPPED_AT)


def not_everywhere(items: Sequence[Item], own: Float, pooled: Sequence[str]) -> NDArray[np.bool_]:
    """Levels of which this party of two has fewer than five: no rare one may join them."""
    held = zip(items, own.tolist(), strict=True)
    return np.array([name in pooled and what.startswith(_LEVEL) and count < CAPPED_AT for (name, what), count in held])


def _by_level(items: Sequence[Item], values: Float, fits: Callable[[float], bool]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for (name, what), value in zip(items, values.tolist(), strict=True):
        if what.startswith(_LEVEL) and fits(value):
            found.setdefault(name, {})[what.removeprefix(_LEVEL)] = value
    return found


def rare_items(
    items: Sequence[Item], flags: NDArray[np.bool_], rule: CountRule, missing_as: Mapping[str, str | None]
) -> Rare:
    """What is rare, of items that some party objects to; refused where nothing says what becomes of it."""
    failing = [item for item, flag in zip(items, flags.tolist(), strict=True) if flag]
    columns = tuple(name for name, what in failing if what == _OFF)
    levels = [(name, what.removeprefix(_LEVEL)) for name, what in failing if what.startswith(_LEVEL)]
    gaps = [name for name, what in failing if what == _GAP]
    levels += [(name, level) for name in gaps if (level := missing_as.get(name)) is not None]
    few = f"fewer than {CAPPED_AT} records outside of one party, and some, have"
    if columns and not rule.drop:
        fix = "leave it out (drop), or write it as a group of the dictionary that joins its values"
        raise DataError(f"{few} another value than most in column {listed(columns)}", fix)
    bare = [(name, level) for name, level in levels if not rule.drop and name not in rule.pooled]
    if bare:
        name, level = bare[0]
        fix = "pool = true of a category of the dictionary joins rare levels; a group, or fewer cut points, do, too"
        raise DataError(f"{few} level {level!r} of column {name!r}", fix)
    return Rare(columns, tuple(dict.fromkeys(levels)), tuple(name for name in gaps if name not in missing_as))


def joined(joint: JointLevels, rare: Sequence[str], common: Mapping[str, float]) -> JointLevels:
    """The levels of a column with the rare ones joined to the least common one of those that may be joined."""
    open_to = [level for level in joint.levels if level in common and level not in rare]
    remaining = [level for level in joint.levels if level not in rare]
    if open_to:
        remaining.remove(min(reversed(open_to), key=lambda level: common[level]))
    if not open_to or not remaining:
        fault = f"no level of column {joint.name!r} is common enough to be joined with its rare ones"
        raise DataError(fault, "leave the column out, or join levels by a group of the dictionary")
    reference = joint.reference if joint.reference is None or joint.reference in remaining else remaining[0]
    return JointLevels(joint.name, tuple(remaining), True, reference)
