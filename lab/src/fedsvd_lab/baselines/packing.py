"""Real numbers as whole numbers, several to a plaintext: fixed point and slots.

A number is rounded to ``fraction_bits``. A plaintext holds ``slots`` numbers side by side, each in a slot wide enough
for the sums of products that will come to stand in it, sign included; a negative one borrows from its neighbour, and
unpacking gives that back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ConfigError, FixedPointOverflow
from fedsvd.types import Float


@dataclass(frozen=True)
class Packing:
    """How numbers are laid into plaintexts."""

    fraction_bits: int
    slot_bits: int
    slots: int

    @classmethod
    def for_products(cls, key_bits: int, terms: int, largest: float, fraction_bits: int, packed: bool) -> "Packing":
        """Slots that hold sums of ``terms`` products of two numbers, none beyond ``largest`` in magnitude."""
        one = max(int(np.ceil(largest)), 1).bit_length() + fraction_bits
        slot_bits = 2 * one + max(terms, 1).bit_length() + 2
        slots = (key_bits - 2) // slot_bits
        if slots < 1:
            raise ConfigError(f"a key of {key_bits} bits holds no number of {slot_bits}", "a longer key")
        return cls(fraction_bits, slot_bits, slots if packed else 1)

    def whole(self, X: Float) -> NDArray[np.int64]:
        """The numbers in fixed point."""
        scaled = np.rint(np.ldexp(X, self.fraction_bits))
        if np.abs(scaled).max(initial=0.0) >= 2.0**62:
            raise FixedPointOverflow(f"an entry does not fit {self.fraction_bits} fraction bits", "scale the data")
        return scaled.astype(np.int64)

    def pack(self, numbers: Sequence[int]) -> int:
        """One plaintext for at most ``slots`` whole numbers."""
        return sum(int(number) << (self.slot_bits * place) for place, number in enumerate(numbers))

    def unpack(self, plaintext: int, count: int) -> list[int]:
        """The whole numbers in a plaintext."""
        numbers, half, full = [], 1 << (self.slot_bits - 1), 1 << self.slot_bits
        for _ in range(count):
            digit = plaintext % full
            digit = digit - full if digit >= half else digit
            numbers.append(digit)
            plaintext = (plaintext - digit) >> self.slot_bits
        return numbers
