"""The columns of a table of coefficients: standard errors, test statistics, p-values and confidence intervals.

One function for every model: linear regression uses Student's t with its residual degrees of freedom, generalised
linear models and robust errors the normal law.
"""

from dataclasses import dataclass

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.statistics.distributions import normal_reach, normal_two_sided, t_reach, t_two_sided
from fedsvd.statistics.undefined import EXACT_FIT, Numbers, Undefined
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class Wald:
    """Tests of each coefficient against 0, in the order of the coefficients."""

    errors: Numbers
    statistic: Numbers  # t or z
    p: Numbers
    intervals: Numbers  # (q, 2)


def wald(w: Float, errors: Numbers, level: float, freedom: int | None = None) -> Wald:
    """The tests of coefficients w with these standard errors; without ``freedom`` by the normal law."""
    expect_level(level)
    if isinstance(errors, Undefined):
        return Wald(errors, errors, errors, errors)
    reach = normal_reach(level) if freedom is None else t_reach(level, freedom)
    intervals = around(w, reach * errors)
    if not np.all(errors > 0.0):
        return Wald(errors, EXACT_FIT, EXACT_FIT, intervals)
    statistic = w / errors
    p = normal_two_sided(statistic) if freedom is None else t_two_sided(statistic, freedom)
    return Wald(errors, statistic, p, intervals)


def around(centre: Float, reach: Float) -> Float:
    """Intervals, (n, 2)."""
    return np.stack((centre - reach, centre + reach), axis=1)


def expect_level(level: float) -> None:
    """Raise ``ConfigError`` unless this is a level of confidence."""
    if not 0.0 < level < 1.0:
        raise ConfigError(f"a level of confidence is between 0 and 1, got {level}", "0.95 is usual")
