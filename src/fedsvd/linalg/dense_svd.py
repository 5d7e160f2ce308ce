"""The thin SVD of a matrix that fits in memory, by LAPACK behind guarded sizes; and what is made of one.

LAPACK counts array elements in integers. SciPy's wheels are built with 32-bit ones (LP64), NumPy's wheels with
64-bit ones (ILP64), a distribution's NumPy usually with 32-bit ones, cuSOLVER with 32-bit ones again; which of them
answers is not ours to choose, and a count that wraps around has returned wrong factors in silence. So nothing is
handed over that has 2^31 - 1 elements or more, nor anything whose *workspace* has: gesdd needs 4 k^2 + 7 k
elements in addition to a k x k matrix.

The way is QR first, then gesdd on the triangle, then gesvd should gesdd not converge. The Gram matrix would be
quicker; it squares the condition number, which costs half of the digits. What does not fit here
belongs to ``streaming_factor`` (one long side) or ``truncated_svd`` (two long sides).

*Correction.* Vectors of the long side of a matrix are made as ``Vt = S^-1 U^T X``, or ``U = X V S^-1``: one product,
and no factorisation of anything long. They lose orthogonality like eps S_1 / S_r. Where that matters, ``Vt Vt^T = C
C^T`` is the correction ``C^-1 Vt``, orthonormal to rounding at any condition number that leaves ``Vt`` independent:
half a product for the Gram matrix and half of one for the solve. Both must use the very numbers that the first product
left: what is put right is their rounding, and a product made anew would have rounding of its own.

*Least squares* on a factor: w over the rank that is above rounding, and a basis of the null space. Where the triangle
of a QR factorisation is proved to have full rank, by the norm of its inverse, w is one solve: a tenth of the work.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from fedsvd.errors import ConfigError, NotFinite, NotNumeric, NumericalError, ShapeError
from fedsvd.linalg import backend
from fedsvd.linalg.backend import namespace, norm
from fedsvd.linalg.verify import verify_least_squares, verify_svd
from fedsvd.types import Array, Float

WELL_CONDITIONED = 16.0
"""Up to this S_1 / S_r, ``S^-1 U^T X`` is orthonormal to 16 eps as it is."""


def needs_correction(sigma: Array) -> bool:
    """Whether vectors that belong to these singular values, descending, are to be put right."""
    return bool(sigma.shape[0]) and float(sigma[0]) > WELL_CONDITIONED * float(sigma[-1])


def correction(G: Array) -> Array:
    """``C^T``, upper triangular, of ``G = Vt Vt^T``."""
    C_t = backend.cholesky(G)
    if C_t is None:
        raise NumericalError("the singular vectors lost their independence", "ask for fewer components")
    return C_t


def corrected(C_t: Array, Vt: Array, out: Array | None = None) -> Array:
    """``C^-1 Vt``, which NumPy may write over ``Vt``."""
    return backend.solve_triangular(C_t, Vt, transposed=True, out=out)


LARGEST_COUNT = 2**31 - 2
_LEAST_SIDE = 32  # noise of a factorisation, in eps sigma_1, is not below that of a matrix of this side: see ``rank``
# gesdd takes this way itself from 11/6 on, but through slower copies when the matrix is wide: measured on one core
# at 500 x 10,000, 0.58 s against 0.81 s; below a ratio of 2 the extra product costs more than it saves.
_QR_FIRST = 2


class SVD(NamedTuple):
    """``A = U diag(sigma) Vt``, thin: U (m, k), sigma (k,) descending, Vt (k, n)."""

    U: Array
    sigma: Array
    Vt: Array

    def __repr__(self) -> str:
        # The generated one would print the entries.
        return f"SVD(m={self.U.shape[0]}, n={self.Vt.shape[1]}, k={self.sigma.shape[0]})"


def dense_svd(A: Array) -> SVD:
    """The thin SVD of A, with k = min(m, n) singular values."""
    _check_matrix(A)
    m, n = A.shape
    require_fit(m, n)
    if m >= _QR_FIRST * n:
        Q, R = backend.qr(A)
        U, sigma, Vt = _lapack_svd(R)
        return SVD(backend.matmul(Q, U), sigma, Vt)
    if n >= _QR_FIRST * m:
        xp = namespace(A)
        Q, R = backend.qr(xp.matrix_transpose(A))
        V, sigma, Ut = _lapack_svd(R)
        return SVD(xp.matrix_transpose(Ut), sigma, xp.matrix_transpose(backend.matmul(Q, V)))
    return SVD(*_lapack_svd(A))


def tall_svd(A: Array, R: Array) -> SVD:
    """The thin SVD of a tall A from its triangular factor R, as many triplets as the rank: ``U = A V S^-1``.

    One product instead of forming Q and multiplying by it, a third less work than ``dense_svd``. As it is, U loses
    orthogonality like eps S_1 / S_r, so where that matters it is put right: with ``U^T U = C C^T``, ``U C^-T`` is
    orthonormal to rounding again. What lies below the rank has no such U, and is left out.
    """
    _check_matrix(A)
    require_fit(*A.shape)
    xp = namespace(A)
    _, sigma, Vt = _lapack_svd(R)
    kept = rank(sigma, *A.shape)
    sigma, Vt = sigma[:kept], Vt[:kept, :]
    U = backend.matmul(A, xp.matrix_transpose(Vt) / sigma)
    if needs_correction(sigma):
        Ut = xp.matrix_transpose(U)
        try:
            C_t = correction(backend.add_gram(None, Ut))
        except NumericalError:
            U, sigma, Vt = dense_svd(A)
            return SVD(U[:, :kept], sigma[:kept], Vt[:kept, :])
        U = xp.matrix_transpose(corrected(C_t, Ut, out=Ut if xp is np else None))
    return SVD(U, sigma, Vt)


EVEN = 8.0
"""Up to this S_1 / S_r the top r of a Gram matrix lose three bits and no more (ADR 0018)."""


# The eigenvalues of a Gram matrix that may stand for its factor, in units of their mean: condition at most 8.
EVEN_SHARES = (1 / 16, 4.0)
# Below it the squares of eps-sized parts would underflow.
SMALLEST_SQUARE = 1e-270


def has_even_values(K: Array) -> bool:
    """Whether all eigenvalues of K are in ``EVEN_SHARES`` of their mean: K - low I and high I - K are definite."""
    mean = float(namespace(K).mean(namespace(K).linalg.diagonal(K)))
    if not SMALLEST_SQUARE < mean < math.inf:
        return False
    low, high = (share * mean for share in EVEN_SHARES)
    return backend.is_definite(K, 1.0, -low) and backend.is_definite(K, -1.0, high)


FEW = 8
"""A square matrix of fewer columns than this for each triplet that is asked for is factorised whole."""


def top_of_gram(K: Float, r: int) -> tuple[Float, Float] | None:
    """The top r of B's singular values, and the vectors of its short side, (n, r), from the Gram matrix ``B^T B``.

    Of K the upper triangle is read. None where it has fewer, or where squares have cost digits: where S_1 is beyond
    ``EVEN`` times S_r, or where LAPACK's vectors are not K's.
    """
    n = len(K)
    if not (0 < r <= n and np.isfinite(np.diagonal(K)).all()):
        return None
    try:
        squares, V = scipy.linalg.eigh(K, lower=False, subset_by_index=[n - r, n - 1], check_finite=False)
    except scipy.linalg.LinAlgError:
        return None
    squares, V = squares[::-1], np.asfortranarray(V[:, ::-1])
    if not 0.0 < squares[0] <= EVEN**2 * squares[-1] or squares[0] < SMALLEST_SQUARE:
        return None
    upper = np.triu(K)
    KV = backend.matmul(upper, V) + backend.matmul(np.triu(K, 1).T, V)
    if not norm(KV - V * squares) <= backend.EPS * 64 * (r + math.sqrt(n)) * float(squares[0]):
        return None
    return np.sqrt(squares), V


def even_left(A: Array) -> tuple[Float, Float] | None:
    """U and all singular values of a square A from ``A A^T``, at half the work; None where squares would cost digits.

    A is proved to have a condition of at most 8 before anything is factorised.
    """
    if not isinstance(A, np.ndarray) or A.shape[0] != A.shape[1]:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        K = backend.add_gram(None, A)
        if not has_even_values(K):
            return None
    try:
        squares, U = scipy.linalg.eigh(K, lower=False, driver="evd", check_finite=False)
    except scipy.linalg.LinAlgError:
        return None
    return U[:, ::-1], np.sqrt(squares[::-1])


def leads(K: Float, sigma: Float, V: Float) -> bool:
    """Whether no eigenvalue of K, its upper triangle, is above these squares but those of V: a Cholesky factor says so.

    ``S_r^2 I - (K - V S^2 V^T)`` is positive definite, but for rounding, if and only if nothing larger was left out.
    """
    least, rounding = float(sigma[-1]) ** 2, 64.0 * len(K) * backend.EPS * float(sigma[0]) ** 2
    scaled = V * sigma
    return backend.is_definite(K - backend.matmul(scaled, scaled.T), -1.0, least + rounding)


def svd_of_even(A: Float, K: Float) -> SVD | None:
    """The thin SVD of a tall A from its Gram matrix K, the upper triangle; None where squares have cost digits.

    Eigenvectors of K take half of the time of the SVD of its factor. What comes of them is verified by the caller.
    """
    try:
        squares, V = scipy.linalg.eigh(K, lower=False, driver="evd", check_finite=False)
    except scipy.linalg.LinAlgError:
        return None
    squares, V = squares[::-1], V[:, ::-1]
    if not 0.0 < squares[0] <= EVEN**2 * squares[-1] or squares[0] < SMALLEST_SQUARE:
        return None
    sigma = np.sqrt(squares)
    return SVD(backend.matmul(A, V / sigma), sigma, V.T)


def known_part(found: SVD, m: int, n: int) -> SVD:
    """The triplets above the level of rounding, and one at least.

    Below it gesdd's vectors are noise; of some matrices of low rank they are orthogonal to no more than 1e-10.
    """
    kept = max(rank(found.sigma, m, n), 1)
    return SVD(found.U[:, :kept], found.sigma[:kept], found.Vt[:kept, :])


def full_svd(A: Array) -> SVD:
    """U (m, m), sigma and Vt (n, n) with bases of the null spaces, by gesvd: orthonormal at any rank."""
    _check_matrix(A)
    try:
        U, sigma, Vt = scipy.linalg.svd(backend.to_numpy(A), lapack_driver="gesvd")
    except scipy.linalg.LinAlgError as error:
        raise NumericalError("gesvd did not converge", "scale the columns of the matrix") from error
    return SVD(backend.like(U, A), backend.like(sigma, A), backend.like(Vt, A))


def fits(m: int, n: int) -> bool:
    """Whether a dense SVD of an m x n matrix stays within 32-bit LAPACK, its workspace included."""
    k = min(m, n)
    return m * n <= LARGEST_COUNT and 4 * k * k + 7 * k <= LARGEST_COUNT


def require_fit(m: int, n: int) -> None:
    """Raise ``ConfigError`` unless a dense SVD of an m x n matrix fits."""
    if not fits(m, n):
        raise ConfigError(
            f"a dense SVD of {m} x {n} needs an array of more than {LARGEST_COUNT} elements, which 32-bit LAPACK"
            " counts wrongly",
            "use the streaming factor when one side is short, the truncated SVD when both are long",
        )


def rank(sigma: Array, m: int, n: int) -> int:
    """How many singular values are above ``max(m, n, 32) eps sigma_1``, the level of rounding; 0 for a zero matrix.

    ``sigma`` is descending. What lies below is noise of the factorisation, and so are its vectors. Of a table of a few
    rows noise is not smaller than of one of 32: that of an exact Gram matrix (step 4) does not shrink with the table.
    """
    if sigma.shape[0] == 0:
        return 0
    xp = namespace(sigma)
    level = max(m, n, _LEAST_SIDE) * float(xp.finfo(sigma.dtype).eps) * sigma[0]
    return int(xp.count_nonzero(sigma > level))


def _check_matrix(A: Array) -> None:
    xp = namespace(A)
    if len(A.shape) != 2:
        raise ShapeError(f"an SVD needs a matrix, got an array of {len(A.shape)} dimensions")
    if not xp.isdtype(A.dtype, "real floating"):
        raise NotNumeric(f"an SVD needs real floating-point numbers, got {A.dtype}", "convert to float64")
    if not bool(xp.all(xp.isfinite(A))):
        raise NotFinite("the matrix has NaN or infinite entries", "remove or fill them before factorising")


def _lapack_svd(A: Array) -> tuple[Array, Array, Array]:
    """gesdd; where its divide and conquer does not converge, gesvd, slower and sturdier."""
    try:
        return backend.svd(A)
    except (NumericalError, RuntimeError) as error:
        # PyTorch's _LinAlgError is a RuntimeError of its own; other RuntimeErrors (memory, devices) are not for us.
        if not isinstance(error, NumericalError) and not type(error).__name__.endswith("LinAlgError"):
            raise
    try:
        U, sigma, Vt = scipy.linalg.svd(backend.to_numpy(A), full_matrices=False, lapack_driver="gesvd")
    except scipy.linalg.LinAlgError as error:
        raise NumericalError("neither gesdd nor gesvd converged", "scale the columns of the matrix") from error
    return backend.like(U, A), backend.like(sigma, A), backend.like(Vt, A)


@dataclass(frozen=True, repr=False)
class Fit:
    """w (features, targets), a basis of the null space (features, lost), the rank, and what was verified."""

    w: Float
    null: Float
    rank: int
    residual: float


def least_squares(A: Float, y: Float, m: int, n: int) -> Fit:
    """The solution of ``min ||A w - y||`` for A (rows, features); m and n are the sides of the data behind A."""
    features, t = A.shape[1], y.shape[1]
    if A.shape[0] < features:
        A = np.concatenate((A, np.zeros((features - A.shape[0], features))))
        y = np.concatenate((y, np.zeros((features - y.shape[0], t))))
    w = of_full_rank(A, y, max(m, n))
    if w is not None:
        return Fit(w, np.zeros((features, 0)), features, verify_least_squares(A, w, y))
    U, sigma, Vt = dense_svd(A)
    if rank(sigma, *A.shape) < features:
        U, sigma, Vt = full_svd(A)  # the null space is handed out, and must be one
        U = U[:, :features]
    verify_svd(A, U, sigma, Vt)
    kept = rank(sigma, m, n)
    w = Vt[:kept].T @ ((U[:, :kept].T @ y) / sigma[:kept, None])
    # What lies below the cut is rounding to the rank, and to the normal equations.
    cut = float(sigma[kept] / sigma[0]) if kept < features and kept else 0.0
    residual = verify_least_squares(A, w, y, cut) if norm(A) > 0 else 0.0
    return Fit(w, Vt[kept:].T, kept, residual)


def of_full_rank(A: Float, y: Float, side: int) -> Float | None:
    """w of ``min ||A w - y||`` by QR; None unless every singular value of A is proved to be above ``rank``'s level.

    The least one is ``1 / ||R^-1||`` or more, with R of ``A = Q R``. The inverse X that is computed has
    ``||X R - I||`` of at most features eps ``||X|| ||R||``, below 1/2 where the proof holds: then R^-1 has a norm of
    at most ``2 ||X||``.
    """
    features = A.shape[1]
    if not (np.isfinite(A).all() and np.isfinite(y).all()):
        return None
    R = backend.qr_r(np.concatenate((A, y), axis=1))
    X = backend.inverse_triangular(R[:features, :features])
    if X is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        condition = norm(X) * norm(R[:features, :features])
    if not 2.0 * max(side, features, _LEAST_SIDE) * backend.EPS * condition < 1.0:
        return None
    w: Float = backend.solve_triangular(R[:features, :features], R[:features, features:])
    return w
