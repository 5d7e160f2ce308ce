"""What a secure sum is: its kind, its name and its batches, as the plan lists them (specification, section 2).

    kind    a payload of n numbers      tag modulo   what it is for
    WIDE    (n, 67) signed digits       2^128        exact sums of numbers without a public unit
    TOTAL   (n, 2) words of Z_2^128     2^192        sums of integers in steps of a public unit
    SHORT   (n, 1) words of Z_2^64      2^128        the same of long matrices, whose total is known to be below 2^63
    BOUND   (n, 2) words, low halves    2^128        an OR: the least power of two that no user reaches
    SHARED  (n, 5) words of Z_2^320     none         masks of the users, to which the CSP adds what it splits among them

A tag always travels as three uint64; where it counts modulo 2^128 the third holds pads only, and of a shared sum, which
the CSP may change, all three do. All parties hold these
descriptions, the CSP too: there is nothing secret here.
"""

import enum
import operator
from dataclasses import dataclass

from fedsvd.errors import ConfigError
from fedsvd.secagg.wide import WORDS
from fedsvd.secagg.words128 import HALVES, from_integers, to_integers
from fedsvd.types import Ring

TAG_WORDS = 3
MOST_WORDS = 1 << 20  # of a batch: products of 16-bit limbs add up exactly in float64 as far as this, and further
SHARED_HALVES = 5
MOST_BATCHES = 1 << 14  # of a sum: counted before any is listed
_MOST_WIDE = 15_000  # numbers of a batch, of 67 digits each


_COLUMNS = {"wide": WORDS, "shared": SHARED_HALVES, "short": 1}  # of all other kinds two halves


class SumKind(enum.Enum):
    """How the numbers of a sum are written into the ring."""

    WIDE = "wide"
    TOTAL = "total"
    SHORT = "short"
    BOUND = "bound"
    SHARED = "shared"

    @property
    def columns(self) -> int:
        """The uint64 that carry one number."""
        return _COLUMNS.get(self.value, HALVES)

    @property
    def tag_bits(self) -> int:
        """The tag counts modulo this power of two."""
        return 192 if self is SumKind.TOTAL else 128

    @property
    def most(self) -> int:
        """The numbers that one batch may hold."""
        return _MOST_WIDE if self is SumKind.WIDE else MOST_WORDS


@dataclass(frozen=True)
class PlannedSum:
    """One sum of a session: the lengths of its batches, and its ``step``: a last digit counts 2^-step of the unit.

    All users open it, or user ``receiver`` alone.
    """

    name: str
    kind: SumKind
    batches: tuple[int, ...]
    step: int
    receiver: int | None = None

    def __post_init__(self) -> None:
        if not self.name or not self.batches:
            raise ConfigError("a secure sum needs a name and at least one batch")
        if not all(1 <= operator.index(length) <= self.kind.most for length in self.batches):
            raise ConfigError(
                f"a batch of the sum {self.name!r} holds 1 .. {self.kind.most} numbers, got {max(self.batches)}",
                "cut it with even_batches",
            )
        if self.receiver is not None and self.receiver < 1:
            raise ConfigError(f"the receiver of the sum {self.name!r} is no user: {self.receiver}", "count from 1")

    @property
    def length(self) -> int:
        """The numbers of all batches together."""
        return sum(self.batches)

    def shape(self, batch: int) -> tuple[int, int]:
        """The shape of a payload of this batch."""
        number = operator.index(batch)
        if not 0 <= number < len(self.batches):
            raise ConfigError(f"the sum {self.name!r} has {len(self.batches)} batches, and no batch {number}")
        return self.batches[number], self.kind.columns

    @property
    def pads_group(self) -> int:
        """The one user that adds the pad which the CSP cannot remove: the receiver, or user 1."""
        return self.receiver or 1


def even_batches(kind: SumKind, length: int) -> tuple[int, ...]:
    """The fewest batches of near-equal length that hold ``length`` numbers."""
    count = max(1, -(-length // kind.most))
    if count > MOST_BATCHES:
        fault = f"a sum of {length:,} numbers in {count:,} batches, and at most {MOST_BATCHES:,} are planned"
        raise ConfigError(fault, "take fewer columns, levels or records")
    least, longer = divmod(length, count)
    return tuple(least + (number < longer) for number in range(count))


def tag_words(value: int) -> Ring:
    """A tag modulo 2^192 as it travels: three uint64, low first, shape (3,)."""
    return from_integers([value], TAG_WORDS).reshape(TAG_WORDS)


def tag_value(words: Ring) -> int:
    """The integer 0 .. 2^192 - 1 behind three uint64."""
    return to_integers(words.reshape(1, TAG_WORDS))[0] % (1 << (64 * TAG_WORDS))
