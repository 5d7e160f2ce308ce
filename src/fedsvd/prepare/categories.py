"""Text columns as numbers over the joint set of levels, agreed without showing levels that are rare.

1. Every party hashes the levels it has under the users' key and adds a sketch of them to a secure sum
   (``level_sketch.py``): all digests come out, with how often each occurs and at how many parties, not at which.
2. A level that fewer than ``sites`` parties have, or that is rarer than ``minimum``, is pooled as "other" (``agree``).
   A level of the data that is called so itself keeps its name, and the pool is called "other (pooled)".
3. Texts of the levels that remain are added up in a second sum, and must fit their digests (``named``).

Both sums have lengths of the plan. The CSP reads neither. A party that guesses the text of a level can compare its
digest with those of the first sum: it learns whether that level occurs, how often, and at how many parties. Then
columns are indicators, indicators less a reference level, or numbers of an ordinal map (``encoding.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError, DataError, NotFinite
from fedsvd.prepare import level_sketch
from fedsvd.prepare.columns import listed
from fedsvd.prepare.level_sketch import Counted, digest_of
from fedsvd.randomness.seed import Seed
from fedsvd.types import Float

OTHER = "other"
MOST_LEVELS = 256
"""Different levels of one column, over all parties, that a plan has space for unless it says otherwise."""


@dataclass(frozen=True, repr=False)
class OwnLevels:
    """The levels of one column in a party's own table, sorted, and how often each occurs."""

    name: str
    levels: tuple[str, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Agreed:
    """The levels that remain, by digest, and whether others were pooled."""

    name: str
    levels: tuple[Counted, ...]
    pooled: bool


@dataclass(frozen=True)
class JointLevels:
    """The joint levels of one column, in the order of their texts, or of the job that lists them.

    ``other`` says whether a pooled level follows, ``reference`` which level has no column where the study has a
    constant: with a column for every level they add up to it, and no coefficient would have a standard error.
    """

    name: str
    levels: tuple[str, ...]
    other: bool = False
    reference: str | None = None

    @property
    def pool(self) -> str:
        """What the pooled level is called: "other", or the first name after it that no joint level has."""
        names = chain((OTHER, f"{OTHER} (pooled)"), (f"{OTHER} (pooled, {number})" for number in count(2)))
        return next(name for name in names if name not in self.levels)

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.levels, self.pool) if self.other else self.levels


def own_levels(source: MatrixSource, name: str, missing: str | None = None) -> OwnLevels:
    """The levels of a column; a missing entry is refused, or is a level called ``missing``."""
    values, gaps = source.text(name)
    if gaps.any() and missing is None:
        raise NotFinite(
            f"{int(gaps.sum())} of {len(gaps)} entries of column {name!r} are missing",
            'drop these rows (missing = "drop"), or make them a level of their own',
        )
    levels, counts = np.unique(np.where(gaps, missing or "", values), return_counts=True)
    return OwnLevels(name, tuple(levels.tolist()), tuple(counts.tolist()))


def sketch(own: OwnLevels, key: Seed, capacity: int = MOST_LEVELS) -> Float:
    """What a party adds to the first sum: whole numbers."""
    level_sketch.expect_usable(own.name, own.levels, capacity)
    return level_sketch.sketch(dict(zip(_digests(own, key), own.counts, strict=True)), capacity)


def agree(name: str, every: Sequence[Counted], minimum: int = 1, sites: int = 2) -> Agreed:
    """The levels that at least ``sites`` parties have and that occur at least ``minimum`` times; the rest is pooled.

    Pooled levels that are themselves rarer than ``minimum`` together would be a small count of their own: then the
    smallest remaining level joins them.
    """
    remaining = [level for level in every if level.count >= minimum and level.holders >= sites]
    pooled = sum(level.count for level in every) - sum(level.count for level in remaining)
    while 0 < pooled < minimum and remaining:
        smallest = min(remaining, key=lambda level: (level.count, level.digest))
        remaining.remove(smallest)
        pooled += smallest.count
    if not remaining:
        raise DataError(
            f"no level of column {name!r} is held by {sites} parties and occurs {minimum} times",
            "leave the column out (drop), or group its levels before the study",
        )
    return Agreed(name, tuple(remaining), len(remaining) < len(every))


def texts_to_add(own: OwnLevels, key: Seed, agreed: Agreed, capacity: int = MOST_LEVELS) -> Float:
    """What a party adds to the second sum: the texts of those remaining levels that it has."""
    held = dict(zip(_digests(own, key), own.levels, strict=True))
    return level_sketch.texts(held, agreed.levels, capacity)


def named(agreed: Agreed, key: Seed, total: Float, capacity: int = MOST_LEVELS, less_one: bool = False) -> JointLevels:
    """The joint levels with their texts, from the second sum; a text that does not fit its digest is refused.

    With ``less_one`` the commonest is the reference.
    """
    found, secret = level_sketch.read_texts(total, agreed.levels, capacity), _secret(agreed.name, key)
    for text, level in zip(found, agreed.levels, strict=True):
        if digest_of(agreed.name, text, secret) != level.digest:
            raise DataError(f"a text for column {agreed.name!r} is none of the agreed levels", "stop and ask the party")
    counts = {text: level.count for text, level in zip(found, agreed.levels, strict=True)}
    levels = sorted(found)
    return JointLevels(
        agreed.name, tuple(levels), agreed.pooled, max(levels, key=counts.__getitem__) if less_one else None
    )


def expect_listed(source: MatrixSource, name: str, levels: Sequence[str], missing: str | None = None) -> JointLevels:
    """The levels that a job lists, in its order; refused where this table has another."""
    every = (*levels, missing) if missing is not None and missing not in levels else tuple(levels)
    own = own_levels(source, name, missing)
    strange = [count for level, count in zip(own.levels, own.counts, strict=True) if level not in every]
    if strange:
        fault = f"{sum(strange)} rows of column {name!r} have a level that the study does not list"
        raise DataError(fault, f"recode them ([table.map] of site.toml); the levels are {listed(every)}")
    return JointLevels(name, every)


def level_codes(source: MatrixSource, joint: JointLevels, missing: str | None = None) -> NDArray[np.int32]:
    """The place of each row's level among the joint levels, shape (rows,); -1 where the entry is missing."""
    values, gaps = source.text(joint.name)
    if missing is not None:
        values, gaps = np.where(gaps, missing, values), np.zeros_like(gaps)
    order = np.argsort(np.array(joint.levels, dtype=np.str_))  # those that a job lists are in its own order
    levels = np.array(joint.levels, dtype=np.str_)[order]
    place = np.searchsorted(levels, values)
    known = levels[np.minimum(place, len(levels) - 1)] == values if len(levels) else np.zeros(len(values), bool)
    strange = ~known & ~gaps
    if strange.any() and not joint.other:
        raise DataError(
            f"{int(strange.sum())} rows of column {joint.name!r} have a level that the study does not have",
            "give the levels of the study only, or pool rare ones as 'other'",
        )
    codes = np.where(known, order[np.minimum(place, len(levels) - 1)] if len(levels) else 0, len(levels))
    return np.where(gaps, -1, codes).astype(np.int32)


def ordinal(name: str, order: Sequence[str]) -> dict[str, float]:
    """An ordinal map from levels in order: 0, 1, 2, ..."""
    if len(set(order)) != len(order):
        raise ConfigError(f"the order of column {name!r} names {listed(_twice(order))} twice", "name each level once")
    return {level: float(place) for place, level in enumerate(order)}


def _twice(order: Sequence[str]) -> list[str]:
    return sorted({level for level in order if list(order).count(level) > 1})


def _digests(own: OwnLevels, key: Seed) -> list[bytes]:
    secret = _secret(own.name, key)
    return [digest_of(own.name, level, secret) for level in own.levels]


def _secret(name: str, key: Seed) -> bytes:
    return key.derive("levels", name).reveal()
