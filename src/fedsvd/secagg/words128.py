"""Words of the ring Z_2^128: two uint64, low half first, read as signed integers (specification, section 2).

An array of n words has shape (n, 2). ``add_into`` and ``subtract_into`` serve any number of halves on the last axis, so
that a tag of three (modulo 2^192) adds up by the same code. Numbers become words in fixed units,

    to_words(values, step, unit) = round(values 2^(step - unit))        a word counts steps of 2^-step units of 2^unit

rounded once, half to even, with the noise of the sum added as an integer: noise that were added to the float64 would be
rounded to that number's own last digit, and show its size. There are no pads and no keys here: the CSP uses this file.
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ConfigError, FixedPointOverflow, ShapeError
from fedsvd.kernels import carried
from fedsvd.types import Float, Ring

HALVES = 2
BITS = 64 * HALVES
_HALF = (1 << 64) - 1
_CHUNK = 1 << 14  # words of two halves; with what is added to them they stay in the second-level cache


def add_into(total: Ring, words: Ring) -> Ring:
    """``total + words`` in place, modulo 2^(64 halves), with the carries between halves."""
    return _into(np.add, total, words)


def subtract_into(total: Ring, words: Ring) -> Ring:
    """``total - words`` in place, modulo 2^(64 halves), with the borrows between halves."""
    return _into(np.subtract, total, words)


def _into(combine: np.ufunc, total: Ring, words: Ring) -> Ring:
    if total.shape != words.shape or total.ndim != 2:
        raise ShapeError(f"words of shape {total.shape} and {words.shape} do not add up")
    if carried.combine(total, words, combine is np.subtract):
        return total
    if words.flags.c_contiguous and carried.combine_rows(total, words.reshape(1, -1), int(combine is np.add)):
        return total
    for start in range(0, len(total), _CHUNK):
        piece = slice(start, start + _CHUNK)
        _combine(combine, total[piece], words[piece])
    return total


def _combine(combine: np.ufunc, total: Ring, words: Ring) -> None:
    adding = combine is np.add
    over: NDArray[np.bool_] | None = None
    for half in range(total.shape[1]):
        sums, terms = total[:, half], words[:, half]
        last = half == total.shape[1] - 1
        if adding:
            np.add(sums, terms, out=sums)
            wrapped = None if last else sums < terms
        else:
            wrapped = None if last else sums < terms
            np.subtract(sums, terms, out=sums)
        if over is not None:
            if wrapped is not None:  # a carry wraps a half of ones; a borrow, one of zeros
                wrapped |= over & (sums == (np.uint64(_HALF) if adding else np.uint64(0)))
            combine(sums, over, out=sums)
        over = wrapped


def combine_rows(total: Ring, rows: Ring, plus: int) -> Ring:
    """``total`` plus the first ``plus`` rows of words, minus the others, in place, modulo 2^(64 halves).

    ``total`` is of shape (n, halves), and each row its words one after the other.
    """
    if total.ndim != 2 or rows.ndim != 2 or rows.shape[1] != total.size:
        raise ShapeError(f"rows of shape {rows.shape} do not add up to words of shape {total.shape}")
    if carried.combine_rows(total, rows, plus):
        return total
    for number, row in enumerate(rows):
        _combine(np.add if number < plus else np.subtract, total, row.reshape(total.shape))
    return total


def negate(words: Ring) -> Ring:
    """``-words``, modulo 2^(64 halves)."""
    return subtract_into(np.zeros_like(words), words)


def from_integers(integers: Iterable[int], halves: int = HALVES) -> Ring:
    """Python integers modulo 2^(64 halves) as words, shape (n, halves)."""
    size = 1 << (64 * halves)
    joined = b"".join((int(value) % size).to_bytes(8 * halves, "little") for value in integers)
    return np.frombuffer(bytearray(joined), "<u8").astype(np.uint64, copy=False).reshape(-1, halves)


def to_integers(words: Ring) -> list[int]:
    """The signed Python integers behind words of any number of halves."""
    if words.ndim != 2 or words.dtype != np.uint64:
        raise ShapeError(f"words are uint64 of shape (n, halves), got {words.dtype} of shape {words.shape}")
    joined, size = words.astype("<u8").tobytes(), 8 * words.shape[1]
    return [int.from_bytes(joined[at : at + size], "little", signed=True) for at in range(0, len(joined), size)]


def from_int64(integers: NDArray[np.int64]) -> Ring:
    """64-bit integers as words of two halves, the sign extended."""
    flat = np.ravel(integers)
    words = np.empty((flat.size, HALVES), np.uint64)
    words[:, 0] = flat.view(np.uint64)
    words[:, 1] = (flat >> np.int64(63)).view(np.uint64)
    return words


def to_words(
    values: Float, step: int, *, unit: int = 0, noise: NDArray[np.int64] | None = None, terms: int = 1
) -> Ring:
    """``round(values 2^(step - unit)) + noise`` as words, shape (n, 2), entries in C order.

    Without its noise each user's integer is held to ``2^126 / terms``, so that a sum of ``terms`` of them does not
    wrap; what is beyond that, or not finite, is an overflow. Rounding is half to even, once.
    """
    if terms < 1:
        raise ConfigError(f"a sum has at least one term, got {terms}")
    flat = np.ravel(values).astype(np.float64)
    if noise is not None and noise.shape != flat.shape:
        raise ShapeError(f"noise of shape {noise.shape} for {flat.size} values")
    # Half of the range is spare: noise, below 2^63 by its type, fits there as often as there are users.
    most, words = math.ldexp(1.0, BITS - 2) / terms, np.empty((flat.size, HALVES), np.uint64)
    beyond = carried.to_words(flat, step - unit, most, noise, words)
    if beyond is None:
        beyond = _to_words(flat, step - unit, most, noise, words)
    if beyond:
        raise FixedPointOverflow(
            f"{beyond} of {flat.size} numbers of a secure sum are beyond the bound of their unit, or not finite",
            "check the data for extreme values",
        )
    return words


def _to_words(flat: Float, power: int, most: float, noise: NDArray[np.int64] | None, words: Ring) -> int:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        # Exact but for what lies below half a step: a float64 of 2^52 or more is an integer already.
        scaled = np.rint(np.ldexp(flat, power))
    beyond = scaled.size - int(np.count_nonzero(np.abs(scaled) <= most))
    if not beyond:
        words[:] = _integers_of(scaled)
        if noise is not None:
            add_into(words, from_int64(noise))
    return beyond


def _integers_of(whole: Float) -> Ring:
    """Whole numbers below 2^127 held as float64, as words: magnitude first, because -1 has more bits than float64."""
    size = np.abs(whole)
    high = np.floor(size * 2.0**-64)
    words = np.empty((whole.size, HALVES), np.uint64)
    words[:, 1] = high
    words[:, 0] = size - high * 2.0**64  # exact: some of the number's own 53 bits
    negative = np.signbit(whole)
    words[negative] = negate(words[negative])
    return words


def to_numbers(words: Ring, step: int, *, unit: int = 0) -> Float:
    """The numbers ``words 2^(unit - step)``, each rounded to float64 once (twice where that is below 2^-1022)."""
    if words.ndim != 2 or words.shape[1] != HALVES or words.dtype != np.uint64:
        raise ShapeError(f"words are uint64 of shape (n, {HALVES}), got {words.dtype} of shape {words.shape}")
    numbers = np.empty(len(words))
    if carried.to_numbers(words, unit - step, numbers):
        return numbers
    for start in range(0, len(words), _CHUNK):
        numbers[start : start + _CHUNK] = _rounded(words[start : start + _CHUNK], unit - step)
    return numbers


def _rounded(words: Ring, power: int) -> Float:
    negative = words[:, 1] >> np.uint64(63) != 0
    size = words.copy()
    size[negative] = negate(words[negative])
    low, high = size[:, 0], size[:, 1]
    places = np.frexp(high.astype(np.float64))[1].astype(np.int64)
    places -= (places > 0) & (high >> np.maximum(places - 1, 0).astype(np.uint64) == 0)  # the float64 was rounded up
    right, one = np.maximum(places, 1).astype(np.uint64), np.uint64(1)
    # The leading 64 bits; a bit that stands for all below them lets the conversion to float64 round as if it saw them.
    lost = low << (np.uint64(64) - right) != 0
    leading = (high << (np.uint64(63) - (right - one)) | (low >> (right - one)) >> one) | lost.astype(np.uint64)
    leading = np.where(places == 0, low, leading)
    with np.errstate(over="ignore", under="ignore"):
        numbers: Float = np.ldexp(leading.astype(np.float64), (places + power).astype(np.int32))
    if not np.isfinite(numbers).all():
        raise FixedPointOverflow("a secure sum leaves the range of float64", "scale the data down")
    numbers[negative] *= -1.0
    return numbers
