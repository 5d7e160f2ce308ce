"""Keyed hashes of a table's records, made to be compared with those of an earlier version of the same table.

Cells are rounded to a step of their column, which is that of the first version seen, so that a last digit changes
nothing. Columns are dealt, by key and name, into 16 groups; a record has 4 bytes for each group. A column that was
added, left out or re-scaled touches its own group alone, and records are compared on the groups that remain. What is
stored of a table (64 bytes a record, a sketch of each column) cannot be tested against a guess without the key.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.randomness.seed import Seed
from fedsvd.types import Float, Ring

GROUPS = 16
SAME = 0.75
"""Two records are one when at least this fraction of the groups that can be compared are equal (12 of 16)."""

RECURS = 0.1
"""A column of which a smaller fraction of cells recurs was re-scaled, or is another one of the same name."""

_BITS = 20  # a cell is rounded to 2^-20 deviations of its column
_SKETCH = 256  # hashed cells that are stored of a column
_SKETCH_WORDS = 1 << 22  # of all columns together
_CELLS = 1 << 21  # hashed at once

Words = NDArray[np.uint32]


@dataclass(frozen=True, repr=False)
class Hashes:
    """One version of a table: keyed ids of its columns, 16 words to each record, a sketch of each column."""

    columns: Ring  # (c,)
    records: Words  # (n, 16)
    sketch: Ring  # (s, c): the smallest hashes of each column's cells


@dataclass(frozen=True)
class Difference:
    """How two versions differ: records that one has and the other has not, whichever has more of them."""

    changed: int  # beyond the tolerance of 12 groups in 16
    touched: int  # in any group
    columns: int  # columns of the earlier version that this one has not, by name or by content
    others: int  # those of one name and other content among them
    groups: int  # that could be compared; with none of them nothing is known

    @property
    def known(self) -> bool:
        return self.groups > 0


class Hasher:
    """Hashes the versions of tables with these columns, under a party's own key."""

    def __init__(self, names: Sequence[str], key: Seed) -> None:
        secret = key.derive("record hashes").reveal()
        digests = (hashlib.blake2b(name.encode(), digest_size=16, key=secret).digest() for name in names)
        words = np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2).astype(np.uint64)
        self.columns: Ring = words[:, 0].copy()
        self._keys = words[:, 1].copy()

    def steps(self, panels: Iterable[Float]) -> Float:
        """The step of every column: 2^(floor(log2 deviation) - 20)."""
        count, first = 0, np.zeros(0)
        total = squares = np.zeros(len(self.columns))
        for panel in panels:
            if not count:
                first = panel[0].copy()
            less = panel - first  # near the mean, as far as one record can be
            total, squares, count = total + less.sum(axis=0), squares + (less**2).sum(axis=0), count + len(panel)
        deviation = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0.0))
        constant = ~(deviation > np.spacing(np.abs(first)))
        deviation[constant] = np.maximum(np.abs(first[constant]), 2.0**-1000)
        return np.asarray(np.ldexp(1.0, np.maximum(np.frexp(deviation)[1] - 1 - _BITS, -1050)))

    def hashes(self, panels: Iterable[Float], steps: Float, subsets: Sequence[Ring]) -> list[Hashes]:
        """One pass: the version as each of these sets of columns, which may be ours in part, shows it."""
        chosen = [np.flatnonzero(np.isin(self.columns, subset)) for subset in subsets]
        orders = [_by_group(self.columns, places) for places in chosen]
        parts: list[list[Words]] = [[] for _ in subsets]
        sketch = _Sketch(len(self.columns))
        for panel in panels:
            for start in range(0, len(panel), height := max(1, _CELLS // len(self.columns))):
                cells = self._cells(panel[start : start + height], steps)
                for part, order in zip(parts, orders, strict=True):
                    part.append(_grouped(cells, *order))
                sketch.add(cells)
        found = sketch.words()
        return [
            Hashes(self.columns[places], np.concatenate(part), found[:, places])
            for places, part in zip(chosen, parts, strict=True)
        ]

    def _cells(self, panel: Float, steps: Float) -> Ring:
        """A keyed hash of every rounded cell."""
        with np.errstate(over="ignore"):
            rounded = np.rint(panel / steps)
        rounded += 0.0  # -0.0 and 0.0 are one number
        words: Ring = rounded.view(np.uint64)
        words ^= self._keys
        return _mixed(words)


class _Sketch:
    """The smallest hashes of each column's cells: equal columns have equal ones, and part of a column has its part."""

    def __init__(self, columns: int) -> None:
        self._size = max(8, min(_SKETCH, _SKETCH_WORDS // columns))
        self._words = np.zeros((0, columns), np.uint64)

    def add(self, cells: Ring) -> None:
        size = self._size
        smallest = np.partition(cells, size, axis=0)[:size] if len(cells) > size else cells
        words = np.sort(np.concatenate((self._words, smallest)), axis=0)
        # A value that occurs often counts once; the largest word stands for "no more".
        words[1:][words[1:] == words[:-1]] = _LAST
        self._words = np.sort(words, axis=0)[:size]

    def words(self) -> Ring:
        return self._words


_LAST = np.uint64(0xFFFFFFFFFFFFFFFF)


def difference(old: Hashes, new: Hashes) -> Difference:
    """How ``new``, hashed on the columns of ``old``, differs from it; columns that were re-scaled are left out."""
    gone = ~np.isin(old.columns, new.columns)
    both = np.flatnonzero(~gone)
    places = {int(column): place for place, column in enumerate(new.columns.tolist())}
    mine = np.array([places[int(column)] for column in old.columns[both].tolist()], np.intp)
    recurring = np.array(
        [_recurring(old.sketch[:, i], new.sketch[:, j]) for i, j in zip(both.tolist(), mine.tolist(), strict=True)]
    )
    rescaled = recurring < RECURS if len(both) else np.zeros(0, bool)
    group = (old.columns & np.uint64(GROUPS - 1)).astype(np.intp)
    left_out = set(group[gone].tolist()) | set(group[both[rescaled]].tolist())
    used = sorted(set(group.tolist()) - left_out)
    changed, touched = _changed(old.records[:, used], new.records[:, used]) if used else (0, 0)
    # Where records came and went, cells of every column did; names alone tell columns apart then.
    others = int((recurring < SAME).sum()) if used and not changed else 0
    return Difference(changed, touched, int(gone.sum()) + others, others, len(used))


def _recurring(old: Ring, new: Ring) -> float:
    """The fraction of cells that both columns have, of the one that has fewer, estimated from their sketches."""
    reach = min(int(old[-1]), int(new[-1]))
    old, new = old[old <= reach], new[new <= reach]
    old, new = old[old != _LAST], new[new != _LAST]
    fewer = min(len(old), len(new))
    return len(np.intersect1d(old, new)) / fewer if fewer else 0.0


def _changed(old: Words, new: Words) -> tuple[int, int]:
    """How many records have no partner, in three quarters of the groups and in all of them."""
    a, b = _without_partners(_row_words(old), _row_words(new))
    return max(_near(old[a], new[b])), max(len(a), len(b))


def _without_partners(old: Ring, new: Ring) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The places of words that the other side has not, each word as often as it is missing there."""
    words, place = np.unique(np.concatenate((old, new)), return_inverse=True)
    counts = [np.bincount(side, minlength=len(words)) for side in (place[: len(old)], place[len(old) :])]
    both = np.minimum(*counts)
    return (_beyond(place[: len(old)], both), _beyond(place[len(old) :], both))


def _beyond(places: NDArray[np.intp], allowed: NDArray[np.intp]) -> NDArray[np.intp]:
    """Positions whose word occurred more often before than is allowed."""
    return np.asarray(np.flatnonzero(_rank(places) >= allowed[places]))


def _rank(values: NDArray[Any]) -> NDArray[np.intp]:
    """How often each value occurred before its position."""
    order = np.argsort(values, kind="stable")
    first = np.concatenate(([True], values[order][1:] != values[order][:-1])) if len(values) else np.zeros(0, bool)
    number = np.arange(len(values))
    starts = np.maximum.accumulate(np.where(first, number, 0)) if len(values) else number
    rank = np.empty(len(values), np.intp)
    rank[order] = number - starts
    return rank


def _near(old: Words, new: Words) -> tuple[int, int]:
    """How many records of either side are left when those that agree in three quarters of the groups are paired.

    With at most d groups of g different, one of d + 1 bands of groups is equal: pairs are looked for band by band.
    """
    g = old.shape[1]
    needed = int(np.ceil(SAME * g))
    for band in np.array_split(np.arange(g), g - needed + 1):
        if not len(old) or not len(new):
            break
        keys = _row_words(old[:, band]), _row_words(new[:, band])
        ours, theirs = (_mixed(words + _rank(words).astype(np.uint64) * _ODD) for words in keys)
        _, i, j = np.intersect1d(ours, theirs, return_indices=True)
        good = np.count_nonzero(old[i] == new[j], axis=1) >= needed
        old, new = np.delete(old, i[good], axis=0), np.delete(new, j[good], axis=0)
    return len(old), len(new)


_ODD = np.uint64(0x9E3779B97F4A7C15)


def _row_words(rows: Words) -> Ring:
    """One 64-bit word to each row."""
    total = np.zeros(len(rows), np.uint64)
    for place, column in enumerate(rows.T):
        total = _mixed(total * _ODD + column.astype(np.uint64) + np.uint64(place + 1))
    return total


def _by_group(columns: Ring, places: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    order, starts, groups = _dealt((columns[places] & np.uint64(GROUPS - 1)).astype(np.intp))
    return places[order], starts, groups


def _dealt(group: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """An order that brings groups together, where each begins in it, and which groups there are."""
    order = np.argsort(group, kind="stable")
    groups, starts = np.unique(group[order], return_index=True)
    return order, starts, groups


def _grouped(cells: Ring, order: NDArray[np.intp], starts: NDArray[np.intp], groups: NDArray[np.intp]) -> Words:
    """The 16 words of each record."""
    words = np.zeros((len(cells), GROUPS), np.uint32)
    if len(order):
        words[:, groups] = _top(np.add.reduceat(cells[:, order], starts, axis=1))
    return words


def _top(words: Ring) -> Words:
    return (words >> np.uint64(32)).astype(np.uint32)


def _mixed(words: Ring) -> Ring:
    """The finaliser of SplitMix64, in place: every bit of a word depends on every bit."""
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words
