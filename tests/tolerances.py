"""What "equal" means in the tests: every tolerance follows from eps, a size and a norm, and stands here.

Rounding of an orthogonal product or of a backward stable factorisation is a sum of many signed errors of size eps, so
it grows like the square root of the size; the constants say how much better than the proven bounds (which grow with
the size itself) a sound implementation is. The last digits differ from one BLAS kernel to the next, so no test may ask
for more. All bars are relative: a test multiplies them by the norm of the data it compares, or calls ``assert_close``,
which does. ``tests/architecture/test_tolerances.py`` finds tolerances that are typed anywhere else.

The bars that the specification states as plain numbers are named constants. Tests of distributions use
p-values: ``REJECTED`` and ``ACCEPTED`` are far apart, and the seeds are fixed, so that a test always passes or always
fails.
"""

import math
from typing import Any

import numpy as np
from scipy.special import gammainccinv

EPS = float(np.finfo(np.float64).eps)

FACTOR_BAR = 1e-14
"""Singular values of the streaming factor, relative to S_1: 45 eps, whatever the size and the condition."""

ORTHOGONAL_BAR = 1e-14
"""How far Q^T Q may be from I, entry by entry, for one reflector block or window."""

VALUES_BAR = 1e-13
"""Singular values and reconstruction of a study, relative to S_1."""

ORTHONORMAL_BAR = 1e-12
"""U and V of a study, entry by entry of U^T U - I."""

FITTED_BAR = 1e-12
"""Fitted values of a regression, relative to the norm of the labels."""

RESULT_BAR = 1e-12
"""Everything else a study returns (components, scores, coefficients), relative to the largest entry."""

STATISTIC_BAR = 1e-10
"""Every statistic of a regression table, relative to itself, against statsmodels on the joint data."""

GLM_BAR = 1e-8
"""The same for models that are found by iteration, whose ends differ between packages."""

TEN_DIGITS, SEVEN_DIGITS = 1e-10, 1e-7
"""How many digits of NIST's certified values must agree."""

DIGITS_STEP_BAR = 1e-10
"""Standard errors by which coefficients of a model by few digits may be off."""

DESCRIBED_BAR = 1e-9
"""Means, deviations and p-values of sums in 44 bits: 2^-44 times the noise of a few parties, the square of a range over
a variance, and what a test statistic makes of it."""

STATSMODELS_BAR = 1e-7
"""The same of statsmodels itself, whose own rounding is 5e-9 where columns differ by ten powers of ten."""

DIGITS_ERRORS_BAR, DIGITS_MORE_BAR = 1e-4, 1e-7
"""Of standard errors and of the likelihood, by ``digits = "table"`` and by ``"more"``."""

COX_ERRORS_BAR = 1e-5
"""Standard errors of a Cox model by ``digits = "table"``: what is asked of it."""

SCORE_TEST_BAR = 2e-3
"""The score test of a Cox model: what 12 bits of its information leave, a few parts of 1e4 mostly."""

SCHOENFELD_BAR = 1e-2
"""Chi-squared of the test of proportional hazards: of sums of 18 bits with the noise of a few parties."""

ROBUST_BAR = 1e-5
"""Robust standard errors of models by ``digits = "table"``, likewise."""

CURVE_BAR = 1e-14
"""A survival curve of exact counts in bins against R's, whose recorded values have fifteen digits."""

WITHIN_BAR, WITHIN_MORE_BAR = 1e-4, 1e-10
"""A chi-squared of totals of 24 bits, and of 44, relative: what is asked of the log-rank test within sites."""

MIXED_LIKELIHOOD_BAR = 1e-9
"""Of the log-likelihood of a mixed model, against lme4."""

STATSMODELS_MIXED_BAR = 1e-4
"""Of statsmodels' own end of a mixed model, in standard errors; it is 6e-5 from lme4 on public data."""

SATTERTHWAITE_BAR, SATTERTHWAITE_MORE_BAR = 2e-3, 1e-6
"""Degrees of freedom in a mixed model, by ``digits = "table"`` and by ``"more"``, against lmerTest's, whose own
numerical derivatives leave up to 3e-7 of them."""

A_TENTH = 0.1
"""Of a standard deviation: an attack that comes so near to every entry of a record has read it."""

A_FIFTH_OF_A_PIXEL = 0.2
"""How far a length in a drawing may be from the number it stands for: one decimal is written."""

PRINTED_BAR = 1e-5
"""Two numbers agree in all that a page prints of them, six digits, when they are this near, relatively."""

ACCEPTED = 1e-3
"""A law is not rejected when its p-value is above this; with fixed seeds and dozens of tests, one in a thousand."""

ACCEPTED_UNSEEDED = 1e-6
"""The same where fresh random bits enter, so that a run in a million fails for no fault."""

REJECTED = 1e-9
"""A law is rejected for sure below this; a test that must be able to fail reaches it."""

REJECTED_BY_FEW = 1e-6
"""The same from a few dozen numbers, which cannot give a smaller p-value."""

IMPOSSIBLE = 1e-50
"""A p-value below this is no matter of chance on any machine, in any number of runs."""


def product(n: int, factors: int = 1) -> float:
    """Relative to the norms of the factors: rounding of ``factors`` products of inner length n."""
    return 8.0 * factors * EPS * math.sqrt(max(n, 1))


def orthogonal(n: int) -> float:
    """Entry by entry, Q^T Q - I of an n x n product of reflectors or transforms."""
    return min(ORTHOGONAL_BAR, 8.0 * EPS * math.sqrt(max(n, 4)))


def spectrum(m: int, n: int) -> float:
    """Relative to S_1: two backward stable SVDs of one m x n matrix."""
    return 8.0 * EPS * math.sqrt(max(m, n, 4))


def found_by_steps(r: int, m: int) -> float:
    """Residuals and values of the family ``steps``, relative to s_1: what the iteration ends at (5e-14), and what
    columns and directions below rounding, which are left out, may hold: 8 eps each of r + 8, 16 eps sqrt(m)."""
    return 1e-13 + 16 * EPS * (r + 8) + 32 * EPS * math.sqrt(m)


def gram(n: int) -> float:
    """Relative to S_1^2: a Gram matrix of n terms, computed by two routes."""
    return 8.0 * EPS * math.sqrt(max(n, 4))


def projected_gram(m: int, n: int) -> float:
    """Relative to S_1^2: ``U^T X X^T U`` against ``S^2``, U and S being the SVD of an (m, m) factor of X.

    The Gram matrix is one of n terms by two routes. U and S are exact for a factor that is off by g S_1, g the bar of
    m terms, which enters its square twice.
    """
    return gram(n) + 2.0 * gram(m)


def solution(A: Any, length: float, residual: float) -> float:
    """In the norm: v of ``min ||A v - b||`` by a backward stable route; ``length`` is ||v||, ``residual`` ||A v - b||.

    The solution found is exact for A + dA and b + db with ``||dA|| <= g ||A||``, ``||db|| <= g ||b||`` and g the bar of
    an exactly added Gram matrix. Let s be the smallest singular value of A, of full rank, and K = ||A|| / s. To first
    order (Higham, Accuracy and Stability, theorem 20.1)

        ||dv|| <= g (||A|| ||v|| + ||b||) / s + g ||A|| ||r|| / s^2  <=  2 g K (||v|| + ||r|| / s),

    because ``||b|| <= ||A|| ||v|| + ||r||``. A study solves for v + a, with blinds a that only the users know. They are
    in A v and in b, so not in r: ``length`` is that of v + a, and the digits of v are those that a leaves (``blind``).
    """
    sigma = np.linalg.svd(np.asarray(A), compute_uv=False)
    condition = float(sigma[0] / sigma[-1])
    return 2.0 * wide_spectrum(max(np.shape(A))) * condition * (length + residual / float(sigma[-1]))


def blind(count: int) -> float:
    """The norm that ``count`` blinds of a regression, 2 N(0, 1) each in units of the scaled problem, do not exceed."""
    return 2.0 * math.sqrt(2.0 * float(gammainccinv(count / 2.0, ACCEPTED_UNSEEDED)))  # the law of chi square


def digits_lost(digits: int) -> float:
    """Relative to the result: a computation that may lose this many of the sixteen digits of float64.

    One digit is a handful of rounded operations; four a sequence of factorisations; more than that what passes through
    an inverse or a gap between singular values. With ``>`` it says that two results differ by more than rounding.
    """
    return EPS * 10.0**digits


def assert_close(found: Any, expected: Any, bar: float, scale: float | None = None) -> None:
    """Every entry of ``found`` is that of ``expected`` to ``bar`` times the largest one (or ``scale``).

    NumPy's ``assert_allclose`` adds a relative 1e-7 that hides what ``atol`` says, and an ``atol`` alone knows nothing
    of the size of the data. Where zero is expected, ``scale`` must say how large the data are.
    """
    size = float(np.max(np.abs(expected), initial=0.0)) if scale is None else float(scale)
    if size == 0.0 and scale is None and np.any(found):
        raise AssertionError("all expected entries are 0, so the test must pass the scale of the data")
    np.testing.assert_allclose(found, expected, rtol=0, atol=bar * size)


def assert_each_close(found: Any, expected: Any, bar: float) -> None:
    """Every entry of ``found`` is that of ``expected`` to ``bar`` times that entry itself, so that zeros are zeros."""
    np.testing.assert_allclose(found, expected, rtol=bar, atol=0)


def singular_vectors(sigma: Any) -> Any:
    """How far the unit vectors of all these singular values may be apart in two computations, one bar to each.

    Each computation is exact for data within ``VALUES_BAR`` S_1 of the given ones, and a vector turns by that over its
    distance to the nearest other singular value (Davis and Kahan, Wedin).
    """
    values = np.asarray(sigma, dtype=np.float64)
    apart = np.abs(values[:, None] - values[None, :]) + np.diag(np.full(len(values), np.inf))
    return 2.0 * VALUES_BAR * values[0] / np.minimum(apart.min(axis=1), values)


def assert_same_vectors(found: Any, expected: Any, sigma: Any) -> None:
    """Rows of ``found`` are those of ``expected`` but for signs; ``sigma`` are *all* singular values of the data."""
    signs = np.sign(np.sum(np.asarray(found) * expected, axis=1))
    apart = np.linalg.norm(found * signs[:, None] - expected, axis=1)
    bars = singular_vectors(sigma)[: len(apart)]
    assert np.all(apart <= bars), f"vectors are {apart} apart, allowed are {bars}"


# Exact Gram matrices and their factors.

RANK_DEFICIENT_BAR = 1e-14
"""Singular values of the factor of an exact, rank-deficient Gram matrix, relative to S_1: none of many draws beyond."""


def wide_spectrum(m: int) -> float:
    """Relative to S_1: singular values by way of an exact m x m Gram matrix, dither and LAPACK's own SVD included."""
    return 4.0 * EPS * math.sqrt(max(m, 4))
