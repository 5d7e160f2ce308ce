"""Levels of text columns in sums of whole numbers: all parties' levels come out, and not which party has which.

*The sketch* (an invertible Bloom lookup table) has four tables of cells. A party adds each of its levels to one cell of
each table: 1 for itself, how often the level occurs, and the four limbs of its keyed digest. Cells are chosen by the
digest, so that all holders of a level use the same ones. From the total, ``read`` takes out one level after the
other: a cell that holds one level alone shows its digest times the number of holders. It is a function of the list of
(digest, holders, count) and says no more than that list. Its size is the plan's, whatever levels there are.

*Texts.* Each holder of a level adds its text, as limbs, at the level's place; the total is the text times the holders.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import DataError
from fedsvd.types import Float, expect_shape

DIGEST_BYTES = 16
LONGEST_TEXT = 128
"""Bytes of a level's text in UTF-8."""

_TABLES = 4
_LIMBS = DIGEST_BYTES // 4
_FIELDS = 2 + _LIMBS  # holders, occurrences, the digest's limbs
_TEXT_LIMBS = LONGEST_TEXT // 4


@dataclass(frozen=True)
class Counted:
    """A level by its digest: how many parties have it, and how often it occurs at all of them together."""

    digest: bytes
    holders: int
    count: int


def sketch_numbers(capacity: int) -> int:
    """The numbers of a sketch for this many different levels."""
    return _TABLES * _cells(capacity) * _FIELDS


def text_numbers(capacity: int) -> int:
    """The numbers of a sum of texts for this many levels."""
    return capacity * _TEXT_LIMBS


def _cells(capacity: int) -> int:
    """Cells of one table: in all three for every level, so that reading fails once in 10^4 full sketches."""
    return max(24, -(-3 * capacity // _TABLES))


def digest_of(name: str, level: str, secret: bytes) -> bytes:
    """The keyed digest of a level of one column; its last limb checks the others."""
    body = hashlib.blake2b(f"{name}\x00{level}".encode(), digest_size=DIGEST_BYTES - 4, key=secret).digest()
    return body + _check(body)


def sketch(levels: Mapping[bytes, int], capacity: int) -> Float:
    """What a party adds: its levels' digests, and how often each occurs; whole numbers."""
    cells = _cells(capacity)
    table = np.zeros((_TABLES, cells, _FIELDS))
    for digest, count in levels.items():
        for place in _places(digest, cells):
            table[place] += [1.0, float(count), *_limbs(digest)]
    return table.ravel()


def read(total: Float, capacity: int, of: str = "a text column") -> tuple[Counted, ...]:
    """All parties' levels in a total, sorted by digest; refused where there are more than it has space for."""
    cells = _cells(capacity)
    expect_shape("the sum of the levels", total, sketch_numbers(capacity))
    table = np.rint(total).reshape(_TABLES, cells, _FIELDS).astype(np.int64)
    found: dict[bytes, Counted] = {}
    pending = [(t, j) for t in range(_TABLES) for j in range(cells)]
    while pending:
        t, j = pending.pop()
        one = _alone(table[t, j], (t, j), cells)
        if one is None or one.digest in found:
            continue
        found[one.digest] = one
        for place in _places(one.digest, cells):
            table[place] -= np.array([one.holders, one.count, *(one.holders * limb for limb in _limbs(one.digest))])
            pending.append(place)
    if table.any() or len(found) > capacity:
        raise DataError(
            f"{of} has more than {capacity} levels over all parties",
            "if it is an id or a number, leave it out (drop), or read it as a number; else group its levels before "
            "the study, or raise most_levels",
        )
    return tuple(sorted(found.values(), key=lambda each: each.digest))


def texts(held: Mapping[bytes, str], order: Sequence[Counted], capacity: int) -> Float:
    """What a party adds: the texts of those levels that it has, at their places."""
    out = np.zeros((capacity, _TEXT_LIMBS))
    for place, level in enumerate(order):
        if level.digest in held:
            content = held[level.digest].encode().ljust(LONGEST_TEXT, b"\x00")
            out[place] = np.frombuffer(content, "<u4")
    return out.ravel()


def read_texts(total: Float, order: Sequence[Counted], capacity: int) -> tuple[str, ...]:
    """The texts of the levels, in their order."""
    expect_shape("the sum of the texts", total, text_numbers(capacity))
    limbs = np.rint(total).reshape(capacity, _TEXT_LIMBS)[: len(order)]
    holders = np.array([level.holders for level in order], dtype=np.float64)[:, None]
    content = limbs / holders
    if not ((content == np.rint(content)) & (content >= 0) & (content < 2.0**32)).all():
        raise _no_text()
    try:
        return tuple(row.astype("<u4").tobytes().rstrip(b"\x00").decode() for row in content)
    except UnicodeDecodeError:
        raise _no_text() from None


def expect_usable(name: str, levels: Iterable[str], capacity: int) -> None:
    """Refuse levels of a party's own column that no sketch of the plan holds; before anything is sent."""
    listed = list(levels)
    if len(listed) > capacity:
        fix = "is it an id? Leave it out (drop), group its levels, or raise most_levels"
        raise DataError(f"column {name!r} has {len(listed)} levels, the study has space for {capacity}", fix)
    long = sum(len(level.encode()) > LONGEST_TEXT or "\x00" in level for level in listed)
    if long:
        fault = f"{long} levels of column {name!r} are longer than {LONGEST_TEXT} bytes, or hold a zero byte"
        raise DataError(fault, "shorten them, or leave the column out (drop)")


def _alone(cell: NDArray[np.int64], place: tuple[int, int], cells: int) -> Counted | None:
    """The one level in this cell; None where the cell is empty, or has more than one."""
    holders, count, *limbs = cell.tolist()
    if holders < 1 or any(limb % holders or not 0 <= limb // holders < 2**32 for limb in limbs):
        return None
    digest = b"".join((limb // holders).to_bytes(4, "little") for limb in limbs)
    if digest[-4:] != _check(digest[:-4]) or place not in _places(digest, cells):
        return None
    return Counted(digest, holders, count)


def _places(digest: bytes, cells: int) -> tuple[tuple[int, int], ...]:
    """The cell of this digest in each table."""
    words = hashlib.blake2b(digest, digest_size=8 * _TABLES, person=b"fedsvd cells").digest()
    return tuple((t, int.from_bytes(words[8 * t : 8 * t + 8], "little") % cells) for t in range(_TABLES))


def _limbs(digest: bytes) -> list[int]:
    return [int.from_bytes(digest[start : start + 4], "little") for start in range(0, DIGEST_BYTES, 4)]


def _check(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=4, person=b"fedsvd check").digest()


def _no_text() -> DataError:
    return DataError("the text of an agreed level cannot be read", "a party altered it: stop and ask the parties")
