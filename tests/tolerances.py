"""What "equal" means in the tests: every tolerance follows from eps and a size, and stands here.

Rounding of an orthogonal product or of a backward stable factorisation is a sum of many signed errors of size eps, so
it grows like the square root of the size; the constants say how much better than the proven bounds (which grow with
the size itself) a sound implementation is. The bars that the design states as plain numbers (1e-14 for the streaming
factor, 02-protocol, section 7) are kept as they are stated. Tests of laws use p-values: ``REJECTED`` and ``ACCEPTED``
are far apart, and the seeds are fixed, so that a test passes or fails for good.
"""

import math

import numpy as np

EPS = float(np.finfo(np.float64).eps)

FACTOR_BAR = 1e-14
"""Singular values of the streaming factor, relative to S_1: 45 eps, whatever the size and the condition."""

ORTHOGONAL_BAR = 1e-14
"""How far Q^T Q may be from I, entry by entry, for one reflector block or window."""

ACCEPTED = 1e-3
"""A law is not rejected when its p-value is above this; with fixed seeds and dozens of tests, one in a thousand."""

REJECTED = 1e-9
"""A law is rejected for sure below this; a test that must be able to fail reaches it."""


def product(n: int, factors: int = 1) -> float:
    """Relative to the norms of the factors: rounding of ``factors`` products of inner length n."""
    return 8.0 * factors * EPS * math.sqrt(max(n, 1))


def orthogonal(n: int) -> float:
    """Entry by entry, Q^T Q - I of an n x n product of reflectors or transforms."""
    return min(ORTHOGONAL_BAR, 8.0 * EPS * math.sqrt(max(n, 4)))


def spectrum(m: int, n: int) -> float:
    """Relative to S_1: two backward stable SVDs of one m x n matrix."""
    return 8.0 * EPS * math.sqrt(max(m, n, 4))


def gram(n: int) -> float:
    """Relative to S_1^2: a Gram matrix of n terms, computed by two routes."""
    return 8.0 * EPS * math.sqrt(max(n, 4))


# Exact Gram matrices and their factors.

RANK_DEFICIENT_BAR = 1e-14
"""Singular values of the factor of an exact, rank-deficient Gram matrix, relative to S_1: none of many draws beyond."""


def wide_spectrum(m: int) -> float:
    """Relative to S_1: singular values by way of an exact m x m Gram matrix, dither and LAPACK's own SVD included."""
    return 4.0 * EPS * math.sqrt(max(m, 4))
