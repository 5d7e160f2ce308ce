"""What an exact Gram matrix gives when it is rounded to float64, where that is proved to cost three bits and no more.

The factor of ``wide_factor.py`` has all digits at any condition number, for two more exact products and as many
operations as a factorisation takes. Where the answer concerns singular values within a factor of 8 of each other ADR
0018 holds: eigenvectors of G, or its normal equations, are as good. None stands for all other matrices (ADR 0113).
"""

import math

import numpy as np

from fedsvd.linalg.backend import EPS, cholesky, column_norms, matmul, norm, solve_triangular
from fedsvd.linalg.dense_svd import FEW, has_even_values, leads, top_of_gram
from fedsvd.linalg.verify import Quality, verify_orthonormal, within
from fedsvd.types import Float


def top_of_rounded(H: Float, r: int, tolerance: float) -> tuple[Float, Float, Quality] | None:
    """U and S of the top r, few of many, from the symmetric H, and what was verified; None where S_1 exceeds 8 S_r.

    That they are the top is proved by a Cholesky factor. The residual is that of ``verify_truncated``: with
    ``v = A^T u / s`` it is ``||H u - s^2 u|| / (s s_1)``, for any A whose Gram matrix is H.
    """
    if len(H) < FEW * r:
        return None
    top = top_of_gram(H, r)
    if top is None or not leads(H, *top):
        return None
    sigma, U = top
    off = (matmul(H, U) - U * np.square(sigma)) / (sigma * sigma[0])
    residual = float(np.max(column_norms(off)))
    most = Quality(tolerance + EPS * (64 + 4 * math.sqrt(2 * len(H))), math.inf)
    return U, sigma, within(Quality(residual, verify_orthonormal(U)), most)


def solution_of_rounded(H: Float, targets: int) -> tuple[Float, float] | None:
    """w of the normal equations of features and labels, H their Gram matrix, and its residual; None unless H is even.

    The residual is that of ``verify_least_squares``. One step of refinement takes off what Cholesky's rounding left.
    """
    features = len(H) - targets
    if features < 1:
        return None
    K, right = np.asfortranarray(H[:features, :features]), H[:features, features:]
    if not has_even_values(K):
        return None
    R = cholesky(K)
    if R is None:
        return None
    w = np.zeros(right.shape)
    for _ in range(2):
        left = right - matmul(K, w)
        w += solve_triangular(R, solve_triangular(R, left, transposed=True))
    size, labels = (math.sqrt(float(np.trace(part))) for part in (K, H[features:, features:]))
    gradient = norm(matmul(K, w) - right)
    residual = gradient / size / (size * norm(w) + labels) if gradient else 0.0
    most = Quality(EPS * (64 + 2 * len(H)), 0.0)
    return w, within(Quality(residual, 0.0), most).residual
