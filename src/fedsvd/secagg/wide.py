"""Numbers of any magnitude in the ring, so that their sum is exact: statistics that have no bound beforehand.

A float64 is a 53-bit integer times a power of two. Here it is written into digits of 32 bits, one to a word of 64, so
that 2^30 shares can be added without a carry between words; the digits cover the whole range of float64. The laws:

    decode(encode(a)) = a                       exactly
    decode(sum_i encode(a_i)) = sum_i a_i       the exact sum, rounded once

Numbers that are no float64, as n_i times a mean or an integer of noise, are Python integers in units of 2^-1074:
``integers`` makes them of float64, ``encode_integers`` and ``decode_integers`` are exact, and ``rounded`` rounds once.

A number costs 67 words instead of one. It is meant for norms, means and scales, not for matrices.
"""

from collections.abc import Iterable, Sequence
from operator import lshift

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import FixedPointOverflow, ShapeError
from fedsvd.types import Float, Ring

_DIGIT = 32
_MASK = np.uint64(2**32 - 1)
LOWEST = 1074  # the smallest float64 is 2^-1074
WORDS = (1024 + LOWEST) // _DIGIT + 2
_BYTES = WORDS * _DIGIT // 8


def encode(values: Float) -> Ring:
    """Every value as ``WORDS`` signed digits, shape (values, WORDS)."""
    flat = np.ravel(values).astype(np.float64)
    if not np.isfinite(flat).all():
        raise FixedPointOverflow("a statistic is not finite", "check the data for extreme values")
    mantissa, power = np.frexp(flat)
    # frexp's power of a subnormal is below what 53 bits reach; shifting it up keeps the integer exact.
    lift = np.maximum(power - 53, -LOWEST)
    whole = np.ldexp(np.abs(mantissa), power - lift).astype(np.uint64)
    place = (lift + LOWEST).astype(np.int64)
    digit, shift = place // _DIGIT, (place % _DIGIT).astype(np.uint64)
    low, high = (whole & _MASK) << shift, (whole >> np.uint64(_DIGIT)) << shift
    out = np.zeros((flat.size, WORDS), np.uint64)
    rows = np.arange(flat.size)
    out[rows, digit] = low & _MASK
    out[rows, digit + 1] = (low >> np.uint64(_DIGIT)) + (high & _MASK)
    out[rows, digit + 2] = high >> np.uint64(_DIGIT)
    negative = np.signbit(flat)
    out[negative] = np.uint64(0) - out[negative]
    return out


def decode(total: Ring) -> Float:
    """The numbers behind summed digits, each rounded once."""
    return rounded(decode_integers(total))


def integers(values: Float) -> list[int]:
    """Every value as a Python integer in units of 2^-1074, exactly."""
    flat = np.ravel(values).astype(np.float64)
    if not np.isfinite(flat).all():
        raise FixedPointOverflow("a statistic is not finite", "check the data for extreme values")
    mantissa, power = np.frexp(flat)
    # As in ``encode``: 53 bits above the place of the last one, fewer where that would lie below 2^-1074.
    lift = np.maximum(power - 53, -LOWEST)
    whole = np.ldexp(mantissa, power - lift).astype(np.int64)
    return list(map(lshift, whole.tolist(), (lift + LOWEST).tolist()))


def encode_integers(values: Iterable[int]) -> Ring:
    """Every integer, in units of 2^-1074, as ``WORDS`` signed digits, shape (values, WORDS)."""
    listed = list(map(int, values))
    try:
        joined = b"".join([abs(value).to_bytes(_BYTES, "little") for value in listed])
    except OverflowError as error:
        raise FixedPointOverflow(f"a statistic has more than {8 * _BYTES} bits", "scale the data down") from error
    out = np.frombuffer(joined, "<u4").reshape(-1, WORDS).astype(np.uint64)
    negative = np.array([value < 0 for value in listed], bool)
    out[negative] = np.uint64(0) - out[negative]
    return out


def decode_integers(total: Ring) -> list[int]:
    """The exact integers behind summed digits, in units of 2^-1074."""
    if total.ndim != 2 or total.shape[1] != WORDS:
        raise ShapeError(f"wide numbers have {WORDS} words each, got shape {total.shape}")
    used = np.flatnonzero(total.any(axis=0))
    if not used.size:
        return [0] * len(total)
    # Numbers of like size have most of their digits in common, and all others are zero.
    first, stop = int(used[0]), int(used[-1]) + 1
    carried = _carried(total[:, first:stop].astype(np.int64)).tobytes()
    size, shift = (stop - first + 2) * _DIGIT // 8, first * _DIGIT
    places = range(0, len(carried), size)
    return [int.from_bytes(carried[place : place + size], "little", signed=True) << shift for place in places]


def _carried(digits: NDArray[np.int64]) -> NDArray[np.int32]:
    """The same numbers as the bytes of one signed integer each: digits of 32 bits with their carries passed on."""
    # Halves first: a digit that is near the end of its range would overflow with a carry on top of it.
    count = digits.shape[1]
    columns = np.zeros((count + 2, len(digits)), np.int64)
    np.bitwise_and(digits.T, 0xFFFFFFFF, out=columns[:count])
    columns[1 : count + 1] += digits.T >> _DIGIT
    for place in range(count + 1):
        columns[place + 1] += columns[place] >> _DIGIT
        columns[place] &= 0xFFFFFFFF
    return np.ascontiguousarray(columns.T.astype("<u4")).view("<i4")


def rounded(values: Sequence[int], divisor: int = 1) -> Float:
    """The numbers ``values / divisor``, values in units of 2^-1074, each rounded to float64 once."""
    # Python divides integers with one rounding; below 2^-1022 that is a subnormal, as it should be.
    whole = divisor << LOWEST
    try:
        return np.array([value / whole for value in values])
    except OverflowError as error:
        raise FixedPointOverflow("a secure sum leaves the range of float64", "scale the data down") from error
