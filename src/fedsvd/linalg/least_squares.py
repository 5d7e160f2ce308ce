"""Least squares on a factor: w over the rank that is above rounding, and a basis of the null space."""

from dataclasses import dataclass

import numpy as np

from fedsvd.linalg.backend import norm
from fedsvd.linalg.dense_svd import dense_svd, full_svd, rank
from fedsvd.linalg.verify import verify_least_squares, verify_svd
from fedsvd.types import Float


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
