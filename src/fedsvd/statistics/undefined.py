"""A statistic that does not exist for a model carries the reason as text, so that no page prints a number for it."""

from dataclasses import dataclass
from typing import TypeGuard

from fedsvd.types import Float


@dataclass(frozen=True)
class Undefined:
    """Stands where a number would; ``reason`` is a sentence for the person who reads the table."""

    reason: str

    def __str__(self) -> str:
        return f"not defined: {self.reason}"


Number = float | Undefined
Numbers = Float | Undefined


def is_number(value: Number) -> TypeGuard[float]:
    """Whether a single statistic exists."""
    return not isinstance(value, Undefined)


def is_array(values: Numbers) -> TypeGuard[Float]:
    """Whether an array of statistics exists."""
    return not isinstance(values, Undefined)


RANK_LOST = Undefined("the columns are linearly dependent, so single coefficients are not determined by the data")
PENALISED = Undefined("a penalty shrinks the coefficients, so their usual standard errors do not describe them")
NO_FREEDOM = Undefined("there are not more rows than coefficients, so nothing is left to estimate the error from")
EXACT_FIT = Undefined("the model fits every row exactly")
LEVERAGE = Undefined(
    "a row has leverage 1 (the model fits it whatever its target is), and HC2 and HC3 divide by what leverage leaves"
)
QUASI = Undefined("a quasi-likelihood has no likelihood, and so neither AIC nor BIC")
NO_FEATURES = Undefined("the model has no features")
OWN_BLOCK = Undefined("columns are split, and a party holds the covariances of its own coefficients alone")
NO_VARIATION = Undefined("the target does not vary")
