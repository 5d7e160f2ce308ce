"""The leading singular triplets of a small matrix: all of LAPACK's, or a few of many by squares where that is safe."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsvd.linalg.backend import matmul, svd
from fedsvd.linalg.pools import one_thread
from fedsvd.types import Float

_ALL = 160  # columns up to which all triplets cost next to nothing
_ALONE = 600  # a side up to which one thread is as quick as several: half of the work is products with one vector
_SAFE = 64.0  # s_1 / s_r: eigenvalues of a square are off by eps s_1^2, singular values by eps s_1 times this


def eigh(A: Float, **asked: Any) -> tuple[Float, Float]:
    """SciPy's, loaded where it is called: ``--help`` reads plans, which need no SciPy."""
    from scipy import linalg

    found: tuple[Float, Float] = linalg.eigh(A, **asked)
    return found


def by_squares(R: Float, count: int) -> Float | None:
    """The first right vectors, (d, count), as eigenvectors of ``R^T R``; None where values fall too far, or d is small.

    Of 800 columns the first hundred cost a twentieth of all.
    """
    d = R.shape[1]
    if d <= _ALL or 2 * count >= d or count > R.shape[0]:
        return None
    with _threads(R):
        squares, y = eigh(R.T @ R, subset_by_index=(d - count, d - 1), check_finite=False)
    return y[:, ::-1] if squares[0] > 0.0 and squares[-1] < _SAFE**2 * squares[0] else None


def roughly(R: Float, y: Float) -> tuple[Float, Float, Float]:
    """p, s and y with ``R y = p s``; ``R^T p = y s`` and orthonormal p to about 1e-12, where y is by squares."""
    p = matmul(R, y)
    s = np.linalg.norm(p, axis=0)
    return p / s, s, y


def leading(R: Float, count: int, y: Float | None = None) -> tuple[Float, Float, Float]:
    """p, s and y with ``R y = p s`` and ``R^T p = y s``: the first ``count``, or all where that costs little more.

    Right vectors by squares (``y``, where they are known) are an orthonormal basis, and a small SVD on its image makes
    both sides exact to eps s_1, but for a factor s_1 / s_r: where that is large, LAPACK finds all of them.
    """
    y = by_squares(R, count) if y is None else y
    with _threads(R):
        if y is None:
            p, s, y_t = svd(R)
            return p, s, y_t.T
        P = np.linalg.qr(R @ y)[0]
        a, s, y_t = svd(P.T @ R)
        return P @ a, s, y_t.T


def _threads(R: Float) -> AbstractContextManager[None]:
    return one_thread() if max(R.shape) <= _ALONE else nullcontext()


@dataclass(frozen=True, repr=False)
class Ritz:
    """Ritz values s with their vectors ``K y`` and ``W p``, and the residuals of the wanted ones."""

    p: Float
    s: Float
    y: Float
    residuals: Float  # the length of ``X W p - K y s``, relative to s_1, of each wanted vector
    cut: float  # of singular values: those below are rounding

    @classmethod
    def none(cls, images: int, directions: int) -> "Ritz":
        """Of a space without images or directions."""
        return cls(np.zeros((images, 0)), np.zeros(0), np.zeros((directions, 0)), np.zeros(0), 0.0)

    @property
    def top(self) -> float:
        return float(self.s[0]) if len(self.s) else 0.0

    def residual(self, r: int) -> float:
        """The largest of the first r vectors."""
        return float(self.residuals[:r].max(initial=0.0))

    def rank(self, r: int, slack: float = 1.0) -> int:
        """Values above rounding, at most r."""
        return min(r, int(np.count_nonzero(self.s > slack * self.cut)))


def ritz_values(R: Float, count: int, far: float, judged: Callable[[Float, Float, Float], Ritz]) -> Ritz:
    """What is ``judged`` of the leading triplets: to 1e-12 of s_1 where a residual is above ``far``, else exact."""
    y = by_squares(R, count)
    if y is not None and far < np.inf:
        found = judged(*roughly(R, y))
        if found.residuals.max(initial=0.0) > far:
            return found
    return judged(*leading(R, count, y))
