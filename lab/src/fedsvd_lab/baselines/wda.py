"""WDA-PCA: distributed averaging for PCA, weighted by eigenvalues (Bhaskara and Wijewardena, NeurIPS 2019).

Each party sends the top r eigenvalues and eigenvectors of its own covariance; the server averages the rank-r matrices
they make, and takes the top r of the average. Exact where every local rank is at most r, or all covariances are equal;
else it carries what the parties cut off.
"""

from collections.abc import Sequence

import numpy as np

from fedsvd.types import Float
from fedsvd_lab.baselines.subspace import Subspace, top_eigenvectors


def wda_pca(parts: Sequence[Float], r: int) -> Subspace:
    """The top r of the averaged rank-r covariances of Y_i, shape (features, samples); weights by sample counts."""
    d, total = parts[0].shape[0], sum(Y_i.shape[1] for Y_i in parts)
    average = np.zeros((d, d))
    for Y_i in parts:
        n = Y_i.shape[1]
        local = _local(Y_i, r)
        average += n / total * (local.U * local.weights) @ local.U.T
    return top_eigenvectors(average, r)


def _local(Y_i: Float, r: int) -> Subspace:
    """What one party sends: the top r of its covariance."""
    return top_eigenvectors(Y_i @ Y_i.T / Y_i.shape[1], r)
