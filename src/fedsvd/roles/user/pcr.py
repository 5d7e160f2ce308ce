"""Principal component regression at a user, on split rows: all of it from one exact sum (sum family, mode A).

Labels are further rows below the features, as in a regression. Users open the joint Gram matrix of the centred
``[X y]`` and hold its factor R; with ``R = [R_x r_y]`` and ``R_x = W S V^T``, V and S are those of the joint features
and ``W^T r_y`` is ``U^T y``, U the joint scores divided by S. User 1 sends V and S to all, as for a PCA, so that all
take the same components; coefficients and their table follow at home, without a message.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from fedsvd.compress.centre import scales_of
from fedsvd.errors import ConstantData
from fedsvd.linalg.answers import accepts
from fedsvd.linalg.backend import qr_r, to_numpy
from fedsvd.roles.user.opening import answer_of, joint_factor, orthogonality_of, read_answer
from fedsvd.roles.user.requests import Common, Local, Script
from fedsvd.roles.user.statistics import Prepared, centred, in_common_unit, joint_norms, scaled_rows, with_norm
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
        raise ConstantData(
            "no column of the joint table varies", "PCR needs a feature that is not the same in all rows"
        )
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


def _regressed(
    work: Work, mean: Float, rows: _Scaled, R: Float, U: Float, sigma: Float, taken: int, choice: Choice | None
) -> PCRResult:
    plan, f = work.plan, work.plan.m
    U, own = U[:, :taken], sigma[:taken]
    W = R[:, :f] @ U / own
    components = Components(U.T, own, np.zeros(f), plan.n)
    scales = np.ones(f) if rows.scales is None else rows.scales
    inverse = np.divide(1.0, scales, out=np.zeros(f), where=scales > 0)
    tables, weights = [], np.empty((plan.targets, f))
    for k in range(plan.targets):
        y, y_mean = R[:, f + k], float(mean[f + k])
        projected = W.T @ y
        left = y - W @ projected
        found = component_regression(components, projected, y_mean, float(y @ y), residual=float(left @ left))
        tables.append(found.table)
        weights[k] = found.coefficients * inverse
    energy = float(np.sum(np.square(R[:, :f])))
    intercept: Float = mean[f:] - weights @ mean[:f]
    return PCRResult(
        mean=mean[:f],
        U=U,
        sigma=own,
        spectrum=sigma,
        scales=rows.scales,
        total_energy=energy,
        coefficients=weights,
        intercept=intercept,
        inference=tuple(tables),
        rank=taken,
        residual=0.0,
        orthogonality=orthogonality_of(U),
        choice=choice,
    )
