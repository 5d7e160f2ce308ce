"""Cholesky factors and solutions that are equal, bit for bit, on every machine.

Parties that run one iteration on the same opened numbers must come to the same next coefficients and to the same
verdicts. LAPACK may differ in the last digit between machines. Here every operation is elementwise, and IEEE 754 leaves
no choice in it; sums are ``math.fsum``. Matrices are as small as a model has coefficients.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class Factor:
    """L, lower, with ``L L^T = A``."""

    L: Float

    def forward(self, b: Float) -> Float:
        """``L^-1 b`` for a vector or the columns of a matrix."""
        z = np.array(b, dtype=np.float64)
        for j in range(len(self.L)):
            z[j] /= self.L[j, j]
            z[j + 1 :] -= np.multiply.outer(self.L[j + 1 :, j], z[j])
        return z

    def solve(self, b: Float) -> Float:
        """``A^-1 b`` for a vector."""
        x = self.forward(b)
        for j in range(len(self.L) - 1, -1, -1):
            x[j] /= self.L[j, j]
            x[:j] -= self.L[j, :j] * x[j]
        return x

    def inverse_root(self) -> Float:
        """``L^-T``: its product with its transpose is the inverse of A."""
        return np.ascontiguousarray(self.forward(np.eye(len(self.L))).T)


def factor(A: Float) -> Factor | int:
    """The factor of a symmetric matrix; where it is not positive, the first row that depends on those before it."""
    L = np.array(A, dtype=np.float64)
    for j in range(len(L)):
        if not 0.0 < L[j, j] < math.inf:
            return j
        L[j, j] = math.sqrt(L[j, j])
        L[j + 1 :, j] /= L[j, j]
        L[j + 1 :, j + 1 :] -= np.multiply.outer(L[j + 1 :, j], L[j + 1 :, j])
    return Factor(np.tril(L))


def product(A: Float, x: Float) -> Float:
    """``A x``, column by column."""
    total = np.zeros(len(A))
    for j, value in enumerate(x.tolist()):
        total += A[:, j] * value
    return total


def squares(values: Float) -> float:
    """The sum of squares, rounded once."""
    return math.fsum(np.square(values).ravel().tolist())
