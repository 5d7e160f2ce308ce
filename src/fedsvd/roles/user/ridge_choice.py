"""A ridge chosen by cross-validation: the whole path of penalties from one joint factor (mode A).

All users hold the factor R of the joint rows, without a ridge in it, and so the path of coefficients and the
generalised cross-validation of every penalty, without a message. Exact leave-one-out needs each row's own leverage and
residual: every user computes them for its own rows, and one sum adds up the squared errors, a number for each penalty
and target. User 1 sends the number of the penalty it chose, and w for it; every other user tests both.
"""

from dataclasses import dataclass

import numpy as np

from fedsvd.errors import UnexpectedMessage, VerificationFailed
from fedsvd.linalg.backend import to_numpy
from fedsvd.linalg.dense_svd import dense_svd, rank
from fedsvd.protocol.plan import SessionPlan
from fedsvd.roles.user.prediction import ChosenRidge
from fedsvd.roles.user.requests import ASK_ITS_OWNER, Local, Script
from fedsvd.roles.user.statistics import Prepared
from fedsvd.roles.user.sums import wide_sum_of_floats
from fedsvd.roles.user.work import Work
from fedsvd.statistics.ridge_path import Choice, RidgePath, coefficients, generalised, leave_one_out_rows, left_out
from fedsvd.types import Float

_SLACK = 1e-9  # of the least error: beyond it another penalty than the best was sent, below it rounding decides


@dataclass(frozen=True, repr=False)
class Curve:
    """The path and the error of every penalty, in the data's own units; ``powers`` are those rows are scaled by."""

    choice: Choice
    path: Float  # (alphas, features, targets)
    rank: int
    powers: Float  # (features + targets,)

    def answer(self) -> Float:
        """What user 1 sends: w on scaled rows, the rank, and the number of the chosen penalty."""
        f = self.path.shape[1]
        w = self.path[self.choice.best] / self.powers[:f, None] * self.powers[f:]
        return np.concatenate((w.ravel(), [float(self.rank), float(self.choice.best)]))

    def chosen(self, numbers: Float) -> ChosenRidge:
        """The choice that user 1 sent; ``VerificationFailed`` where another penalty has a smaller error."""
        if numbers.shape != (1,) or numbers[0] not in range(len(self.choice.alphas)):
            raise UnexpectedMessage("user 1's answer names a penalty that the plan does not have")
        best, errors = int(numbers[0]), self.choice.errors
        if not errors[best] <= (1.0 + _SLACK) * float(np.min(errors)):
            raise VerificationFailed("the penalty that user 1 sent is not the best one", ASK_ITS_OWNER)
        alphas = self.choice.alphas
        return ChosenRidge(alphas, errors, float(alphas[best]), self.choice.method, self.path)


def error_curve(work: Work, about: Prepared, R: Float, inverse: Float) -> Script:
    """The error of every penalty of the plan; R is the factor of rows scaled by ``inverse``, in units of 2^E."""
    plan, f = work.plan, work.plan.m
    powers = np.ldexp(np.where(inverse > 0, inverse, 1.0), -about.E)
    found: _Spectrum = yield Local("path", lambda: _spectrum(plan, about, R * (inverse > 0) / powers))
    if plan.chosen_by == "gcv":
        choice = generalised(found.path, plan.alphas)
    else:
        own = yield Local("leave one out", lambda: _own_errors(work, about, found))
        total = yield from wide_sum_of_floats("left out", own, work.own)
        choice = left_out(found.path, plan.alphas, np.maximum(total, 0.0).reshape(own.shape))
    path: Float = yield Local("path", lambda: coefficients(R * (inverse > 0), powers, plan.alphas, f))
    path[:, inverse[:f] == 0.0, :] = 0.0
    return Curve(choice, path, found.rank, powers)


def unchosen(plan: SessionPlan) -> ChosenRidge:
    """What is left where no feature varies: every penalty gives the same model, and the first stands for all."""
    alphas = np.asarray(plan.alphas)
    path = np.zeros((len(alphas), plan.m, plan.targets))
    return ChosenRidge(alphas, np.full(len(alphas), np.nan), float(alphas[0]), plan.chosen_by, path)


@dataclass(frozen=True, repr=False)
class _Spectrum:
    path: RidgePath
    Vt: Float
    rank: int


def _spectrum(plan: SessionPlan, about: Prepared, R: Float) -> _Spectrum:
    f = plan.m
    U, values, Vt = dense_svd(R[:, :f])
    projected = U.T @ R[:, f:]
    outside = np.square(np.linalg.norm(R[:, f:] - U @ projected, axis=0))
    path = RidgePath(values, projected, outside, plan.n, plan.centre)
    return _Spectrum(path, Vt, rank(values, plan.m, plan.n))


def _own_errors(work: Work, about: Prepared, found: _Spectrum) -> Float:
    """The squared leave-one-out errors of our own rows, (alphas, targets)."""
    plan, f = work.plan, work.plan.m
    mean = np.zeros(plan.M) if about.mean is None else about.mean
    total = np.zeros((len(plan.alphas), plan.targets))
    for place, panel in work.panels("leave one out"):
        D = to_numpy(panel).T
        weights = None if work.row_weights is None else work.row_weights[place]
        about_joint = (mean[:f], mean[f:], found.Vt, found.path, plan.alphas)
        total += leave_one_out_rows(D[:, :f], D[:, f:], *about_joint, weights=weights, weight_sum=about.weight)
    return total
