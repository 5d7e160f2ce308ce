"""Standard errors that do not assume equal variances, after the table itself (step 8): one more sum of all users.

    covariance = root (sum_i M_i^T M_i) root^T,    root root^T = (X^T X)^-1

The rows M_i are this user's scores ``root^T x e``, with HC2 and HC3 divided by what their leverage leaves, or summed
over each of its clusters. A cluster lies within one user: equal names at two users are two clusters, for names are not
compared. The sum is in a unit that ``scores bound`` finds, since one row of large leverage may make it large; a user
that has a row of leverage 1, for which HC2 and HC3 are not defined, sends numbers beyond all others, and all users read
that there is one. Where the table has no standard errors the sums are made of zeros.
"""

import math

import numpy as np

from fedsvd.errors import LocalProtocolError
from fedsvd.linalg.backend import to_numpy
from fedsvd.protocol.steps import FINE_STEP
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.sums import bound_sum, from_upper_triangle, total_sum, upper_triangle, wide_sum
from fedsvd.roles.user.work import Work
from fedsvd.secagg import wide
from fedsvd.statistics.inference import LinearInference
from fedsvd.statistics.robust import CLUSTER, ClusterSums, robust, root_of, score_rows, without_errors
from fedsvd.statistics.undefined import LEVERAGE, is_array
from fedsvd.types import Float

_MOST_NOISE = 62
_BEYOND = 2.0**1000  # 500 of them are a float64


def robust_errors(work: Work, models: tuple[LinearInference, ...]) -> Script:
    """The same models with robust covariances."""
    plan, q = work.plan, len(models[0].coefficients)
    defined = all(is_array(model.covariance) for model in models)
    clusters = 0
    if plan.robust == CLUSTER:
        own = len(np.unique(_clusters(work))) if defined else 0
        (joint,) = yield from wide_sum("clusters", [own << wide.LOWEST], [3], work.own)
        clusters = round(joint / (1 << wide.LOWEST))
    grams = np.zeros((len(models), q, q))
    if defined:
        grams = yield Local("scores", lambda: _own_grams(work, models))
    squares = np.stack([upper_triangle(gram, q) for gram in grams])
    total = yield from _summed(work, squares if np.isfinite(squares).all() else np.full_like(squares, _BEYOND))
    if defined and float(np.abs(total).max(initial=0.0)) >= _BEYOND / 2.0:
        return tuple(without_errors(model, plan.robust, LEVERAGE) for model in models)
    if not defined:
        return tuple(robust(model, np.zeros((0, q)), plan.robust) for model in models)
    factors = [root_of(from_upper_triangle(packed, q)) for packed in total]
    return tuple(
        robust(model, factor, plan.robust, clusters=clusters) for model, factor in zip(models, factors, strict=True)
    )


def _summed(work: Work, own: Float) -> Script:
    """The total of these numbers, to the last digit of the largest of each user."""
    size = float(np.abs(own).max(initial=0.0))
    E = yield from bound_sum("scores bound", math.frexp(size)[1] if size else None, work.own)
    if E is None:
        E = 0
    width = min(_MOST_NOISE, max(0, FINE_STEP + math.frexp(math.ulp(size))[1] - E)) if size else 0
    total = yield from total_sum(work.plan, "squared scores", np.ldexp(own, -E), work.own, width)
    return np.ldexp(total, E)


def _own_grams(work: Work, models: tuple[LinearInference, ...]) -> Float:
    """``M_i^T M_i`` of every target."""
    f, kind, q = work.plan.m, work.plan.robust, len(models[0].coefficients)
    grams = np.zeros((len(models), q, q))
    groups = _clusters(work) if kind == CLUSTER else None
    sums = [ClusterSums(groups, q) for _ in models] if groups is not None else []
    for place, panel in work.panels("scores"):
        D = to_numpy(panel).T
        weights = None if work.row_weights is None else work.row_weights[place]
        for k, model in enumerate(models):
            plain = "HC0" if kind == CLUSTER else kind
            rows = score_rows(D[:, :f], D[:, f + k], model, plain, weights=weights)
            if sums:
                sums[k].add(place, rows)
            else:
                grams[k] += rows.T @ rows
    for k, own in enumerate(sums):
        grams[k] = own.rows.T @ own.rows
    return grams


def _clusters(work: Work) -> Float:
    if work.clusters is None:
        raise LocalProtocolError(
            "the plan has cluster-robust errors, and this party has no clusters", "name the column"
        )
    found: Float = work.clusters
    return found
