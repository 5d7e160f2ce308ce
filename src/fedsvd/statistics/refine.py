"""Regression to the last digits of float64, from one more look at the rows through a transform that makes them even.

A factor R of float64 knows the features to eps of their norms, and coefficients and standard errors to eps times their
condition: at a condition of 1e10 (a polynomial of tenth degree) six digits are left. With ``T = R^-1``, put on a grid
so that all parties have the same numbers, rows ``z = (x - m) T`` are nearly orthonormal. What parties compute of them
in more digits than float64 (``linalg.extended``), and add up, is

    K = sum z^T z,      g = sum [1, x - m]^T e,      s = sum e^2,      e = y - m_y - (x - m) w

and then, K being close to the identity, nothing is lost that an inverse would make larger:

    (X^T X)^-1 = T K^-1 T^T,    w + T K^-1 T^T g,    s - g^T T K^-1 T^T g

are the inverse Gram matrix, the coefficients and the sum of squared residuals.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.linalg import solve_triangular

from fedsvd.errors import VerificationFailed
from fedsvd.types import Float

LEAST_CONDITION, MOST_CONDITION = 2.0**9, 2.0**38
"""Of the scaled features: below, float64 has the digits; above, the columns are dependent for all that is known."""

_FAR = 2.0**-4  # of T^T G T from the identity: what the condition and the grid can make of it is less


@dataclass(frozen=True, repr=False)
class Refined:
    """Of each target coefficients (an intercept first) and sum of squared residuals; and a root of the inverse Gram."""

    coefficients: Float  # (q, targets)
    residual: Float  # (targets,)
    root: Float  # (q, q)

    def in_units(self, features: Float, targets: Float) -> "Refined":
        """The same for features and targets that were multiplied by these powers of two."""
        first = self.coefficients.shape[0] - len(features)
        unit = np.concatenate((np.ones(first), features))
        coefficients = self.coefficients * unit[:, None] / targets
        return Refined(coefficients, self.residual / targets**2, self.root * unit[:, None])


def transform_of(R_x: Float) -> Float | None:
    """T, upper triangular, with ``R_x T`` orthonormal; None where it is not needed, or does not exist."""
    values = np.linalg.svd(R_x, compute_uv=False)
    if not values[-1] > 0.0 or not LEAST_CONDITION <= values[0] / values[-1] <= MOST_CONDITION:
        return None
    T: Float = solve_triangular(np.linalg.qr(R_x, mode="r"), np.eye(R_x.shape[1]))
    return T


def expect_transform(R_x: Float, T: Float) -> None:
    """Raise ``VerificationFailed`` unless T makes these features nearly orthonormal: it must not enlarge others."""
    Z = R_x @ T
    expect_near_identity(Z.T @ Z)


def expect_near_identity(K: Float) -> None:
    """Raise ``VerificationFailed`` unless K differs from the identity by no more than rounding explains."""
    if not np.max(np.abs(K - np.eye(K.shape[0])), initial=0.0) <= _FAR:
        raise VerificationFailed("a transform does not make the joint features orthonormal")


def refined(
    T: Float, K: Float, w: Float, gradient: Float, squares: Float, *, weight: float, mean: Float | None
) -> Refined:
    """The joint result; w, (f, targets), is what residuals were taken at, mean, (f + targets,), of what was centred.

    gradient, (q, targets), has the sum of residuals first where there is an intercept; ``weight`` is the number of rows
    or the sum of their weights.
    """
    expect_near_identity(K)
    f = w.shape[0]
    upper = np.linalg.cholesky(K).T
    whole = T
    if mean is not None:
        whole = np.zeros((f + 1, f + 1))
        whole[0, 0], whole[1:, 1:] = 1.0 / math.sqrt(weight), T
    along = solve_triangular(upper, whole.T @ gradient, trans="T")
    root = solve_triangular(upper, whole.T, trans="T").T
    step = root @ along
    residual = np.maximum(squares - np.einsum("ij,ij->j", along, along), 0.0)
    if mean is None:
        return Refined(w + step, residual, root)
    found = np.empty((f + 1, w.shape[1]))
    found[1:] = w + step[1:]
    root[0] -= mean[:f] @ root[1:]
    for k in range(w.shape[1]):
        # Exactly: the terms may be many digits larger than the intercept itself.
        moved = (_sum(m, a, b) for m, a, b in zip(mean[:f], w[:, k], step[1:, k], strict=True))
        found[0, k] = float(Fraction(float(mean[f + k])) + Fraction(float(step[0, k])) - sum(moved))
    return Refined(found, residual, root)


def _sum(m: float, a: float, b: float) -> Fraction:
    return Fraction(float(m)) * (Fraction(float(a)) + Fraction(float(b)))
