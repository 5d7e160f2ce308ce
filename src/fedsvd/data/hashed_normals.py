"""Normals that are a function of their place: test data of any size, any part of which can be made at any time.

Entry (t, j) of an endless table depends on the seed, t and j alone, so panels of every width hold the same numbers and
two machines make the same matrix. It is made in two steps:

    word(n) = splitmix64 of the n-th counter (Steele, Lea, Flood 2014): shifts, exclusive ors and two products mod 2^64
    normal  = the quantile of the standard normal at (q + 1/2) / 2^16, for each of the four 16-bit fields q of a word,
              read from a table and scaled to unit variance

About 1.5 ns a number on one core, a tenth of what an inverse CDF costs. What it is not: secret (masks and pads come
from ``randomness``), or finer than 65,536 values (the largest is 4.3). Sums of many entries, which is what a
factorisation sees, do not notice. The same integers come out of NumPy and of PyTorch, which has no unsigned words.
"""

from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fedsvd.types import Float

LANES = 4  # normals to a word
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_SHIFTS = (30, 27, 31)
_CHUNK = 1 << 14  # words; with their normals they stay in the second-level cache
_LEVELS = 1 << 16


def stream_key(seed: int, purpose: str) -> int:
    """Where in the sequence of all words this seed's part for this purpose begins."""
    text = f"fedsvd/synthetic/1\x00{seed}\x00{purpose}".encode()
    return int.from_bytes(sha256(text).digest()[:8], "little")


@cache
def quantiles() -> Float:
    """The 65,536 values a normal can take, of mean 0 and variance 1."""
    values: Float = scipy.special.ndtri((np.arange(_LEVELS) + 0.5) / _LEVELS)
    values = (values - values[::-1]) / 2  # exactly odd
    values /= np.sqrt(np.mean(values * values))
    values.flags.writeable = False
    return values


def fields(key: int, lines: tuple[int, int], groups: tuple[int, int], per_line: int) -> NDArray[np.uint16]:
    """The 16-bit fields of these groups of these lines, shape (lines, 4 * groups); a line has ``per_line`` groups."""
    first, last = lines
    count, width = last - first, groups[1] - groups[0]
    # The counter of word g of line t is t * per_line + g; the sequence steps by the golden ratio, mod 2^64.
    with np.errstate(over="ignore"):
        rows = _counters(key, first, count, per_line)
        words: NDArray[np.uint64] = rows[:, None] + _counters(0, groups[0], width, 1)[None, :]
        _finish(words)
    return words.astype("<u8", copy=False).view(np.uint16).reshape(count, LANES * width)


def normals(key: int, lines: tuple[int, int], span: tuple[int, int], length: int, out: Float | None = None) -> Float:
    """Entries ``span`` of these lines, shape (lines, span); a line is ``length`` numbers long."""
    groups = span[0] // LANES, -(-span[1] // LANES)
    out = np.empty((lines[1] - lines[0], span[1] - span[0])) if out is None else out
    skipped, width = span[0] - LANES * groups[0], LANES * (groups[1] - groups[0])
    step = max(1, LANES * _CHUNK // width)
    for start in range(0, len(out), step):
        part = out[start : start + step]
        found = fields(key, (lines[0] + start, lines[0] + start + len(part)), groups, -(-length // LANES))
        if part.shape[1] == width and part.flags.c_contiguous:
            np.take(quantiles(), found, out=part, mode="clip")
        else:
            part[:] = quantiles()[found[:, skipped : skipped + part.shape[1]]]
    return out


def normals_on(xp: Any, device: Any, key: int, lines: tuple[int, int], length: int) -> Any:
    """The same numbers, whole lines of them, made by another array library on its device: (lines, length)."""
    per_line = -(-length // LANES)
    counters = xp.arange(lines[0] * per_line, lines[1] * per_line, dtype=xp.int64, device=device)
    x = counters * _signed(_GOLDEN) + _signed(key + _GOLDEN)
    for shift, factor in zip(_SHIFTS, (_FIRST, _SECOND, None), strict=True):
        # A signed word is shifted with copies of its sign; the mask makes zeros of them.
        x = x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))
        x = x if factor is None else x * _signed(factor)
    return xp.reshape(_looked_up(xp, device, x), (lines[1] - lines[0], LANES * per_line))[:, :length]


def _looked_up(xp: Any, device: Any, words: Any) -> Any:
    """The normals of these words, four each, in order."""
    if hasattr(words, "view"):  # the same memory read as 16-bit fields: no shifts, and no copy to put lanes in order
        table = xp.asarray(np.roll(quantiles(), _LEVELS // 2), device=device)
        return xp.take(table, xp.astype(words.view(xp.int16), xp.int32) + _LEVELS // 2)
    table = xp.asarray(quantiles().copy(), device=device)
    lanes = [xp.take(table, (words >> (16 * lane)) & (_LEVELS - 1)) for lane in range(LANES)]
    return xp.stack(lanes, axis=1)


def _counters(key: int, first: int, count: int, step: int) -> NDArray[np.uint64]:
    """``key + GOLDEN * step * (first + 0, 1, ...)``, mod 2^64; a key of 0 stands for no offset."""
    start = (first * step * _GOLDEN + (key + _GOLDEN if key else 0)) % (1 << 64)
    counters = np.arange(count, dtype=np.uint64)
    counters *= np.uint64(step * _GOLDEN % (1 << 64))
    counters += np.uint64(start)
    return counters


def _finish(words: NDArray[np.uint64]) -> None:
    """splitmix64's finaliser, in place."""
    spare = np.empty_like(words)
    for shift, factor in zip(_SHIFTS, (_FIRST, _SECOND, None), strict=True):
        np.right_shift(words, np.uint64(shift), out=spare)
        np.bitwise_xor(words, spare, out=words)
        if factor is not None:
            np.multiply(words, np.uint64(factor), out=words)


def _signed(word: int) -> int:
    """The same 64 bits as a signed number."""
    word %= 1 << 64
    return word - (1 << 64) if word >= 1 << 63 else word
