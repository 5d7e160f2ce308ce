"""The steps of a session whose sums follow from what is asked for, not from the task alone: a preparation of tables.

They stand in the plan by name and length, so that the CSP adds up these and no others, and no length says anything of
the data.
"""

from dataclasses import dataclass
from enum import StrEnum

from fedsvd.errors import ConfigError


class StepKind(StrEnum):
    """How the numbers of a step are summed."""

    WIDE = "wide"  # numbers of any magnitude, with noise in the sender's last digit
    WHOLE = "whole"  # whole numbers, exactly and without noise


@dataclass(frozen=True)
class PlannedStep:
    """One sum: its name, its kind, and how many numbers it has."""

    name: str
    kind: StepKind
    size: int

    def __post_init__(self) -> None:
        if not self.name or self.size < 1:
            raise ConfigError("a step needs a name and at least one number")
