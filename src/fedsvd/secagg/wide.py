"""Numbers of any magnitude in the ring, so that their sum is exact: statistics that have no bound beforehand.

A float64 is a 53-bit integer times a power of two. Here it is written into digits of 32 bits, one to a word of 64, so
that 2^30 shares can be added without a carry between words; the digits cover the whole range of float64. The laws:

    decode(encode(a)) = a                       exactly
    decode(sum_i encode(a_i)) = sum_i a_i       the exact sum, rounded once

A number costs 67 words instead of one. It is meant for norms, means and scales, not for matrices.
"""

import numpy as np

from fedsvd.errors import FixedPointOverflow, ShapeError
from fedsvd.types import Float, Ring

_DIGIT = 32
_MASK = np.uint64(2**32 - 1)
_LOWEST = 1074  # the smallest float64 is 2^-1074
WORDS = (1024 + _LOWEST) // _DIGIT + 2


def encode(values: Float) -> Ring:
    """Every value as ``WORDS`` signed digits, shape (values, WORDS)."""
    flat = np.ravel(values).astype(np.float64)
    if not np.isfinite(flat).all():
        raise FixedPointOverflow("a statistic is not finite", "check the data for extreme values")
    mantissa, power = np.frexp(flat)
    # frexp's power of a subnormal is below what 53 bits reach; shifting it up keeps the integer exact.
    lift = np.maximum(power - 53, -_LOWEST)
    whole = np.ldexp(np.abs(mantissa), power - lift).astype(np.uint64)
    place = (lift + _LOWEST).astype(np.int64)
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
    if total.ndim != 2 or total.shape[1] != WORDS:
        raise ShapeError(f"wide numbers have {WORDS} words each, got shape {total.shape}")
    digits = total.astype(np.int64)
    return np.array([_number(row) for row in digits.tolist()])


def _number(digits: list[int]) -> float:
    whole = 0
    for digit in reversed(digits):
        whole = (whole << _DIGIT) + digit
    # Python divides integers with one rounding; below 2^-1022 that is a subnormal, as it should be.
    try:
        return whole / (1 << _LOWEST)
    except OverflowError as error:
        raise FixedPointOverflow("a secure sum leaves the range of float64", "scale the data down") from error
