"""Tests of terms after a fit: Wald, likelihood ratio, contrasts, marginal effects; from what is released, no session.

A model that was fitted has coefficients w, their covariance V, and a log-likelihood or sums of squares:

    Wald            (L w - c)^T (L V L^T)^-1 (L w - c), chi-squared, or F where a scale is estimated
    two models      2 (l_1 - l_0), chi-squared; F of deviances, or of sums of squares, where a scale is estimated
    marginal        d mu / d x_j at a given row; over all rows from ``sum of weights``, which V^-1 has

The inverse of the model's own V, not of a robust one, is the Gram matrix of ``sqrt(weight) [1 X]``. The weights of a
logit model are p (1 - p), those of a log link the means: in both the slope of the mean, so that its first entry is the
sum of the slopes of all rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.statistics.broom import Model
from fedsvd.statistics.distributions import chi2_tail, f_tail, wald
from fedsvd.statistics.glm import GLMInference
from fedsvd.statistics.inference import LinearInference
from fedsvd.statistics.mixed_table import MixedInference
from fedsvd.statistics.multinomial import MultinomialInference
from fedsvd.statistics.robust import NONROBUST
from fedsvd.statistics.undefined import Numbers, Undefined, is_array
from fedsvd.types import Float

_NO_SLOPES = Undefined("its error needs a sum over all rows that the study did not open: give a row (at=...)")


@dataclass(frozen=True)
class Test:
    """One test: F with ``df`` and ``df_residual`` where a scale is estimated, chi-squared with ``df`` otherwise."""

    name: str
    statistic: float
    df: int
    p: float
    df_residual: float | None = None

    @property
    def law(self) -> str:
        """Which law the statistic has where there is no effect."""
        return "chi2" if self.df_residual is None else "F"


def freedom(model: Model, L: Float) -> int | Float | None:
    """Degrees of freedom of the estimated scale, for each combination ``L w``; None where no scale is estimated.

    Of a mixed model every combination has its own.
    """
    if isinstance(model, LinearInference):
        return model.df_residual if model.distribution == "t" else None
    return model.freedom_of(L) if isinstance(model, MixedInference) else model.freedom


def estimates(model: Model) -> tuple[Float, Float]:
    """Coefficients in one row, and their covariance; ``ConfigError`` where it is not defined."""
    covariance = model.covariance
    if isinstance(covariance, Undefined):
        raise ConfigError(f"the covariance of the coefficients is not defined: {covariance.reason}", "fit without it")
    return np.ravel(model.coefficients), covariance


def wald_test(model: Model, L: Float, value: Float | float = 0.0, name: str = "") -> Test:
    """The joint test of ``L w = value``; rows of L are restrictions."""
    w, V = estimates(model)
    L = np.atleast_2d(np.asarray(L, dtype=np.float64))
    if L.shape[1] != len(w):
        raise ShapeError(f"a restriction has {L.shape[1]} numbers, and the model {len(w)} coefficients")
    used = np.any(L != 0.0, axis=0)
    if not (np.isfinite(w[used]).all() and np.isfinite(V[np.ix_(used, used)]).all()):
        raise ConfigError("a coefficient of this test is not defined, or its covariance is not here", "leave it out")
    degrees = model.freedom_together(L) if isinstance(model, MixedInference) else freedom(model, L)
    L, w, V = L[:, used], w[used], V[np.ix_(used, used)]
    difference, spread = L @ w - value, L @ V @ L.T
    df = int(np.linalg.matrix_rank(spread))
    statistic = float(difference @ np.linalg.pinv(spread, hermitian=True) @ difference)
    assert not isinstance(degrees, np.ndarray)
    return _tested(name, statistic, df, degrees)


def _tested(name: str, chi2: float, df: int, residual: float | None) -> Test:
    if residual is None:
        return Test(name, chi2, df, chi2_tail(chi2, df))
    return Test(name, chi2 / df, df, f_tail(chi2 / df, df, residual), residual)


def between(small: Model, large: Model) -> Test:
    """The likelihood-ratio test of two nested models of one target; F where a scale is estimated, as R's ``anova``."""
    if type(small) is not type(large) or small.n != large.n or not _same_family(small, large):
        raise ConfigError(
            "these models have different rows, families or links", "compare two models of the same records and target"
        )
    if _penalised(small) or _penalised(large):
        raise ConfigError("a model with a penalty has no likelihood-ratio test", "fit both without a penalty")
    df = int(np.isfinite(large.coefficients).sum() - np.isfinite(small.coefficients).sum())
    if df <= 0:
        raise ConfigError(
            "the second model does not have more coefficients than the first", "give the smaller one first"
        )
    if _robust(small) or _robust(large):
        raise ConfigError("robust errors have no test by sums of squares or by likelihoods", "use wald_test")
    if isinstance(small, LinearInference) and isinstance(large, LinearInference):
        gain, scale = small.sums.residual - large.sums.residual, large.sums.residual / large.df_residual
        return _tested("F", gain / scale, df, large.df_residual)
    assert not isinstance(small, LinearInference)
    assert not isinstance(large, LinearInference)
    gain = small.compared - large.compared
    if isinstance(large, GLMInference) and large.by_scale:
        if isinstance(large.scale, Undefined):
            raise ConfigError(f"the scale is not defined: {large.scale.reason}", "compare models with fewer terms")
        return _tested("F", gain / large.scale, df, large.df_residual)
    return _tested("LR", gain, df, None)


def _same_family(small: Model, large: Model) -> bool:
    if isinstance(small, GLMInference) and isinstance(large, GLMInference):
        return small.same_family(large)
    if isinstance(small, MultinomialInference) and isinstance(large, MultinomialInference):
        return bool(np.allclose(small.counts, large.counts, rtol=1e-9, atol=0.0))
    # Two regressions of one target have one total sum of squares, to rounding.
    if isinstance(small, LinearInference) and isinstance(large, LinearInference):
        return small.intercept != large.intercept or math.isclose(small.sums.total, large.sums.total, rel_tol=1e-9)
    return False


def _robust(model: Model) -> bool:
    return (model.kind if isinstance(model, LinearInference) else model.errors.kind) != NONROBUST


def _penalised(model: Model) -> bool:
    return isinstance(model.covariance, Undefined) and "penalty" in model.covariance.reason


@dataclass(frozen=True, repr=False)
class Effects:
    """Numbers with their errors, tests and intervals, in the order of their names."""

    names: tuple[str, ...]
    values: Float
    errors: Numbers
    statistic: Numbers
    p: Numbers
    intervals: Numbers

    def columns(self) -> dict[str, list[object]]:
        """Columns with broom's names; NaN where a number is not defined."""
        count = len(self.names)

        def cells(values: Numbers) -> list[object]:
            return [float(x) for x in values] if is_array(values) else [math.nan] * count

        low, high = (self.intervals[:, 0], self.intervals[:, 1]) if is_array(self.intervals) else (self.intervals,) * 2
        parts = (self.values, self.errors, self.statistic, self.p, low, high)
        heads = ("estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high")
        names: list[object] = list(self.names)
        return {"term": names} | {head: cells(part) for head, part in zip(heads, parts, strict=True)}


def contrasts(model: Model, L: Float, names: Sequence[str], level: float) -> Effects:
    """Linear combinations ``L w`` of the coefficients, each tested against 0."""
    w, V = estimates(model)
    L = np.atleast_2d(np.asarray(L, dtype=np.float64))
    if L.shape[1] != len(w):
        raise ShapeError(f"a contrast has {L.shape[1]} numbers, and the model {len(w)} coefficients")
    used = np.any(L != 0.0, axis=0)
    values, errors = L[:, used] @ w[used], np.sqrt(np.diag(L[:, used] @ V[np.ix_(used, used)] @ L[:, used].T))
    return _effects(tuple(names), values, errors, level, freedom(model, L))


def _effects(names: tuple[str, ...], values: Float, errors: Numbers, level: float, df: int | Float | None) -> Effects:
    tests = wald(values, errors, level, df)
    return Effects(names, values, errors, tests.statistic, tests.p, tests.intervals)


def marginal_effects(model: Model, names: Sequence[str], level: float, at: Float | None = None) -> Effects:
    """How much the mean changes with each feature: at one row of features, or on average over all rows of the fit.

    The average needs the sum of slopes over all rows, which the covariance has where the link is canonical or the log
    of a count. Its standard errors need another sum for a logit, so there they are not defined.
    """
    if isinstance(model, MultinomialInference):
        raise ConfigError("marginal effects of several classes are not here", "fit each class against the rest")
    if isinstance(model, GLMInference) and model.expects:
        raise ConfigError(model.expects, "use tidy(exponentiate=True)")
    w, V = estimates(model)
    first = int(model.intercept)
    each = np.eye(len(w))[first:]
    if isinstance(model, LinearInference):
        return _effects(tuple(names), w[first:], np.sqrt(np.diag(V))[first:], level, freedom(model, each))
    if at is not None:
        return _at(model, tuple(names), w, V, np.asarray(at, dtype=np.float64), level)
    if model.family.link_name == "identity":
        return _effects(tuple(names), w[first:], np.sqrt(np.diag(V))[first:], level, freedom(model, each))
    weighted = (model.family.law, model.family.link_name) in (("binomial", "logit"), ("poisson", "log"))
    if not (weighted and first) or model.aliased:
        raise ConfigError("the slopes of all rows do not follow from what this model released", "give a row: at=...")
    own = model.model_covariance
    assert is_array(own)
    assert isinstance(model.scale, float)
    gram = model.scale * np.linalg.inv(own)  # whichever errors are shown
    slope = float(gram[0, 0]) / model.n
    if model.family.link_name != "log":
        return _effects(tuple(names), slope * w[1:], _NO_SLOPES, level, None)
    # Of a log link the slopes are the means themselves: their derivatives are rows of the same Gram matrix.
    J = np.outer(w[1:], gram[0] / model.n)
    J[:, 1:] += slope * np.eye(len(w) - 1)
    return _effects(tuple(names), slope * w[1:], np.sqrt(np.diag(J @ V @ J.T)), level, None)


def _at(model: GLMInference, names: tuple[str, ...], w: Float, V: Float, row: Float, level: float) -> Effects:
    first = int(model.intercept)
    if row.shape != (len(names),) or not np.isfinite(row).all():
        raise ShapeError(f"a row has {len(names)} numbers, one for each feature, got the shape {row.shape}")
    if model.aliased:
        raise ConfigError("a coefficient is not defined, because its column depends on others", "leave the column out")
    x = np.concatenate((np.ones(first), row))
    eta = np.array([float(x @ w)])
    slope, bend = _slope(model, eta)
    J = bend * np.outer(w[first:], x)
    J[:, first:] += slope * np.eye(len(names))
    return _effects(names, slope * w[first:], np.sqrt(np.diag(J @ V @ J.T)), level, freedom(model, J))


def _slope(model: GLMInference, eta: Float) -> tuple[float, float]:
    """The first and second derivative of the mean by the linear predictor."""
    local = model.family.evaluate(eta, np.ones_like(eta))
    slope, mu = float(local.slope[0]), float(local.mu[0])
    bends = {"identity": 0.0, "log": slope, "logit": slope * (1.0 - 2.0 * mu), "probit": -float(eta[0]) * slope}
    if model.family.link_name not in bends:
        raise ConfigError(f"link {model.family.link_name} has no marginal effects here", "use predict")
    return slope, bends[model.family.link_name]
