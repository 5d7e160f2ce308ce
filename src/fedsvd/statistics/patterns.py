"""Columns of few values, their entropies, and how often each combination of them occurs: what sums of records may tell.

Sums do not change with the order of records, so they can tell no more than how often each combination of values, a
*pattern*, occurs. How many bits that is follows from the entropies of the columns. Here all of it is counted in one
party's own rows.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedsvd.types import Float

FEW_VALUES = 20
"""A column of so many different values, or fewer, is one whose patterns can be listed."""

NUMBER_BITS = 8.0
"""Bits of a number column whose entropy a few rows cannot show: as many as ``protocol.held`` counts for one."""

RARE = 4
"""Own records up to which a pattern is rare: the usual threshold of output checking is five."""

_ENERGY = 0.99
_MOST_COMPARED = 2000  # columns whose dependence on each other is looked for


@dataclass(frozen=True, repr=False)
class Columns:
    """Of each column how many different values it has, how many of them one record alone, and a record's entropy."""

    values: NDArray[np.intp]
    alone: NDArray[np.intp]
    entropies: Float
    records: int

    @property
    def numbers(self) -> NDArray[np.bool_]:
        """Columns whose values are their records' own in more than half of them: more rows would show more values."""
        return np.asarray(2 * self.alone > self.records)

    @property
    def few(self) -> NDArray[np.bool_]:
        """Columns whose values can be listed."""
        return np.asarray((self.values <= FEW_VALUES) & ~self.numbers)

    @property
    def bits(self) -> Float:
        """Of one record: the entropy that is seen, and of a number not less than those of the public formula.

        What few rows show of an entropy is too little, by about ``(values - 1) / (2 rows)`` nats (Miller and Madow).
        """
        unseen = (self.values - 1) / (2.0 * max(1, self.records) * math.log(2.0))
        return np.where(self.numbers, np.maximum(self.entropies, NUMBER_BITS), self.entropies + np.maximum(unseen, 0.0))


def columns_of(rows: Float) -> Columns:
    """Values and entropies of each column."""
    n, p = rows.shape
    if n == 0:
        nothing = np.zeros(p, dtype=np.intp)
        return Columns(nothing, nothing, np.zeros(p), 0)
    ordered = np.sort(np.ascontiguousarray(rows.T))  # (columns, rows): runs of equal values lie together
    begins = np.ones((p, n), dtype=bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    values = begins.sum(axis=1)
    alone, sums = np.full(p, n, dtype=np.intp), np.zeros(p)
    repeated = np.flatnonzero(values < n)  # of all others every run is of one record, and adds 1 log2 1
    starts = np.flatnonzero(begins[repeated])
    lengths, column = np.diff(starts, append=repeated.size * n), starts // n
    sums[repeated] = np.bincount(column, weights=lengths * np.log2(lengths), minlength=repeated.size)
    alone[repeated] = np.bincount(column[lengths == 1], minlength=repeated.size)
    return Columns(values, alone, np.maximum(0.0, math.log2(n) - sums / n), n)


def column_bits(rows: Float, names: Sequence[str], found: Columns | None = None) -> dict[str, float]:
    """Bits of one record, column by column: a record has their sum, were the columns independent of each other.

    A column that another one determines is counted once: one with the same groups of equal values (a logarithm, say),
    a product of columns that are there themselves, and 0/1 columns that exclude each other, which are the levels of one
    and counted with the first of them. ``found`` is what ``columns_of`` finds in these rows, where it is known already.
    """
    found = found or columns_of(rows)
    bits = found.bits
    if rows.shape[1] > _MOST_COMPARED:
        return dict(zip(names, bits.tolist(), strict=True))
    binary = [j for j in range(rows.shape[1]) if found.values[j] == 2 and _zero_one(rows[:, j])]
    levels = [[binary[place] for place in group] for group in _exclusive(rows[:, binary] != 0.0) if len(group) > 1]
    counted = {names[group[0]]: _entropy_of_levels(rows[:, group]) for group in levels}
    grouped = {j for group in levels for j in group}
    seen: set[bytes] = set()
    known, lines = set(names), np.ascontiguousarray(rows.T)
    for j, name in enumerate(names):
        if j in grouped or found.values[j] < 2 or _product_of(name, known):
            continue
        # Where all values differ, their groups are those of any other such column: the order is compared instead.
        same = _order(lines[j]) if found.alone[j] == found.records else _partition(lines[j])
        if same not in seen:
            seen.add(same)
            counted[name] = float(bits[j])
    return counted


def _zero_one(column: Float) -> bool:
    return bool(np.isin(column, (0.0, 1.0)).all())


def _product_of(name: str, known: set[str]) -> bool:
    """Whether a column is a product, ``a:b`` or ``I(a * b)``, of columns that have their own place."""
    inner = name[2:-1] if name.startswith("I(") and name.endswith(")") else name
    parts = [part.strip() for part in inner.replace(" * ", ":").split(":")]
    return len(parts) > 1 and all(part in known for part in parts)


def _partition(column: Float) -> bytes:
    """The groups of equal values, whatever the values are."""
    _, first, codes = np.unique(column, return_index=True, return_inverse=True)
    order = np.empty(len(first), dtype=np.int32)
    order[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return order[codes].tobytes()


def _order(column: Float) -> bytes:
    """The order of the records by their values, upwards or downwards."""
    order = np.argsort(column).astype(np.int32)
    return (order if order[0] < order[-1] else order[::-1]).tobytes()


def _exclusive(indicators: NDArray[np.bool_]) -> list[list[int]]:
    """Groups of 0/1 columns no two of which are 1 in one record, each as large as it gets from left to right."""
    numbers = indicators.astype(np.float64)
    together = numbers.T @ numbers > 0.0
    groups: list[list[int]] = []
    for j in range(indicators.shape[1]):
        home = next((group for group in groups if not together[j, group].any()), None)
        if home is None:
            groups.append([j])
        else:
            home.append(j)
    return groups


def _entropy_of_levels(indicators: Float) -> float:
    """Of the category whose levels these columns are, with the level that has no column."""
    level = np.where(indicators.any(axis=1), indicators.argmax(axis=1) + 1, 0)
    return float(columns_of(level[:, None].astype(np.float64)).entropies[0])


def in_rare_patterns(panels: Iterable[Float], of_person: NDArray[np.intp] | None = None) -> int:
    """Rows that are in a combination of values of 1 to 4 of them; of as many persons, where these have several rows."""
    known: dict[bytes, int] = {}
    codes = []
    for panel in panels:
        kinds, which = np.unique(np.ascontiguousarray(panel + 0.0), axis=0, return_inverse=True)  # -0.0 is 0.0
        numbers = [known.setdefault(kind.tobytes(), len(known)) for kind in kinds]
        codes.append(np.array(numbers, dtype=np.intp)[np.ravel(which)])
    rows = np.concatenate(codes) if codes else np.empty(0, np.intp)
    each = rows if of_person is None else np.unique(np.column_stack((rows, of_person)), axis=0)[:, 0]
    counts = np.bincount(each, minlength=len(known))
    return int(np.bincount(rows, minlength=len(known))[counts <= RARE].sum())


def rank_share(rows: Float) -> float:
    """The rank at 99 % of the energy of the standardised columns, as a share of the most it could be."""
    deviation = rows.std(axis=0)
    varied = deviation > 0.0
    most: int = min(int(varied.sum()), len(rows) - 1)
    if most < 1:
        return 1.0
    Z = rows[:, varied] - rows[:, varied].mean(axis=0)
    Z /= deviation[varied]
    gram = Z @ Z.T if len(Z) < Z.shape[1] else Z.T @ Z
    energy = np.cumsum(np.sort(np.maximum(np.linalg.eigvalsh(gram), 0.0))[::-1])
    rank = 1 + int(np.searchsorted(energy, _ENERGY * float(energy[-1])))
    return float(rank / most)


def evenly(rows: int, most: int) -> tuple[slice, ...]:
    """Runs of rows, at most ``most`` in all, spread evenly over a table of so many rows."""
    if rows <= most:
        return (slice(0, rows),)
    runs = 16
    starts = [round(place * rows / runs) for place in range(runs + 1)]
    return tuple(slice(start, min(start + most // runs, end)) for start, end in pairwise(starts))
