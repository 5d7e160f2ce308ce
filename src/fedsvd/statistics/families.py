"""The families of generalised linear models: what a row contributes, as a function of its linear predictor.

    gaussian   identity     mu = eta
    binomial   logit        mu = 1 / (1 + exp(-eta))
    binomial   probit       mu = Phi(eta)
    poisson    log          mu = exp(eta)
    gamma      log          mu = exp(eta)

Everything is computed from eta and not from mu, so that probabilities within 1e-300 of 0 or 1 are not rounded to it.
Weights are prior weights (R's ``weights``, statsmodels' ``var_weights``); a binomial target may be a proportion with
the number of trials as weight, whose log-likelihood then leaves out the binomial coefficient.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from fedsvd.errors import ConfigError, DataError
from fedsvd.types import Float

_FAR = 700.0  # exp of it is finite, and so is its square root's square
_FAR_PROBIT = 37.0  # Phi(-37) is above the smallest float64


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

    def __repr__(self) -> str:
        return f"Family({self.name}, {self.link_name})"

    def __reduce__(self) -> tuple[Any, ...]:
        # By its name: estimators that hold a model are copied and saved.
        return family_named, (self.name, self.link_name)

    def expect(self, y: Float) -> None:
        """Raise ``DataError`` unless y can be the target of this family."""
        if not (np.all(np.isfinite(y)) and self.inside(y)):
            raise DataError(f"the target of a {self.name} model must be {self.targets}", "check the target column")


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
    mu = special.expit(eta)
    variance = mu * special.expit(-eta)
    return Local(mu, variance, variance, _binomial_deviance(y, special.log_expit(eta), special.log_expit(-eta)))


def _probit(eta: Float, y: Float) -> Local:
    eta = np.clip(eta, -_FAR_PROBIT, _FAR_PROBIT)
    mu = special.ndtr(eta)
    slope = np.exp(-0.5 * np.square(eta)) / math.sqrt(2.0 * math.pi)
    variance = mu * special.ndtr(-eta)
    return Local(mu, slope, variance, _binomial_deviance(y, special.log_ndtr(eta), special.log_ndtr(-eta)))


def _binomial_deviance(y: Float, log_mu: Float, log_rest: Float) -> Float:
    own = special.xlogy(y, y) + special.xlogy(1.0 - y, 1.0 - y)
    unit: Float = 2.0 * (own - y * log_mu - (1.0 - y) * log_rest)
    return unit


def _logit_likelihood(y: Float, eta: Float, weights: Float, scale: float) -> Float:
    terms: Float = weights * (y * special.log_expit(eta) + (1.0 - y) * special.log_expit(-eta))
    return terms


def _probit_likelihood(y: Float, eta: Float, weights: Float, scale: float) -> Float:
    terms: Float = weights * (y * special.log_ndtr(eta) + (1.0 - y) * special.log_ndtr(-eta))
    return terms


def _poisson(eta: Float, y: Float) -> Local:
    mu = np.exp(np.clip(eta, -_FAR, _FAR))
    return Local(mu, mu, mu, 2.0 * (special.xlogy(y, y) - y * eta - (y - mu)))


def _poisson_likelihood(y: Float, eta: Float, weights: Float, scale: float) -> Float:
    terms: Float = weights * (y * eta - np.exp(eta) - special.gammaln(y + 1.0))
    return terms


def _gamma(eta: Float, y: Float) -> Local:
    eta = np.clip(eta, -_FAR / 2.0, _FAR / 2.0)  # the square of mu is finite
    mu = np.exp(eta)
    return Local(mu, mu, np.square(mu), 2.0 * (eta - np.log(y) + np.expm1(np.log(y) - eta)))


def _gamma_likelihood(y: Float, eta: Float, weights: Float, scale: float) -> Float:
    shape = weights / scale
    ratio = y / np.exp(eta)
    terms: Float = shape * np.log(shape * ratio) - shape * ratio - special.gammaln(shape) - np.log(y)
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
    _logit_likelihood,
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
    _probit_likelihood,
    _share,
    "0 or 1, or a share between them",
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
    "gamma", "log", True, _gamma, np.log, math.log, _gamma_likelihood, lambda y: bool(np.all(y > 0.0)), "above 0"
)
FAMILIES = {
    ("gaussian", "identity"): GAUSSIAN,
    ("binomial", "logit"): LOGIT,
    ("binomial", "probit"): PROBIT,
    ("poisson", "log"): POISSON,
    ("gamma", "log"): GAMMA,
}


def family_named(name: str, link: str | None = None) -> Family:
    """The family of this name, with its usual link unless another one is named."""
    for (family, usual), found in FAMILIES.items():
        if family == name and link in (None, usual):
            return found
    known = ", ".join(f"{family} ({usual})" for family, usual in FAMILIES)
    raise ConfigError(f"there is no family {name!r} with link {link or 'of its own'!r}", f"choose one of {known}")
