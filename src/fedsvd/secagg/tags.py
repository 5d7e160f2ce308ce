"""Tags: one number that shows whether a sum was altered on its way (specification, section 2).

``tag = sum_j alpha_j x_j`` modulo 2^bits, with a secret key alpha_j, uniform on 0 .. 2^64 - 1, for every signed
integer x_j. It is linear, so the tags of all shares add up to the tag of the total, and the CSP adds them without
knowing a key. A change of the total by d and of the tag by e passes iff ``sum_j alpha_j d_j = e``. A signed digit of
64 bits changes by an odd number times at most 2^63, a word of 128 by one times at most 2^127. Modulo 2^128 and 2^192
these leave 64 bits of alpha d, so at most one key in 2^64 lets any given change pass, whatever the data. Modulo 2^64,
or modulo a prime, some change would pass much more often (``tests/adversary/test_altered_sums.py`` runs both).
"""

import numpy as np

from fedsvd.errors import ShapeError
from fedsvd.secagg.sums import MOST_WORDS, TAG_WORDS
from fedsvd.secagg.words128 import from_integers, to_integers
from fedsvd.types import Ring

_CHUNK = 1 << 12  # integers; their limbs stay in the second-level cache
_LIMB = 16


def tag(integers: Ring, alpha: Ring, bits: int) -> int:
    """``sum_j alpha_j x_j`` modulo 2^bits, x_j the signed integer in row j of ``integers``, shape (n, halves).

    The bytes of an array are its limbs of 16 bits, and the leading one of each integer is read as signed. Products of
    limbs add up in float64 without rounding: 16 + 16 bits and at most 2^20 terms are less than 53.
    """
    if integers.ndim != 2 or alpha.shape != integers.shape[:1] or len(alpha) > MOST_WORDS:
        raise ShapeError(f"{len(alpha)} keys for integers of shape {integers.shape}, at most {MOST_WORDS}")
    count, limbs = len(alpha), 4 * integers.shape[1]
    unsigned = np.ascontiguousarray(integers, "<u8").view("<u2")
    leading = unsigned.view("<i2")[:, -1]
    keys = np.ascontiguousarray(alpha, "<u8").view("<u2").reshape(count, 4)
    products = np.zeros((limbs, 4))
    x, a = np.empty((min(_CHUNK, count), limbs)), np.empty((min(_CHUNK, count), 4))
    for start in range(0, count, _CHUNK):
        size = min(_CHUNK, count - start)
        x[:size] = unsigned[start : start + size]
        x[:size, -1] = leading[start : start + size]
        a[:size] = keys[start : start + size]
        products += x[:size].T @ a[:size]
    total = 0
    for (i, j), value in np.ndenumerate(products):
        total += int(value) << (_LIMB * (i + j))
    return total % (1 << bits)


def tag_words(value: int) -> Ring:
    """A tag modulo 2^192 as it travels: three uint64, low first, shape (3,)."""
    return from_integers([value], TAG_WORDS).reshape(TAG_WORDS)


def tag_value(words: Ring) -> int:
    """The integer 0 .. 2^192 - 1 behind three uint64."""
    return to_integers(words.reshape(1, TAG_WORDS))[0] % (1 << (64 * TAG_WORDS))
