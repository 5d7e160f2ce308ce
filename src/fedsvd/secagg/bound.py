"""A power of two above every user's number, found by an OR in the ring (specification, section 2).

For each class 2^t, t = -1088, -1072 .. 1024, a user sends a word with a random high half, and with a low half that is
random if its number reaches 2^t, else zero. In the total a low half is zero when no user reaches the class, else
uniform *however many do*: words add up modulo 2^128, and what wraps is lost. Random words that added up as integers
would show how many users are above. The users read the low halves, and learn the least class that no user reaches.
"""

import numpy as np

from fedsvd.errors import FixedPointOverflow
from fedsvd.randomness.keystream import Keystream
from fedsvd.secagg.words128 import HALVES
from fedsvd.types import Ring, expect_shape

CLASSES = range(-1088, 1025, 16)
LENGTH = len(CLASSES)
_ZERO = -1040  # a class as low as this counts as zero: numbers of so few digits cannot be scaled


def encode(exponent: int | None, stream: Keystream) -> Ring:
    """The words of a number with this exponent, as ``math.frexp`` has it; None for zero. Shape (133, 2).

    An exponent and not a float64, because a norm may lie beyond the range of float64. ``stream`` is the sender's own.
    """
    words = stream.words(LENGTH * HALVES).reshape(LENGTH, HALVES).astype(np.uint64)
    reached = 0 if exponent is None else sum(exponent > power for power in CLASSES)
    words[reached:, 0] = 0
    return words


def decode(total: Ring) -> int | None:
    """The exponent E of the least class that no user reaches, so that every |number| < 2^E; None when all are zero.

    The chance that a class is missed, because random low halves add up to zero, is 2^-64.
    """
    expect_shape("the sum of a bound", total, LENGTH, HALVES)
    reached = np.flatnonzero(total[:, 0])
    if not reached.size:
        return None
    highest = int(reached[-1])
    if highest == LENGTH - 1:
        raise FixedPointOverflow(f"a norm reaches 2^{CLASSES[-1]}", "scale the data down")
    E = CLASSES[highest + 1]
    return None if E <= _ZERO else E
