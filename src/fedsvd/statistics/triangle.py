"""Least squares from any R with ``R^T R = [A B]^T [A B]``: the triangle all linear and generalised linear models share.

Columns are divided by powers of two near their norms first (without rounding), so that units of measurement do not
enter the rank or the accuracy: what counts is the condition of the scaled columns. A factor of float64 gives
coefficients to about eps times that condition. Where it is beyond 1e8 (polynomials of high degree), R itself must have
been made of columns scaled in the same way, or be exact to eps of each column and not of the largest one.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvalsh, solve_triangular

from fedsvd.errors import NotFinite, ShapeError
from fedsvd.types import Float

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, repr=False)
class Triangle:
    """``min ||A w - B||`` with A upper triangular and its columns divided by ``scale``."""

    A: Float  # (q, q)
    B: Float  # (q, targets)
    rest: Float  # (rows, targets): what of B no w can reach; its column norms are those of the residuals
    scale: Float  # (q,) powers of two
    values: Float  # (q,) singular values of A
    Vt: Float  # (q, q) its right singular vectors
    rank: int

    def __repr__(self) -> str:
        return f"Triangle(columns={self.A.shape[1]}, targets={self.B.shape[1]}, rank={self.rank})"

    @property
    def full(self) -> bool:
        """Whether the columns are linearly independent beyond rounding."""
        return self.rank == len(self.scale)

    def residual_squares(self) -> Float:
        """The sum of squared residuals of each target, at full rank."""
        squares: Float = np.einsum("ij,ij->j", self.rest, self.rest)
        return squares

    def inverse(self) -> Float:
        """W, (q, q), with ``W W^T`` the inverse of the Gram matrix of the unscaled columns; at full rank."""
        W: Float = solve_triangular(self.A, np.eye(self.A.shape[1])) / self.scale[:, None]
        return W

    def solve(self, free: int = 0) -> Float:
        """w, (q, targets); where rank is lost, the one whose unscaled coordinates from ``free`` on have least norm."""
        if self.full:
            w: Float = solve_triangular(self.A, self.B) / self.scale[:, None]
            return w
        U, s, Vt = np.linalg.svd(self.A)
        r = self.rank
        w = (Vt[:r].T @ ((U[:, :r].T @ self.B) / s[:r, None])) / self.scale[:, None]
        null = self.null()
        return w - null @ np.linalg.lstsq(null[free:], w[free:])[0]

    def null(self) -> Float:
        """A basis of what the columns do not determine, (q, q - rank), in the unscaled coordinates."""
        basis: Float = np.linalg.qr(self.Vt[self.rank :].T / self.scale[:, None])[0]
        return basis

    def condition(self) -> float:
        """The condition number of the unscaled columns, the least singular value by way of the inverse."""
        if not self.full:
            return float("inf")
        return largest_value(self.A * self.scale) * largest_value(self.inverse())

    def leverage(self, rows: Float) -> Float:
        """``x (A^T A)^-1 x^T`` of rows, (n, q), in unscaled coordinates; at full rank."""
        Z = solve_triangular(self.A, (rows / self.scale).T, trans="T")
        squares: Float = np.einsum("ij,ij->j", Z, Z)
        return squares


def largest_value(A: Float) -> float:
    """The largest singular value; from the Gram matrix, which has all digits of it at a third of an SVD's work."""
    size = float(np.max(np.abs(A), initial=0.0))
    if size == 0.0:
        return 0.0
    B = A / size
    last = A.shape[1] - 1
    return size * float(np.sqrt(eigvalsh(B.T @ B, subset_by_index=(last, last))[0]))


def triangle(R: Float, targets: int, rows: int, penalty: Float | None = None) -> Triangle:
    """The least-squares problem of a factor R, (any, q + targets), of data of so many rows; targets are last.

    ``penalty`` is a matrix (any, q): the squares of ``penalty @ w`` are added to what is made small.
    """
    R = np.asarray(R, dtype=np.float64)
    if R.ndim != 2 or not 0 < targets < R.shape[1]:
        raise ShapeError(f"a factor of shape {R.shape} does not have {targets} targets and at least one column")
    if not np.all(np.isfinite(R)):
        raise NotFinite("a factor of the joint data is not finite", "check the parties' tables for overflow")
    q = R.shape[1] - targets
    if penalty is not None:
        R = np.concatenate((R, np.concatenate((penalty, np.zeros((penalty.shape[0], targets))), axis=1)))
    scale = _powers_of_two(R)
    T: Float = np.asarray(np.linalg.qr(R / scale, mode="r"))
    T = np.concatenate((T, np.zeros((max(0, q - T.shape[0]), T.shape[1]))))
    A, B = T[:q, :q], T[:q, q:] * scale[q:]
    # Residuals of a penalised problem hold the penalty, so that R2 and the like are computed from the coefficients.
    _, values, Vt = np.linalg.svd(A)
    cut = max(rows, q) * EPS * values[0]
    return Triangle(A, B, T[q:, q:] * scale[q:], scale[:q], values, Vt, int(np.sum(values > cut)))


def _powers_of_two(R: Float) -> Float:
    norms = np.linalg.norm(R, axis=0)
    _, exponents = np.frexp(norms)
    scale: Float = np.where(norms > 0.0, np.ldexp(1.0, exponents), 1.0)
    return scale
