"""SciPy's BLAS and LAPACK, called on arrays in place, in their own memory order.

The wheels of NumPy and SciPy bring an OpenBLAS each. After a call the threads of either spin for a while, and where
both are used in turns they fight for the cores: on 16 cores, calls that take 4 and 5 ms alone take 150 ms together. So
all that is worth threads goes through one of them: SciPy's, because only SciPy has triangular solves and reflectors.

Routines are taken from the function pointers that SciPy publishes for Cython (``scipy.linalg.cython_blas``), not from
its Python wrappers: those hold the interpreter's lock for as long as a product takes, and copy every array that is not
contiguous. Here rows or columns of a larger array are read, and written, in place. Where a SciPy does not have the
pointers in the form known here, ``found`` is False and the caller uses NumPy.
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np
import scipy

from fedsvd.linalg.pools import small_work
from fedsvd.types import Float

_INT, _TEXT = ctypes.POINTER(ctypes.c_int), ctypes.c_char_p
_MOST = (1 << 31) - 1  # these pointers count in 32 bits
_ITEM = 8


def _routine(module: Any, name: str, kinds: str) -> Any:
    """The routine as a C function, or None; ``kinds`` has c for a text, i for an integer, d for a number or array."""
    capsule = getattr(module, "__pyx_capi__", {}).get(name)
    if capsule is None:
        return None
    take_name, take_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    take_name.restype, take_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    take_pointer.restype, take_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = take_name(capsule)
    parts = signature.decode().removeprefix("void (").removesuffix(")").split(", ")
    shown = "".join({"char *": "c", "int *": "i"}.get(part, "d" if part.endswith("_d *") else "?") for part in parts)
    if shown != kinds:
        return None
    types: list[Any] = [{"c": _TEXT, "i": _INT, "d": ctypes.c_void_p}[kind] for kind in kinds]
    return ctypes.CFUNCTYPE(None, *types)(take_pointer(capsule, signature))  # a call lets other threads run


@cache
def _routines() -> dict[str, Any]:
    """The routines by name, looked up when first needed: SciPy's linear algebra takes a while to load."""
    blas, lapack = scipy.linalg.cython_blas, scipy.linalg.cython_lapack
    return {
        "gemm": _routine(blas, "dgemm", "cciiiddididdi"),
        "gemv": _routine(blas, "dgemv", "ciiddididdi"),
        "syrk": _routine(blas, "dsyrk", "cciiddiddi"),
        "trsm": _routine(blas, "dtrsm", "cccciiddidi"),
        "gesdd": _routine(lapack, "dgesdd", "ciididdididiii"),
    }


@cache
def found() -> bool:
    """Whether SciPy has all of them in the form known here."""
    return all(routine is not None for routine in _routines().values())


def fits(*arrays: Any) -> bool:
    """Whether these are matrices of float64 whose sides these routines can count."""
    return found() and all(
        isinstance(A, np.ndarray) and A.dtype == np.float64 and A.ndim == 2 and A.size > 0 and max(A.shape) <= _MOST
        for A in arrays
    )


def by_columns(A: Float) -> bool:
    """Whether A lies as Fortran has it, one column after the other, with or without gaps between them."""
    rows, columns = A.shape
    across, step = A.strides
    return (
        bool(A.flags.aligned)
        and (rows == 1 or across == _ITEM)
        and (columns == 1 or (step % _ITEM == 0 and _ITEM * rows <= step <= _ITEM * _MOST))
    )


def gemm(A: Float, B: Float, out: Float | None = None, *, add: bool = False) -> Float:
    """``A B``, into ``out`` or, with ``add``, onto it; rows or columns of a larger array are written in place."""
    (m, k), n = A.shape, B.shape[1]
    if out is None:
        out = np.empty((m, n))
    if not by_columns(out):
        if not by_columns(out.T):
            product = gemm(A, B)
            np.add(out, product, out=out) if add else np.copyto(out, product)
            return out
        gemm(B.T, A.T, out.T, add=add)
        return out
    (A, a), (B, b) = _lying(A), _lying(B)
    one, beta = ctypes.c_double(1.0), ctypes.c_double(1.0 if add else 0.0)
    with small_work(2.0 * m * n * k):
        _routines()["gemm"](
            a, b, _i(m), _i(n), _i(k), _d(one), _at(A), _step(A), _at(B), _step(B), _d(beta), _at(out), _step(out)
        )
    return out


def gemv(A: Float, x: Float, out: Float) -> None:
    """``A x`` into ``out``, both vectors with any step: half of the time of a product with one column."""
    (A, form), (x, step), (out, across) = _lying(A), _vector(x), _vector(out)
    one, zero = ctypes.c_double(1.0), ctypes.c_double(0.0)
    sides = _i(A.shape[0]), _i(A.shape[1])
    _routines()["gemv"](form, *sides, _d(one), _at(A), _step(A), _at(x), step, _d(zero), _at(out), across)


def syrk(X: Float, K: Float | None = None, *, lower: bool = False) -> Float:
    """The upper triangle of ``X X^T``, or of ``K + X X^T`` in place of K, which lies by columns; zeros, or K, below.

    With ``lower`` the lower one, and zeros, or K, above.
    """
    m, k = X.shape
    add = K is not None
    if K is None:
        K = np.zeros((m, m), order="F")
    (X, form), uplo = _lying(X), b"L" if lower else b"U"
    one, beta = ctypes.c_double(1.0), ctypes.c_double(1.0 if add else 0.0)
    with small_work(1.0 * m * m * k):
        _routines()["syrk"](uplo, form, _i(m), _i(k), _d(one), _at(X), _step(X), _d(beta), _at(K), _step(K))
    return K


def trsm(R: Float, B: Float, *, lower: bool, transposed: bool, out: Float | None = None) -> Float:
    """``R^-1 B``, or ``R^-T B``, for triangular R; B is not changed, unless it is ``out``."""
    if out is None:
        out = np.empty_like(B) if by_columns(B) or by_columns(B.T) else np.empty(B.shape)
    if out is not B:
        np.copyto(out, B)
    R, form = _lying(R)
    if form == b"T":  # what lies there is R^T
        lower, transposed = not lower, not transposed
    one, uplo, trans = ctypes.c_double(1.0), b"L" if lower else b"U", b"T" if transposed else b"N"
    side, X = b"L", out
    if not by_columns(out):  # B^T R^-T = (R^-1 B)^T, from the right
        side, X, trans = b"R", out.T, b"N" if transposed else b"T"
    if not by_columns(X):
        np.copyto(out, trsm(R, np.asfortranarray(B), lower=lower, transposed=transposed))
        return out
    with small_work(1.0 * len(R) * X.size):
        _routines()["trsm"](
            side, uplo, trans, b"N", _i(X.shape[0]), _i(X.shape[1]), _d(one), _at(R), _step(R), _at(X), _step(X)
        )
    return out


def gesdd(A: Float) -> tuple[Float, Float, Float, int]:
    """The thin SVD of A by divide and conquer, and LAPACK's ``info``."""
    if not by_columns(A) and by_columns(A.T):
        V, sigma, Ut, failed = gesdd(A.T)
        return Ut.T, sigma, V.T, failed
    work_on = np.array(A, order="F")
    (m, n), k = A.shape, min(A.shape)
    U, sigma, Vt = np.empty((m, k), order="F"), np.empty(k), np.empty((k, n), order="F")
    pivots, info = np.empty(8 * k, np.intc), ctypes.c_int(0)

    def call(work: Float, size: int) -> None:
        factors = (_at(sigma), _at(U), _i(m), _at(Vt), _i(k))
        integers = pivots.ctypes.data_as(_INT)
        _routines()["gesdd"](
            b"S", _i(m), _i(n), _at(work_on), _i(m), *factors, _at(work), _i(size), integers, ctypes.byref(info)
        )

    asked = np.empty(1)
    call(asked, -1)
    size = min(int(asked[0]) + 1, _MOST)
    call(np.empty(size), size)
    return U, sigma, Vt, info.value


def _lying(A: Float) -> tuple[Float, bytes]:
    """A matrix that lies by columns, and whether it is A ("N") or its transpose ("T"); a copy where neither does."""
    if by_columns(A):
        return A, b"N"
    if by_columns(A.T):
        return A.T, b"T"
    return np.asfortranarray(A), b"N"


def _vector(x: Float) -> tuple[Float, Any]:
    """A vector and the distance between its numbers, which is positive."""
    assert x.strides[0] > 0
    assert x.strides[0] % _ITEM == 0
    return x, _i(x.strides[0] // _ITEM)


def _i(value: int) -> Any:
    return ctypes.byref(ctypes.c_int(value))


def _d(value: ctypes.c_double) -> Any:
    return ctypes.cast(ctypes.byref(value), ctypes.c_void_p)


def _at(A: Float) -> int:
    address: int = A.__array_interface__["data"][0]  # a tenth of the time of A.ctypes.data, which imports and wraps
    return address


def _step(A: Float) -> Any:
    """The distance between columns, in numbers."""
    return _i(max(1, A.shape[0]) if A.shape[1] == 1 else A.strides[1] // _ITEM)
