"""The array namespace ``xp``, and the factorisations.

Kernels are written against the array API standard: what they call on ``xp`` runs on NumPy, PyTorch, CuPy or
array-api-strict alike. What the standard lacks and the hot loops need (triangular solves, the DCT) is here, once: BLAS
and LAPACK called directly on NumPy, the standard's own functions elsewhere. On NumPy all that is worth threads goes
through one library (``blas.py``), products too: ``matmul`` instead of ``@``.

For libraries without a DCT the orthonormal DCT-II goes through a real FFT of the same length, by Makhoul (1980): even
samples up, odd samples down, one FFT. Of a real sequence half of the spectrum is the other half, conjugated, so that
one bin, turned by its angle, gives two coefficients: its real part the one, less its imaginary part the mirrored other.
Columns are transformed, a block of them at a time, because the spectrum takes more memory than they do.
"""

import math
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fedsvd.errors import ConfigError, MissingExtra, NumericalError
from fedsvd.linalg import blas, few_columns, foreign
from fedsvd.linalg.pools import one_pool as one_pool
from fedsvd.linalg.pools import one_thread as one_thread
from fedsvd.linalg.pools import small_products, small_work
from fedsvd.linalg.pools import threads as threads
from fedsvd.types import Array, Float

_BLOCK = 1 << 27  # entries transformed at once


def dct_by_fft(xp: Any, X: Array, inverse: bool) -> Array:
    """The DCT-II of every column, or its inverse, by blocks of columns."""
    n, columns = X.shape
    transform = _inverse if inverse else _forward
    step = max(1, _BLOCK // n)
    if columns <= step:
        return transform(xp, X)
    out = xp.empty_like(X)
    for start in range(0, columns, step):
        part = slice(start, min(start + step, columns))
        out[:, part] = transform(xp, X[:, part])
    return out


def _forward(xp: Any, X: Array) -> Array:
    n = X.shape[0]
    folded = xp.concat((X[::2, :], xp.flip(X[1::2, :], axis=0)), axis=0)
    spectrum = xp.fft.rfft(folded, axis=0)
    cos, sin, scale = _factors(xp, X, n)
    real, imag = xp.real(spectrum), xp.imag(spectrum)
    low = (real * cos + imag * sin) * scale
    mirrored = (real * sin - imag * cos) * scale  # coefficient n - k from bin k; bins 0 and n / 2 are their own
    return xp.concat((low, xp.flip(mirrored[1 : n - n // 2, :], axis=0)), axis=0)


def _inverse(xp: Any, Y: Array) -> Array:
    n = Y.shape[0]
    half = n // 2 + 1
    cos, sin, scale = _factors(xp, Y, n)
    low = Y[:half, :] / scale
    zero = xp.zeros_like(low[:1, :])
    mirrored = xp.concat((zero, xp.flip(Y[n - half + 1 :, :], axis=0)), axis=0) / scale
    real, imag = low * cos + mirrored * sin, low * sin - mirrored * cos
    spectrum = xp.astype(real, xp.complex128) + 1j * xp.astype(imag, xp.complex128)
    folded = xp.fft.irfft(spectrum, axis=0, n=n)
    up = (n + 1) // 2
    even, odd = folded[:up, :], xp.flip(folded[up:, :], axis=0)
    if n % 2:
        odd = xp.concat((odd, zero), axis=0)
    return xp.reshape(xp.stack((even, odd), axis=1), (2 * up, Y.shape[1]))[:n, :]


def _factors(xp: Any, X: Array, n: int) -> tuple[Array, Array, Array]:
    """Cosine and sine of every bin's angle, and the scale that makes the transform orthonormal, as columns."""
    index = xp.reshape(xp.arange(n // 2 + 1, dtype=X.dtype, device=X.device), (-1, 1))
    angle = index * (np.pi / (2 * n))
    # Filled in the type of X: a bare Python number would become float32 on PyTorch and cost nine digits.
    first, others = xp.full_like(index, (1.0 / n) ** 0.5), xp.full_like(index, (2.0 / n) ** 0.5)
    return xp.cos(angle), xp.sin(angle), xp.where(index == 0, first, others)


EPS = float(np.finfo(np.float64).eps)
VECTORS = 2
"""Columns up to which a product is made vector by vector."""
_PIECE = 1 << 20  # entries whose norm is taken at once
_TINY = float(np.finfo(np.float64).tiny)
_SQUARABLE = 1e-140
_EXPONENT = 0x7FF << 52  # where a float64 keeps its power of two
_SVD_AT_HOME = 4096  # a GPU's SVD of a smaller matrix is slower than LAPACK's
_MIRRORED = 512  # rows of a triangle that are copied to the other one at a time
_SMALL = 1 << 20  # multiplications of a product that is over before a call of another library is prepared
_QR_BLOCK = 64  # columns LAPACK may factor together; it takes 32


def namespace(*arrays: Array) -> Any:
    """The array-API module that the arrays belong to."""
    if all(isinstance(array, np.ndarray) for array in arrays):
        return np
    modules = {_namespace_of(array) for array in arrays}
    if len(modules) != 1:
        raise ConfigError("arrays of different libraries in one operation", "convert them to one library first")
    return modules.pop()


def _namespace_of(array: Array) -> Any:
    if type(array).__module__.partition(".")[0] in {"torch", "cupy", "dask"}:
        try:
            from array_api_compat import array_namespace
        except ImportError as error:
            raise MissingExtra(
                f"{type(array).__module__.partition('.')[0]} arrays need array-api-compat",
                "pip install 'fedsvd[gpu]'",
            ) from error
        return array_namespace(array)
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    raise ConfigError(f"{type(array).__name__} is not an array")


def to_numpy(A: Array) -> Float:
    """The same numbers as a NumPy array; a view where memory is shared."""
    if isinstance(A, np.ndarray):
        return A
    if hasattr(A, "detach"):
        A = A.detach().cpu()
    elif hasattr(A, "get"):
        A = A.get()
    return np.asarray(A)


def like(A: NDArray[Any], other: Array) -> Array:
    """The NumPy array ``A`` in the library, and on the device, of ``other``."""
    if isinstance(other, np.ndarray):
        return A
    xp = namespace(other)
    if not A.flags.writeable or min(A.strides, default=0) < 0:
        A = A.copy()  # PyTorch warns of the one and refuses the other
    return xp.asarray(A, device=other.device) if hasattr(other, "device") else xp.asarray(A)


def norm(A: Array) -> float:
    """The Frobenius norm, safe from overflow and underflow of the squares; an array of NumPy is not copied for it."""
    xp = namespace(A)
    if xp is not np or A.ndim != 2 or A.size <= _PIECE:
        return _norm_at_once(xp, A)
    rows = A.T if abs(A.strides[0]) < abs(A.strides[1]) else A
    step = max(1, _PIECE // rows.shape[1])
    return math.hypot(*(_norm_at_once(xp, rows[start : start + step]) for start in range(0, rows.shape[0], step)))


def _norm_at_once(xp: Any, A: Array) -> float:
    if 0 not in A.shape:
        with np.errstate(over="ignore", under="ignore"):
            # NumPy's norm of part of a larger array is that of a copy; by rows it is read where it lies.
            apart = xp is np and A.ndim == 2 and not A.flags.forc
            plain = math.sqrt(np.sum(np.vecdot(A, A))) if apart else float(xp.linalg.vector_norm(A))
        if _SQUARABLE < plain < 1.0 / _SQUARABLE:  # no square that counts left the range of float64: one pass, not four
            return plain
    largest = float(xp.max(xp.abs(A))) if 0 not in A.shape else 0.0
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    largest = max(largest, _TINY)  # the inverse of a denormal number overflows, and CUDA divides by inverses
    return largest * float(xp.linalg.vector_norm(A / largest))


def column_norms(A: Array) -> Array:
    """The Euclidean length of every column, safe from overflow and underflow of the squares."""
    xp = namespace(A)
    if 0 in A.shape:
        return xp.linalg.vector_norm(A, axis=0)
    if xp is np:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            plain: Float = np.sqrt(np.einsum("ij,ij->j", A, A))
        if ((plain > _SQUARABLE) & (plain < 1.0 / _SQUARABLE)).all():  # no square that counts left float64's range
            return plain
    largest = xp.max(xp.abs(A), axis=0)
    unit = xp.where(largest > _TINY, largest, xp.full_like(largest, _TINY))
    unit = xp.where(xp.isfinite(largest), unit, xp.ones_like(largest))
    return unit * xp.linalg.vector_norm(A / unit, axis=0)


def matmul(A: Array, B: Array, out: Array | None = None, *, add: bool = False) -> Array:
    """``A B``; into ``out``, which may be rows or columns of a larger array, or with ``add`` onto it."""
    xp = namespace(A, B)
    if xp is np and blas.fits(A, B) and A.shape[0] * A.shape[1] * B.shape[1] > _SMALL:
        if (found := few_columns.multiplied(A, B, out, add)) is not None:
            return found
        if B.shape[1] <= VECTORS and out is None:
            return _by_vectors(A, B)
        return blas.gemm(A, B, out, add=add)
    product = A @ B if xp is np else foreign.matmul(xp, A, B)
    if out is None:
        return product
    out[...] = out + product if add else product
    return out


def _by_vectors(A: Float, B: Float) -> Float:
    """``A B`` for B of a few columns, one by one: A is read where it lies, and not packed for a product."""
    product = np.empty((A.shape[0], B.shape[1]))
    for column in range(B.shape[1]):
        blas.gemv(A, np.ascontiguousarray(B[:, column]), product[:, column])
    return product


def qr(A: Array) -> tuple[Array, Array]:
    """Thin Householder QR, ``A = Q R``."""
    xp = namespace(A)
    if xp is np and A.shape[0] >= A.shape[1] > 0:
        with small_products(*A.shape):
            factored, tau, _, info = scipy.linalg.lapack.dgeqrf(A, lwork=_QR_BLOCK * A.shape[1])
            check_info("geqrf", info)
            R = np.triu(factored[: A.shape[1]])
            Q, _, info = scipy.linalg.lapack.dorgqr(factored, tau, lwork=_QR_BLOCK * A.shape[1], overwrite_a=1)
            check_info("orgqr", info)
        return Q, R
    Q, R = xp.linalg.qr(A)
    return Q, R


def qr_r(A: Array) -> Array:
    """The triangular factor alone, ``min(rows, cols) x cols``; upper triangular, signs as they fall."""
    xp = namespace(A)
    if xp is np:
        if A.shape[0] == 0:
            return np.zeros(A.shape)
        # SciPy's geqrf on Fortran order: NumPy's mode="r" transposes a copy in and out. Its default workspace holds
        # blocks of three columns only, a third of the speed.
        with small_products(*A.shape):
            lwork = _QR_BLOCK * max(1, A.shape[1])
            factored, _, _, info = scipy.linalg.lapack.dgeqrf(A, lwork=lwork, overwrite_a=False)
        check_info("geqrf", info)
        return np.triu(factored[: min(A.shape)])
    return foreign.qr_r(xp, A)


def svd(A: Array) -> tuple[Array, Array, Array]:
    """Thin SVD, ``A = U diag(sigma) Vt``; that of a small matrix on a device is made by LAPACK, in host memory."""
    xp = namespace(A)
    if _far(A) and min(A.shape) <= _SVD_AT_HOME:
        U, sigma, Vt = svd(to_numpy(A))
        return like(U, A), like(sigma, A), like(Vt, A)
    if blas.fits(A):
        return _gesdd(A)
    try:
        U, sigma, Vt = foreign.gesvd(A) if _far(A) else xp.linalg.svd(A, full_matrices=False)
    except np.linalg.LinAlgError as error:
        raise NumericalError("the SVD did not converge", "check the input for extreme scales") from error
    return U, sigma, Vt


def _gesdd(A: Float) -> tuple[Float, Float, Float]:
    finite = bool(np.isfinite(A).all())  # LAPACK may run forever on what is not
    with small_products(*A.shape):
        U, sigma, Vt, info = blas.gesdd(A) if finite else (A, A, A, 1)
    if info != 0:
        raise NumericalError("the SVD did not converge", "check the input for extreme scales")
    return U, sigma, Vt


def _far(A: Array) -> bool:
    """Whether A lies on a GPU."""
    return getattr(getattr(A, "device", None), "type", None) == "cuda" or type(A).__module__.startswith("cupy")


def cholesky(G: Array) -> Array | None:
    """Upper triangular S with ``S^T S = G`` for a symmetric G, or None when it is not positive definite.

    A Fortran-ordered G may have its upper triangle only.
    """
    xp = namespace(G)
    if xp is np:
        # G is its own transpose, so a C-ordered one is passed without a copy.
        with small_products(len(G)):
            S, info = scipy.linalg.lapack.dpotrf(G.T if G.flags.c_contiguous else G, lower=0, clean=1)
        # OpenBLAS lets NaN through with info = 0, unlike LAPACK; it reaches the diagonal.
        return S if info == 0 and bool(np.isfinite(np.diagonal(S)).all()) else None
    try:
        S = xp.linalg.cholesky(G, upper=True)
    except (np.linalg.LinAlgError, RuntimeError):
        return None
    return S if bool(xp.all(xp.isfinite(S))) else None


def gram(Z: Array) -> Array:
    """``Z Z^T``, by half the work of a general product."""
    xp = namespace(Z)
    if xp is not np:
        return foreign.gram(xp, Z)
    if not blas.fits(Z):
        return Z @ Z.T
    G = blas.syrk(Z)
    lower = np.tril_indices_from(G, -1) if len(G) <= _MIRRORED else None
    if lower is not None:
        G[lower] = G.T[lower]
        return G
    for start in range(0, len(G), _MIRRORED):  # in pieces: indices of all would be twice as large as G
        stop = start + _MIRRORED
        G[stop:, start:stop] = G[start:stop, stop:].T
        corner = G[start:stop, start:stop]
        inner = np.tril_indices_from(corner, -1)
        corner[inner] = corner.T[inner]
    return G


def gram_plus_identity(Z: Array) -> Array:
    """``Z Z^T + I``, of which only the upper triangle is promised: what ``cholesky`` reads."""
    xp = namespace(Z)
    if xp is np:
        G = add_gram(None, Z)
        G[np.diag_indices_from(G)] += 1.0
        return G
    return foreign.plus_diagonal(xp, gram(Z), 1.0, spent=True)


def add_gram(K: Array | None, X: Array, *, spent: bool = False) -> Array:
    """``K + X X^T`` (K may be absent), of which only the upper triangle is promised; K is written over if ``spent``."""
    xp = namespace(X)
    if xp is not np:
        return gram(X) if K is None else K + gram(X)
    if blas.fits(X):
        return blas.syrk(X, K if K is None or spent else K.copy(order="F"))
    return X @ X.T if K is None else K + X @ X.T


def is_definite(K: Array, sign: float, shift: float) -> bool:
    """Whether ``sign K + shift I`` is positive definite; a Fortran-ordered K may have its upper triangle only."""
    xp = namespace(K)
    if xp is np:
        shifted = sign * K
        shifted[np.diag_indices_from(shifted)] += shift
        with small_products(len(K)):
            factored, info = scipy.linalg.lapack.dpotrf(shifted, lower=0, clean=0, overwrite_a=1)
        # A NaN that OpenBLAS lets through reaches the last pivot.
        return bool(info == 0 and np.isfinite(factored[-1, -1]))
    return cholesky(foreign.plus_diagonal(xp, sign * K, shift, spent=True)) is not None


def solve_triangular(
    R: Array, B: Array, *, lower: bool = False, transposed: bool = False, out: Array | None = None
) -> Array:
    """``R^-1 B``, or ``R^-T B``, for triangular R; B is not changed, unless it is ``out``, which only NumPy takes."""
    xp = namespace(R, B)
    if xp is np:
        return _trsm(R, B, lower, transposed, out)
    return foreign.solve_triangular(xp, R, B, lower, transposed)


def inverse_triangular(R: Float) -> Float | None:
    """The inverse of an upper triangular R of NumPy; None where it is singular."""
    with small_products(len(R)):
        inverse, info = scipy.linalg.lapack.dtrtri(R)
    return inverse if info == 0 else None


def multiply_triangular(S: Array, R: Array) -> Array:
    """``S R`` for two upper triangular matrices."""
    xp = namespace(S, R)
    if xp is np:
        with small_work(float(len(S)) ** 3):
            product: Float = scipy.linalg.blas.dtrmm(1.0, S, R)
        return product
    return S @ R


def leading_powers(A: Array) -> Array:
    """``2^floor(log2 |a|)`` of every entry, 0 for 0: a float's bits of the exponent and no others."""
    module = type(A).__module__.partition(".")[0]
    if module == "torch":
        import torch

        return (A.view(torch.int64) & _EXPONENT).view(torch.float64)
    if module in ("numpy", "cupy"):
        return (A.view("int64") & _EXPONENT).view("float64")
    return like(leading_powers(to_numpy(A)), A)  # the standard has no way to read a float's bits


def dct(X: Array, *, inverse: bool = False, spent: bool = False) -> Array:
    """The orthonormal DCT-II of every column, or its inverse (DCT-III); X may be overwritten where it is ``spent``."""
    xp = namespace(X)
    if xp is np:
        transform = scipy.fft.idct if inverse else scipy.fft.dct
        transformed: Float = transform(X, type=2, axis=0, norm="ortho", workers=threads(), overwrite_x=spent)
        return transformed
    if 0 in X.shape:
        return X  # an FFT of nothing is refused by the libraries underneath PyTorch
    return dct_by_fft(xp, X, inverse)


def dct_of_lines(lines: Float, *, inverse: bool = False) -> None:
    """The orthonormal DCT-II, or its inverse, of every line, in place, by one thread."""
    transform = scipy.fft.idct if inverse else scipy.fft.dct
    transformed: Float = transform(lines, type=2, norm="ortho", workers=1, overwrite_x=True)
    if not np.may_share_memory(transformed, lines):
        lines[...] = transformed


def _trsm(R: Float, B: Float, lower: bool, transposed: bool, out: Float | None) -> Float:
    if blas.fits(R, B):
        return blas.trsm(R, B, lower=lower, transposed=transposed, out=out)
    solved: Float = scipy.linalg.solve_triangular(R, B, trans=int(transposed), lower=lower, check_finite=False)
    if out is None:
        return solved
    out[...] = solved
    return out


def check_info(routine: str, info: int) -> None:
    """Raise ``NumericalError`` where LAPACK says that it failed."""
    if info != 0:
        raise NumericalError(f"LAPACK {routine} failed with info = {info}")
