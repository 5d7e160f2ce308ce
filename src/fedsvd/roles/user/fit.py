"""What a user holds after a regression, whichever way the data was split."""

from dataclasses import dataclass

import numpy as np

from fedsvd.statistics.inference import LinearInference
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class RegressionResult:
    """What a user holds: coefficients (targets, features), its own when columns are split; intercept (targets,)."""

    coefficients: Float
    intercept: Float
    rank: int
    residual: float
    constant: tuple[int, ...]  # own columns without variance, whose coefficients are zero
    fitted: Float | None = None  # the label holder's: fitted values on the training rows
    inference: tuple[LinearInference, ...] = ()  # to each target, where the plan releases it

    def __repr__(self) -> str:
        return f"RegressionResult(coefficients={self.coefficients.shape}, rank={self.rank})"


def lasting_directions(G: Float) -> Float:
    """The combinations, (q, q'), of a null basis that outlast the undoing of scales.

    A constant column is a zero column once centred, and a null direction of its own, which vanishes with its scale
    of zero. Only rounding would be left of it, and w must not be projected along that. ``G`` is the Gram matrix of
    the rows of the (orthonormal) basis that belong to columns with variance: its eigenvalues are 1 or 0.
    """
    values, vectors = np.linalg.eigh(G)
    lasting: Float = vectors[:, values > 0.5]
    return lasting
