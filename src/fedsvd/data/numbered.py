"""Column names for data that has none: x0, x1, ..., as scikit-learn counts them, without holding a list of them.

A party may have 25 million columns; their names, spelt out, would take more memory than its whole budget.
"""

from collections.abc import Sequence
from typing import overload


class NumberedNames(Sequence[str]):
    """``x0 .. x{count-1}``; equal to any sequence of the same names."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        numbers = range(self._count)[place]
        return f"x{numbers}" if isinstance(numbers, int) else [f"x{number}" for number in numbers]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NumberedNames):
            return self._count == other._count
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(ours == theirs for ours, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(("x", self._count))

    def __repr__(self) -> str:
        return f"NumberedNames({self._count})"
