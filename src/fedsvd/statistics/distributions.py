"""Tail probabilities and quantiles of Student's t, F, chi-squared and the normal law, exact in the far tails.

``scipy.special`` is used instead of ``scipy.stats``, which takes a second to import. A small p-value is never computed
as one minus something, so that 1e-200 is printed as such.

``wald`` makes the columns of a table of coefficients: standard errors, test statistics, p-values, confidence intervals.
One function for every model: where a scale is estimated (linear regression, gaussian and gamma models) by Student's t
with the residual degrees of freedom, as R has it; other generalised linear models and robust errors use the normal law.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedsvd.errors import ConfigError
from fedsvd.statistics.undefined import EXACT_FIT, Numbers, Undefined
from fedsvd.types import Float


def t_two_sided(t: ArrayLike, freedom: float | Float) -> Float:
    """The probability of a value of Student's t at least this far from 0."""
    with np.errstate(over="ignore", invalid="ignore"):  # of an exact fit t may be 1e200, and its square is infinite
        square = np.square(np.asarray(t, dtype=np.float64))
        near = 1.0 - special.betainc(0.5, freedom / 2.0, square / (freedom + square))
        far = special.betainc(freedom / 2.0, 0.5, freedom / (freedom + square))
    tail: Float = np.where(square < 0.1, near, far)
    return tail


def t_reach(level: float, freedom: float | Float) -> Float:
    """How many standard errors a confidence interval of this level reaches to each side."""
    return np.asarray(special.stdtrit(freedom, 0.5 + level / 2.0))


def normal_two_sided(z: ArrayLike) -> Float:
    """The probability of a standard normal value at least this far from 0."""
    tail: Float = np.asarray(special.erfc(np.abs(z) / np.sqrt(2.0)))
    return tail


def normal_reach(level: float) -> float:
    """How many standard errors a confidence interval of this level reaches to each side, for a normal law."""
    return float(special.ndtri(0.5 + level / 2.0))


def f_tail(f: float, first: float, second: float) -> float:
    """The probability of a larger value of F with these degrees of freedom."""
    return float(special.betainc(second / 2.0, first / 2.0, second / (second + first * f)))


def f_quantile(level: float, first: float, second: float) -> float:
    """The value that F exceeds with probability ``1 - level``."""
    return float(special.fdtri(first, second, level))


def chi2_tail(x: float, freedom: float) -> float:
    """The probability of a larger value of chi-squared."""
    return float(special.gammaincc(freedom / 2.0, x / 2.0))


def beta_quantile(level: float, a: float, b: float) -> float:
    """The value that a beta law exceeds with probability ``1 - level``."""
    return float(special.betaincinv(a, b, level))


@dataclass(frozen=True, repr=False)
class Wald:
    """Tests of each coefficient against 0, in the order of the coefficients."""

    errors: Numbers
    statistic: Numbers  # t or z
    p: Numbers
    intervals: Numbers  # (q, 2)


def wald(w: Float, errors: Numbers, level: float, freedom: int | Float | None = None) -> Wald:
    """The tests of coefficients w with these standard errors; by the normal law without ``freedom``, of all or each."""
    expect_level(level)
    if isinstance(errors, Undefined):
        return Wald(errors, errors, errors, errors)
    reach = normal_reach(level) if freedom is None else t_reach(level, freedom)
    intervals = around(w, reach * errors)
    if np.any(errors <= 0.0):  # NaN is a coefficient that is not defined
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
