"""Text columns as numbers over the joint set of levels, agreed without showing levels that are rare.

1. Every party hashes the levels it has under the users' key (``level_digests``); the union of the digests is all that
   is needed of them, and says nothing to the CSP, which has no key.
2. Over that union every party adds counts and presence to a secure sum (``contribution``).
3. A level that fewer than ``sites`` parties have, or that is rarer than ``minimum``, is pooled as "other" (``agree``).
4. Texts of the levels that remain are exchanged between the parties alone, and must fit their digests (``named``).

Then columns are indicators, indicators less a reference level, or numbers of an ordinal map (``encoding.py``).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError, DataError, NotFinite
from fedsvd.prepare.columns import listed
from fedsvd.randomness.seed import Seed
from fedsvd.types import Float, expect_shape

OTHER = "other"
DIGEST_BYTES = 16
Digests = NDArray[np.uint8]
"""Shape (levels, 16), sorted, all different."""


@dataclass(frozen=True, repr=False)
class OwnLevels:
    """The levels of one column in a party's own table, sorted, and how often each occurs."""

    name: str
    levels: tuple[str, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Agreed:
    """The digests of the levels that remain, and whether others were pooled."""

    name: str
    digests: Digests
    pooled: bool


@dataclass(frozen=True)
class JointLevels:
    """The joint levels of one column, in the order of their texts; ``other`` says whether a pooled level follows."""

    name: str
    levels: tuple[str, ...]
    other: bool = False

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.levels, OTHER) if self.other else self.levels


def own_levels(source: MatrixSource, name: str, missing: str | None = None) -> OwnLevels:
    """The levels of a column; a missing entry is refused, or is a level called ``missing``."""
    values, gaps = source.text(name)
    if gaps.any() and missing is None:
        raise NotFinite(
            f"{int(gaps.sum())} of {len(gaps)} entries of column {name!r} are missing",
            'drop these rows (missing = "drop"), or make them a level of their own',
        )
    levels, counts = np.unique(np.where(gaps, missing or "", values), return_counts=True)
    if OTHER in levels.tolist():
        raise DataError(
            f"column {name!r} has a level called {OTHER!r}, which is the name of pooled levels", "rename the level"
        )
    return OwnLevels(name, tuple(levels.tolist()), tuple(counts.tolist()))


def level_digests(own: OwnLevels, key: Seed) -> Digests:
    """A keyed digest for each level, sorted: what leaves the party of them, and all that does."""
    return _sorted(_digest(own.name, level, key) for level in own.levels)


def union(parts: Sequence[Digests]) -> Digests:
    """The digests that any party has, sorted."""
    return _sorted({row.tobytes() for part in parts for row in part})


def contribution(own: OwnLevels, key: Seed, every: Digests) -> Float:
    """How often each digest of the union occurs here, then whether it does: shape (2 levels,), for a secure sum."""
    place = {row.tobytes(): j for j, row in enumerate(every)}
    out = np.zeros(2 * len(every))
    for level, count in zip(own.levels, own.counts, strict=True):
        j = place.get(_digest(own.name, level, key))
        if j is None:
            raise DataError(f"the joint levels of column {own.name!r} lack one of ours", "agree on the levels again")
        out[j], out[len(every) + j] = count, 1.0
    return out


def agree(name: str, every: Digests, joint: Float, minimum: int = 1, sites: int = 2) -> Agreed:
    """The levels that at least ``sites`` parties have and that occur at least ``minimum`` times; the rest is pooled.

    Pooled levels that are themselves rarer than ``minimum`` together would be a small count of their own: then the
    smallest remaining level joins them.
    """
    expect_shape("the sum over the joint levels", joint, 2 * len(every))
    counts, held = np.rint(joint[: len(every)]), np.rint(joint[len(every) :])
    remaining = (counts >= minimum) & (held >= sites)
    pooled = counts[~remaining].sum()
    while 0 < pooled < minimum and remaining.any():
        smallest = int(np.argmin(np.where(remaining, counts, np.inf)))
        remaining[smallest] = False
        pooled += counts[smallest]
    if not remaining.any():
        raise DataError(
            f"no level of column {name!r} is held by {sites} parties and occurs {minimum} times",
            "leave the column out (drop), or group its levels before the study",
        )
    return Agreed(name, every[remaining], bool((~remaining).any()))


def texts_to_share(own: OwnLevels, key: Seed, agreed: Agreed) -> tuple[str, ...]:
    """The texts of those remaining levels that this party has: for the other parties alone, sealed."""
    remaining = {row.tobytes() for row in agreed.digests}
    return tuple(level for level in own.levels if _digest(own.name, level, key) in remaining)


def named(agreed: Agreed, key: Seed, texts: Iterable[str]) -> JointLevels:
    """The joint levels with their texts, from what all parties shared; a text that fits no digest is refused."""
    remaining = {row.tobytes() for row in agreed.digests}
    found: dict[bytes, str] = {}
    for text in texts:
        digest = _digest(agreed.name, text, key)
        if digest not in remaining:
            raise DataError(f"a text for column {agreed.name!r} is none of the agreed levels", "stop and ask the party")
        found[digest] = text
    if len(found) < len(remaining):
        lacking = len(remaining) - len(found)
        raise DataError(f"{lacking} agreed levels of column {agreed.name!r} have no text", "ask all parties for theirs")
    return JointLevels(agreed.name, tuple(sorted(found.values())), agreed.pooled)


def joint_levels(tables: Mapping[str, OwnLevels], key: Seed, minimum: int = 1, sites: int = 2) -> JointLevels:
    """All four steps, where the parties run in one process."""
    parts = list(tables.values())
    every = union([level_digests(part, key) for part in parts])
    total = np.sum([contribution(part, key, every) for part in parts], axis=0)
    agreed = agree(parts[0].name, every, total, minimum, sites)
    return named(agreed, key, {text for part in parts for text in texts_to_share(part, key, agreed)})


def level_codes(source: MatrixSource, joint: JointLevels, missing: str | None = None) -> NDArray[np.int32]:
    """The place of each row's level among the joint levels, shape (rows,); -1 where the entry is missing."""
    values, gaps = source.text(joint.name)
    if missing is not None:
        values, gaps = np.where(gaps, missing, values), np.zeros_like(gaps)
    levels = np.array(joint.levels, dtype=np.str_)
    place = np.searchsorted(levels, values)
    known = levels[np.minimum(place, len(levels) - 1)] == values if len(levels) else np.zeros(len(values), bool)
    strange = ~known & ~gaps
    if strange.any() and not joint.other:
        raise DataError(
            f"{int(strange.sum())} rows of column {joint.name!r} have a level that the study does not have",
            "give the levels of the study only, or pool rare ones as 'other'",
        )
    codes = np.where(known, place, len(levels))
    return np.where(gaps, -1, codes).astype(np.int32)


def ordinal(name: str, order: Sequence[str]) -> dict[str, float]:
    """An ordinal map from levels in order: 0, 1, 2, ..."""
    if len(set(order)) != len(order):
        raise ConfigError(f"the order of column {name!r} names {listed(_twice(order))} twice", "name each level once")
    return {level: float(place) for place, level in enumerate(order)}


def _twice(order: Sequence[str]) -> list[str]:
    return sorted({level for level in order if list(order).count(level) > 1})


def _digest(name: str, level: str, key: Seed) -> bytes:
    secret = key.derive("levels", name).reveal()
    return hashlib.blake2b(level.encode(), digest_size=DIGEST_BYTES, key=secret).digest()


def _sorted(digests: Iterable[bytes]) -> Digests:
    joined = b"".join(sorted(set(digests)))
    return np.frombuffer(joined, np.uint8).reshape(-1, DIGEST_BYTES)
