"""Principal component regression at a user, on split rows: from one exact sum (sum family, mode A), or by steps.

In the sum family labels are further rows below the features, as in a regression. Users open the joint Gram matrix of
the centred ``[X y]`` and hold its factor R; with ``R = [R_x r_y]`` and ``R_x = W S V^T``, V and S are those of the
joint features and ``W^T r_y`` is ``U^T y``, U the joint scores divided by S. User 1 sends V and S to all, as for a
PCA, so that all take the same components; coefficients and their table follow at home, without a message.

By steps users find V and S of the features alone, and each holds its rows of U, which are orthonormal over all users.
``U^T y`` is a sum of r numbers a target, and what it leaves of y is another one: no difference of larger numbers.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from fedsvd.compress.centre import scales_of
from fedsvd.errors import ConstantData
from fedsvd.linalg.answers import accepts
from fedsvd.linalg.backend import qr_r, to_numpy
from fedsvd.protocol.sums import LABEL_MEAN, LEFT, PROJECTED
from fedsvd.protocol.tasks import Scheme
from fedsvd.roles.user.by_steps import open_by_steps
from fedsvd.roles.user.checks import Checked
from fedsvd.roles.user.opening import Opened, answer_of, joint_factor, orthogonality_of, read_answer
from fedsvd.roles.user.pca import standardised
from fedsvd.roles.user.requests import Common, Local, Script
from fedsvd.roles.user.statistics import Prepared, centred, in_common_unit, joint_norms, scaled_rows, with_norm
from fedsvd.roles.user.sums import wide_sum_of_floats
from fedsvd.roles.user.work import Work
from fedsvd.statistics.components import Choice, choose
from fedsvd.statistics.inference import LinearInference
from fedsvd.statistics.projection import Components, component_regression
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class PCRResult:
    """What every user holds after component regression: the PCA of the features, and the model in both bases."""

    mean: Float  # (f,)
    U: Float  # (f, k)
    sigma: Float  # (k,)
    spectrum: Float  # all that is released: k, or with a rule all there are
    scales: Float | None  # what features were divided by, 0 for constant ones; None as they are
    total_energy: float
    coefficients: Float  # (targets, f), of the features
    intercept: Float  # (targets,)
    inference: tuple[LinearInference, ...]  # of the components, a table for each target
    rank: int
    residual: float
    orthogonality: float
    choice: Choice | None = None
    checked: Checked | None = None  # how the components were found, by steps

    def __repr__(self) -> str:
        return f"PCRResult(U={self.U.shape}, coefficients={self.coefficients.shape})"


@dataclass(frozen=True, repr=False)
class _Scaled:
    """Rows of A_i times ``factors``; ``back`` turns columns of R into the units in which the PCA is, and the labels."""

    factors: Float  # (f + t,); 0 for a row that does not vary
    back: Float
    scales: Float | None


def script(work: Work) -> Script:
    """Centre, scale, open the joint Gram matrix; V and S from user 1; the regression at home."""
    plan, f = work.plan, work.plan.m
    if plan.scheme is Scheme.STEPS:
        return (yield from _by_steps(work))
    about: Prepared = yield from in_common_unit(work, (yield from centred(work)))
    norms = np.zeros(plan.M) if about.zero else (yield from joint_norms(work, about))
    mean = about.mean
    assert mean is not None
    rows = _scaled(work, about, norms)
    prepared = replace(about, A_i=scaled_rows(work, about.A_i, rows.factors), E=0)
    prepared = yield from with_norm(work, prepared)
    joint, unit = yield from joint_factor(work, prepared)
    R = to_numpy(joint.R) * unit.F * rows.back
    square = to_numpy(qr_r(R[:, :f]))
    r = plan.planned_rank
    content: bytes = yield Common("answer", lambda: answer_of(square, r, plan.n))
    U, sigma = read_answer(content, f, r)
    if not work.leads:
        yield Local("acceptance", lambda: accepts(square, U, sigma, max(plan.m, plan.n) * 2.0**-52))
    choice = choose(plan.components_by, sigma, plan.n, plan.m) if plan.components_by else None
    taken = min(int(np.count_nonzero(sigma)), r if choice is None else choice.count)
    return (yield Local("regression", lambda: _regressed(work, mean, rows, R, U, sigma, taken, choice)))


def _scaled(work: Work, about: Prepared, norms: Float) -> _Scaled:
    plan, f = work.plan, work.plan.m
    mean = np.ldexp(about.mean if about.mean is not None else np.zeros(plan.M), -about.E)
    deviation = scales_of(norms, plan.n, mean)
    if not deviation[:f].any():
        raise ConstantData("no column of the joint table varies", "bring a feature that is not the same in all rows")
    varying = deviation > 0
    base = np.where(varying, 1.0, 0.0)  # constant rows hold rounding alone
    if plan.unit_variance:
        base[:f] = np.divide(1.0, deviation[:f], out=np.zeros(f), where=varying[:f])
    features = float(np.linalg.norm(norms[:f] * base[:f]))
    # Powers of two bring the features together, and each label, below a joint norm of 1: no digit changes.
    powers = np.concatenate((np.full(f, math.frexp(features)[1]), np.frexp(norms[f:])[1]))
    units = np.full(plan.M, about.E)
    if plan.unit_variance:
        units[:f] = 0
    scales = np.ldexp(deviation[:f], about.E) if plan.unit_variance else None
    return _Scaled(np.ldexp(base, -powers), np.where(varying, np.ldexp(1.0, powers + units), 0.0), scales)


@dataclass(frozen=True, repr=False)
class _Fitted:
    """Components, and labels on them."""

    components: Components  # about zero
    mean: Float  # of the features
    scales: Float | None
    label_mean: Float
    projected: Float  # (k, targets)
    left: Float  # squares of what components leave of each target

    def result(self, spectrum: Float, energy: float) -> PCRResult:
        """Tables of the components, and coefficients of the features."""
        about, f, targets = self.components, len(self.mean), len(self.label_mean)
        scales = np.ones(f) if self.scales is None else self.scales
        inverse = np.divide(1.0, scales, out=np.zeros(f), where=scales > 0)
        tables, weights = [], np.empty((targets, f))
        for k, (y_mean, left) in enumerate(zip(self.label_mean.tolist(), self.left.tolist(), strict=True)):
            own = self.projected[:, k]
            found = component_regression(about, own, y_mean, float(own @ own) + left, residual=left)
            tables.append(found.table)
            weights[k] = found.coefficients * inverse
        intercept: Float = self.label_mean - weights @ self.mean
        return PCRResult(
            mean=self.mean,
            U=about.Vt.T,
            sigma=about.values,
            spectrum=spectrum,
            scales=self.scales,
            total_energy=energy,
            coefficients=weights,
            intercept=intercept,
            inference=tuple(tables),
            rank=len(about.values),
            residual=0.0,
            orthogonality=orthogonality_of(about.Vt.T),
        )


def _regressed(
    work: Work, mean: Float, rows: _Scaled, R: Float, U: Float, sigma: Float, taken: int, choice: Choice | None
) -> PCRResult:
    f, y = work.plan.m, R[:, work.plan.m :]
    components = Components(U[:, :taken].T, sigma[:taken], np.zeros(f), work.plan.n)
    W = R[:, :f] @ U[:, :taken] / sigma[:taken]
    projected = W.T @ y
    left = np.sum(np.square(y - W @ projected), axis=0)
    fitted = _Fitted(components, mean[:f], rows.scales, mean[f:], projected, left)
    return replace(fitted.result(sigma, float(np.sum(np.square(R[:, :f])))), choice=choice)


# --- by steps ---------------------------------------------------------------------------------------------------------


def _by_steps(work: Work) -> Script:
    """The first components of the features by steps, then sums of labels on them."""
    plan, y = work.plan, work.labels
    prepared: Prepared = yield from standardised(work)
    opened: Opened = yield from open_by_steps(work, prepared)
    mean, sigma, own = prepared.mean, opened.sigma, opened.own
    assert mean is not None
    assert sigma is not None
    assert own is not None
    assert y is not None
    sums = np.array([math.fsum(column) for column in y.T.tolist()])
    label_mean = (yield from wide_sum_of_floats(LABEL_MEAN, sums, work.own)) / plan.n
    about, rank = y - label_mean, len(sigma)
    products = np.zeros((plan.planned_rank, plan.targets))
    products[:rank] = own.T @ about
    added = yield from wide_sum_of_floats(PROJECTED, products.ravel(), work.own)
    projected = added.reshape(products.shape)[:rank]
    squares = np.sum(np.square(about - own @ projected), axis=0)
    left: Float = np.maximum((yield from wide_sum_of_floats(LEFT, squares, work.own)), 0.0)
    norms = np.sqrt(np.sum(np.square(projected), axis=0) + left)
    varies = scales_of(norms, plan.n, label_mean) > 0.0  # what a constant target leaves is rounding
    components = Components(opened.U.T, sigma, np.zeros(plan.m), plan.n)
    fitted = _Fitted(components, mean, prepared.scales, label_mean, projected * varies, left * varies)
    found = yield Local("regression", lambda: fitted.result(sigma, opened.total_energy or 0.0))
    choice = Choice(plan.components_by, rank) if plan.components_by else None
    return replace(found, residual=opened.residual, checked=opened.checked, choice=choice)
