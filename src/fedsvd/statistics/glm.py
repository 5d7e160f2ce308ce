"""Generalised linear models on split rows: what a party contributes, and the fit as a generator without data.

``fit`` yields a ``Request``: evaluate the model at these coefficients. Each party answers from its own rows with
``contribution``: rows ``sqrt(w) [1 X z]``, whose Gram matrix is summed, and a few totals; z is the working target at
the start and the working residual from then on. The protocol sends back an ``Answer``: any factor of the summed Gram
matrix, and the summed totals. What follows from a factor is yielded again, as a ``Proposal`` (``irls.py``).

    state        request                           next
    start        step, beta = None                 step: first coefficients
    step         step at new coefficients          step; halve where the deviance rose; converged
    converged    last, at the final coefficients   null model (a constant only)
    null         step, or deviance alone           log-likelihood at the estimated scale; done
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from fedsvd.errors import ConfigError, DataError, ShapeError
from fedsvd.statistics.aliased import not_of
from fedsvd.statistics.distributions import Wald, wald
from fedsvd.statistics.ended import Ended
from fedsvd.statistics.families import Family, family_named, share_entropy
from fedsvd.statistics.irls import Answer, Contribution, Fit, Limits, Request, Steps, asked, iterate, squares
from fedsvd.statistics.robust import NONROBUST, USUAL, Errors
from fedsvd.statistics.undefined import (
    NO_FREEDOM,
    PENALISED,
    QUASI,
    RANK_LOST,
    Number,
    Numbers,
    Undefined,
    is_array,
)
from fedsvd.types import Float

INTERCEPT = "(intercept)"
Fact = Number | int | str
"""What a summary says of a model as one."""

_TRIALS = 1.01  # a row, beyond which weights are numbers of trials
_COUNTS = ("poisson", "negative-binomial")
_DISPERSED = 1.2  # of Pearson's sum over its degrees of freedom: what a person should hear of


@dataclass(frozen=True, repr=False)
class GLMInference:
    """A fitted model; arrays are in the order of the coefficients, an intercept first."""

    family: Family
    coefficients: Float  # NaN where aliased
    intercept: bool
    standard_errors: Numbers
    z: Numbers
    p: Numbers
    intervals: Numbers
    covariance: Numbers
    n: int
    rank: int
    df_residual: int
    df_null: int
    scale: Number
    deviance: float
    null_deviance: float
    pearson: float
    log_likelihood: Number
    aic: Number
    bic: Number
    iterations: int
    halvings: int
    alpha: float
    level: float
    solution: Float  # of the same fitted values, of least norm where columns are dependent
    aliased: tuple[int, ...] = ()  # coefficients of columns that depend on those before them
    weight: float = 0.0  # of all rows: the trials of binomial shares
    errors: Errors = USUAL
    naive: Numbers | None = None  # the covariance that the model itself says, where errors are robust

    @property
    def dispersion(self) -> float | None:
        """Pearson's sum over its degrees of freedom, where counts can vary more than their family says; else None.

        Of outcomes of one trial each it says nothing."""
        counts = self.family.name == "poisson" or (self.family.name == "binomial" and self.weight > _TRIALS * self.n)
        known = self.df_residual > 0 and self.alpha == 0.0 and not self.errors.robust
        return self.pearson / self.df_residual if counts and known else None

    @property
    def overdispersed(self) -> bool:
        """Whether counts vary more than their family says, by more than chance."""
        found = self.dispersion
        return found is not None and found > max(_DISPERSED, 1.0 + 3.0 * math.sqrt(2.0 / self.df_residual))

    def quasi(self) -> Wald:
        """Tests by quasi-likelihood: errors times the root of the dispersion, and Student's t (R's quasipoisson)."""
        errors, found = self.standard_errors, self.dispersion
        if found is not None and is_array(errors):
            errors = math.sqrt(found) * errors
        return wald(self.coefficients, errors, self.level, self.df_residual)

    @property
    def freedom(self) -> int | Float | None:
        """Of Student's t, by which R tests coefficients where a scale is estimated; None: the normal law."""
        return self.df_residual if self.family.dispersion and not self.errors.robust else None

    @property
    def compared(self) -> float:
        """Minus twice the log-likelihood, less what nested models of the same records have in common."""
        return self.deviance

    @property
    def by_scale(self) -> bool:
        """Whether nested models are compared by F, in units of the estimated scale, as R has it."""
        return self.family.dispersion

    def same_family(self, other: "GLMInference") -> bool:
        """Whether the other model has the same law of its outcomes."""
        return repr(self.family) == repr(other.family)

    @property
    def effects(self) -> Sequence[int]:
        """The places of coefficients that the null model has not; none where it is no part of this model."""
        return [
            j for j in range(int(self.intercept), len(self.coefficients)) if j not in self.aliased and self.intercept
        ]

    @property
    def model_covariance(self) -> Numbers:
        """The inverse of the information, times the scale: what the model itself says, whichever errors are shown."""
        return self.covariance if self.naive is None else self.naive

    # --- words, which a model of another kind says in its own way (CONTRIBUTING, "To add a model by Newton steps")

    title: ClassVar[str] = "Generalised linear model"
    expects: ClassVar[str] = ""  # why it has no marginal effects, where it has none
    says_tests: ClassVar[bool] = False  # whether ``said`` has tests of all effects
    prints_ratios: ClassVar[bool] = False  # whether ratios are printed next to coefficients, as R prints them
    naive_first: ClassVar[bool] = False  # broom's std.error is the model's own where errors are robust

    @property
    def ratio(self) -> str:
        """What the exponential of a coefficient is called; "" where it has no name."""
        if self.family.link_name != "log":
            return "odds ratio" if self.family.link_name == "logit" else ""
        return "rate ratio" if self.family.law in _COUNTS else "ratio of means"

    def terms(self, features: Sequence[str]) -> list[str]:
        """The names of the coefficients."""
        return [INTERCEPT, *features] if self.intercept else list(features)

    def said(self) -> dict[str, Fact]:
        """What a summary says first, after the target."""
        return {
            "family": self.family.name,
            "link": self.family.link_name,
            "rows": self.n,
            "df residual": self.df_residual,
            "iterations": self.iterations,
            "scale": self.scale,
            "deviance": self.deviance,
            "null deviance": self.null_deviance,
            "Pearson chi2": self.pearson,
            "log-likelihood": self.log_likelihood,
        }

    def cautions(self) -> tuple[str, ...]:
        """What a summary says under the table of what it has printed."""
        return ()

    def in_words(self, name: str) -> str:
        """One sentence for a report."""
        return explained(name, self.iterations, self.deviance, self.null_deviance, self.n)

    def glance(self) -> dict[str, float]:
        """What broom's ``glance`` says before log-likelihood, AIC and BIC."""
        return {"null.deviance": self.null_deviance, "df.null": self.df_null}

    def glance_last(self) -> dict[str, float]:
        """And after them."""
        return {"deviance": self.deviance, "df.residual": self.df_residual, "nobs": self.n}

    def of_classes(self, classes: Sequence[str]) -> Self:
        """The same model, which names the classes of its target where its terms have them."""
        return self

    def of_columns(self, columns: Mapping[str, Any]) -> Self:
        """The same model, which names the columns next to its target where it has numbers of them."""
        return self

    def tidied(self, table: dict[str, list[Any]]) -> dict[str, list[Any]]:
        """Broom's table of the coefficients, with what a model of this kind has besides."""
        return table

    def expected(self, eta: Float) -> Float:
        """The expected target of rows with this linear predictor, (rows, columns)."""
        return self.family.evaluate(eta, np.ones_like(eta)).mu

    @classmethod
    def freedom_from(cls, said: Mapping[str, Any]) -> int | Float | None:
        """The same from a model's record."""
        dispersion = family_named(said["family"], said["link"]).dispersion
        return int(said["df_residual"]) if dispersion and said.get("kind", NONROBUST) == NONROBUST else None

    def more(self) -> dict[str, Any]:
        """Fields of this kind of model alone, for JSON."""
        return {}

    @classmethod
    def of(cls, table: "GLMInference", **own: Any) -> Self:
        """The numbers of a table as a model of this kind, with some of them and its own fields replaced."""
        return cls(**{field.name: getattr(table, field.name) for field in fields(GLMInference)} | own)

    @classmethod
    def own_fields(cls, said: Mapping[str, Any]) -> dict[str, Any]:
        """The same again, as arguments."""
        return {}

    def __repr__(self) -> str:
        return f"GLMInference({self.family!r}, coefficients={self.coefficients.shape[0]}, n={self.n})"

    def linear_predictor(self, X: Float, offset: Float | float = 0.0) -> Float:
        """eta of new rows, (n,); X is without the intercept."""
        first = int(self.intercept)
        eta: Float = X @ self.solution[first:] + (self.solution[0] if first else 0.0) + offset
        return eta

    def predict(self, X: Float, offset: Float | float = 0.0) -> Float:
        """The expected targets of new rows."""
        eta = self.linear_predictor(X, offset)
        return self.family.evaluate(eta, np.ones_like(eta)).mu


def explained(name: str, iterations: int, deviance: float, null_deviance: float, n: int) -> str:
    """What a report says of a model of records that are all compared with one null model."""
    share = 1.0 - deviance / null_deviance if null_deviance > 0.0 else 0.0
    if math.isnan(null_deviance):
        return f"{name}: {iterations} iterations, deviance {deviance:.6g}, {n} rows."
    return (
        f"{name}: {iterations} iterations, deviance {deviance:.6g} of {null_deviance:.6g} without features "
        f"({100 * share:.1f} % explained), {n} rows."
    )


def contribution(
    request: Request,
    family: Family,
    X: Float,
    y: Float,
    *,
    intercept: bool = True,
    offset: Float | None = None,
    weights: Float | None = None,
) -> Contribution:
    """A party's answer to a request, from its own rows X, (n_i, features) without the intercept; y is checked."""
    family.expect(y)
    n = X.shape[0]
    features = X[:, :0] if request.constant_only else X
    first = int(intercept or request.constant_only)
    q = features.shape[1] + first
    shift = np.zeros(n) if offset is None else offset
    prior = np.ones(n) if weights is None else weights
    if not shift.shape == prior.shape == y.shape == (n,):
        raise ShapeError(f"{n} rows need as many targets, offsets and weights")
    if not np.all(prior > 0.0):
        raise DataError("a weight of a generalised linear model is not above 0", "leave out rows without weight")
    if request.beta is None:
        eta = family.start(y)
    else:
        if request.beta.shape != (q,):
            raise ShapeError(f"{q} columns do not fit {request.beta.shape[0]} coefficients")
        eta = features @ request.beta[first:] + (request.beta[0] if first else 0.0) + shift
    local = family.evaluate(eta, y)
    residual = np.sqrt(prior) * (y - local.mu) / np.sqrt(local.variance)
    possible = {
        "rows": lambda: float(n),
        "weight": lambda: float(np.sum(prior)),
        "target": lambda: float(prior @ y),
        "deviance": lambda: float(prior @ local.deviance),
        "pearson": lambda: float(residual @ residual),
        "entropy": lambda: float(prior @ share_entropy(y)),
        "log_likelihood": lambda: float(np.sum(family.log_likelihood(y, eta, prior, request.scale))),
    }
    totals = tuple(possible[name]() for name in request.totals)
    if not request.gram:
        return Contribution(None, totals)
    root = np.sqrt(prior) * local.slope / np.sqrt(local.variance)
    rows = np.empty((n, q + 1))
    rows[:, :first] = root[:, None]
    np.multiply(features, root[:, None], out=rows[:, first:q])
    # root z = root (eta - offset) + residual: the quotient (y - mu) / slope, which overflows, is never formed.
    rows[:, q] = root * (eta - shift) + residual if request.beta is None else residual
    return Contribution(rows, totals)


def fit(
    family: Family,
    *,
    intercept: bool = True,
    offset: bool = False,
    alpha: float = 0.0,
    tolerance: float = 1e-9,
    max_iterations: int = 25,
    level: float = 0.95,
    errors: Errors = USUAL,
) -> Steps:
    """The whole fit, a ``GLMInference``; ``alpha`` adds ``alpha ||w||^2 / 2`` to minus the log-likelihood.

    The intercept is not penalised.
    """
    if alpha < 0.0 or not tolerance > 0.0 or max_iterations < 1:
        raise ConfigError("alpha is below 0, tolerance not above 0, or max_iterations below 1", "leave them out")
    start = yield from asked(Request("step", 0, None, ("rows", "weight", "target"), gram=True))
    n, weight = round(start.totals["rows"]), start.totals["weight"]
    mean = start.totals["target"] / weight
    expect_variation(family, mean)
    limits = Limits(n, weight, tolerance, max_iterations, family.dispersion, family.law == "binomial")
    q = _columns(start) - 1
    penalty = math.sqrt(alpha) * np.eye(q)[int(intercept) :] if alpha > 0.0 else None
    totals: tuple[str, ...] = ("deviance", "pearson") if family.dispersion else ("deviance",)
    totals += ("entropy",) if limits.outcomes else ()
    at_the_end = ("deviance", "pearson") if family.dispersion else ("deviance", "pearson", "log_likelihood")
    found = yield from iterate(start, limits, penalty, totals, last=at_the_end, free=int(intercept))
    if offset:
        start = yield from asked(Request("null", 0, None, (), gram=True, constant_only=True))
        null = (yield from iterate(start, limits, None, totals, constant_only=True)).totals["deviance"]
    else:
        constant = np.array([family.link(mean)])
        flat = Request("null", 1, constant, ("deviance",), gram=False, constant_only=True)
        null = (yield from asked(flat)).totals["deviance"]
    freedom = n - found.problem.rank
    scale: Number = 1.0
    # Sums carry noise in their last digit: where the fit is exact, a sum of squares may come out just below zero.
    pearson = max(found.totals["pearson"], 0.0)
    if family.dispersion:
        scale = PENALISED if alpha > 0.0 else NO_FREEDOM if freedom <= 0 else pearson / freedom
    likelihood: Number = QUASI if family.quasi else PENALISED
    if not family.dispersion:
        likelihood = found.totals["log_likelihood"]
    elif not family.quasi and not isinstance(scale, Undefined):
        at = pearson / n if family.name == "gaussian" else scale
        last = Request("likelihood", found.iterations, found.beta, ("log_likelihood",), gram=False, scale=at)
        likelihood = (yield from asked(last)).totals["log_likelihood"]
    beta, aliased, inverse = inverse_of(found, n, alpha)
    ended = Ended(
        beta,
        inverse,
        found.totals,
        found.iterations,
        found.halvings,
        found.beta,
        found.problem.rank,
        aliased,
        (yield from squares(found.beta, inverse, errors)),
        errors,
    )
    likelihood = PENALISED if alpha > 0.0 else likelihood
    return inference(family, ended, n, intercept, scale, null, likelihood, alpha, level, weight)


def inference(
    family: Family,
    found: Ended,
    n: int,
    intercept: bool,
    scale: Number,
    null: float,
    likelihood: Number,
    alpha: float,
    level: float,
    weight: float,
) -> GLMInference:
    rank, beta, robust = found.rank, found.beta, found.errors.robust
    covariance: Numbers = NO_FREEDOM
    naive: Numbers | None = None
    if not isinstance(scale, Undefined) or isinstance(found.inverse, Undefined):
        covariance, naive = found.covariances(n, scale if isinstance(scale, float) else 1.0)
    errors = np.sqrt(np.diag(covariance)) if is_array(covariance) else covariance
    tests = wald(beta, errors, level, n - rank if family.dispersion and not robust else None)
    criteria: tuple[Number, Number] = (likelihood, likelihood)
    if isinstance(likelihood, float):
        criteria = (-2.0 * likelihood + 2.0 * rank, -2.0 * likelihood + math.log(n) * rank)
    return GLMInference(
        family=family,
        coefficients=beta,
        intercept=intercept,
        standard_errors=tests.errors,
        z=tests.statistic,
        p=tests.p,
        intervals=tests.intervals,
        covariance=covariance,
        n=n,
        rank=rank,
        df_residual=n - rank,
        df_null=n - 1,
        scale=scale,
        deviance=found.totals["deviance"],
        null_deviance=null,
        pearson=found.totals["pearson"],
        log_likelihood=likelihood,
        aic=criteria[0],
        bic=criteria[1],
        iterations=found.iterations,
        halvings=found.halvings,
        alpha=alpha,
        level=level,
        solution=found.solution,
        aliased=found.aliased,
        weight=weight,
        errors=found.errors,
        naive=naive,
    )


def inverse_of(found: Fit, n: int, alpha: float) -> tuple[Float, tuple[int, ...], Numbers]:
    """A table's coefficients, which are aliased (R's rule: ``inference.py``), a root of the inverse information.

    Of an aliased column the coefficient is NaN, and the root has a row of zeros.
    """
    problem, q = found.problem, len(found.beta)
    if alpha > 0.0 or problem.full:
        return found.beta, (), PENALISED if alpha > 0.0 else problem.inverse()
    aliased = problem.aliased()
    others = np.delete(np.arange(q), aliased)
    left = problem.without(aliased, n) if len(others) else None
    if left is None or not left.full:
        return found.beta, (), RANK_LOST
    null = problem.Vt[problem.rank :].T  # of the scaled coefficients
    along = np.linalg.solve(null[list(aliased)], (problem.scale * found.beta)[list(aliased)])
    root = np.zeros((q, q))
    root[np.ix_(others, np.arange(len(others)))] = left.inverse()
    return not_of(found.beta - null @ along / problem.scale, aliased), aliased, root


def _columns(start: Answer) -> int:
    if start.factor is None:
        raise ShapeError("the answer to the first request has no factor")
    return int(start.factor.shape[1])


def expect_variation(family: Family, mean: float) -> None:
    """A mean at the end of its range has no finite constant: all outcomes are equal."""
    least, most = {"binomial": (0.0, 1.0), "poisson": (0.0, math.inf)}.get(family.law, (-math.inf, math.inf))
    if not least < mean < most:
        raise DataError(
            "all outcomes of the joint data are equal", "there is nothing to model; check the target column"
        )
