"""Tail probabilities and quantiles of Student's t, F, chi-squared and the normal law, exact in the far tails.

``scipy.special`` is used instead of ``scipy.stats``, which takes a second to import. A small p-value is never computed
as one minus something, so that 1e-200 is printed as such.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedsvd.types import Float


def t_two_sided(t: ArrayLike, freedom: float) -> Float:
    """The probability of a value of Student's t at least this far from 0."""
    square = np.square(np.asarray(t, dtype=np.float64))
    with np.errstate(over="ignore"):
        near = 1.0 - special.betainc(0.5, freedom / 2.0, square / (freedom + square))
        far = special.betainc(freedom / 2.0, 0.5, freedom / (freedom + square))
    tail: Float = np.where(square < 0.1, near, far)
    return tail


def t_reach(level: float, freedom: float) -> float:
    """How many standard errors a confidence interval of this level reaches to each side."""
    return float(special.stdtrit(freedom, 0.5 + level / 2.0))


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
