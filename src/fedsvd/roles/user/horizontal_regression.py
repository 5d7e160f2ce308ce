"""Regression on split rows: the sum family on ``[X_i y_i]^T``, rows scaled by powers of two (steps 3 to 8).

In mode B the CSP opens the sum under ``P = [[P_f, 0], [a^T, I]]``, a from the mask seed: it solves for w', and all
users take ``w = P_f^T w' - a``. In mode A the users open it, and user 1 sends w to all; where inference is released,
every user computes it locally from its factor; two sums refine it where the table is ill-conditioned
(``refinement.py``), two more make standard errors robust. A ridge is columns
``[sqrt(lambda) I; 0]`` that user 1 folds into its factor; one that is chosen by cross-validation is not in the sum, and
follows from the factor (``ridge_choice.py``). Rows may have weights: all sums are then of weighted rows.

Robust standard errors, which do not assume equal variances, come after the table itself (step 8).

    covariance = root (sum_i M_i^T M_i) root^T,    root root^T = (X^T X)^-1

The rows M_i are this user's scores ``root^T x e``, with HC2 and HC3 divided by what their leverage leaves, or summed
over each of its clusters (``squared_scores.py``). A user that has a row of leverage 1, for which HC2 and HC3 are not
defined, sends numbers beyond all others, and all users read that there is one. Where the table has no standard errors
the sums are made of zeros.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from fedsvd.compress.centre import scales_of
from fedsvd.errors import VerificationFailed
from fedsvd.linalg.backend import namespace, norm, qr_r, to_numpy
from fedsvd.linalg.dense_svd import Fit, least_squares
from fedsvd.protocol.messages import Solution
from fedsvd.protocol.tasks import Item, Mode
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user.checks import ROUNDING, check_solution
from fedsvd.roles.user.opening import joint_factor, rest_in_zeros, upload_gram
from fedsvd.roles.user.prediction import ChosenRidge, RegressionResult, lasting_directions
from fedsvd.roles.user.refinement import ScaledRows, Transform, proposal, read_proposal, refine
from fedsvd.roles.user.requests import ASK_ITS_OWNER, Common, Local, Script
from fedsvd.roles.user.ridge_choice import Curve, error_curve, unchosen
from fedsvd.roles.user.squared_scores import BEYOND, exact_squares, joint_clusters, own_clusters
from fedsvd.roles.user.statistics import (
    Prepared,
    centred,
    expect_squares,
    in_common_unit,
    joint_norms,
    uncentred,
    with_norm,
)
from fedsvd.roles.user.sums import from_upper_triangle, upper_triangle
from fedsvd.roles.user.work import Dense, Work
from fedsvd.statistics.centred import infer_centred
from fedsvd.statistics.inference import LinearInference
from fedsvd.statistics.refine import Refined
from fedsvd.statistics.robust import CLUSTER, LEAST_LEFT, ClusterSums, robust, root_of, score_rows, without_errors
from fedsvd.statistics.triangle import least_norm
from fedsvd.statistics.undefined import LEVERAGE, NO_FEATURES, is_array
from fedsvd.types import Float


def robust_errors(work: Work, models: tuple[LinearInference, ...]) -> Script:
    """The same models with robust covariances."""
    plan, q = work.plan, len(models[0].coefficients)
    defined = _defined(models)
    clusters = (yield from joint_clusters(work, defined)) if plan.robust == CLUSTER else 0
    squares = yield Local("scores", lambda: own_squares(work, models))
    total = yield from exact_squares(work, squares if np.isfinite(squares).all() else np.full_like(squares, BEYOND))
    beyond = defined and float(np.abs(total).max(initial=0.0)) >= BEYOND / 2.0
    matrices = np.stack([from_upper_triangle(packed, q) for packed in total])
    return robust_tables(work, models, None if beyond else matrices, clusters)


def own_squares(work: Work, models: tuple[LinearInference, ...], least: float = LEAST_LEFT) -> Float:
    """The upper triangle of ``M_i^T M_i`` of every target; zeros where there is no table, not finite where a record
    of leverage 1 leaves nothing to divide by."""
    q = len(models[0].coefficients)
    grams = _own_grams(work, models, least) if _defined(models) else np.zeros((len(models), q, q))
    return np.stack([upper_triangle(gram, q) for gram in grams])


def robust_tables(
    work: Work, models: tuple[LinearInference, ...], total: Float | None, clusters: int
) -> tuple[LinearInference, ...]:
    """The models with the summed ``M^T M`` of each; without errors where a record has leverage 1 (None)."""
    plan, q = work.plan, len(models[0].coefficients)
    if not _defined(models):
        return tuple(robust(model, np.zeros((0, q)), plan.robust) for model in models)
    if total is None:
        return tuple(without_errors(model, plan.robust, LEVERAGE) for model in models)
    factors = [root_of(matrix) for matrix in total]
    return tuple(
        robust(model, factor, plan.robust, clusters=clusters) for model, factor in zip(models, factors, strict=True)
    )


def _defined(models: tuple[LinearInference, ...]) -> bool:
    return all(is_array(model.covariance) for model in models)


def _own_grams(work: Work, models: tuple[LinearInference, ...], least: float) -> Float:
    """``M_i^T M_i`` of every target."""
    f, kind, q = work.plan.m, work.plan.robust, len(models[0].coefficients)
    grams = np.zeros((len(models), q, q))
    groups = own_clusters(work) if kind == CLUSTER else None
    sums = [ClusterSums(groups, q) for _ in models] if groups is not None else []
    for place, panel in work.panels("scores"):
        D = to_numpy(panel).T
        weights = None if work.row_weights is None else work.row_weights[place]
        for k, model in enumerate(models):
            plain = "HC0" if kind == CLUSTER else kind
            rows = score_rows(D[:, :f], D[:, f + k], model, plain, weights=weights, least=least)
            if sums:
                sums[k].add(place, rows)
            else:
                grams[k] += rows.T @ rows
    for k, own in enumerate(sums):
        grams[k] = own.rows.T @ own.rows
    return grams


_LONGEST_MOVE = 2.0**20  # of a solution along its null space, relative to its length


@dataclass(frozen=True, repr=False)
class _Rows:
    """Powers of two that bring every row's joint norm below 1 (``inverse`` of them, 0 for a constant row), and a."""

    inverse: Float  # (f + t,)
    a: Float  # (f, t): what blinds the label rows; zero in mode A
    about: Prepared | None = None  # the rows before they were scaled

    @property
    def f(self) -> int:
        return int(self.a.shape[0])


@dataclass(frozen=True, repr=False)
class _Found:
    """A solution on scaled rows; in mode A with the factor of these and what user 1 sent besides w."""

    fit: Fit
    R: Float | None = None
    transform: Transform | None = None
    path: ChosenRidge | None = None


def script(work: Work) -> Script:
    """Scale, add up, open; w and the intercept for all users."""
    plan, f = work.plan, work.plan.m
    about: Prepared = yield from in_common_unit(work, (yield from (centred if plan.centre else uncentred)(work)))
    if about.zero:
        yield from rest_in_zeros(work, "bound", _answer_bytes(work))
        return _without_features(work, about, np.zeros(plan.M))
    norms: Float = yield from joint_norms(work, about)
    deviation = _deviations(work, about, norms)
    if not deviation.any():
        yield from rest_in_zeros(work, "energy", _answer_bytes(work))
        return _without_features(work, about, deviation)
    if plan.alphas or plan.releases(Item.INFERENCE):
        expect_squares(np.ldexp(deviation, about.E))
    rows = _scales(work, about, norms, deviation)
    prepared: Prepared = yield Local("scale", lambda: _prepared(work, about, rows))
    if isinstance(about.A_i, Dense):
        about.A_i.drop()  # scaled, it is in ``prepared``
    prepared = yield from with_norm(work, prepared)
    opened = _by_users if plan.mode is Mode.A else _by_provider
    found: _Found = yield from opened(work, prepared, replace(rows, about=about))
    fit, scale = found.fit, 1.0 / np.where(rows.inverse > 0, rows.inverse, 1.0)
    w = fit.w * rows.inverse[:f, None] * scale[f:]
    w[:, deviation[f:] == 0] = 0.0  # constant labels are fitted by the intercept alone
    constant = tuple(int(j) for j in np.flatnonzero(deviation[:f] == 0))
    b, path = _intercept(work, about, w), found.path
    result = RegressionResult(w.T, b, fit.rank, fit.residual, constant, path=path, means=about.mean)
    if not plan.releases(Item.INFERENCE):
        return result
    assert found.R is not None
    better: Refined | None = None
    if plan.refines:
        powers, mean = np.ldexp(1.0 / scale, -about.E), about.mean
        scaled = ScaledRows(powers, None if mean is None else mean * powers, about.weight)
        better = yield from refine(work, scaled, found.transform, fit.w)
        better = None if better is None else better.in_units(powers[:f], powers[f:])
    # A constant column holds nothing but the noise of its sum.
    R = found.R * np.where(rows.inverse > 0, np.ldexp(scale, about.E), 0.0)
    models = yield Local("inference", lambda: _inference(work, about, R, w, fit.rank, better))
    if better is not None:
        first = int(plan.centre)
        intercept = better.coefficients[0] if first else result.intercept
        result = replace(result, coefficients=better.coefficients[first:].T, intercept=intercept)
    if plan.robust:
        models = yield from robust_errors(work, models)
    return replace(result, inference=models)


def _deviations(work: Work, about: Prepared, norms: Float) -> Float:
    """The joint deviation of every row, in units of 2^E; zero where a row is constant."""
    n = work.plan.n
    norms = norms * math.sqrt(n / about.weight) if work.plan.weighted else norms
    if about.mean is None:
        return norms / math.sqrt(n)
    return scales_of(norms, n, np.ldexp(about.mean, -about.E))


def _scales(work: Work, about: Prepared, norms: Float, deviation: Float) -> _Rows:
    """Scales follow from the joint norms, with a feature's part of the ridge, so that all users have the same."""
    plan, f, t = work.plan, work.plan.m, work.plan.targets
    ridge = np.zeros(plan.M)
    ridge[:f] = math.ldexp(math.sqrt(plan.alpha), -about.E)
    _, powers = np.frexp(np.hypot(norms, ridge))
    inverse = np.where(deviation > 0, np.ldexp(1.0, -powers), 0.0)
    a = np.zeros((f, t))
    if plan.mode is not Mode.A:
        a = 2.0 * Keystream.of(work.masks.seed, "a", "gram").normal((f, t))
    return _Rows(inverse, a)


def _prepared(work: Work, about: Prepared, rows: _Rows) -> Prepared:
    """A_i with scaled rows, user 1's with the ridge's columns, label rows blinded; in the unit 2^E' these imply."""
    plan, f = work.plan, work.plan.m
    ridge = np.zeros(0)
    if plan.ridge_columns and work.leads:
        ridge = math.ldexp(math.sqrt(plan.alpha), -about.E) * rows.inverse[:f]
    largest = 8.0 * plan.m * math.sqrt(plan.targets) if rows.a.any() else math.sqrt(plan.M)
    unit = math.ceil(math.log2(max(largest, 1.0)))
    inverse = np.ldexp(rows.inverse, -unit)
    assert isinstance(about.A_i, Dense)  # the factor of the sum family
    data = about.A_i.A_i * work.put(inverse[:, None])
    xp = namespace(data)
    eye = xp.eye(data.shape[0], len(ridge), dtype=xp.float64, device=data.device)
    A = xp.concat((data, eye * work.put(np.ldexp(ridge, -unit))), axis=1)
    A[f:, :] += work.put(rows.a).T @ A[:f, :]
    if len(ridge) and A.shape[1] > plan.M:
        A = xp.matrix_transpose(qr_r(xp.matrix_transpose(A)))
    return replace(about, A_i=Dense(A), E=unit)


def _by_provider(work: Work, prepared: Prepared, rows: _Rows) -> Script:
    """Mode B: w' from the CSP, taken from under P and a, projected where rank is lost, and checked."""
    answer, unit = yield from upload_gram(work, prepared)
    solution: Solution = answer
    w = to_numpy(unit.left_t(work.put(solution.w_masked))) - rows.a
    if solution.null_masked.shape[1]:
        null = to_numpy(unit.left_t(work.put(solution.null_masked)))
        w = _least_norm(rows, null, w)
    residual: float = yield from check_solution(work, prepared, w + rows.a, rows.f)
    return _Found(Fit(w, np.zeros((rows.f, 0)), solution.rank, residual))


def _by_users(work: Work, prepared: Prepared, rows: _Rows) -> Script:
    """Mode A: user 1 solves on the joint factor and sends w; every other user tests it on its own factor."""
    plan, f, t = work.plan, rows.f, work.plan.targets
    joint, unit = yield from joint_factor(work, prepared)
    R = np.ldexp(to_numpy(joint.R), prepared.E) * unit.F
    curve: Curve | None = None
    if plan.alphas:
        assert rows.about is not None
        curve = yield from error_curve(work, rows.about, R, rows.inverse)

    def solved() -> bytes:
        if curve is not None:
            return curve.answer().astype("<f8").tobytes()
        fit = least_squares(R[:, :f], R[:, f:], plan.m, plan.n)
        w = _least_norm(rows, fit.null, fit.w) if fit.null.shape[1] else fit.w
        more = proposal(R, w, fit.rank) if plan.refines else np.zeros(0)
        return np.concatenate((w.ravel(), [float(fit.rank)], more)).astype("<f8").tobytes()

    content: bytes = yield Common("answer", solved)
    numbers = np.frombuffer(content, "<f8").astype(np.float64)
    w, found, more = numbers[: f * t].reshape(f, t), int(numbers[f * t]), numbers[f * t + 1 :]
    path = None if curve is None else curve.chosen(more)
    ridge = np.zeros(f) if path is None else path.alpha * np.ldexp(rows.inverse[:f], -_exponent(rows)) ** 2
    residual: float = yield Local("acceptance", lambda: _expect_normal_equations(R, w, f, ridge))
    transform = read_proposal(plan, more, R) if plan.refines else None
    return _Found(Fit(w, np.zeros((f, 0)), found, residual), R, transform, path)


def _exponent(rows: _Rows) -> int:
    return 0 if rows.about is None else rows.about.E


def _answer_bytes(work: Work) -> int:
    """Of user 1's answer in mode A."""
    return 8 * work.plan.answer_numbers


def _expect_normal_equations(R: Float, w: Float, f: int, ridge: Float) -> float:
    """``||R_x^T (r - R_x w) - ridge w||`` relative to what rounding excuses; beyond is ``VerificationFailed``."""
    X, Y = R[:, :f], R[:, f:]
    residual = norm(X.T @ (Y - X @ w) - ridge[:, None] * w)
    allowed = 64 * math.sqrt(R.shape[0]) * ROUNDING * (norm(R) ** 2 * (1.0 + norm(w)) + norm(ridge[:, None] * w))
    if not residual <= allowed:
        raise VerificationFailed("the coefficients that user 1 sent do not solve the joint problem", ASK_ITS_OWNER)
    scale = norm(R) ** 2
    return residual / scale if scale else 0.0


def _least_norm(rows: _Rows, null: Float, w: Float) -> Float:
    """Scaled w less its part, in the data's own units, along the null space."""
    inverse = rows.inverse[: rows.f, None]
    varying = null[inverse[:, 0] > 0]
    along_null = null @ lasting_directions(varying.T @ varying)
    if not along_null.shape[1]:
        return w
    # In the data's own units; a constant column, whose unit is 0, has no part in it.
    unit = inverse[:, 0]
    projected = least_norm(w * inverse, along_null, unit)
    found: Float = np.where(unit[:, None] > 0, projected / np.where(unit > 0, unit, 1.0)[:, None], w)
    # Where units are too far apart the shortest coefficients are reached by a step so long that only its rounding is
    # left of the fit. Every solution fits alike: then the shortest in scaled units is taken.
    return found if norm(found) <= _LONGEST_MOVE * norm(w) else w


def _without_features(work: Work, about: Prepared, deviation: Float) -> RegressionResult:
    """No row varies: coefficients are zero, and the intercept is the mean of the labels."""
    plan = work.plan
    w = np.zeros((plan.m, plan.targets))
    constant = tuple(int(j) for j in np.flatnonzero(deviation[: plan.m] == 0))
    inference: tuple[LinearInference, ...] = ()
    if plan.releases(Item.INFERENCE):
        inference = _inference(work, about, np.zeros((plan.M, plan.M)), w, 0)
        if plan.robust:
            inference = tuple(without_errors(model, plan.robust, NO_FEATURES) for model in inference)
    path = unchosen(plan) if plan.alphas else None
    return RegressionResult(w.T, _intercept(work, about, w), 0, 0.0, constant, inference=inference, path=path)


def _inference(
    work: Work, about: Prepared, R: Float, w: Float, rank: int, better: Refined | None = None
) -> tuple[LinearInference, ...]:
    """The regression table of every target, from a factor in the data's own units."""
    plan, weight = work.plan, about.weight or float(work.plan.n)
    weights = {"weight": weight, "log_weights": about.log_weights}
    return infer_centred(R, plan.n, w, mean=about.mean, rank=rank, alpha=plan.alpha, better=better, **weights)


def _intercept(work: Work, about: Prepared, w: Float) -> Float:
    f = work.plan.m
    if about.mean is None:
        return np.zeros(work.plan.targets)
    intercept: Float = about.mean[f:] - about.mean[:f] @ w
    return intercept
