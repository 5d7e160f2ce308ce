"""The families of generalised linear models: what a row contributes, as a function of its linear predictor.

    gaussian   identity     mu = eta
    binomial   logit        mu = 1 / (1 + exp(-eta))
    binomial   probit       mu = Phi(eta)
    poisson    log          mu = exp(eta)
    gamma      log          mu = exp(eta)
    quasi...   as theirs    binomial and poisson with a scale that is estimated, and no likelihood
    cox        log          mu = exp(eta), relative to a hazard of each site (``cox.py`` has its likelihood)

Everything is computed from eta and not from mu, so that probabilities within 1e-300 of 0 or 1 are not rounded to it.
Weights are prior weights (R's ``weights``, statsmodels' ``var_weights``); a binomial target may be a proportion with
the number of trials as weight, whose log-likelihood has the binomial coefficient, as R's has. Where trials or successes
are no whole numbers (R rounds them, with a warning) factorials are gamma functions.

Deviances and likelihoods are sums of terms that nearly cancel: of a count of 1e8, numbers of 1e9 whose sum is about 1.
``_divergence`` and ``_stirling`` are what is left of them (C. Loader, Fast and accurate computation of binomial
probabilities, 2000).
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fedsvd.errors import ConfigError, DataError
from fedsvd.types import Float

_FAR = 700.0  # exp of it is finite, and so is its square root's square
_FAR_PROBIT = 37.0  # Phi(-37) is above the smallest float64
_MOST_SQUARED = 1e150  # the variance of a gamma target is its square
_NEAR = 0.1  # of (x - M) / (x + M): the series of ``_divergence`` then has all digits after _TERMS terms
_TERMS = 8
_STIRLING = 1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188  # of n^-1, n^-3, ...
_LARGE = 16.0  # from here on they are enough
_MOST_STEPS, _SHORTEST = 100, 2.0**-40  # of the search for a constant


@dataclass(frozen=True, repr=False)
class Local:
    """Mean, its derivative by eta, the variance of one unit of dispersion, and the unit deviance of each row."""

    mu: Float
    slope: Float
    variance: Float
    deviance: Float


@dataclass(frozen=True, repr=False)
class Family:
    """A distribution with a link function."""

    name: str
    link_name: str
    dispersion: bool  # whether a scale is estimated; it is 1 otherwise
    evaluate: Callable[[Float, Float], Local]  # of eta and y
    start: Callable[[Float], Float]  # eta of the first iteration, from y
    link: Callable[[float], float]
    log_likelihood: Callable[[Float, Float, Float, float], Float]  # of y, eta, weights and the scale
    inside: Callable[[Float], bool]  # whether targets can belong to the family
    targets: str  # in words
    curvature: Callable[[Float, Float, Local], Float] = lambda eta, y, local: expected_curvature(local)

    @property
    def law(self) -> str:
        """The family whose mean and variance it has: of a quasi family that without a spread of its own."""
        return self.name.removeprefix("quasi")

    @property
    def quasi(self) -> bool:
        """Whether it has no likelihood: mean and variance alone are said, the latter but for a factor."""
        return self.law != self.name

    def __repr__(self) -> str:
        return f"Family({self.name}, {self.link_name})"

    def __reduce__(self) -> tuple[Any, ...]:
        # By its name: estimators that hold a model are copied and saved.
        return family_named, (self.name, self.link_name)

    def expect(self, y: Float) -> None:
        """Raise ``DataError`` unless y can be the target of this family."""
        if not (np.all(np.isfinite(y)) and self.inside(y)):
            raise DataError(f"the target of a {self.name} model must be {self.targets}", "check the target column")


def expected_curvature(local: Local) -> Float:
    """Of minus the log-likelihood by eta, as expected; of a canonical link it is the curvature itself."""
    if local.slope is local.variance:  # of a canonical link
        return local.slope
    return local.slope * (local.slope / local.variance)


def _divergence(x: Float, M: Float, difference: Float, log_ratio: Float) -> Float:
    """``x log(x / M) + M - x`` of x >= 0 and M > 0, to the last digits also where x is close to M.

    ``difference`` is ``x - M``, and ``log_ratio`` the logarithm of x / M, which counts where they are apart and x > 0.
    """
    v = difference / (x + M)
    square = np.square(v)
    tail = np.zeros_like(v)
    for j in range(_TERMS, 0, -1):
        tail = square * (1.0 / (2 * j + 1) + tail)
    found: Float = np.where(np.abs(v) < _NEAR, v * (difference + 2.0 * x * tail), x * log_ratio - difference)
    return found


def _stirling(n: Float) -> Float:
    """``log(n!) - (n + 1/2) log(n) + n - log(2 pi) / 2`` of n > 0: what Stirling's formula leaves out."""
    far = np.maximum(n, _LARGE)
    series = np.zeros_like(far)
    for coefficient in reversed(_STIRLING):
        series = coefficient + series / np.square(far)
    near = np.minimum(n, _LARGE)
    plain = special.gammaln(near + 1.0) - (near + 0.5) * np.log(near) + near - 0.5 * math.log(2.0 * math.pi)
    found: Float = np.where(n > _LARGE, series / far, plain)
    return found


def _gaussian(eta: Float, y: Float) -> Local:
    one = np.ones_like(eta)
    return Local(eta, one, one, np.square(y - eta))


def _gaussian_likelihood(y: Float, eta: Float, weights: Float, scale: float) -> Float:
    if scale == 0.0:  # a perfect fit has no largest likelihood: that of the smallest scale there is, without residuals
        return -0.5 * np.log(2.0 * math.pi * sys.float_info.min / weights)
    terms: Float = -0.5 * (weights * np.square(y - eta) / scale + np.log(2.0 * math.pi * scale / weights))
    return terms


def _logit(eta: Float, y: Float) -> Local:
    eta = np.clip(eta, -_FAR, _FAR)
    far = np.exp(-np.abs(eta))  # of all that follows, to the last digits on both sides
    larger = 1.0 / (1.0 + far)
    smaller = far * larger
    mu, variance, log_larger = np.where(eta >= 0.0, larger, smaller), smaller * larger, np.log1p(far)
    np.negative(log_larger, out=log_larger)
    if np.array_equal(np.square(y), y):  # outcomes alone, no share between 0 and 1
        deviance = np.maximum(eta - 2.0 * y * eta, 0.0)
        deviance -= log_larger
        deviance *= 2.0
        return Local(mu, variance, variance, deviance)
    rest = np.where(eta >= 0.0, smaller, larger)
    log_mu, log_rest = np.minimum(eta, 0.0) + log_larger, log_larger - np.maximum(eta, 0.0)
    return Local(mu, variance, variance, _binomial_deviance(y, mu, rest, log_mu, log_rest))


def _probit(eta: Float, y: Float) -> Local:
    eta = np.clip(eta, -_FAR_PROBIT, _FAR_PROBIT)
    mu, rest = special.ndtr(eta), special.ndtr(-eta)
    slope = np.exp(-0.5 * np.square(eta)) / math.sqrt(2.0 * math.pi)
    deviance = _binomial_deviance(y, mu, rest, special.log_ndtr(eta), special.log_ndtr(-eta))
    return Local(mu, slope, mu * rest, deviance)


def _probit_curvature(eta: Float, y: Float, local: Local) -> Float:
    eta = np.clip(eta, -_FAR_PROBIT, _FAR_PROBIT)
    below, above = local.slope / local.mu, local.slope / special.ndtr(-eta)
    found: Float = np.maximum(y * below * (below + eta) + (1.0 - y) * above * (above - eta), np.finfo(np.float64).tiny)
    return found


def _binomial_deviance(y: Float, mu: Float, rest: Float, log_mu: Float, log_rest: Float) -> Float:
    """Of outcomes and shares; ``rest`` is 1 - mu, which has digits of its own where mu is close to 1."""
    pure = -(y * log_mu + (1.0 - y) * log_rest)
    inside = _inside(y)
    if not np.any(inside):
        return 2.0 * pure
    share = np.where(inside, y, 0.5)
    difference = np.where(share < 0.5, share - mu, rest - (1.0 - share))
    apart = _divergence(share, mu, difference, np.log(share) - log_mu)
    apart += _divergence(1.0 - share, rest, -difference, np.log1p(-share) - log_rest)
    unit: Float = 2.0 * np.where(inside, apart, pure)
    return unit


def _inside(y: Float) -> NDArray[np.bool_]:
    """Which outcomes are shares, neither 0 nor 1."""
    inside: NDArray[np.bool_] = (y > 0.0) & (y < 1.0)
    return inside


def share_entropy(y: Float) -> Float:
    """How far from 0 and 1 each share is: its deviance from the outcomes behind it; 0 where it is one of them."""
    entropy: Float = 2.0 * (special.entr(y) + special.entr(1.0 - y))
    return entropy


def _binomial_likelihood(evaluate: Callable[[Float, Float], Local]) -> Callable[[Float, Float, Float, float], Float]:
    """The logarithm of the probability of this number of successes: weights are trials, y is the share of successes."""

    def likelihood(y: Float, eta: Float, weights: Float, scale: float) -> Float:
        inside = _inside(y)
        if not np.any(inside):
            return -0.5 * weights * evaluate(eta, y).deviance
        share, trials = np.where(inside, y, 0.5), np.where(inside, weights, 1.0)
        saturated = _stirling(trials) - _stirling(trials * share) - _stirling(trials * (1.0 - share))
        saturated -= 0.5 * np.log(2.0 * math.pi * trials * share * (1.0 - share))
        terms: Float = np.where(inside, saturated, 0.0) - 0.5 * weights * evaluate(eta, y).deviance
        return terms

    return likelihood


def _poisson(eta: Float, y: Float) -> Local:
    mu = np.exp(np.clip(eta, -_FAR, _FAR))
    return Local(mu, mu, mu, 2.0 * _divergence(y, mu, y - mu, np.log(np.where(y > 0.0, y, 1.0)) - eta))


def _poisson_likelihood(y: Float, eta: Float, weights: Float, scale: float) -> Float:
    count = np.where(y > 0.0, y, 1.0)
    saturated = np.where(y > 0.0, -_stirling(count) - 0.5 * np.log(2.0 * math.pi * count), 0.0)
    terms: Float = weights * (saturated - 0.5 * _poisson(eta, y).deviance)
    return terms


def _gamma(eta: Float, y: Float) -> Local:
    eta = np.clip(eta, -_FAR / 2.0, _FAR / 2.0)  # the square of mu is finite
    mu, far = np.exp(eta), np.log(y) - eta
    return Local(mu, mu, np.square(mu), 2.0 * _divergence(np.ones_like(far), np.exp(far), -np.expm1(far), -far))


def _gamma_curvature(eta: Float, y: Float, local: Local) -> Float:
    return y / local.mu


def _gamma_likelihood(y: Float, eta: Float, weights: Float, scale: float) -> Float:
    shape = weights / scale
    saturated = 0.5 * np.log(shape / (2.0 * math.pi)) - _stirling(shape) - np.log(y)
    terms: Float = saturated - 0.5 * shape * _gamma(eta, y).deviance
    return terms


def _share(y: Float) -> bool:
    return bool(np.all((y >= 0.0) & (y <= 1.0)))


GAUSSIAN = Family(
    "gaussian", "identity", True, _gaussian, lambda y: y, float, _gaussian_likelihood, lambda y: True, "finite"
)
LOGIT = Family(
    "binomial",
    "logit",
    False,
    _logit,
    lambda y: np.asarray(special.logit((y + 0.5) / 2.0)),
    lambda mu: float(special.logit(mu)),
    _binomial_likelihood(_logit),
    _share,
    "0 or 1, or a share between them",
)
PROBIT = Family(
    "binomial",
    "probit",
    False,
    _probit,
    lambda y: np.asarray(special.ndtri((y + 0.5) / 2.0)),
    lambda mu: float(special.ndtri(mu)),
    _binomial_likelihood(_probit),
    _share,
    "0 or 1, or a share between them",
    _probit_curvature,
)
POISSON = Family(
    "poisson",
    "log",
    False,
    _poisson,
    lambda y: np.log(y + 0.1),
    math.log,
    _poisson_likelihood,
    lambda y: bool(np.all(y >= 0.0)),
    "0 or more",
)
GAMMA = Family(
    "gamma",
    "log",
    True,
    _gamma,
    np.log,
    math.log,
    _gamma_likelihood,
    lambda y: bool(np.all((y >= 1.0 / _MOST_SQUARED) & (y <= _MOST_SQUARED))),
    "above 0, from 1e-150 to 1e150",
    _gamma_curvature,
)
_QUASI = [replace(family, name=f"quasi{family.name}", dispersion=True) for family in (LOGIT, PROBIT, POISSON)]
COX = Family(
    "cox",
    "log",
    False,
    _poisson,  # of a hazard that is not estimated: mu is relative to it
    np.zeros_like,
    math.log,
    _poisson_likelihood,
    lambda y: True,
    "finite times",
)
_COX_IN_BINS = [replace(COX, name="cox-bins", link_name=link) for link in ("cloglog", "log")]
NEGATIVE_BINOMIAL = replace(POISSON, name="negative-binomial")  # whose likelihood is in ``negative_binomial.py``
_ORDINAL = [
    replace(family, name="ordinal", link_name=link, inside=lambda y: True, targets="the number of a class")
    for link, family in (("logit", LOGIT), ("probit", PROBIT), ("cloglog", LOGIT))
]  # whose likelihood is in ``ordinal.py``
MIXED = replace(GAUSSIAN, name="mixed")
_PROPENSITY = [replace(family, name="propensity", inside=lambda y: True) for family in (LOGIT, PROBIT)]
FAMILIES = {
    ("gaussian", "identity"): GAUSSIAN,
    ("binomial", "logit"): LOGIT,
    ("binomial", "probit"): PROBIT,
    ("poisson", "log"): POISSON,
    ("gamma", "log"): GAMMA,
    **{(family.name, family.link_name): family for family in _QUASI},
    ("negative-binomial", "log"): NEGATIVE_BINOMIAL,
    ("cox", "log"): COX,
    **{("cox-bins", family.link_name): family for family in _COX_IN_BINS},
    **{("ordinal", family.link_name): family for family in _ORDINAL},
    ("mixed", "identity"): MIXED,
    **{(family.name, family.link_name): family for family in _PROPENSITY},
}


def best_constant(family: Family, y: Float, weights: Float, offset: Float) -> float:
    """c for which ``eta = c + offset`` has the least deviance, by Newton's method; ValueError where there is none."""
    c = family.link(float(weights @ y / weights.sum())) - float(weights @ offset / weights.sum())
    if not np.any(offset):
        return c
    local = family.evaluate(c + offset, y)
    for _ in range(_MOST_STEPS):
        slope = local.slope / local.variance
        step = float(weights @ (slope * (y - local.mu))) / float(weights @ (slope * local.slope))
        before, gone = float(weights @ local.deviance), 1.0
        while True:
            local = family.evaluate(c + gone * step + offset, y)
            if gone < _SHORTEST or float(weights @ local.deviance) <= before:
                break
            gone /= 2.0
        c += gone * step
        if abs(step) <= 1e-15 * (1.0 + abs(c)) or gone < _SHORTEST:
            break
    return c


def family_named(name: str, link: str | None = None) -> Family:
    """The family of this name, with its usual link unless another one is named."""
    for (family, usual), found in FAMILIES.items():
        if family == name and link in (None, usual):
            return found
    known = ", ".join(f"{family} ({usual})" for family, usual in FAMILIES)
    raise ConfigError(f"there is no family {name!r} with link {link or 'of its own'!r}", f"choose one of {known}")
