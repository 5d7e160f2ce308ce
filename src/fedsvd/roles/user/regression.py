"""Linear regression at a user: ordinary least squares and ridge, on either split (section 4 of the paper).

The intercept comes from centring, and no column of ones is ever masked (C10); y goes up blinded (C8): every user adds
``X_i a_i`` for a secret a_i and takes a_i off its own coefficients. Columns are scaled by powers of two, which changes
no digit, and undone in w. A ridge is data, not an option of the CSP, which does not know c. Where rank is lost the
solution of least norm is found by projecting out the null space, as LAPACK's least squares would.
"""

import math

import numpy as np

from fedsvd.linalg.backend import norm, to_numpy
from fedsvd.protocol.messages import Solution
from fedsvd.protocol.tasks import Item, Split
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user import horizontal_regression, regression_digits
from fedsvd.roles.user.challenge import Probe, Sizes, check_solution, expect_squares, moved_along
from fedsvd.roles.user.columns import Columns
from fedsvd.roles.user.masked_rows import Stacked
from fedsvd.roles.user.own_inverse import OwnInverse, own_inverse, own_table
from fedsvd.roles.user.prediction import ChosenRidge, RegressionResult, lasting_directions, summed_for_label_holder
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.ridge_columns import ChosenSolution, chosen_ridge
from fedsvd.roles.user.split_matrix import Units
from fedsvd.roles.user.sums import NORM_WIDTH, bound_sum, total_sum, wide_sum_of_floats
from fedsvd.roles.user.upload import entry_bound, masked_upload, power_above, under_masks
from fedsvd.roles.user.work import Work
from fedsvd.secagg.fixed_point import bound
from fedsvd.statistics.inference import LinearInference
from fedsvd.types import Float


def script(work: Work) -> Script:
    """The script of this plan's split, and of its digits."""
    if work.plan.split is Split.VERTICAL:
        return vertical(work)
    return regression_digits.script(work) if work.plan.few_digits else horizontal_regression.script(work)


def vertical(work: Work) -> Script:
    """Columns are split: rows go up in panels; user i ends with its own w_i."""
    plan, masks, t = work.plan, work.masks, work.plan.targets
    columns: Columns = yield Local("scale", lambda: Columns.of(work))
    a_i = _blinds(work, columns)
    y_i: Float = yield Local("labels", lambda: columns.blinded_labels(a_i))
    own = math.sqrt(columns.energy())
    E = yield from bound_sum("bound", math.frexp(own)[1] if own else None, work.own)
    labels = np.append(float(np.sum(y_i**2)), columns.label_scale)
    total: Float = yield from wide_sum_of_floats("labels", labels, work.own)
    F_y, d_y = math.sqrt(max(float(total[0]), 0.0)), _powers_of_two(total[1:])
    F1 = 0.0
    if E is not None:
        squared = math.ldexp(columns.energy(), -2 * E)
        (joint,) = yield from total_sum(plan, "norm", np.array([squared]), work.own, NORM_WIDTH)
        F1 = math.ldexp(math.sqrt(max(float(joint), 0.0)), E)
    # The label columns are a sum of k terms no orthogonal Q holds together: sqrt(k) by Cauchy and Schwarz.
    size = 1.001 * masks.c * F_y * math.sqrt(plan.k)
    B_y = power_above(size if plan.certain_bound else bound(1.0, size, plan.M, 1))
    B = entry_bound(work, F1)

    stacked = Stacked(work, columns, y_i)
    solution: Solution = yield masked_upload(work, under_masks(work, stacked, columns.width + t, (B, B_y)))
    scale = B_y / B if B else 1.0
    scaled_i = to_numpy(masks.own_part(work.put(solution.w_masked))) * scale
    units = Units(masks.c / B if B else 1.0, B_y / masks.c, d_y)
    inverse: OwnInverse | None = None
    probe: Probe | None = None
    squares: Float | None = None
    if plan.releases(Item.INFERENCE):
        inverse, probe = yield from own_inverse(work, columns, units, solution.rank == plan.N, F1)
    if plan.challenges and not plan.alphas:
        # Along a true null space a solution stays one, however far it is moved: both are checked before either is used.
        moved = solution.w_masked * scale + moved_along(work, solution.null_masked, norm(solution.w_masked) * scale)
        moved_i = to_numpy(masks.own_part(work.put(moved)))
        squares = yield from check_solution(work, columns, y_i, moved_i, Sizes(F1, F_y, norm(moved)), probe=probe)
    w_i = (scaled_i - a_i) * columns.inverse[:, None]
    path: ChosenRidge | None = None
    if plan.alphas:
        path, w_i = yield from _chosen(work, columns, w_i, units, F1, norm(solution.w_masked) * scale)
    else:
        null_i = to_numpy(masks.own_part(work.put(solution.null_masked)))
        w_i = yield from _least_norm(work, null_i, columns.inverse, w_i)
    w_i = w_i * d_y
    partial = columns.label_mean - columns.mean @ w_i - columns.rest @ w_i
    intercept = np.zeros(t)
    if plan.centre:
        intercept = yield from wide_sum_of_floats("intercept", partial, work.own)
    models: tuple[LinearInference, ...] = ()
    if inverse is not None:
        models = yield from own_table(work, columns, w_i, intercept, solution.rank, inverse, squares)
    fitted = None
    if plan.releases(Item.SCORE):
        fitted = yield from summed_for_label_holder(work, w_i, intercept)
    # Of the checks on split columns users open no figure, and the CSP's is its word.
    return RegressionResult(w_i.T, intercept, solution.rank, None, columns.constant, fitted, models, path)


def _chosen(work: Work, columns: Columns, w_i: Float, units: Units, F1: float, unpenalised: float) -> Script:
    """The penalty that was chosen and its coefficients, once they are checked.

    They are shrunk from a solution without a penalty: what rounding did is relative to the length of that one.
    """
    largest = 1.0 if work.row_weights is None else max(1.0, float(np.max(work.row_weights)))
    labels = math.sqrt(work.plan.m * work.plan.targets * largest)  # scaled, a label deviates by less than 1
    solved: ChosenSolution = yield from chosen_ridge(work, columns, w_i, units, Sizes(F1, labels, unpenalised))
    given = work, columns, columns.own_labels(), solved.w_i, solved.sizes, solved.choice.alpha, solved.probe
    squares: Float | None = yield from check_solution(*given)
    if squares is not None and solved.squares is not None:
        expect_squares(work, squares, solved.squares / units.targets**2, solved.sizes)
    return solved.choice, np.where(columns.inverse[:, None] > 0, solved.w_i, 0.0)


def _powers_of_two(noisy: Float) -> Float:
    """The scales of the labels, powers of two, from a total that carries noise in their last digits."""
    powers: Float = np.ldexp(1.0, np.rint(np.log2(noisy)).astype(int))
    return powers


def _least_norm(work: Work, null_i: Float, inverse: Float, w_i: Float) -> Script:
    """w less its part in the null space, whose basis is spread over the users: ``w_i - N_i (N^T N)^-1 N^T w``."""
    q, varying_i, null_i = null_i.shape[1], null_i[inverse > 0], null_i * inverse[:, None]
    if not q:
        return w_i
    own = np.concatenate((varying_i.T @ varying_i, null_i.T @ null_i, null_i.T @ w_i), axis=1)
    total = yield from wide_sum_of_floats("null space", own, work.own)
    total = total.reshape(own.shape)
    kept = lasting_directions(total[:, :q])
    along, *_ = np.linalg.lstsq(kept.T @ total[:, q : 2 * q] @ kept, kept.T @ total[:, 2 * q :], rcond=None)
    return w_i - null_i @ (kept @ along)


def _blinds(work: Work, columns: Columns) -> Float:
    """a_i: of the size of coefficients of these columns, this user's own secret."""
    normal = Keystream.of(work.own, "a").normal((columns.width, work.plan.targets))
    return 2.0 * normal * columns.blinding[:, None]
