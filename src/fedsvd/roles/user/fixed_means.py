"""The joint mean of many features in words of 128 bits: in the unit of the joint norm, a number is a number.

A mean without a unit takes 67 words a feature, which is most of what a study of 50,000 features by steps would send.
Here users first take a power of two above every norm (``range``), and ``n_i mean_i`` goes as an integer in steps of
2^-100 of ``2^E sqrt(n)``, exact but for noise in its own last digit, as elsewhere. A feature that is smaller than the
joint norm by 2^47 has fewer digits of its mean: as many as matter where columns are not scaled.
"""

import math

import numpy as np

from fedsvd.errors import FixedPointOverflow
from fedsvd.protocol.steps import FINE_STEP
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user.requests import SCALE_DOWN, Script, Sum
from fedsvd.roles.user.sums import batches_of_numbers, bound_sum
from fedsvd.roles.user.work import Work
from fedsvd.secagg import noise, words128
from fedsvd.secagg.wide import LOWEST
from fedsvd.types import Float, Ring

RANGE = "range"
_PIECE = 21  # bits: times a number of records below 2^32 they are a float64
_PIECES = 3
_MOST_EXPONENT = 507  # of a user's norm, as for every common unit
_WIDEST = 62


def joint_mean(work: Work, norm: float, shift: Float, offset: Float, deviation: Float) -> Script:
    """The joint mean and what is below its last digit; this user's is ``shift + offset``, its norm is about zero."""
    plan, n_i = work.plan, work.n_i
    exponent = math.frexp(norm)[1] if norm > 0.0 else None
    if exponent is not None and exponent > _MOST_EXPONENT:
        raise FixedPointOverflow("the norm of a table is beyond what squares hold", SCALE_DOWN)
    E = yield from bound_sum(RANGE, exponent, work.own)
    unit = (0 if E is None else E) + math.ceil(math.log2(plan.n) / 2.0)
    terms = (*(n_i * piece for piece in pieces(shift)), n_i * offset)
    widths = np.array(noise.mean_widths(n_i, deviation, offset)) - LOWEST + FINE_STEP - unit
    drawn = Keystream.of(work.own, "noise", "mean").words(plan.m).view(np.int64)
    added = drawn >> (63 - np.clip(widths, noise.LEAST_WIDTH, _WIDEST))
    words = words128.from_int64(added)
    for term in terms:
        words128.add_into(words, words128.to_words(term, FINE_STEP, unit=unit, terms=len(terms) * plan.k))
    cuts = batches_of_numbers(plan.m)
    total: Ring = yield Sum("mean", lambda batch: words[cuts[batch]])
    return divided(total, unit, plan.n)


def divided(total: Ring, unit: int, n: int) -> tuple[Float, Float]:
    """``total / n`` as a float64, and the rest, for a total in steps of this unit."""
    high = words128.to_numbers(total, FINE_STEP, unit=unit)
    left = words128.subtract_into(total.copy(), words128.to_words(high, FINE_STEP, unit=unit))
    mean = high / n
    for piece in pieces(mean):
        high = high - n * piece  # exact: what is left has fewer bits than what it is of
    rest: Float = (high + words128.to_numbers(left, FINE_STEP, unit=unit)) / n
    return mean, rest


def pieces(values: Float) -> list[Float]:
    """Numbers of 21 bits each that add up to these."""
    found = []
    for _ in range(_PIECES - 1):
        mantissa, power = np.frexp(values)
        piece = np.ldexp(np.trunc(np.ldexp(mantissa, _PIECE)), power - _PIECE)
        found.append(piece)
        values = values - piece
    return [*found, values]
