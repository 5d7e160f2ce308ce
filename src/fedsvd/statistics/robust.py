"""Standard errors that do not assume equal variances: HC0 to HC3, and cluster-robust ones.

    covariance = A (sum_i M_i^T M_i) A^T,    A A^T = (X^T W X)^-1

A is the root of the model, in whose coordinates columns are orthonormal: units of measurement and the condition do not
enter the sum. The middle matrix is a sum over rows, and so over parties: each makes the rows M_i from its own rows, the
coefficients and A (``score_rows``, summed over each cluster by ``ClusterSums``). A cluster must lie within one party;
otherwise the scores of a cluster must be summed over parties before they are squared.

A model by Newton steps gives the scores of its records themselves (``Scores``); A A^T is the inverse of its
information, and all else is the same.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.statistics.aliased import not_of
from fedsvd.statistics.distributions import chi2_tail, f_tail, wald
from fedsvd.statistics.inference import LinearInference
from fedsvd.statistics.undefined import NO_FEATURES, Number, Undefined, is_array
from fedsvd.types import Float

KINDS = ("HC0", "HC1", "HC2", "HC3")
CLUSTER, NONROBUST = "cluster", "nonrobust"
LEAST_LEFT = 2.0**-26  # of 1 - leverage, the root of eps: R's sandwich warns below it, and what it prints is rounding


@dataclass(frozen=True)
class Errors:
    """Which standard errors a model has, and of how many clusters of all parties; all of it is public."""

    kind: str = NONROBUST
    clusters: int = 0
    few: bool = True  # whether errors of clusters are corrected for few of them

    @property
    def robust(self) -> bool:
        return self.kind != NONROBUST

    def correction(self, n: int, rank: int) -> float:
        """For small samples, as statsmodels': ``n / (n - q)``, of G clusters ``G / (G - 1) (n - 1) / (n - q)``."""
        if self.kind == "HC1":
            return n / (n - rank)
        if self.kind == CLUSTER and self.few:
            return self.clusters / (self.clusters - 1) * (n - 1) / (n - rank)
        return 1.0


USUAL = Errors()
"""Those that the model itself says."""


@dataclass(frozen=True, repr=False)
class Scores:
    """The score of each of some records: ``rows``, or these times ``pull`` where a record has one linear predictor.

    ``weight`` is then what a row weighs in the information, so that a record has a leverage.
    """

    rows: Float  # (records, P)
    pull: Float | None = None
    weight: Float | None = None

    def turned(self, root: Float, kind: str) -> Float:
        """``A^T s`` of each record, divided as HC2 and HC3 ask; not finite where nothing is left to divide by."""
        Z: Float = self.rows @ root
        if self.pull is None or self.weight is None:
            return Z
        pull = self.pull
        if kind in ("HC2", "HC3"):
            left = 1.0 - self.weight * np.einsum("ij,ij->i", Z, Z)
            left = np.where(left < LEAST_LEFT, np.nan, left)
            pull = pull / (np.sqrt(left) if kind == "HC2" else left)
        return Z * pull[:, None]


def squared_scores(
    parts: Iterable[tuple[slice, Scores]],
    root: Float,
    kind: str,
    groups: NDArray[Any] | None,
    of_person: NDArray[np.intp] | None = None,
) -> tuple[Float, float]:
    """A party's own ``M^T M``, and the largest part of its trace that one record has; or one person, or cluster."""
    turned = [(place, scores.turned(root, kind)) for place, scores in parts]
    if groups is None:
        rows = np.concatenate([scores for _, scores in turned])
    else:
        sums = ClusterSums(groups, root.shape[1])
        for place, scores in turned:
            sums.add(place, scores)
        rows = sums.rows
    lengths = np.einsum("ij,ij->i", rows, rows)
    if of_person is not None and groups is None:
        lengths = np.bincount(of_person, weights=lengths)
    total = float(lengths.sum())
    return rows.T @ rows, float(lengths.max(initial=0.0)) / total if total > 0.0 else 0.0


def sandwich(inverse: Float, meat: Float, correction: float) -> Float:
    """The covariance ``A (sum of M^T M) A^T`` with A = ``inverse``, times a correction."""
    M = root_of(meat) @ inverse.T * math.sqrt(correction)
    found: Float = M.T @ M
    return found


class ClusterSums:
    """The sums of scores over each of a party's clusters, which no other party has rows of; row by row in ``rows``."""

    def __init__(self, groups: ArrayLike, q: int) -> None:
        _, self._place = np.unique(np.asarray(groups), return_inverse=True)
        self.rows: Float = np.zeros((int(self._place.max(initial=-1)) + 1, q))

    def add(self, place: slice, scores: Float) -> None:
        """The scores of these rows of the party's table."""
        own = self._place[place]
        if own.shape != scores.shape[:1]:
            raise ShapeError(f"{len(scores)} rows need as many cluster labels, got {len(own)}")
        np.add.at(self.rows, own, scores)


def score_rows(
    X: Float,
    y: Float,
    model: LinearInference,
    kind: str = "HC1",
    *,
    weights: Float | None = None,
    least: float = LEAST_LEFT,
) -> Float:
    """A party's rows M_i, (n_i, q): its scores ``A^T x e``, divided as HC2 and HC3 ask; X is without the intercept.

    NaN where a row has leverage 1: the model fits it whatever its target is, and nothing is left to divide by.
    ``least`` of 1 - leverage is rounding where A has few digits.
    """
    if kind not in KINDS:
        raise ConfigError(f"{kind!r} is not a kind of robust error", f"choose one of {', '.join(KINDS)}")
    rows, residuals = _weighted(X, y, model, weights)
    Z = rows @ _root(model)
    if kind in ("HC2", "HC3"):
        left = 1.0 - np.einsum("ij,ij->i", Z, Z)
        if np.any(left < least):
            return np.full_like(Z, np.nan)
        residuals = residuals / (np.sqrt(left) if kind == "HC2" else left)
    scores: Float = Z * residuals[:, None]
    return scores


def robust(
    model: LinearInference, factor: Float, kind: str = "HC1", *, clusters: int = 0, use_t: bool = False
) -> LinearInference:
    """The same model with robust errors; ``factor``, (any, q), has the summed ``M^T M`` as its Gram matrix.

    A model without standard errors has no robust ones, and keeps its reason.

    Corrections for small samples are statsmodels': ``n / (n - q)`` for HC1, ``G / (G - 1) (n - 1) / (n - q)`` for G
    clusters. Tests use the normal law, or with ``use_t`` Student's t with n - q (clusters: G - 1) degrees of freedom.
    F becomes the Wald test of all features.
    """
    if isinstance(model.root, Undefined) or isinstance(model.covariance, Undefined):
        return replace(model, kind=kind)
    if kind == CLUSTER and clusters < 2:
        raise ConfigError(
            f"{clusters} clusters do not show how clusters differ", "name a column that has two or more (cluster)"
        )
    if kind not in (*KINDS, CLUSTER):
        raise ConfigError(f"{kind!r} is not a kind of robust error", f"choose one of {', '.join((*KINDS, CLUSTER))}")
    M = factor @ model.root.T * math.sqrt(Errors(kind, clusters).correction(model.n, model.n - model.df_residual))
    covariance: Float = not_of(M.T @ M, model.aliased)
    errors = not_of(np.sqrt(np.einsum("ij,ij->j", M, M)), model.aliased)
    freedom = clusters - 1 if kind == CLUSTER else model.df_residual
    tests = wald(model.coefficients, errors, model.level, freedom if use_t else None)
    f, f_p = _wald_f(model, covariance, freedom, use_t)
    return replace(
        model,
        standard_errors=tests.errors,
        t=tests.statistic,
        p=tests.p,
        intervals=tests.intervals,
        covariance=covariance,
        f=f,
        f_p=f_p,
        distribution="t" if use_t else "normal",
        kind=kind,
        clusters=clusters if kind == CLUSTER else 0,
    )


def without_errors(model: LinearInference, kind: str, reason: Undefined) -> LinearInference:
    """The same model where robust errors of this kind are not defined."""
    missing = dict.fromkeys(("standard_errors", "t", "p", "intervals", "covariance", "f", "f_p"), reason)
    return replace(model, kind=kind, distribution="normal", **missing)  # type: ignore[arg-type]


def root_of(gram: Float) -> Float:
    """A factor of a Gram matrix of nearly unit size, singular ones too: where clusters are fewer than coefficients."""
    values, vectors = np.linalg.eigh(gram)
    factor: Float = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return factor


def _wald_f(model: LinearInference, covariance: Float, freedom: int, use_t: bool) -> tuple[Number, Number]:
    tested = np.delete(np.arange(len(model.coefficients)), [*range(int(model.intercept)), *model.aliased])
    w, C = model.coefficients[tested], covariance[np.ix_(tested, tested)]
    if w.shape[0] == 0:
        return NO_FEATURES, NO_FEATURES
    if np.linalg.matrix_rank(C, hermitian=True) < w.shape[0]:
        reason = Undefined("the robust covariance is singular: there are fewer clusters or residuals than features")
        return reason, reason
    scale = np.sqrt(np.diag(C))
    f = float((w / scale) @ solve(C / np.outer(scale, scale), w / scale, assume_a="pos")) / w.shape[0]
    return f, f_tail(f, w.shape[0], freedom) if use_t else chi2_tail(f * w.shape[0], w.shape[0])


def _weighted(X: Float, y: Float, model: LinearInference, weights: Float | None) -> tuple[Float, Float]:
    """Own rows with the intercept, and their residuals, both times the square root of the weights."""
    rows = np.concatenate((np.ones((X.shape[0], 1)), X), axis=1) if model.intercept else X
    if rows.shape[1] != model.coefficients.shape[0]:
        raise ShapeError(f"rows have {rows.shape[1]} columns with the intercept, {model.coefficients.shape[0]} needed")
    residuals = y - rows @ model.solution
    root = np.ones(X.shape[0]) if weights is None else np.sqrt(weights)
    return rows * root[:, None], residuals * root


def _root(model: LinearInference) -> Float:
    if not is_array(model.root):
        raise ConfigError(
            f"robust errors need a model of full rank without penalty: {model.root}", "leave cov_type out"
        )
    return model.root
