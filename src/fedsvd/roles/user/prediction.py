"""Prediction on split columns: each user's partial score, added up for the label holder alone (02-protocol, section 2).

With two users the label holder learns the partner's partial scores, and the ledger says so.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.linalg.backend import to_numpy
from fedsvd.roles.user.requests import Local, Script, Sum
from fedsvd.roles.user.work import Work
from fedsvd.types import Float


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
    # A bound is all the sum needs: rounded up to a power of two, it is all that the others learn of our scores.
    energy = float(np.sum(scores_i**2))
    total = yield Sum("score norm", np.array([math.ldexp(1.0, math.frexp(energy)[1]) if energy > 0 else 0.0]))
    summed = yield Sum("scores", scores_i, bound=float(np.sqrt(total[0])), receiver=work.plan.label_user)
    return None if summed is None else summed + intercept


def _partial(work: Work, w_i: Float) -> Float:
    scores_i, W = np.empty((work.source.shape[0], w_i.shape[1])), work.put(w_i)
    for part, X in work.row_panels("partial scores"):
        scores_i[part] = to_numpy(X @ W)
    return scores_i
