"""What a user holds after a regression, and prediction with it on split columns.

Each user's partial scores are added up for the label holder alone. With two users the label
holder learns the partner's partial scores, and the release note says so.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.linalg.backend import matmul, to_numpy
from fedsvd.protocol.steps import FINE_STEP
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.sums import bound_sum, total_sum
from fedsvd.roles.user.work import Work
from fedsvd.statistics.inference import LinearInference
from fedsvd.types import Float

TWO_DIGITS = 1e-2


@dataclass(frozen=True, repr=False)
class ChosenRidge:
    """How a penalty was chosen: the error of each, and the coefficients of each, (alphas, features, targets)."""

    alphas: Float
    errors: Float  # mean squared errors, the mean over targets
    alpha: float
    method: str  # "loo" or "gcv"
    coefficients: Float  # on split columns of none of them: those of the chosen one are the result
    within: Float | None = None  # (targets,), on split columns: how far rounding may move any coefficient

    def uncertain(self, coefficients: Float) -> int:
        """How many of these, (targets, features), may be off in their first two digits."""
        if self.within is None:
            return 0
        return int(np.count_nonzero((self.within[:, None] > TWO_DIGITS * np.abs(coefficients)) & (coefficients != 0)))

    def __repr__(self) -> str:
        return f"ChosenRidge(alphas={len(self.alphas)}, method={self.method})"


@dataclass(frozen=True, repr=False)
class RegressionResult:
    """What a user holds: coefficients (targets, features), its own when columns are split; intercept (targets,)."""

    coefficients: Float
    intercept: Float
    rank: int
    residual: float | None
    constant: tuple[int, ...]  # own columns without variance, whose coefficients are zero
    fitted: Float | None = None  # the label holder's: fitted values on the training rows
    inference: tuple[LinearInference, ...] = ()  # to each target, where the plan releases it
    path: ChosenRidge | None = None  # where a ridge was chosen by cross-validation
    bits: float = 0.0  # that users opened, by few digits
    means: Float | None = None  # of all users' columns, (features + targets,), where rows are split and centred

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


@dataclass(frozen=True, repr=False)
class PredictionResult:
    """The predictions, (rows, targets), at the label holder; None elsewhere."""

    predictions: Float | None

    def __repr__(self) -> str:
        return f"PredictionResult(held={self.predictions is not None})"


def script(work: Work) -> Script:
    """``sum_i X_i w_i + intercept``, for the label holder."""
    if work.weights is None:
        raise ConfigError("a prediction needs this party's coefficients", "load them from a result first")
    predictions = yield from summed_for_label_holder(work, *work.weights)
    return PredictionResult(predictions)


def summed_for_label_holder(work: Work, w_i: Float, intercept: Float) -> Script:
    """The sum of all partial scores plus the intercept at the label holder, None at the others."""
    scores_i: Float = yield Local("partial scores", lambda: _partial(work, w_i))
    size = float(np.abs(scores_i).max(initial=0.0))
    E = yield from bound_sum("score bound", math.frexp(size)[1] if size else None, work.own)
    if E is None:
        E = 0
    # Noise of our largest score's last digit, in all rows: digits would show which rows are zero at all others but one.
    width = max(0, FINE_STEP + math.frexp(math.ulp(size))[1] - E) if size else 0
    summed = yield from total_sum(work.plan, "scores", np.ldexp(scores_i, -E), work.own, width)
    return None if summed is None else np.ldexp(summed, E) + intercept


def _partial(work: Work, w_i: Float) -> Float:
    scores_i, W = np.empty((work.source.shape[0], w_i.shape[1])), work.put(w_i)
    for part, X in work.row_panels("partial scores"):
        scores_i[part] = to_numpy(matmul(X, W))
    return scores_i
