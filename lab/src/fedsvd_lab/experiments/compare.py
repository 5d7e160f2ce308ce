"""The paper's metrics (section 5, table 1): how far one factorisation is from another.

Every metric is computed from differences of nearly equal things, never as a difference of squares, so that a
distance of 1e-15 is reported as such: ``sqrt(2 r - 2 ||U^T U_hat||^2)`` would lose half of the digits and report
1e-8. The sign-aligned RMSE means nothing inside a cluster of equal singular values, where vectors may rotate
freely; ``projection_distance`` does.
"""

from fedsvd.errors import ShapeError
from fedsvd.linalg import backend
from fedsvd.linalg.backend import namespace
from fedsvd.types import Array

_INSTEAD_OF_ZERO = 1e-10  # the paper's own choice for the denominator of MAPE


def signed_rmse(U: Array, U_hat: Array) -> float:
    """Root of the mean over columns of ``min(MSE(u, u_hat), MSE(u, -u_hat))``."""
    _check_same(U, U_hat)
    xp = namespace(U, U_hat)
    same = xp.mean((U - U_hat) ** 2, axis=0)
    opposite = xp.mean((U + U_hat) ** 2, axis=0)
    return float(xp.sqrt(xp.mean(xp.minimum(same, opposite))))


def svd_rmse(U: Array, Vt: Array, U_hat: Array, Vt_hat: Array) -> float:
    """The SVD score of table 1: the mean of U's and V's signed RMSE."""
    xp = namespace(Vt, Vt_hat)
    of_V = signed_rmse(xp.matrix_transpose(Vt), xp.matrix_transpose(Vt_hat))
    return (signed_rmse(U, U_hat) + of_V) / 2


def projection_distance(U: Array, U_hat: Array) -> float:
    """``||U U^T - U_hat U_hat^T||_F`` for orthonormal columns, the PCA score of table 1.

    The paper writes the spectral norm; its code and its numbers are the Frobenius norm. The square of it is
    ``||(I - U U^T) U_hat||_F^2 + ||(I - U_hat U_hat^T) U||_F^2``, also for subspaces of different dimensions.
    """
    there, back = backend.norm(_outside(U, U_hat)), backend.norm(_outside(U_hat, U))
    return float((there**2 + back**2) ** 0.5)


def projection_distance_spectral(U: Array, U_hat: Array) -> float:
    """``||U U^T - U_hat U_hat^T||_2`` for orthonormal columns: the largest sine between the subspaces."""
    sides = (_outside(U, U_hat), _outside(U_hat, U))
    return max(float(namespace(side).linalg.svdvals(side)[0]) if side.shape[1] else 0.0 for side in sides)


def rmse(X: Array, X_hat: Array) -> float:
    """Root mean square error of a reconstruction."""
    _check_same(X, X_hat)
    xp = namespace(X, X_hat)
    return float(xp.sqrt(xp.mean((X_hat - X) ** 2)))


def mape(X: Array, X_hat: Array) -> float:
    """Mean of ``|X_hat - X| / |X|`` as a fraction, zeros in the denominator replaced by 1e-10.

    The paper's figure shows these fractions on a percent axis, hence a hundred times too small.
    """
    _check_same(X, X_hat)
    xp = namespace(X, X_hat)
    size = xp.abs(X)
    size = xp.where(size == 0, xp.full_like(size, _INSTEAD_OF_ZERO), size)
    return float(xp.mean(xp.abs(X_hat - X) / size))


def _outside(U: Array, U_hat: Array) -> Array:
    """The part of U_hat outside the span of U; its singular values are the sines of the principal angles."""
    if U.shape[0] != U_hat.shape[0]:
        raise ShapeError(f"subspaces of {U.shape[0]} and of {U_hat.shape[0]} dimensions are not comparable")
    xp = namespace(U, U_hat)
    return U_hat - U @ (xp.matrix_transpose(U) @ U_hat)


def _check_same(X: Array, X_hat: Array) -> None:
    if tuple(X.shape) != tuple(X_hat.shape) or 0 in X.shape:
        raise ShapeError(f"shapes {tuple(X.shape)} and {tuple(X_hat.shape)} do not compare entry by entry")
