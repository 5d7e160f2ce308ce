"""How many bits the others' records hold, and how many digits a model may open of them: public numbers alone.

Opened sums are symmetric in the records, so what they can tell is a multiset. N records of about 2^h patterns hold
``2^h H(Poisson(N / 2^h))`` bits, which is ``N h - log2(N!)`` where there are far more patterns than records. N counts
the records outside of the largest party's, h the bits of one record. A plan that does not know its columns counts one
bit for each: a table of 0/1 columns is the one that sums give away first.
"""

import math
from dataclasses import replace

from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.steps import SIZE_CLASSES
from fedsvd.secagg.sums import MOST_WORDS

UNKNOWN_COLUMN, NUMBER_COLUMN = 1.0, 8.0
"""Bits of one entry of a column that nothing public is known of, and of a number, at most."""

LISTED = 18.0
"""Bits of a record up to which its patterns can be listed, and how often each occurs be computed from sums."""

_MANY = 64.0  # bits of a record from which no pattern occurs twice
_NUMBER = 53
_ITERATIONS = 8  # Gram matrices of a usual fit in all digits
_SHARE = 0.25  # of what is held: so much may be opened without a second thought


def held_bits(N: int, record: float) -> float:
    """Bits of the multiset of N records of so many bits each."""
    if N < 1:
        return 0.0
    if record >= _MANY:
        return max(0.0, N * record - math.lgamma(N + 1) / math.log(2.0))
    patterns = math.ldexp(1.0, math.floor(record)) * 2.0 ** (record % 1.0)
    return float(patterns * _poisson_entropy(N / patterns))


def _poisson_entropy(mean: float) -> float:
    """In bits."""
    last = math.ceil(mean + 12.0 * math.sqrt(mean) + 30.0)
    if mean > 1e4:
        return 0.5 * math.log2(2.0 * math.pi * math.e * mean)
    logs = (k * math.log(mean) - mean - math.lgamma(k + 1) for k in range(last))
    return -math.fsum(math.exp(each) * each for each in logs) / math.log(2.0)


def matrix_bits(P: int) -> int:
    """Bits that a usual fit of P coefficients opens in all digits."""
    return _NUMBER * _ITERATIONS * (P + 1) * (P + 2) // 2


def model_bits(about: ModelPlan, P: int) -> int:
    """Bits that users are expected to open of a model of P coefficients by few digits (specification, section 3)."""
    matrix = 29 if about.digits is Digits.MORE else 24
    return about.fits * (160 * P + matrix * P * (P + 1) + 200 * (2 if about.offset else 1))


def decided(
    about: ModelPlan, columns: int, intercept: bool, counts: tuple[int, ...], described: float | None = None
) -> ModelPlan:
    """The same model with the digits that ``auto`` stands for in this plan; ``described``: bits of one record by a
    dictionary, where the job has one."""
    if about.digits is not Digits.AUTO:
        return about
    record = UNKNOWN_COLUMN * columns if described is None else described
    P = about.equations * (columns + int(intercept))
    if len(SIZE_CLASSES) * (columns + about.moments) > MOST_WORDS:
        return replace(about, digits=Digits.ALL)  # powers of two above all columns are one OR, which is one batch
    most = _SHARE * held_bits(sum(counts) - max(counts), record)
    if about.fits * matrix_bits(P) <= most:
        return replace(about, digits=Digits.ALL)
    more = replace(about, digits=Digits.MORE)
    return more if model_bits(more, P) <= most else replace(about, digits=Digits.TABLE)
