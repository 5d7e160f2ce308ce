"""Regression on split rows: compressed on ``[X_i y_i]^T`` with ``P = [[P_f, 0], [a^T, 1]]``, a from the group seed.

The label rows are blinded by ``a^T X_i`` before the masks; the CSP solves for w', and all users take
``w = P_f^T w' - a``. A ridge is columns ``[sqrt(alpha) I; 0]`` that user 1 appends.
"""

from dataclasses import dataclass

import numpy as np

from fedsvd.compress.centre import unit_scales
from fedsvd.linalg.backend import namespace, to_numpy
from fedsvd.masks.remove import unmask_left
from fedsvd.protocol.messages import Solution
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user.columns import inverse_powers, penalised
from fedsvd.roles.user.fit import RegressionResult, lasting_directions
from fedsvd.roles.user.masking import Operand
from fedsvd.roles.user.requests import Script, Upload
from fedsvd.roles.user.statistics import Centred, centred, uncentred
from fedsvd.roles.user.work import Work, entry_bound, joint_norm
from fedsvd.types import Array


def script(work: Work) -> Script:
    """Rows are split: compressed on ``[X_i y_i]^T`` with ``P = [[P_f, 0], [a^T, 1]]``; all users end with w."""
    plan, masks, f, t = work.plan, work.masks, work.plan.m, work.plan.targets
    about: Centred = yield from (centred(work, energies=True) if plan.centre else uncentred(work))
    deviation = unit_scales(about.energy, plan.n, about.mean) if plan.centre else np.sqrt(about.energy / plan.n)
    inverse = inverse_powers(np.append(penalised(deviation[:f], plan.alpha, plan.n), deviation[f:]))
    d_y = 1.0 / np.where(inverse[f:] > 0, inverse[f:], 1.0)
    a = np.zeros((f, t)) if plan.published else 2.0 * Keystream(masks.group.derive("a")).normal((f, t))
    ridge = np.sqrt(plan.alpha) * inverse[:f] if work.leads and plan.ridge_columns else np.zeros(0)
    scales, blinds = work.put(inverse[:, None]), work.put(a)
    A_i = Blinded(about.A_i, scales, blinds, work.put(ridge), plan.widths[work.i] - len(ridge))
    F = yield from joint_norm(work, A_i)
    solution: Solution = yield Upload(lambda w: masks.column_panel(A_i, w), (entry_bound(work, F), 0.0))
    w = (to_numpy(unmask_left(work.put(solution.w_masked), masks.P)) - a) * inverse[:f, None]
    null = to_numpy(unmask_left(work.put(solution.null_masked), masks.P))
    if null.shape[1]:
        varying = null[inverse[:f] > 0]
        null = null @ lasting_directions(varying.T @ varying) * inverse[:f, None]
        along, *_ = np.linalg.lstsq(null, w, rcond=None)
        w = w - null @ along
    w = w * d_y
    intercept = about.mean[f:] - about.mean[:f] @ w if plan.centre else np.zeros(t)
    constant = tuple(int(j) for j in np.flatnonzero(deviation[:f] == 0))
    return RegressionResult(w.T, intercept, solution.rank, solution.residual, constant)


@dataclass(frozen=True, repr=False)
class Blinded:
    """A_i scaled row by row, its label rows plus ``a^T`` of its feature rows, and the ridge's columns at the end."""

    inner: Operand
    inverse: Array  # as a column
    a: Array
    ridge: Array  # the diagonal of the ridge's columns; empty without one
    width: int  # columns of the data part

    def columns(self, start: int, stop: int) -> Array:
        f, rows = self.a.shape[0], self.inverse.shape[0]
        data = self.inner.columns(min(start, self.width), min(stop, self.width)) * self.inverse
        first, last = max(start - self.width, 0), max(stop - self.width, 0)
        xp = namespace(data)
        eye = xp.eye(rows, last - first, k=-first, dtype=xp.float64, device=data.device)
        A = xp.concat((data, eye * self.ridge[first:last]), axis=1)
        A[f:, :] += self.a.T @ A[:f, :]
        return A

    def rows(self, start: int, stop: int) -> Array:
        return self.columns(0, self.width + self.ridge.shape[0])[start:stop, :]
