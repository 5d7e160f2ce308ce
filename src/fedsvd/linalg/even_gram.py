"""Whether columns are even enough for their Gram matrix to stand for their factor (ADR 0018), and labels next to them.

``is_even`` proves it, by two Cholesky factorisations; ``looks_even`` looks at some of the columns before a long chunk
is multiplied. A label mostly follows from the features, and is not even next to them: ``less_regression`` takes off
what follows.
"""

import numpy as np

from fedsvd.linalg import backend
from fedsvd.linalg.dense_svd import EVEN_SHARES, SMALLEST_SQUARE, has_even_values
from fedsvd.linalg.solved_columns import IN_CACHE, prepared
from fedsvd.types import Array, Float

_SOME = 192  # features that are looked at


def is_even(K: Array) -> bool:
    """Whether all eigenvalues of K are in ``EVEN_SHARES`` of their mean (``dense_svd``).

    In host memory this is asked of columns that powers of two bring to one length: rounding is relative to lengths.
    """
    return has_even_values(_scaled(K) if isinstance(K, np.ndarray) else K)


def looks_even(X: Float, shift: Float | None) -> bool:
    """Whether some of the features are even, as they are where all of them are, for eigenvalues of a part lie between
    those of the whole."""
    some = slice(0, len(X), -(-len(X) // _SOME))
    part = X[some] if shift is None else X[some] - shift[some]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        K = backend.matmul(part, part.T)
        roots = np.sqrt(np.diagonal(K))
        K = K / np.multiply.outer(roots, roots)
    if not np.isfinite(K).all():
        return False
    values = np.linalg.eigvalsh(K)
    # Of columns of one length; the proof has them within a factor of two of each other.
    return bool(values[-1] <= 4.0 * EVEN_SHARES[1] / EVEN_SHARES[0] * values[0])


def less_regression(K: Float, X: Float, shift: Float | None, f: int) -> tuple[Float, Float | None]:
    """The Gram matrix of these columns with labels less their regression on the first f, and its coefficients.

    K is theirs as they are, its upper triangle. The regression needs no digits: what is left is made of the labels.
    """
    S = backend.cholesky(K[:f, :f])
    if S is None:
        return K, None
    W = backend.solve_triangular(S, backend.solve_triangular(S, K[:f, f:], transposed=True))
    if not np.isfinite(W).all():
        return K, None
    cross, square = np.zeros(W.shape), np.zeros((W.shape[1], W.shape[1]))
    for start in range(0, X.shape[1], step := max(1, IN_CACHE // len(K))):
        columns = prepared(X[:, start : start + step], shift)
        left = columns[f:] - W.T @ columns[:f]
        cross += columns[:f] @ left.T
        square += left @ left.T
    K[:f, f:], K[f:, f:] = cross, square
    return K, W


def _scaled(K: Float) -> Float:
    """The Gram matrix of the same columns, each times a power of two: of a length from 1 to 2 where they differ."""
    squares = np.diagonal(K)
    low, high = float(squares.min()), float(squares.max())
    if not SMALLEST_SQUARE < low <= high < float("inf") or high <= 4.0 * low:
        return K
    scale = np.ldexp(1.0, -(np.frexp(squares)[1] // 2))
    scaled: Float = K * scale[:, None] * scale
    return scaled
