"""Joint matrices that are hard in some way, ways to split them, and the bars a federation's answer must meet.

The bars are those of ``tests/tolerances.py``: everything is compared with NumPy or scikit-learn on the joint data.
"""

from collections.abc import Callable, Sequence

import numpy as np
from tests.tolerances import ORTHONORMAL_BAR, VALUES_BAR, digits_lost

from fedsvd.protocol.tasks import Split
from fedsvd.types import Float

M, N = 12, 30
SCHEMES = ("sum", "mask")
CUTS = {
    "even": (15,),
    "one column": (1,),
    "one column last": (N - 1,),
    "wildly different": (1, 3, 27),
    "five": (4, 9, 17, 22),
}


def rotation(n: int, rng: np.random.Generator) -> Float:
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


def of_spectrum(sigma: Sequence[float], m: int = M, n: int = N, seed: int = 0) -> Float:
    """A matrix with these singular values, the others zero up to rounding."""
    rng, r = np.random.default_rng(seed), len(sigma)
    return rotation(m, rng)[:, :r] * np.asarray(sigma) @ rotation(n, rng)[:r]


def _gaussian(m: int = M, n: int = N) -> Float:
    return np.random.default_rng(1).normal(size=(m, n))


def _with(change: Callable[[Float], None]) -> Float:
    X = _gaussian()
    change(X)
    return X


def _zero_rows(X: Float) -> None:
    X[[3, 11]] = 0.0


def _duplicated_rows(X: Float) -> None:
    X[[5, 7]] = X[2]


def _constant_columns(X: Float) -> None:
    X[:, [4, 20]] = 7.0


def _spread_columns(X: Float) -> None:
    X *= np.logspace(-8, 8, N)


MATRICES: dict[str, Callable[[], Float]] = {
    "gaussian": _gaussian,
    "condition 1e6": lambda: of_spectrum(np.logspace(0, -6, M)),
    "condition 1e12": lambda: of_spectrum(np.logspace(0, -12, M)),
    "clustered": lambda: of_spectrum([1.0] * 6 + [1e-5] * 6),
    "rank five": lambda: of_spectrum([3.0, 2.0, 1.0, 1e-3, 1e-5]),
    "zero rows": lambda: _with(_zero_rows),
    "duplicated rows": lambda: _with(_duplicated_rows),
    "constant columns": lambda: _with(_constant_columns),
    "columns of 1e-8 to 1e8": lambda: _with(_spread_columns),
    "whole numbers": lambda: np.random.default_rng(2).integers(0, 6, (M, N)).astype(float),
    "large mean": lambda: _gaussian() + 1e8,
    "ones": lambda: np.ones((M, N)),
    "zeros": lambda: np.zeros((M, N)),
    "tiny": lambda: 1e-100 * _gaussian(),
    "huge": lambda: 1e100 * _gaussian(),
    "tall": lambda: _gaussian(70, N),
    "one row": lambda: _gaussian(1, N),
}


def split_as(X: Float, cuts: Sequence[int], split: Split) -> list[Float]:
    """The tables of a joint X, (m, n), samples in rows: split by columns they are X_i, by rows X_i^T."""
    parts = np.split(X, list(cuts), axis=1)
    return parts if split is Split.VERTICAL else [X_i.T for X_i in parts]


def expect_svd(X: Float, results: Sequence, components: int | None = None) -> None:
    """What every user holds is the SVD of X: the same U and S at all, each its own Vt_i; rank as NumPy counts it."""
    exact = np.linalg.svd(X, compute_uv=False)
    rank = int(np.linalg.matrix_rank(X))
    r = rank if components is None else min(rank, components)
    U, sigma, Vt = results[0].U, results[0].sigma, np.hstack([result.Vt_i for result in results])
    assert (U.shape, sigma.shape, Vt.shape) == ((X.shape[0], r), (r,), (r, X.shape[1]))
    assert {result.rank for result in results} == {r}
    for other in results[1:]:
        np.testing.assert_allclose(other.U, U, rtol=0, atol=ORTHONORMAL_BAR)
        np.testing.assert_array_equal(other.sigma, sigma)
    top = max(float(exact[0]), np.finfo(float).tiny)
    assert np.abs(sigma - exact[:r]).max(initial=0.0) <= VALUES_BAR * top
    assert np.all(np.diff(sigma) <= 0)
    rest = exact[r] if r < len(exact) else 0.0
    assert np.linalg.norm(U * sigma @ Vt - X, 2) - rest <= VALUES_BAR * top
    assert np.abs(U.T @ U - np.eye(r)).max(initial=0.0) <= ORTHONORMAL_BAR
    assert np.abs(Vt @ Vt.T - np.eye(r)).max(initial=0.0) <= ORTHONORMAL_BAR
    largest = np.abs(U).argmax(axis=0)
    ties = np.sort(np.abs(U), axis=0)
    decided = ties[-1] > (1 + digits_lost(7)) * ties[-2] if X.shape[0] > 1 else np.ones(r, bool)
    assert np.all(U[largest, np.arange(r)][decided] > 0), "the sign rule is scikit-learn's, on U"


def vectors_apart(U: Float, V: Float) -> Float:
    """How far apart paired unit vectors are, sign apart."""
    signs = np.sign(np.einsum("ij,ij->j", U, V))
    return np.linalg.norm(U - V * signs, axis=0)
