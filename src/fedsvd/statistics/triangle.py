"""Least squares from any R with ``R^T R = [A B]^T [A B]``: the triangle all linear and generalised linear models share.

Columns are divided by powers of two near their norms first (without rounding), so that units of measurement do not
enter the rank or the accuracy: what counts is the condition of the scaled columns. A factor of float64 gives
coefficients to about eps times that condition. Where it is beyond 1e8 (polynomials of high degree), R itself must have
been made of columns scaled in the same way, or be exact to eps of each column and not of the largest one.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvalsh, qr, solve_triangular

from fedsvd.errors import NotFinite, ShapeError
from fedsvd.types import Float

EPS = float(np.finfo(np.float64).eps)
_LEAST_SIDE = 32  # rounding of tables of fewer rows and columns is not smaller (``linalg.dense_svd.rank``)
_ROUNDING = 256.0  # units of it in a row of an orthonormal basis
_DEPENDS = 1e-7  # of a column of unit norm: what its part in a dependency is at least; R's tolerance


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

    def solve(self, free: int = 0, since: Float | None = None) -> Float:
        """w, (q, targets); where rank is lost, the one whose unscaled coordinates from ``free`` on have least norm.

        With ``since`` the problem is that of a step from there, and w is where it leads.
        """
        before = 0.0 if since is None else since
        if self.full:
            w: Float = solve_triangular(self.A, self.B) / self.scale[:, None] + before
            return w
        U, s, Vt = np.linalg.svd(self.A)
        r = self.rank
        w = (Vt[:r].T @ ((U[:, :r].T @ self.B) / s[:r, None])) / self.scale[:, None] + before
        return least_norm(w, self.Vt[self.rank :].T, 1.0 / self.scale, free)

    def aliased(self) -> tuple[int, ...]:
        """The columns that depend on those before them, as many as rank is lost: R's rule.

        Column j does where a combination that vanishes has a part in it and none in later columns.
        """
        rest: Float = self.Vt[self.rank :].T.copy()
        least = _DEPENDS
        while True:
            found: list[int] = []
            directions = np.zeros((0, rest.shape[1]))
            for j in range(rest.shape[0] - 1, -1, -1):
                part = rest[j] - directions.T @ (directions @ rest[j])
                size = float(np.linalg.norm(part))
                if size > least and len(found) < rest.shape[1]:
                    found.append(j)
                    directions = np.concatenate((directions, part[None, :] / size))
            if len(found) == rest.shape[1]:
                return tuple(reversed(found))
            least /= 16.0

    def without(self, columns: tuple[int, ...], rows: int) -> "Triangle":
        """The problem without these columns."""
        others = np.delete(np.arange(self.A.shape[1]), columns)
        unscaled = np.concatenate((self.A[:, others] * self.scale[others], self.B), axis=1)
        rest = np.concatenate((np.zeros((self.rest.shape[0], len(others))), self.rest), axis=1)
        return triangle(np.concatenate((unscaled, rest)), self.B.shape[1], rows)

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


def least_norm(w: Float, null: Float, scale: Float, free: int = 0) -> Float:
    """w, (q, targets), less its part along ``null`` times ``scale``, rows from ``free`` on counting for its length.

    ``null``, (q, lost), has orthonormal columns: rows that are rounding are columns without a dependency, and count as
    0, since units of measurement (``scale``) would make rounding of one column larger than all of another. Rows are
    taken in the order of their size, columns by pivots, so that small rows keep their digits (Powell and Reid).
    """
    sizes = np.linalg.norm(null, axis=1)
    along = np.where((sizes > _ROUNDING * EPS)[:, None], null, 0.0) * scale[:, None]
    A, b = along[free:], w[free:]
    order = np.argsort(-np.max(np.abs(A), axis=1), kind="stable")
    Q, R, pivots = qr(A[order], mode="economic", pivoting=True)
    if not np.all(np.diag(R)):
        return w
    coefficients = np.empty((A.shape[1], w.shape[1]))
    coefficients[pivots] = solve_triangular(R, Q.T @ b[order])
    found: Float = w - along @ coefficients
    return found


def largest_value(A: Float) -> float:
    """The largest singular value; from the Gram matrix, which has all digits of it at a third of an SVD's work."""
    size = float(np.max(np.abs(A), initial=0.0))
    if size == 0.0:
        return 0.0
    B = A / size
    last = A.shape[1] - 1
    return size * float(np.sqrt(eigvalsh(B.T @ B, subset_by_index=(last, last))[0]))


def triangle(R: Float, targets: int, rows: int, penalty: Float | None = None, aim: Float | None = None) -> Triangle:
    """The least-squares problem of a factor R, (any, q + targets), of data with this number of rows; targets are last.

    ``penalty`` is a matrix (any, q): the squares of ``penalty @ w - aim`` are added to what is made small, aim being 0
    or a vector for the one target.
    """
    R = np.asarray(R, dtype=np.float64)
    if R.ndim != 2 or not 0 < targets < R.shape[1]:
        raise ShapeError(f"a factor of shape {R.shape} does not have {targets} targets and at least one column")
    if not np.all(np.isfinite(R)):
        raise NotFinite("a factor of the joint data is not finite", "check the parties' tables for overflow")
    q = R.shape[1] - targets
    if penalty is not None:
        wanted = np.zeros((penalty.shape[0], targets)) if aim is None else aim[:, None]
        R = np.concatenate((R, np.concatenate((penalty, wanted), axis=1)))
    scale = _powers_of_two(R)
    T: Float = np.asarray(np.linalg.qr(R / scale, mode="r"))
    T = np.concatenate((T, np.zeros((max(0, q - T.shape[0]), T.shape[1]))))
    A, B = T[:q, :q], T[:q, q:] * scale[q:]
    # Residuals of a penalised problem hold the penalty, so that R2 and the like are computed from the coefficients.
    _, values, Vt = np.linalg.svd(A)
    cut = max(rows, q, _LEAST_SIDE) * EPS * values[0]
    return Triangle(A, B, T[q:, q:] * scale[q:], scale[:q], values, Vt, int(np.sum(values > cut)))


def _powers_of_two(R: Float) -> Float:
    norms = np.linalg.norm(R, axis=0)
    _, exponents = np.frexp(norms)
    scale: Float = np.where(norms > 0.0, np.ldexp(1.0, exponents), 1.0)
    return scale
