"""What each party would hold after a run, in scikit-learn's words.

Between institutions these are different people's results; here they lie side by side in ``parties_``. What all
parties share is one array, kept once: their own copies differ in the last bits at most.
"""

from dataclasses import dataclass

import numpy as np

from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class PartyFactors:
    """After SVD or LSA. Split by rows, ``components_`` is shared and ``U_`` its own rows; by columns, the reverse."""

    U_: Float
    singular_values_: Float
    components_: Float

    def __repr__(self) -> str:
        return f"PartyFactors(U_={self.U_.shape}, components_={self.components_.shape})"


@dataclass(frozen=True, repr=False)
class PartyScores:
    """After PCA: the mean and the components are shared, ``scores_`` (n_i, rank) are its own."""

    mean_: Float
    components_: Float
    scores_: Float

    def __repr__(self) -> str:
        return f"PartyScores(scores_={self.scores_.shape}, components_={self.components_.shape})"


@dataclass(frozen=True, repr=False)
class PartyCoefficients:
    """After a regression: ``coef_`` is its own when columns are split, shared when rows are."""

    coef_: Float
    intercept_: Float | float
    constant_: tuple[int, ...]  # its columns without variance, whose coefficients are zero

    def __repr__(self) -> str:
        return f"PartyCoefficients(coef_={self.coef_.shape})"


def padded(A: Float, length: int, axis: int) -> Float:
    """A with zeros up to ``length`` along one axis: the shape scikit-learn promises where rank was lost."""
    missing = length - A.shape[axis]
    if missing <= 0:
        return A
    return np.pad(A, [(0, missing if side == axis else 0) for side in range(A.ndim)])
