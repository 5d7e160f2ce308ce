"""Proportional odds: a party's own records, and the fit by few digits (R's ``MASS::polr``).

    P(y <= k) = F(z_k - x b)    F logistic, normal, or 1 - exp(-exp(.)) (cloglog)

Effects b come first among the parameters, then thresholds z, which stay in their order: a step beyond is halved. All
three laws are log-concave in (z_k, z_k-1), so the curvature is positive, and standard errors are of it, as R's. A
record says something of the two thresholds around its class alone: entries of the information between others are zero,
and are not opened.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fedsvd.errors import DataError
from fedsvd.statistics.families import family_named
from fedsvd.statistics.glm import Fact, GLMInference, explained, inference
from fedsvd.statistics.glm_digits import fit_with_levels
from fedsvd.statistics.newton import Fitting, Traits, opened_moments
from fedsvd.statistics.newton_requests import Evaluation, Moments, Point, Shape
from fedsvd.statistics.records import MOST_DEVIANCE, RowRecords, largest_of
from fedsvd.statistics.robust import Scores
from fedsvd.types import Float

_LEAST = 1e-300  # of a probability
_FAR = 700.0
_TAIL = 1.0 / math.sqrt(2.0 * math.pi)


def quantile(link: str, p: Float) -> Float:
    """The inverse of F."""
    if link == "logit":
        return np.asarray(special.logit(p))
    return np.asarray(special.ndtri(p)) if link == "probit" else np.log(-np.log1p(-p))


def _between(link: str, low: Float, high: Float) -> Float:
    """F(high) - F(low), with all its digits in both tails."""
    if link == "logit":
        return np.asarray(special.expit(high) * special.expit(-low) * -np.expm1(low - high))
    if link == "probit":
        above = low + high > 0.0
        below = special.ndtr(high) - special.ndtr(low)
        return np.asarray(np.where(above, special.ndtr(-low) - special.ndtr(-high), below))
    e = np.exp(np.minimum(low, _FAR))
    return np.asarray(np.exp(-e) * -np.expm1(e - np.exp(np.minimum(high, _FAR))))


def _density(link: str, u: Float) -> tuple[Float, Float]:
    """f and its derivative; zero at both infinities."""
    finite = np.where(np.isfinite(u), np.clip(u, -_FAR, _FAR), 0.0)
    if link == "logit":
        F = special.expit(finite)
        f = F * special.expit(-finite)
        slope = f * (1.0 - 2.0 * F)
    elif link == "probit":
        f = _TAIL * np.exp(-0.5 * finite * finite)
        slope = -finite * f
    else:
        e = np.exp(finite)
        f = np.exp(finite - e)
        slope = np.where(e < 1e300, f * (1.0 - e), 0.0)
    return np.where(np.isfinite(u), f, 0.0), np.where(np.isfinite(u), slope, 0.0)


class OrdinalRecords(RowRecords):
    """A party's own records; classes are numbered from 0, in their order."""

    concave = True

    def __init__(self, X: Float, y: Float, classes: int, link: str, weights: Float | None = None) -> None:
        super().__init__(X, y, weights)
        self._codes, self._K, self._link = y.astype(np.intp), classes, link

    def moments(self) -> Float:
        counts = np.bincount(self._codes, self._prior, self._K)
        return np.concatenate(((self.weight, 0.0), counts))

    def most_deviance(self, start: float) -> float:
        return MOST_DEVIANCE * self.weight

    def end(self, of: str, at: Point, scale: float) -> Float:
        return np.array([self.part(replace(at, information=False)).deviance, 0.0])

    def _pulls(self, u: Float) -> tuple[Float, Float, Float]:
        """Of each record: the probability of its class, and its score of the threshold above and of that below."""
        y, rows = self._codes, np.arange(len(self._codes))
        a, b = u[rows, y + 1], u[rows, y]
        p = np.maximum(_between(self._link, b, a), _LEAST)
        return p, _density(self._link, a)[0] / p, -_density(self._link, b)[0] / p

    def scores(self, at: Point) -> Scores:
        X, w, y, K = self._X - at.centre, self._prior, self._codes, self._K
        _, la, lb = self._pulls(self._edges(X, at))
        chosen = np.eye(K)[y]
        z = (w * la)[:, None] * chosen[:, :-1] + (w * lb)[:, None] * chosen[:, 1:]
        return Scores(np.hstack((-(w * (la + lb))[:, None] * X, z)))

    def part(self, at: Point) -> Evaluation:
        X, w, K, y = self._X - at.centre, self._prior, self._K, self._codes
        u = self._edges(X, at)
        p, la, lb = self._pulls(u)
        z = np.bincount(y, w * la, K)[: K - 1] + np.bincount(y, w * lb, K)[1:]
        score = np.concatenate((-(X.T @ (w * (la + lb))), z))
        deviance = -2.0 * float(w @ np.log(p))
        information = None
        if at.information:
            own, next_to = self._of_thresholds(u, at.expected)
            information = _information(X, own, next_to)
        return Evaluation(deviance, 0.0, score, information, np.zeros((0, 1)))

    def largest_part(self, at: Point, root: Float) -> float:
        X, m = self._X - at.centre, self.features
        own, next_to = self._of_thresholds(self._edges(X, at), at.expected)
        # A record's part is the sum over thresholds j, k of its entries times w_j w_k^T, w_j = root_z[j] - x root_b.
        w = root[m:][None, :, :] - (X @ root[:m])[:, None, :]
        traces = np.einsum("nj,njr,njr->n", own, w, w) + 2.0 * np.einsum("nj,njr,njr->n", next_to, w[:, :-1], w[:, 1:])

        def part(i: int) -> Float:
            T = np.diag(own[i]) + np.diag(next_to[i], 1) + np.diag(next_to[i], -1)
            return np.asarray(w[i].T @ T @ w[i])

        return largest_of(traces, part, self.of_person)

    def _edges(self, X: Float, at: Point) -> Float:
        """(rows, K + 1): thresholds less the linear predictor, from minus infinity to infinity."""
        m, n = self.features, len(X)
        inner = at.beta[m:][None, :] - (X @ at.beta[:m])[:, None]
        return np.hstack((np.full((n, 1), -np.inf), inner, np.full((n, 1), np.inf)))

    def _of_thresholds(self, u: Float, expected: bool) -> tuple[Float, Float]:
        """Of each record its information on every threshold, (rows, K - 1), and on every two next to each other."""
        y, K, w = self._codes, self._K, self._prior[:, None]
        f, slope = _density(self._link, u[:, 1:-1])
        p = np.maximum(_between(self._link, u[:, :-1], u[:, 1:]), _LEAST)
        if expected:
            return w * f * f * (1.0 / p[:, :-1] + 1.0 / p[:, 1:]), -w * f[:, :-1] * f[:, 1:] / p[:, 1:-1]
        chosen = np.eye(K)[y]
        upper, lower = chosen[:, :-1], chosen[:, 1:]  # whether a threshold is the upper or the lower one of the class
        of_class = p[np.arange(len(y)), y][:, None]
        la = f / of_class
        own = upper * (la * la - slope / of_class) + lower * (la * la + slope / of_class)
        return w * own, -w * chosen[:, 1:-1] * la[:, :-1] * la[:, 1:]


def _information(X: Float, own: Float, next_to: Float) -> Float:
    """Of effects and thresholds, from that of thresholds: a linear predictor moves all of them by minus one."""
    m, k = X.shape[1], own.shape[1]
    along = own.copy()
    along[:, :-1] += next_to
    along[:, 1:] += next_to
    found = np.zeros((m + k, m + k))
    found[:m, :m] = X.T @ (along.sum(axis=1)[:, None] * X)
    found[:m, m:] = -(X.T @ along)
    found[m:, :m] = found[:m, m:].T
    sums = next_to.sum(axis=0)
    found[m:, m:] = np.diag(own.sum(axis=0)) + np.diag(sums, 1) + np.diag(sums, -1)
    return found


@dataclass(frozen=True, repr=False)
class OrdinalInference(GLMInference):
    """A fitted model; coefficients are the effects, then the thresholds from the lowest to the highest."""

    levels: tuple[str, ...] = ()

    title: ClassVar[str] = "Ordinal regression, proportional odds"
    expects: ClassVar[str] = "an ordinal model has a probability for each class, and no expected outcome"

    @property
    def thresholds(self) -> Float:
        """z, (classes - 1,)."""
        found: Float = self.coefficients[len(self.coefficients) - len(self.levels) + 1 :]
        return found

    @property
    def effects(self) -> Sequence[int]:
        return range(len(self.coefficients) - len(self.levels) + 1)

    @property
    def ratio(self) -> str:
        return "odds ratio" if self.family.link_name == "logit" else ""

    def terms(self, features: Sequence[str]) -> list[str]:
        return [*features, *(f"{low}|{high}" for low, high in zip(self.levels, self.levels[1:], strict=False))]

    def tidied(self, table: dict[str, list[Any]]) -> dict[str, list[Any]]:
        """With ``coef.type``, as broom has it: a coefficient, or a threshold (scale)."""
        effects, rows = len(self.effects), len(table["term"])
        return {**table, "coef.type": ["coefficient"] * effects + ["scale"] * (rows - effects)}

    def of_classes(self, classes: Sequence[str]) -> Self:
        return replace(self, levels=tuple(classes))

    def linear_predictor(self, X: Float, offset: Float | float = 0.0) -> Float:
        eta: Float = X @ self.coefficients[: X.shape[1]] + offset
        return eta

    def expected(self, eta: Float) -> Float:
        """The probability of each class, (rows, classes)."""
        edges = self.thresholds[None, :] - np.reshape(eta, (-1, 1))
        ends = np.full((len(edges), 1), np.inf)
        u = np.hstack((-ends, edges, ends))
        return _between(self.family.link_name, u[:, :-1], u[:, 1:])

    def said(self) -> dict[str, Fact]:
        return {
            "levels": ", ".join(self.levels),
            "link": self.family.link_name,
            "rows": self.n,
            "iterations": self.iterations,
            "deviance": self.deviance,
            "null deviance": self.null_deviance,
            "log-likelihood": self.log_likelihood,
        }

    def in_words(self, name: str) -> str:
        first = explained(name, self.iterations, self.deviance, self.null_deviance, self.n)
        return f"{first} Effects are those of a higher class; they are the same at every threshold."

    def glance(self) -> dict[str, float]:
        return {"edf": len(self.coefficients)}

    def more(self) -> dict[str, Any]:
        return {"levels": list(self.levels)}

    @classmethod
    def own_fields(cls, said: Mapping[str, Any]) -> dict[str, Any]:
        return {"levels": tuple(said["levels"])}

    def __repr__(self) -> str:
        return f"OrdinalInference({self.family.link_name}, coefficients={len(self.coefficients)}, n={self.n})"


def fit_by_digits(link: str, shape: Shape, *, alpha: float, level: float = 0.95) -> Fitting:
    """The whole fit by sums of few digits (``newton.py``): an ``OrdinalInference``, and the length of its last step."""
    K = shape.targets
    moments: Moments = yield from opened_moments(shape)
    counts = moments.targets
    if np.count_nonzero(counts > 0.0) < K:
        raise DataError("a class of the outcome has no record at any party", "leave it out of the classes")
    shares = counts / counts.sum()
    start = quantile(link, np.cumsum(shares)[:-1])
    traits = Traits(curved_table=True, allowed=lambda beta: bool((np.diff(beta[shape.features :]) > 0.0).all()))
    ended, likelihood, decrement = yield from fit_with_levels(
        shape, moments, start, _far_apart(K - 1), traits, alpha=alpha, sign=1.0
    )
    null = -2.0 * float(counts @ np.log(shares))
    table = inference(
        family_named("ordinal", link), ended, shape.n, False, 1.0, null, likelihood, alpha, level, moments.weight
    )
    levels = tuple(str(k) for k in range(K))
    return OrdinalInference.of(table, levels=levels), decrement


def _far_apart(count: int) -> NDArray[np.bool_]:
    """Pairs of thresholds that no class lies between."""
    places = np.arange(count)
    return np.abs(np.subtract.outer(places, places)) > 1
