"""Linear regression by gradient descent, as FATE and SecureML run it under their encryption and sharing.

Both protect every step and change none of them, so the error they reach is that of plain descent. FATE's vertical
regression takes full batches from zero; SecureML takes mini-batches of 128. The paper prints one figure for both and no
settings. Ours: features and labels standardised, which both systems recommend; from zero; a constant rate of one over
the largest curvature of what a step sees, the largest that is safe; SecureML's own fixed point (13 bits) left out,
which favours it. 10, 100 and 1000 epochs.
"""

from collections.abc import Sequence

import numpy as np

from fedsvd.types import Float

EPOCHS = (10, 100, 1000)
BATCH = 128


def full_batch(X: Float, y: Float, epochs: Sequence[int] = EPOCHS) -> dict[int, float]:
    """Mean squared error on the training data after so many epochs of one full-batch step each.

    The steps are taken on the Gram matrix: the same iterates, without a pass over the data for each.
    """
    Z, t, scale = _standardised(X, y)
    G, c, total = Z.T @ Z / len(Z), Z.T @ t / len(Z), float(t @ t) / len(Z)
    rate = 1.0 / max(float(np.linalg.eigvalsh(G)[-1]), np.finfo(float).tiny)
    w, errors = np.zeros(len(c)), {}
    for epoch in range(1, max(epochs) + 1):
        w -= rate * (G @ w - c)
        if epoch in epochs:
            errors[epoch] = scale**2 * float(w @ (G @ w) - 2 * c @ w + total)
    return errors


def mini_batches(
    X: Float, y: Float, epochs: Sequence[int] = EPOCHS, *, seed: int, batch: int = BATCH
) -> dict[int, float]:
    """The same for mini-batches in an order drawn once for each epoch."""
    Z, t, scale = _standardised(X, y)
    rng = np.random.default_rng(seed)
    rate = 1.0 / _curvature(Z, batch)
    w, errors = np.zeros(Z.shape[1]), {}
    starts = np.arange(0, len(Z), batch)
    for epoch in range(1, max(epochs) + 1):
        for start in rng.permutation(starts):
            B, s = Z[start : start + batch], t[start : start + batch]
            w -= rate / len(B) * (B.T @ (B @ w - s))
        if epoch in epochs:
            errors[epoch] = scale**2 * float(np.mean((Z @ w - t) ** 2))
    return errors


def optimum(X: Float, y: Float) -> float:
    """The least mean squared error there is: ordinary least squares with an intercept, by LAPACK."""
    A = np.column_stack((X, np.ones(len(X))))
    w, *_ = np.linalg.lstsq(A, y, rcond=None)
    return float(np.mean((A @ w - y) ** 2))


def _standardised(X: Float, y: Float) -> tuple[Float, Float, float]:
    """Rows shuffled once; columns and labels of mean 0 and deviation 1, constant columns zero; the labels' scale."""
    order = np.random.default_rng(len(X)).permutation(len(X))
    centred = X[order] - X.mean(axis=0)
    deviation = centred.std(axis=0)
    centred /= np.where(deviation > 0, deviation, 1.0)
    scale = float(y.std()) or 1.0
    return centred, (y[order] - y.mean()) / scale, scale


def _curvature(Z: Float, batch: int) -> float:
    """The largest curvature among all batches: at one over it no step of any batch leads away from its optimum."""
    largest = 0.0
    for start in range(0, len(Z), batch):
        B = Z[start : start + batch]
        small = B @ B.T if len(B) < B.shape[1] else B.T @ B
        largest = max(largest, float(np.linalg.eigvalsh(small)[-1]) / len(B))
    return max(largest, np.finfo(float).tiny)
