"""A principal subspace with its weights: what the baselines of the paper's section 5 send about in place of data."""

from dataclasses import dataclass

import numpy as np

from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class Subspace:
    """Orthonormal columns U by falling weight: eigenvalues, or singular values."""

    U: Float  # (d, r)
    weights: Float  # (r,)


def top_eigenvectors(A: Float, r: int) -> Subspace:
    """The r largest eigenvalues of a symmetric matrix and their vectors."""
    values, vectors = np.linalg.eigh(A)
    return Subspace(np.ascontiguousarray(vectors[:, ::-1][:, :r]), values[::-1][:r].copy())


def merge(one: Subspace, other: Subspace, r: int) -> Subspace:
    """The top r left singular vectors of ``[U_1 S_1, U_2 S_2]``, without forming it: Merge_r of Grammenos et al.

    What U_2 has outside U_1 is orthonormalised; the small matrix in the common basis has the same singular values.
    """
    Z = one.U.T @ other.U
    Q, R = np.linalg.qr(other.U - one.U @ Z)
    k = len(one.weights)
    small = np.block([[np.diag(one.weights), Z * other.weights], [np.zeros((Q.shape[1], k)), R * other.weights]])
    W, weights, _ = np.linalg.svd(small, full_matrices=False)
    return Subspace(np.hstack((one.U, Q)) @ W[:, :r], weights[:r])


def right_vectors(Y: Float, space: Subspace) -> Float:
    """Orthonormal rows ``Vt`` that go with U: the directions of ``U^T Y``, zero where there is nothing."""
    rows = space.U.T @ Y
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(size > 0, size, 1.0)
