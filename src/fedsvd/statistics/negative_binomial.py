"""Negative binomial counts: a party's own records, and the fit by few digits (R's ``MASS::glm.nb``).

    y of mean mu = exp(x b + offset) and variance mu + mu^2 / theta

Parameters are b, an intercept first, and t = log theta, all found together. Far from the end the information is the
expected one, which has no entry between b and t; near the end the curvature, which need not be positive. Standard
errors of b are of the expected information at theta, that of theta of its own curvature: both as R's. Where theta
grows without end the counts vary no more than Poisson's, and there is no table.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import special

from fedsvd.errors import ConfigError, NotConverged
from fedsvd.statistics.ended import Ended
from fedsvd.statistics.families import POISSON, family_named
from fedsvd.statistics.glm import Fact, GLMInference, expect_variation, inference
from fedsvd.statistics.meats import meat
from fedsvd.statistics.newton import Fitting, Traits, by_size, ending_bits, fitted, opened_moments
from fedsvd.statistics.newton_requests import Evaluation, Found, Moments, Point, Shape
from fedsvd.statistics.records import RowRecords, largest_of
from fedsvd.statistics.robust import Scores
from fedsvd.types import Float

MOST_THETA = 1e6
"""Beyond, counts vary no more than Poisson's."""

_LARGE = 1e3  # of a theta that still grows where the iteration ends
_FAR = 300.0
_SOME = 0.05  # of the expected information on t of a record, at least: a step beyond the truth is halved


class CountRecords(RowRecords):
    """A party's own counts."""

    def __init__(
        self, X: Float, y: Float, intercept: bool, weights: Float | None = None, offset: Float | None = None
    ) -> None:
        super().__init__(X, y, weights, offset)
        self._first = int(intercept)
        self.by_expected = True
        self.tested = slice(0, self._first + X.shape[1])  # of t a record's part may be of either sign

    def moments(self) -> Float:
        exposure = self._prior * np.exp(self._offset)
        return np.array([self.weight, float(exposure.sum()), float(self._prior @ self._y)])

    def end(self, of: str, at: Point, scale: float) -> Float:
        """The deviance of counts at this theta, and minus twice the log-likelihood; of the null model too."""
        mu, theta = self._means(at)
        y, w = self._y, self._prior
        seen = np.where(y > 0.0, y, 1.0)
        terms = y * np.log(seen / mu) - (y + theta) * np.log((y + theta) / (mu + theta))
        return np.array([2.0 * float(w @ terms), self._deviance(mu, theta)])

    def part(self, at: Point) -> Evaluation:
        mu, theta = self._means(at)
        y, w, Z = self._y, self._prior, self._rows(at)
        ratio = theta / (mu + theta)
        by_theta = self._by_theta(mu, theta)
        score = np.concatenate((Z.T @ (w * (y - mu) * ratio), [theta * float(w @ by_theta)]))
        information = None
        if at.information:
            curved, cross, own = self._curvature(at, mu, theta, by_theta)
            k = Z.shape[1]
            information = np.zeros((k + 1, k + 1))
            information[:k, :k] = Z.T @ (curved[:, None] * Z)
            information[:k, k] = information[k, :k] = Z.T @ cross
            information[k, k] = own
        return Evaluation(self._deviance(mu, theta), 0.0, score, information, np.zeros((0, 1)))

    def scores(self, at: Point) -> Scores:
        """Of the coefficients of the mean alone: theta is taken as known, as R's errors take it."""
        mu, theta = self._means(at)
        ratio = theta / (mu + theta)
        return Scores(self._rows(at), self._prior * (self._y - mu) * ratio, self._prior * mu * ratio)

    def largest_part(self, at: Point, root: Float) -> float:
        """Of a record in the information on b, and in the score of t: it may carry most of neither."""
        mu, theta = self._means(at)
        turned = self._rows(at) @ root
        weights = self._prior * mu * theta / (mu + theta)
        traces = weights * np.einsum("ij,ij->i", turned, turned)
        of_theta = np.abs(self._prior * self._by_theta(mu, theta))
        if self.of_person is not None:
            of_theta = np.bincount(self.of_person, weights=of_theta)
        share = float(of_theta.max(initial=0.0) / max(float(of_theta.sum()), math.ulp(0.0)))

        def part(i: int) -> Float:
            return np.asarray(weights[i] * np.outer(turned[i], turned[i]))

        return max(largest_of(traces, part, self.of_person), share)

    def _rows(self, at: Point) -> Float:
        return np.hstack((np.ones((len(self._X), self._first)), self._X - at.centre))

    def _means(self, at: Point) -> tuple[Float, float]:
        eta = self._rows(at) @ at.beta[:-1] + self._offset
        return np.exp(np.clip(eta, -_FAR, _FAR)), math.exp(max(-_FAR, min(float(at.beta[-1]), _FAR)))

    def _deviance(self, mu: Float, theta: float) -> float:
        """Minus twice the log-likelihood, which is 0 or more."""
        y = self._y
        terms = special.gammaln(y + theta) - special.gammaln(theta) - special.gammaln(y + 1.0)
        terms = terms - theta * np.log1p(mu / theta) + y * (np.log(mu) - np.log(mu + theta))
        return -2.0 * float(self._prior @ terms)

    def _by_theta(self, mu: Float, theta: float) -> Float:
        """The derivative of each record's log-likelihood by theta."""
        y = self._y
        return np.asarray(
            special.digamma(y + theta) - special.digamma(theta) - np.log1p(mu / theta) + (mu - y) / (mu + theta)
        )

    def _curvature(self, at: Point, mu: Float, theta: float, by_theta: Float) -> tuple[Float, Float, float]:
        """Of eta, of eta and t, of t."""
        y, w, both = self._y, self._prior, mu + theta
        bent = special.polygamma(1, theta) - special.polygamma(1, y + theta) - 1.0 / theta + 2.0 / both
        bent = theta * theta * float(w @ (bent - (y + theta) / (both * both)))
        if at.expected:
            own = bent if at.final else max(bent, _SOME * self.weight)
            return w * mu * theta / both, np.zeros(len(y)), own
        cross = -w * theta * (y - mu) * mu / (both * both)
        return w * mu * theta * (y + theta) / (both * both), cross, bent - theta * float(w @ by_theta)


@dataclass(frozen=True, repr=False)
class NegativeBinomialInference(GLMInference):
    """A fitted model; coefficients are those of the mean, ``theta`` stands apart as in R."""

    theta: float = math.nan
    theta_error: float = math.nan

    title: ClassVar[str] = "Negative binomial regression"

    @property
    def compared(self) -> float:
        """Deviances of models with another theta have nothing to compare, likelihoods have (MASS ``anova``)."""
        return -2.0 * float(np.asarray(self.log_likelihood))

    def said(self) -> dict[str, Fact]:
        found = {name: value for name, value in super().said().items() if name not in ("scale", "Pearson chi2")}
        return found | {"theta": self.theta, "std error of theta": self.theta_error}

    def more(self) -> dict[str, Any]:
        error = None if math.isnan(self.theta_error) else self.theta_error
        return {"theta": self.theta, "theta_error": error}

    @classmethod
    def own_fields(cls, said: Mapping[str, Any]) -> dict[str, Any]:
        error = said["theta_error"]
        return {"theta": float(said["theta"]), "theta_error": math.nan if error is None else float(error)}

    def __repr__(self) -> str:
        return f"NegativeBinomialInference(coefficients={len(self.coefficients)}, n={self.n})"


def no_overdispersion() -> NotConverged:
    """Theta has no finite value: the same words whatever the data."""
    return NotConverged(
        "the counts vary no more than Poisson's: theta grows without end", 'family = "poisson" fits them'
    )


def fit_by_digits(shape: Shape, *, offset: bool, alpha: float, level: float = 0.95) -> Fitting:
    """The whole fit by sums of few digits: a ``NegativeBinomialInference``, and the length of its last step."""
    if alpha > 0.0:
        raise ConfigError("a negative binomial model has no ridge", "leave alpha out")
    bits, k = ending_bits(shape.table), shape.coefficients - 1
    moments: Moments = yield from opened_moments(shape)
    total = float(moments.targets[0])
    # Of counts that are all zero noise alone is left, of either sign.
    expect_variation(POISSON, 0.0 if total < 0.5 and not shape.weighted else total / moments.weight)
    rate = math.log(total / moments.shift)
    zeros = np.zeros((k + 1, k + 1), bool)
    zeros[:k, k] = zeros[k, :k] = True

    seen = [0.0]

    def allowed(beta: Float) -> bool:
        seen.append(float(beta[-1]))
        if beta[-1] > math.log(MOST_THETA):
            raise no_overdispersion()
        return True

    traits = Traits(zeros, indefinite=True, allowed=allowed, vanished=lambda beta: no_overdispersion())
    start = np.array([rate, 0.0]) if shape.intercept else np.zeros(1)
    try:
        found: Found = yield from fitted(shape, moments, start, traits)
    except NotConverged:
        if seen[-1] > math.log(_LARGE):  # one step of Newton's moves t by about one there
            raise no_overdispersion() from None
        raise
    summed = yield from meat(found, shape)
    flat = np.zeros(k + 1)
    flat[0], flat[k] = rate if shape.intercept else 0.0, found.beta[k]
    deviance, minus_two = (yield from by_size("end", found.at, shape.users, bits)).tolist()
    null = float((yield from by_size("null", Point(flat, found.centre, information=False), shape.users, bits))[0])
    beta, root = found.beta[:k].copy(), found.root[:k, :k].copy()
    if shape.intercept:
        beta[0] -= found.centre @ beta[1:]
        root[0] -= found.centre @ root[1:]
    totals = {"deviance": max(deviance, 0.0), "pearson": 0.0}
    ended = Ended(beta, root, totals, found.iterations, found.halvings, meat=summed, errors=shape.errors)
    null = math.nan if offset else max(null, 0.0)  # whose null model would take an iteration of its own
    likelihood = -0.5 * minus_two
    family = family_named("negative-binomial", "log")
    table = inference(family, ended, shape.n, shape.intercept, 1.0, null, likelihood, 0.0, level, moments.weight)
    theta = math.exp(found.beta[k])
    criteria = {"aic": 2.0 * (k + 1) + minus_two, "bic": math.log(shape.n) * (k + 1) + minus_two}
    error = theta * float(np.linalg.norm(found.root[k]))
    return NegativeBinomialInference.of(table, theta=theta, theta_error=error, **criteria), found.decrement
