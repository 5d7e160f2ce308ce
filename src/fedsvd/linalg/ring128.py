"""Arithmetic of the ring Z_2^128 on arrays: exact Gram matrices are numbers of this ring (specification, section 2).

An array of words has a last axis of length two: the low 64 bits, then the high ones, read together as one signed
integer in two's complement. NumPy's words are uint64, which is how they travel; every other library has them as int64
of the same bits, because PyTorch does no arithmetic on unsigned integers. The kernels see int64 alone: sums wrap alike,
and two's complement numbers compare as unsigned ones do once their sign bits are flipped.
"""

from typing import Any

import numpy as np

from fedsvd.errors import FixedPointOverflow, ShapeError
from fedsvd.linalg.backend import namespace
from fedsvd.types import Array

MOST_BITS = 125  # an opened sum beyond +-2^125 is an overflow: an honest one is four times smaller
_HALF = 64
_SIGN = -(1 << 63)
_MASK32 = (1 << 32) - 1


def add(a: Array, b: Array) -> Array:
    """``a + b`` modulo 2^128."""
    xp = namespace(a, b)
    (a_low, a_high), (b_low, b_high) = halves(a), halves(b)
    low = a_low + b_low
    return joined(xp, low, a_high + b_high + cast(_below(low, a_low), xp.int64))


def subtract(a: Array, b: Array) -> Array:
    """``a - b`` modulo 2^128."""
    xp = namespace(a, b)
    (a_low, a_high), (b_low, b_high) = halves(a), halves(b)
    return joined(xp, a_low - b_low, a_high - b_high - cast(_below(a_low, b_low), xp.int64))


def to_float(words: Array) -> Array:
    """The numbers as float64, correctly rounded (half to even); words must lie within +-2^126.

    A word is ``head 2^64 + rest + last`` with head of 53 bits, rest a multiple of 2^32 and last below it, each exact in
    float64. Adding them up rounds twice. That is wrong only where the first rounding has made a tie of what was none:
    ``error`` says to which side it lay.
    """
    xp = namespace(words)
    low, high = halves(words)
    high = high + cast(low < 0, xp.int64)  # from here on the low half counts as signed: nothing cancels
    head = cast(high, xp.float64)
    tail = cast(high - cast(head, xp.int64), xp.float64)
    rest = tail * 2.0**64 + cast(low >> 32, xp.float64) * 2.0**32
    last = cast(low & _MASK32, xp.float64)
    inner = rest + last
    error = last - (inner - rest)
    head = head * 2.0**64
    rounded = head + inner
    step = 2.0 * (inner - (rounded - head))
    other = rounded + step  # the neighbour, where the last sum was a tie
    return xp.where((step * error > 0.0) & (other - rounded == step), other, rounded)


def expect_within(words: Array, bits: int = MOST_BITS) -> None:
    """Raise ``FixedPointOverflow`` unless every word lies within ``+-2^bits``, 64 <= bits < 127."""
    xp = namespace(words)
    low, high = halves(words)
    most = 1 << (bits - _HALF)
    inside = (high >= -most) & ((high < most) | ((high == most) & (low == 0)))
    if not bool(xp.all(inside)):
        raise FixedPointOverflow(f"a sum in the ring is beyond 2^{bits}", "scale the data down, or check its norm")


def halves(words: Array) -> tuple[Array, Array]:
    """The low and the high halves of words as int64; views of the same memory on NumPy."""
    if words.ndim < 2 or words.shape[-1] != 2:
        raise ShapeError(f"words have shape (..., 2), got {tuple(words.shape)}")
    if isinstance(words, np.ndarray):
        if words.dtype not in (np.uint64, np.int64):
            raise ShapeError(f"words are uint64, got {words.dtype}")
        words = words.view(np.int64)
    return words[..., 0], words[..., 1]


def joined(xp: Any, low: Array, high: Array) -> Array:
    """Words from int64 halves: uint64 on NumPy, int64 elsewhere."""
    if xp is not np:
        return xp.stack((low, high), axis=-1)
    words = np.empty((*low.shape, 2), np.int64)
    words[..., 0] = low
    words[..., 1] = high
    return words.view(np.uint64)


def cast(values: Array, dtype: Any) -> Array:
    """The same values in another type; NumPy 2.0 has no ``astype`` of the standard."""
    return values.astype(dtype) if isinstance(values, np.ndarray) else namespace(values).astype(values, dtype)


def _below(a: Array, b: Array) -> Array:
    """Whether ``a < b`` for int64 read as unsigned."""
    if isinstance(a, np.ndarray):
        return a.view(np.uint64) < b.view(np.uint64)
    return (a ^ _SIGN) < (b ^ _SIGN)
