"""Noise of secure sums: integers in steps of the sum, from the sender's own stream (specification, section 2).

Law of this file: noise is an integer, drawn as an integer, and added to the integer that is sent. Noise that is drawn
as float64 lies on a grid of its own, and n_i times it is a multiple of n_i on that grid: a record of a small party
could be read from the sum's residue modulo n_i.

Where a sum has a public unit the law is public and equal for all users: ``uniform`` and ``rounded_normals``. A wide sum
has none, and the noise reaches to the sender's own last digit: ``mean_width`` and ``value_width`` say how far, and
``uniform_integers`` draws it. A width w means the integers -2^w .. 2^w - 1, each equally likely.
"""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ConfigError, FixedPointOverflow
from fedsvd.randomness.keystream import Keystream
from fedsvd.secagg.wide import LOWEST
from fedsvd.types import Float

LEAST_WIDTH = 3
_MOST_WIDTH = 62  # a word of the stream makes a number of 64 bits
_NEAR, _USUAL = 2.0**-50, 1000  # of a power of two, as a part of it; powers that float64 rounds as it should


def uniform(width: int, count: int, stream: Keystream) -> NDArray[np.int64]:
    """``count`` integers, uniform on -2^width .. 2^width - 1."""
    if not 0 <= width <= _MOST_WIDTH:
        raise ConfigError(f"noise of one word has a width of 0 .. {_MOST_WIDTH}, got {width}")
    # The leading bits of a signed word are a signed number of fewer bits.
    return stream.words(count).view(np.int64) >> np.int64(63 - width)


def rounded_normals(deviation: float, count: int, stream: Keystream) -> NDArray[np.int64]:
    """``count`` normals of this deviation, in steps, each rounded to an integer."""
    if not 0.0 <= deviation <= 2.0**50:
        raise ConfigError("the deviation of noise is a number of 0 .. 2^50 steps")
    return np.rint(deviation * stream.normal(count)).astype(np.int64)


def uniform_integers(widths: Sequence[int], stream: Keystream) -> list[int]:
    """One integer for each width w, uniform on -2^w .. 2^w - 1, of any size."""
    if any(width < 0 for width in widths):
        raise ConfigError("noise has a width of 0 or more")
    counts = [width // 64 + 1 for width in widths]
    drawn = stream.words(sum(counts)).astype("<u8").tobytes()
    ends = accumulate((8 * count for count in counts), initial=0)
    bits = [int.from_bytes(drawn[start:stop], "little", signed=True) for start, stop in pairwise(ends)]
    return [number >> (64 * count - 1 - width) for number, count, width in zip(bits, counts, widths, strict=True)]


def mean_width(n_i: int, deviation: float, delta: float = 0.0) -> int:
    """The width of noise on ``n_i mean_i`` of one feature, in units of 2^-1074.

    ``deviation`` is the feature's at this user; ``delta`` is what the mean of all records lies above that of the first
    ones: where these were not typical, ``8 |delta|`` is the larger. 2^w is then at least 32 spacings n_i ulp(delta).
    """
    size = max(float(deviation), 8.0 * abs(float(delta)))
    if n_i < 0 or not size >= 0.0:
        raise ConfigError("a noise width needs a count and a deviation of 0 or more")
    if math.isinf(size):
        raise FixedPointOverflow("the deviation of a feature is not finite", "check the data for extreme values")
    top, bottom = size.as_integer_ratio()
    if n_i * top == 0:
        return LEAST_WIDTH
    # ceil(log2(n_i size)) in integers: a logarithm in float64 would be off by one next to a power of two.
    power = (n_i * top - 1).bit_length() - (bottom.bit_length() - 1)
    return max(LEAST_WIDTH, 1 + power - 51 + LOWEST)


def mean_widths(n_i: int, deviations: Float, deltas: Float) -> list[int]:
    """``mean_width`` of many features."""
    sizes = np.maximum(deviations, 8.0 * np.abs(deltas))
    with np.errstate(over="ignore"):
        fraction, power = np.frexp(sizes * n_i)
    # Next to a power of two, and beyond float64, rounding may be off by one: these are counted exactly.
    near = ~((fraction > 0.5 + _NEAR) & (fraction < 1.0 - _NEAR) & (np.abs(power) < _USUAL))
    widths = np.maximum(power - 50 + LOWEST, LEAST_WIDTH)
    for j in np.flatnonzero(near).tolist():
        widths[j] = mean_width(n_i, float(deviations[j]), float(deltas[j]))
    listed: list[int] = widths.tolist()
    return listed


def least_of_means(users: int, weight: float, E: int = 0) -> float:
    """What noise and rounding make of a mean of zeros, at most, in units of 2^E: how far zeros deviate from it."""
    return math.ldexp(users * 2.0**LEAST_WIDTH / weight + 1.0, -LOWEST - E)


def value_width(value: float) -> int:
    """The width of noise on one float64 that is summed as it is (an energy, an intercept), in units of 2^-1074."""
    if not math.isfinite(value):
        raise FixedPointOverflow("a statistic is not finite", "check the data for extreme values")
    if value == 0.0:
        return LEAST_WIDTH
    return max(LEAST_WIDTH, 1 + (math.frexp(math.ulp(value))[1] - 1) + LOWEST)
