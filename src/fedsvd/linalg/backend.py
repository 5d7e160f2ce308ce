"""The array namespace ``xp``, and the factorisations.

Kernels are written against the array API standard: what they call on ``xp`` runs on NumPy, PyTorch, CuPy or
array-api-strict alike. What the standard lacks and the hot loops need (triangular solves, products with reflectors, the
DCT) is here, once: BLAS and LAPACK called directly on NumPy, the standard's own functions elsewhere.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from fedsvd.errors import ConfigError, MissingExtra, NumericalError
from fedsvd.linalg import foreign
from fedsvd.linalg.transforms import dct_by_fft
from fedsvd.types import Array, Float

EPS = float(np.finfo(np.float64).eps)
_PIECE = 1 << 20  # entries whose norm is taken at once
_TINY = float(np.finfo(np.float64).tiny)
_EXPONENT = 0x7FF << 52  # where a float64 keeps its power of two
_SVD_AT_HOME = 4096  # a GPU's SVD of a smaller matrix is slower than LAPACK's
_WY = 128  # reflectors per compact-WY product off NumPy
_WORTH_SHARING = 256  # the narrowest side of a product from which two threads are quicker than one
_LONGEST_CALL = 1e10  # multiplications in one call of ormqr, about half a second: between calls Ctrl-C is heard
_NARROWEST = 256  # columns in one call of ormqr
_QR_BLOCK = 64  # columns LAPACK may factor together; it takes 32


@cache
def _pools() -> Any:
    assert scipy.linalg.blas  # loaded when first asked for; what is not loaded yet is not found here
    return ThreadpoolController()


def threads() -> int:
    """How many threads the BLAS has."""
    return max((int(pool["num_threads"]) for pool in _pools().info() if pool["user_api"] == "blas"), default=1)


def one_thread() -> AbstractContextManager[object]:
    """One BLAS thread for what happens inside, in every thread of the process."""
    limited: AbstractContextManager[object] = _pools().limit(limits=1, user_api="blas")
    return limited


def small_products(*sides: int) -> AbstractContextManager[object]:
    """One BLAS thread for what happens inside, where the products are too small to be worth sharing."""
    return one_thread() if min(sides) < _WORTH_SHARING else nullcontext()


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
    rows = A.T if A.flags.f_contiguous and not A.flags.c_contiguous else A
    step = max(1, _PIECE // rows.shape[1])
    return math.hypot(*(_norm_at_once(xp, rows[start : start + step]) for start in range(0, rows.shape[0], step)))


def _norm_at_once(xp: Any, A: Array) -> float:
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
    largest = xp.max(xp.abs(A), axis=0)
    unit = xp.where(largest > _TINY, largest, xp.full_like(largest, _TINY))
    unit = xp.where(xp.isfinite(largest), unit, xp.ones_like(largest))
    return unit * xp.linalg.vector_norm(A / unit, axis=0)


def qr(A: Array) -> tuple[Array, Array]:
    """Thin Householder QR, ``A = Q R``."""
    xp = namespace(A)
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
        factored, _, _, info = scipy.linalg.lapack.dgeqrf(A, lwork=_QR_BLOCK * max(1, A.shape[1]), overwrite_a=False)
        _check("geqrf", info)
        return np.triu(factored[: min(A.shape)])
    return foreign.qr_r(xp, A)


def svd(A: Array) -> tuple[Array, Array, Array]:
    """Thin SVD, ``A = U diag(sigma) Vt``; that of a small matrix on a device is made by LAPACK, in host memory."""
    xp = namespace(A)
    if _far(A) and min(A.shape) <= _SVD_AT_HOME:
        U, sigma, Vt = svd(to_numpy(A))
        return like(U, A), like(sigma, A), like(Vt, A)
    try:
        U, sigma, Vt = foreign.gesvd(A) if _far(A) else xp.linalg.svd(A, full_matrices=False)
    except np.linalg.LinAlgError as error:
        raise NumericalError("the SVD did not converge", "check the input for extreme scales") from error
    return U, sigma, Vt


def _far(A: Array) -> bool:
    """Whether A lies on a GPU."""
    return getattr(getattr(A, "device", None), "type", None) == "cuda" or type(A).__module__.startswith("cupy")


def svdvals(A: Array) -> Array:
    """Singular values, descending."""
    xp = namespace(A)
    return np.linalg.svd(A, compute_uv=False) if xp is np else xp.linalg.svdvals(A)


def cholesky(G: Array) -> Array | None:
    """Upper triangular S with ``S^T S = G`` for a symmetric G, or None when it is not positive definite.

    A Fortran-ordered G may have its upper triangle only.
    """
    xp = namespace(G)
    if xp is np:
        # G is its own transpose, so a C-ordered one is read as it lies.
        S, info = scipy.linalg.lapack.dpotrf(G.T if G.flags.c_contiguous else G, lower=0, clean=1)
        # OpenBLAS lets NaN through with info = 0, unlike LAPACK; it reaches the diagonal.
        return S if info == 0 and bool(np.isfinite(np.diagonal(S)).all()) else None
    try:
        S = xp.linalg.cholesky(G, upper=True)
    except (np.linalg.LinAlgError, RuntimeError):
        return None
    return S if bool(xp.all(xp.isfinite(S))) else None


def gram(Z: Array) -> Array:
    """``Z Z^T``; NumPy turns this very product into syrk, half the work of a general one."""
    xp = namespace(Z)
    return Z @ Z.T if xp is np else foreign.gram(xp, Z)


def gram_plus_identity(Z: Array) -> Array:
    """``Z Z^T + I``, of which only the upper triangle is promised: what ``cholesky`` reads."""
    xp = namespace(Z)
    if xp is np:
        # SciPy's BLAS, like the solves around it: NumPy brings another, and two pools of threads that spin for each
        # other's cores cost more than the product.
        by_rows = Z.flags.c_contiguous
        G: Float = scipy.linalg.blas.dsyrk(1.0, Z.T if by_rows else Z, trans=by_rows)
        G[np.diag_indices_from(G)] += 1.0
        return G
    G = gram(Z)
    return G + xp.eye(G.shape[0], dtype=G.dtype, device=G.device)


def add_gram(K: Array | None, X: Array) -> Array:
    """``K + X X^T`` (K may be absent), of which only the upper triangle is promised; K is not changed."""
    xp = namespace(X)
    if xp is np:
        by_rows = X.flags.c_contiguous or not X.flags.f_contiguous  # a copy, where one is needed, goes row by row
        A = X.T if by_rows else X
        added: Float = (
            scipy.linalg.blas.dsyrk(1.0, A, trans=by_rows)
            if K is None
            else scipy.linalg.blas.dsyrk(1.0, A, 1.0, K, trans=by_rows)
        )
        return added
    return gram(X) if K is None else K + gram(X)


def is_definite(K: Array, sign: float, shift: float) -> bool:
    """Whether ``sign K + shift I`` is positive definite; a Fortran-ordered K may have its upper triangle only."""
    xp = namespace(K)
    if xp is np:
        shifted = sign * K
        shifted[np.diag_indices_from(shifted)] += shift
        factored, info = scipy.linalg.lapack.dpotrf(shifted, lower=0, clean=0, overwrite_a=1)
        # A NaN that OpenBLAS lets through reaches the last pivot.
        return bool(info == 0 and np.isfinite(factored[-1, -1]))
    return cholesky(sign * K + shift * xp.eye(K.shape[0], dtype=K.dtype, device=K.device)) is not None


def solve_triangular(R: Array, B: Array, *, lower: bool = False, transposed: bool = False) -> Array:
    """``R^-1 B``, or ``R^-T B``, for triangular R; B is not changed."""
    xp = namespace(R, B)
    if xp is np:
        return _trsm(R, B, lower, transposed)
    return foreign.solve_triangular(xp, R, B, lower, transposed)


def multiply_triangular(S: Array, R: Array) -> Array:
    """``S R`` for two upper triangular matrices."""
    xp = namespace(S, R)
    if xp is np:
        product: Float = scipy.linalg.blas.dtrmm(1.0, S, R)
        return product
    return S @ R


def reflect(V: Array, tau: Array, X: Array, *, side: str, transposed: bool) -> Array:
    """X times ``H = H_1 ... H_k`` (or its transpose), ``H_j = I - tau_j v_j v_j^T``, from the given side.

    Column j of V holds v_j in LAPACK's form: zeros above row j, one at row j, neither stored. X is not changed.
    """
    xp = namespace(V, X)
    if xp is np:
        return _ormqr(V, tau, X, side, transposed)
    if side == "R":
        flipped = reflect(V, tau, xp.matrix_transpose(X), side="L", transposed=not transposed)
        return xp.matrix_transpose(flipped)
    k = V.shape[1]
    starts = list(range(0, k, _WY))
    for start in starts if transposed else reversed(starts):
        X = _compact_wy(xp, V[:, start : min(start + _WY, k)], start, X, transposed)
    return X


def _compact_wy(xp: Any, V: Array, start: int, X: Array, transposed: bool) -> Array:
    """One product with ``I - W T W^T``; T^-1 is the upper triangle of ``W^T W`` with its diagonal halved."""
    rows, k = V.shape[0] - start, V.shape[1]
    W = xp.tril(V[start:, :], k=-1) + xp.eye(rows, k, dtype=V.dtype, device=V.device)
    G = xp.matrix_transpose(W) @ W
    T_inverse = xp.triu(G) - 0.5 * (G * xp.eye(k, dtype=G.dtype, device=G.device))
    Z = solve_triangular(T_inverse, xp.matrix_transpose(W) @ X[start:, :], transposed=transposed)
    below = X[start:, :] - W @ Z
    return xp.concat((X[:start, :], below), axis=0) if start else below


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
        transformed: Float = transform(X, type=2, axis=0, norm="ortho", workers=-1, overwrite_x=spent)
        return transformed
    if 0 in X.shape:
        return X  # an FFT of nothing is refused by the libraries underneath PyTorch
    return dct_by_fft(xp, X, inverse)


def _trsm(R: Float, B: Float, lower: bool, transposed: bool) -> Float:
    if not (R.flags.f_contiguous or not R.flags.c_contiguous):
        R, lower, transposed = R.T, not lower, not transposed  # the same matrix, read by columns
    if B.flags.f_contiguous:
        solved: Float = scipy.linalg.blas.dtrsm(1.0, R, B, lower=lower, trans_a=transposed)
        return solved
    # B^T R^-T = (R^-1 B)^T: a C-ordered B is a Fortran-ordered B^T, solved from the right without transposing.
    from_right: Float = scipy.linalg.blas.dtrsm(1.0, R, B.T, side=1, lower=lower, trans_a=not transposed)
    return from_right.T


def _ormqr(V: Float, tau: Float, X: Float, side: str, transposed: bool) -> Float:
    if X.size == 0 or V.shape[1] == 0:
        return X.copy()
    if not X.flags.f_contiguous:
        return _ormqr(V, tau, np.ascontiguousarray(X).T, "R" if side == "L" else "L", not transposed).T
    other = X.shape[1] if side == "L" else X.shape[0]
    width = max(_NARROWEST, int(_LONGEST_CALL / (4.0 * V.size)) // 64 * 64)
    if other <= width:
        return _ormqr_at_once(V, tau, X, side, transposed)
    # The same numbers in pieces, so that an interruption does not wait for all of them.
    reflected = np.empty_like(X)
    for start in range(0, other, width):
        piece = np.s_[:, start : start + width] if side == "L" else np.s_[start : start + width, :]
        reflected[piece] = _ormqr_at_once(V, tau, X[piece], side, transposed)
    return reflected


def _ormqr_at_once(V: Float, tau: Float, X: Float, side: str, transposed: bool) -> Float:
    other = X.shape[1] if side == "L" else X.shape[0]
    lwork = max(1, other) * 64 + 65 * 64
    reflected, _, info = scipy.linalg.lapack.dormqr(side, "T" if transposed else "N", V, tau, X, lwork)
    _check("ormqr", info)
    return np.asarray(reflected)


def _check(routine: str, info: int) -> None:
    if info != 0:
        raise NumericalError(f"LAPACK {routine} failed with info = {info}")
