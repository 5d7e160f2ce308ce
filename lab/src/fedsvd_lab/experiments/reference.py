"""The answer in one place, and how well it is known: LAPACK, LAPACK on permuted data, vectors in extended precision.

LAPACK's vectors are off by rounding over the gaps between singular values. Two runs of it on permuted copies of one
matrix differ by that much, so that is the scale for all other methods. For the top r vectors one can do better: one
Newton step on LAPACK's own basis, residuals in extended precision (``longdouble``, 64 bits of mantissa on x86).
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from fedsvd.types import Float
from fedsvd_lab.experiments import refined
from fedsvd_lab.experiments.compare import projection_distance, svd_rmse

_PERMUTATIONS = 2
_MOST = 10
_REFINABLE = 15_000_000


@dataclass(frozen=True, repr=False, eq=False)
class Reference:
    """The thin SVD of a joint matrix by LAPACK, and its distance to itself under permutations."""

    X: Float
    U: Float
    sigma: Float
    Vt: Float
    rank: int
    own_rmse: float
    permuted: tuple[Float, ...]  # the top left vectors of permuted copies, put back in order
    of_features: bool  # whether rows are features, as they are of the synthetic matrices

    most = _MOST

    @classmethod
    def of(cls, X: Float, seed: int, of_features: bool = False) -> "Reference":
        """The reference for a matrix; three SVDs of it."""
        U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
        rank = int(np.count_nonzero(sigma > max(X.shape) * np.finfo(float).eps * sigma[0]))
        rng = np.random.default_rng(seed)
        errors, leading = [], []
        for _ in range(_PERMUTATIONS):
            rows, columns = rng.permutation(X.shape[0]), rng.permutation(X.shape[1])
            A, _, B = np.linalg.svd(X[rows][:, columns], full_matrices=False)
            U_again, Vt_again = np.empty_like(A), np.empty_like(B)
            U_again[rows], Vt_again[:, columns] = A, B
            errors.append(svd_rmse(U[:, :rank], Vt[:rank], U_again[:, :rank], Vt_again[:rank]))
            leading.append(U_again[:, :_MOST].copy())
        return cls(X, U, sigma, Vt, rank, float(np.mean(errors)), tuple(leading), of_features)

    @property
    def refinable(self) -> bool:
        """Whether extended precision, which has no BLAS, takes seconds and not minutes."""
        return self.X.size <= _REFINABLE

    def own_distance(self, r: int) -> float:
        """LAPACK's distance to itself over the top r, the mean over permutations."""
        return float(np.mean([projection_distance(self.U[:, :r], U[:, :r]) for U in self.permuted]))

    @cache  # noqa: B019  (one reference is alive at a time)
    def truth(self, r: int) -> refined.Extended:
        """The top r left vectors in extended precision."""
        return refined.top_vectors(self.X, self.U, self.sigma, r)

    def own_truth(self, r: int) -> float:
        """How far LAPACK is from the refined reference."""
        return refined.distance(self.truth(r), self.U[:, :r])
