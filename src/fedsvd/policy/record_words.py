"""Which record is which in two versions of a table: by its id; where there is none, by its content.

A record becomes a 64-bit word under the party's own key. Ids are compared as text. Content is compared on columns that
both versions have and whose values recur: an added column, one in another unit or a last digit changes no record.
Numbers are rounded to 2^-20 of a deviation of the earlier version. Of records that are equal, the first is the first.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource, as_run
from fedsvd.data.views import NumberedNames
from fedsvd.randomness.seed import Seed
from fedsvd.types import Float, Ring

PANEL_CELLS = 1 << 20
_BITS = 20
_RECURS = 0.1  # a column of which a smaller fraction of cells recurs was re-scaled, or is another one of the same name
_ODD = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SAMPLE = 4096  # values of a column by which it is said to recur
_GAP = np.float64(2.0**200)  # no rounded number is as large


@dataclass(frozen=True, repr=False)
class Matched:
    """The records of two tables: a word for each of the earlier, and the place there of each of the later or -1."""

    words: Ring
    record: NDArray[np.intp]

    @property
    def common(self) -> int:
        return int((self.record >= 0).sum())


def names_of(table: MatrixSource) -> Sequence[str]:
    """The names of the columns; x0, x1, ... where there are none."""
    return table.names if table.names is not None else NumberedNames(table.shape[1])


def by_ids(old: Ring, new: Ring) -> Matched:
    """Which record each is, by words of their ids."""
    return Matched(old, _places(old, new))


def id_words(table: MatrixSource, ids: Sequence[str], key: Seed) -> Ring:
    """A word for each record of a table, from the columns that name it."""
    return _numbered(_words(table, (), ids, np.empty(0), key))


def persons(words: Ring) -> NDArray[np.intp] | None:
    """Which records have one id, by their words; None where each has its own.

    The word of a second record of an id follows from that of the first, and so on (``_numbered``).
    """
    base = _unmixed(words)
    order = np.argsort(base)
    place = np.minimum(np.searchsorted(base, base - _ODD, sorter=order), max(0, len(base) - 1))
    before = order[place] if len(base) else order
    first = np.where(base[before] == base - _ODD, before, np.arange(len(base)))
    if np.array_equal(first, np.arange(len(base))):
        return None
    while not np.array_equal(first, first[first]):
        first = first[first]
    return np.unique(first, return_inverse=True)[1]


def by_content(old: MatrixSource, new: MatrixSource, key: Seed) -> Matched | None:
    """Which record of ``old`` each of ``new`` is; None where no column says so."""
    both, text = set(names_of(old)) & set(names_of(new)), old.text_names | new.text_names
    numbers, texts = (sorted(name for name in both if (name in text) is kind) for kind in (False, True))
    if not both:
        return None
    steps = _steps(old, numbers)
    found = _by_columns(old, new, numbers, texts, steps, key)
    if 2 * found.common > min(old.shape[0], new.shape[0]):
        return found  # no column was re-scaled, and none need be looked at by itself
    recurring = _recurring(old, new, numbers, steps)
    if not recurring and not texts:
        return None
    return _by_columns(old, new, [numbers[j] for j in recurring], texts, steps[recurring], key)


def _by_columns(
    old: MatrixSource, new: MatrixSource, numbers: Sequence[str], texts: Sequence[str], steps: Float, key: Seed
) -> Matched:
    return by_ids(*(_numbered(_words(table, numbers, texts, steps, key)) for table in (old, new)))


def _places(old: Ring, new: Ring) -> NDArray[np.intp]:
    record = np.full(len(new), -1, np.intp)
    _, i, j = np.intersect1d(old, new, return_indices=True)
    record[j] = i
    return record


def _words(table: MatrixSource, numbers: Sequence[str], texts: Sequence[str], steps: Float, key: Seed) -> Ring:
    """A word for each record, from these columns in any order."""
    total = np.zeros(table.shape[0], np.uint64)
    if numbers:
        secret = key.derive("record words").reveal()
        keys = np.array([_column_key(secret, name) for name in numbers], np.uint64)
        for rows, panel in number_panels(table, numbers):
            rounded = np.where(np.isnan(panel), _GAP, np.rint(panel / steps)) + 0.0  # -0.0 and 0.0 are one number
            total[rows] += _mixed(np.ascontiguousarray(rounded).view(np.uint64) ^ keys).sum(axis=1, dtype=np.uint64)
    for name in texts:
        values, gaps = table.text(name)
        distinct, place = np.unique(values, return_inverse=True)
        secret = key.derive("record", name).reveal()
        digests = [hashlib.blake2b(each.encode(), digest_size=8, key=secret).digest() for each in distinct.tolist()]
        words = np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)[place]
        total += np.where(gaps, _ODD, words)
    return _mixed(total)


def places(table: MatrixSource, names: Sequence[str]) -> Index:
    """Where these columns are."""
    place = {name: j for j, name in enumerate(names_of(table))}
    return as_run(np.array([place[name] for name in names], np.intp))


def number_panels(table: MatrixSource, names: Sequence[str]) -> Iterator[tuple[slice, Float]]:
    """All rows of these columns of numbers, NaN where an entry is missing, about a million cells at a time."""
    columns = places(table, names)
    height = max(1, PANEL_CELLS // len(names))
    for start in range(0, table.shape[0], height):
        rows = slice(start, min(start + height, table.shape[0]))
        yield rows, table.raw(rows, columns)


def _column_key(secret: bytes, name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8, key=secret).digest(), "little")


def _steps(table: MatrixSource, names: Sequence[str]) -> Float:
    """The step of every column: 2^(floor(log2 deviation) - 20); of a constant one that of its size."""
    if not names:
        return np.empty(0)
    count, total, squares = np.zeros(len(names)), np.zeros(len(names)), np.zeros(len(names))
    first: Float | None = None
    for _, panel in number_panels(table, names):
        held = ~np.isnan(panel)
        if first is None:
            first = np.where(held[0], panel[0], 0.0)  # near the mean, as far as one record can be
        less = np.where(held, panel - first, 0.0)
        count, total, squares = count + held.sum(axis=0), total + less.sum(axis=0), squares + (less**2).sum(axis=0)
    assert first is not None
    count = np.maximum(count, 1)
    deviation = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0.0))
    constant = ~(deviation > np.spacing(np.abs(first)))
    deviation[constant] = np.maximum(np.abs(first[constant]), 2.0**-1000)
    return np.asarray(np.ldexp(1.0, np.maximum(np.frexp(deviation)[1] - 1 - _BITS, -1050)))


def _recurring(old: MatrixSource, new: MatrixSource, names: Sequence[str], steps: Float) -> list[int]:
    """The columns of numbers whose values recur, by their places among these; some columns are read at a time."""
    width = max(1, 4 * PANEL_CELLS // max(old.shape[0], new.shape[0]))
    found = []
    for start in range(0, len(names), width):
        some = names[start : start + width]
        before, now = (table.raw(slice(0, table.shape[0]), places(table, some)) for table in (old, new))
        for j in range(len(some)):
            if _recurs(*(each[~np.isnan(each[:, j]), j] / steps[start + j] for each in (before, now))):
                found.append(start + j)
    return found


def _recurs(old: Float, new: Float) -> bool:
    """Whether enough values of a column, in steps, are those of the earlier version."""
    fewer, more = sorted((np.rint(old), np.rint(new)), key=len)
    some = fewer[:: max(1, len(fewer) // _SAMPLE)]
    return not len(fewer) or float(np.isin(some, more).mean()) >= _RECURS


def _numbered(words: Ring) -> Ring:
    """Words that are all different: the second record of one word has another, and so on."""
    order = np.argsort(words, kind="stable")
    ranked, number = words[order], np.arange(len(words))
    first = np.concatenate(([True], ranked[1:] != ranked[:-1])) if len(words) else np.zeros(0, np.bool_)
    rank = np.empty(len(words), np.uint64)
    rank[order] = number - np.maximum.accumulate(np.where(first, number, 0)) if len(words) else rank
    return _mixed(words + rank * _ODD)


def _mixed(words: Ring) -> Ring:
    """The finaliser of SplitMix64: every bit of a word depends on every bit."""
    words = words ^ (words >> np.uint64(30))
    words = words * np.uint64(_FACTORS[0])
    words = words ^ (words >> np.uint64(27))
    words = words * np.uint64(_FACTORS[1])
    return words ^ (words >> np.uint64(31))


def _unmixed(words: Ring) -> Ring:
    """The inverse of ``_mixed``: x ^ (x >> s) twice over is x ^ (x >> 2 s), until nothing is shifted in."""
    for shift, factor in ((31, 1), (27, _FACTORS[1]), (30, _FACTORS[0])):
        words = words * np.uint64(pow(factor, -1, 1 << 64))
        while shift < 64:
            words, shift = words ^ (words >> np.uint64(shift)), 2 * shift
    return words
