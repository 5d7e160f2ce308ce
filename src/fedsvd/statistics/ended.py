"""How the fit of a model ended, whichever iteration it had, and the covariances that follow."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsvd.statistics.aliased import not_of
from fedsvd.statistics.robust import USUAL, Errors, sandwich
from fedsvd.statistics.undefined import LEVERAGE, Numbers, is_array
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class Ended:
    """Coefficients, a root of the inverse information, totals."""

    beta: Float  # NaN where aliased
    inverse: Numbers
    totals: Mapping[str, float]
    iterations: int
    halvings: int
    least_norm: Float | None = None  # of the same fitted values; None: the coefficients
    lost: int | None = None  # the rank, where it may be less than the number of coefficients
    aliased: tuple[int, ...] = ()
    meat: Float | None = None  # the sum of squared scores, in the coordinates of ``inverse``
    errors: Errors = USUAL

    @property
    def rank(self) -> int:
        return len(self.beta) if self.lost is None else self.lost

    @property
    def solution(self) -> Float:
        return self.beta if self.least_norm is None else self.least_norm

    def covariances(self, n: int, scale: float = 1.0) -> tuple[Numbers, Numbers | None]:
        """That of the table, and the model's own where that one is robust; NaN where aliased."""
        if not is_array(self.inverse):
            return self.inverse, None
        own = not_of(scale * (self.inverse @ self.inverse.T), self.aliased)
        if self.meat is None or not np.isfinite(self.meat).all():
            return (own, None) if self.meat is None else (LEVERAGE, own)
        return not_of(sandwich(self.inverse, self.meat, self.errors.correction(n, self.rank)), self.aliased), own
