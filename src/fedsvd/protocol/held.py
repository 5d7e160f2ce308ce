"""How many bits the others' records hold, and how many digits a model may open of them: public numbers alone.

Opened sums are symmetric in the records, so what they can tell is a multiset. N records of about 2^h patterns hold
``2^h H(Poisson(N / 2^h))`` bits, which is ``N h - log2(N!)`` where there are far more patterns than records. N counts
the records outside of the largest party's, h the bits of one record. A plan that does not know its columns counts one
bit for each: a table of 0/1 columns is the one that sums give away first.
"""

import math
from dataclasses import replace

from fedsvd.protocol.model import FEWEST_MOMENTS, Digits, ModelPlan
from fedsvd.protocol.steps import SIZE_CLASSES
from fedsvd.protocol.table import EXACT, TablePlan
from fedsvd.secagg.sums import MOST_WORDS

UNKNOWN_COLUMN, NUMBER_COLUMN = 1.0, 8.0
"""Bits of one entry of a column that nothing public is known of, and of a number, at most."""

LISTED = 18.0
"""Bits of a record up to which its patterns can be listed, and how often each occurs be computed from sums."""

_MANY = 64.0  # bits of a record from which no pattern occurs twice
_NUMBER = 53
_ITERATIONS = 8  # Gram matrices of a usual fit in all digits
_SQUARES = 24, 36  # bits of each squared score: of a table, and of more digits
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


def table_bits(about: TablePlan, n: int) -> int:
    """Bits that users open by a description of n records (Table 1).

    Counts of the levels of a category are one of the ways to place n records among its levels and groups; counts on a
    grid are a staircase, one of the ways to place their steps.
    """
    groups, numbers = len(about.groups), len(about.numbers)
    found = _ways(n, groups) + sum(_ways(n, groups * (1 + len(each.levels))) for each in about.categories)
    found += numbers * _ways(n, 2 * groups) + 2 * numbers * groups * about.bits(max(n / groups, FEWEST_MOMENTS))
    if about.quantiles:
        steps = n if about.counts == EXACT else n // about.least
        times = 1 + int(bool(about.by))  # groups, and all records
        found += times * sum(_ways(steps, len(each.edges) * groups) for each in about.numbers)
    found += about.rank_numbers * about.rank_bits if about.by else 0
    found += numbers * (numbers + 3) / 2 * about.product_bits if about.correlations else 0
    return math.ceil(found)


def _ways(n: int, places: int) -> float:
    """log2 of the ways to place n equal things in so many places."""
    logs = math.lgamma(n + places) - math.lgamma(n + 1) - math.lgamma(places)
    return max(0.0, logs / math.log(2.0))


def matrix_bits(P: int, scored: int = 0) -> int:
    """Bits that a usual fit of P coefficients opens in all digits; ``scored`` of them have robust errors."""
    return _NUMBER * (_ITERATIONS * (P + 1) * (P + 2) // 2 + scored * (scored + 1) // 2)


def model_bits(about: ModelPlan, P: int, scored: int = 0) -> int:
    """Bits that users are expected to open of a model of P coefficients by few digits (specification, section 3), of
    which ``scored`` have robust errors: a matrix more, in the bits of the table."""
    matrix = 29 if about.digits is Digits.MORE else 24
    matrix += about.facts.more_bits
    usual = 160 * P + matrix * P * (P + 1) + 200 * about.null_fits
    usual += _SQUARES[about.digits is Digits.MORE] * scored * (scored + 1) // 2
    return about.fits * (usual + about.facts.own_bits(about, P))


def regression_bits(digits: Digits, features: int, intercept: bool, targets: int, robust: bool, label: bool) -> int:
    """The same of a regression table by few digits: powers of two and means of the columns, the Gram matrix in the bits
    of the table and eight of its condition, six scores, residual squares; robust errors have a matrix more for each
    target. Where ``label`` is not set, without the numbers of targets."""
    P = features + int(intercept)
    matrix = _SQUARES[digits is Digits.MORE] * P * (P + 1) // 2
    bits = 32 * features + matrix
    if label:
        bits += targets * (32 + 80 * P + 40 + (matrix if robust else 0))
    return bits


def decided(
    about: ModelPlan,
    columns: int,
    intercept: bool,
    counts: tuple[int, ...],
    described: float | None = None,
    robust: bool = False,
) -> ModelPlan:
    """The same model with the digits that ``auto`` stands for in this plan; ``described``: bits of one record by a
    dictionary, where the job has one."""
    if about.digits is not Digits.AUTO:
        return about
    P, scored = about.coefficients(columns, intercept), about.scored(columns, intercept) if robust else 0
    more = model_bits(replace(about, digits=Digits.MORE), P, scored)
    most = _most(columns, about.moments, counts, described)
    found = _within(most, about.fits * matrix_bits(P, scored), more)
    return replace(about, digits=about.most_digits if found is Digits.ALL else found)


def decided_table(
    digits: Digits,
    columns: int,
    intercept: bool,
    targets: int,
    robust: bool,
    counts: tuple[int, ...],
    described: float | None = None,
) -> Digits:
    """The digits that ``auto`` stands for in the plan of a regression table, likewise."""
    if digits is not Digits.AUTO:
        return digits
    M, P = columns + targets, columns + int(intercept)
    whole = _NUMBER * (M * (M + 1) // 2 + M + int(robust) * targets * P * (P + 1) // 2)
    more = regression_bits(Digits.MORE, columns, intercept, targets, robust, label=True)
    return _within(_most(columns, targets, counts, described), whole, more)


def _most(columns: int, others: int, counts: tuple[int, ...], described: float | None) -> float | None:
    """Bits that may be opened without a second thought; None where all digits are, since powers of two above all
    columns are one OR, which is one batch."""
    if len(SIZE_CLASSES) * (columns + others) > MOST_WORDS:
        return None
    record = UNKNOWN_COLUMN * columns if described is None else described
    return _SHARE * held_bits(sum(counts) - max(counts), record)


def _within(most: float | None, whole: int, more: int) -> Digits:
    """The most digits that stay within these bits; those of the table where none do."""
    if most is None or whole <= most:
        return Digits.ALL
    return Digits.MORE if more <= most else Digits.TABLE
