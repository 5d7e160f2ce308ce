"""The fit of a linear mixed model by sums of few digits (``newton.py``): effects and variances together.

Outcomes are taken less their joint mean and in units of their spread inside sites, columns less their joint means, and
random slopes in units of their spread, so that all parameters are of one size. These public numbers follow the means of
the columns in the ``centre`` of every point:

    centre      means of the columns; mean and unit of the outcome, and of the slope; how many random effects there are
    parameters  intercept, effects; residual variance; entries of G row by row

Maximum likelihood is a sum over clusters. The restricted one (REML) adds ``-log |A| / 2`` with ``A = sum X^T V^-1 X``,
which is no sum: its slope is a trace of A and of ``B_u = sum X^T V^-1 D_u V^-1 X``. Both are opened as differences to
the evaluation before (``tilt``), once steps are short.

Degrees of freedom are Satterthwaite's, by the curvature of the likelihood in the variances, as lmerTest has them.
"""

import math
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np

from fedsvd.errors import DataError, NotConverged, Separated
from fedsvd.statistics.distributions import wald
from fedsvd.statistics.families import MIXED
from fedsvd.statistics.mixed import Clusters, covariance_of, entries_of
from fedsvd.statistics.mixed_table import MixedInference
from fedsvd.statistics.newton import Fitting, Traits, by_size, fitted, opened, opened_moments, power, powers
from fedsvd.statistics.newton_requests import Asked, Evaluation, Found, Moments, Point, Shape, Sizes, Totals
from fedsvd.statistics.positive import Factor, factor, product
from fedsvd.statistics.records import OwnRecords
from fedsvd.types import Float

_SMALLEST = 2.0**-20  # of the largest slope: the unit of smaller ones is as if they had this size
_SHORTEST = 1e-9  # standard errors of a step, below which the iteration ends
_NO_SPREAD = 2.0**-60  # of a row: of a constant noise alone is left
_GRID = 2.0**20  # logarithms may differ in the last digit between machines; so far down they do not


@dataclass(frozen=True)
class Random:
    """Random effects of a group: an intercept, and perhaps a slope; and by which criterion they are found."""

    slope: bool = False
    correlated: bool = True
    reml: bool = True
    # Of slopes of a restricted likelihood, of those for degrees of freedom, of the end, and of second slopes for steps.
    bits: tuple[int, int, int, int] = (38, 20, 48, 12)

    @property
    def q(self) -> int:
        return 1 + int(self.slope)

    @property
    def variances(self) -> int:
        """The residual variance, and the entries of G that are parameters."""
        return 1 + len(entries_of(self.q, self.correlated))

    def numbers(self, of: str, effects: int, variances: int | None = None) -> int:
        """How many numbers slopes have, A among them, or second slopes."""
        v = self.variances if variances is None else variances
        matrices = v * (v + 1) // 2 if of in ("second", "curve") else 1 + v
        return matrices * (effects * (effects + 1) // 2)


# --- a party's own records --------------------------------------------------------------------------------------------


class MixedRecords(OwnRecords):
    """Own rows in groups."""

    def __init__(self, X: Float, y: Float, codes: Float, slope: Float | None, random: Random) -> None:
        self._X, self._y, self._codes, self._slope, self.random = X, y, codes, slope, random
        self.weight = float(len(y))
        self._made: tuple[Float, Clusters] | None = None

    @property
    def features(self) -> int:
        return int(self._X.shape[1])

    def clusters(self, centre: Float) -> Clusters:
        """The rows as the model takes them: centred, with an intercept, in public units."""
        if self._made is None or not np.array_equal(self._made[0], centre):
            m, public = self.features, _Public.of(centre)
            X = np.column_stack((np.ones(len(self._y)), self._X - centre[:m]))
            Z = np.ones((len(self._y), public.q))
            if self._slope is not None and public.q > 1:
                Z[:, 1] = (self._slope - (public.slope_mean if self.random.correlated else 0.0)) / public.slope_unit
            y = (self._y - public.mean) / public.unit
            self._made = centre, Clusters(X, Z, y, self._codes, self.random.correlated)
        return self._made[1]

    def part(self, at: Point) -> Evaluation:
        own, p = self.clusters(at.centre), 1 + self.features
        found = own.evaluate(at.beta[:p], at.beta[p:], at.information, at.expected)
        none = np.zeros((0, 1))
        if found is None:  # no distribution: the owner's test of its deviance fails
            P = len(at.beta)
            return Evaluation(math.inf, 0.0, np.zeros(P), np.eye(P) if at.information else None, none)
        return Evaluation(found.deviance, 0.0, found.score, found.information, none)

    def largest_part(self, at: Point, root: Float) -> float:
        """Of a cluster in the own information of the effects; variances are of clusters, of which rules count five."""
        own, p = self.clusters(at.centre), 1 + self.features
        slopes = own.slopes(at.beta[p:])
        if slopes is None:
            return math.inf
        scale = np.sqrt(np.where(slopes[0].diagonal() > 0.0, slopes[0].diagonal(), 1.0))
        values, vectors = np.linalg.eigh(slopes[0] / np.multiply.outer(scale, scale))
        kept = values > _FEW * max(values[-1], 0.0)
        return own.leverage(at.beta[p:], vectors[:, kept] / np.sqrt(values[kept]) / scale[:, None])

    def spread(self, at: Point) -> Float:
        found: Float = np.sqrt(np.square(self._X - at.centre[: self.features]).mean(axis=0))
        return found

    def moments(self) -> Float:
        """Of the outcome, and of a slope, the sum and the squares about the own mean."""
        measured = [self._y] if self._slope is None else [self._y, self._slope]
        sums = [(float(each.sum()), float(np.square(each - each.mean()).sum())) for each in measured]
        return np.array([0.0, 0.0, *(value for pair in sums for value in pair)])

    def columns(self) -> tuple[Float, Float]:
        return self._X.sum(axis=0), np.sqrt(np.square(self._X).mean(axis=0))

    def end(self, of: str, at: Point, scale: float) -> Float:
        own, p = self.clusters(at.centre), 1 + self.features
        if of == "end":
            parts = own.evaluate(at.beta[:p], at.beta[p:], False, True)
            return np.array([math.inf if parts is None else parts.deviance, float(len(own))])
        matrices = own.second_slopes(at.beta[p:]) if of in ("second", "curve") else own.slopes(at.beta[p:])
        found = np.zeros(self.random.numbers(of, p))  # as many as the plan has, where a variance is left out too
        if matrices is None:
            return np.full(len(found), math.inf)
        found[: matrices.shape[0] * (p * (p + 1) // 2)] = matrices[:, *np.triu_indices(p)].ravel()
        return found

    def most_deviance(self, start: float) -> float:
        return super().most_deviance(abs(start))


_FEW = 1e-10  # of the largest eigenvalue: directions that own rows do not have


@dataclass(frozen=True)
class _Public:
    """What follows the means of the columns in a centre."""

    mean: float
    unit: float
    slope_mean: float
    slope_unit: float
    q: int

    @classmethod
    def of(cls, centre: Float) -> "_Public":
        mean, unit, slope_mean, slope_unit, q = centre[-5:].tolist()
        return cls(mean, unit, slope_mean, slope_unit, int(q))

    def after(self, means: Float) -> Float:
        """The centre."""
        return np.concatenate((means, astuple(self)))


# --- the fit ----------------------------------------------------------------------------------------------------------


def fit_by_digits(random: Random, shape: Shape, *, level: float = 0.95) -> Fitting:
    """The whole fit: a ``MixedInference``, and the length of its last step."""
    moments: Moments = yield from opened_moments(shape)
    total, squares, slope, slope_squares = (*moments.targets.tolist(), 0.0, 1.0)[:4]
    if not squares > shape.n * _NO_SPREAD:
        raise DataError("the outcome is constant inside every party", "there is nothing to model")
    if not slope_squares > shape.n * _NO_SPREAD:
        raise DataError("the random slope is of a constant column", "name another column, or leave it out")
    unit, slope_unit = power(math.sqrt(squares / shape.n)), power(math.sqrt(slope_squares / shape.n))
    public = _Public(_rounded(total / shape.n, unit), unit, _rounded(slope / shape.n, slope_unit), slope_unit, random.q)
    # Slopes of a restricted likelihood have 38 bits: a shorter step is their rounding.
    shape = replace(shape, tolerance=max(shape.tolerance, _SHORTEST))
    fitting = _Fit(random, shape, moments, public)
    try:
        found: Found | None = yield from fitting.play()
    except (NotConverged, Separated):
        if random.slope:
            raise
        found = None  # groups may be more alike than chance: is the variance of a random intercept zero?
    if found is None or fitting.outside(found):
        if random.slope:
            raise _singular()
        alone = _Fit(random, replace(shape, extra=1), moments, replace(public, q=0))
        least: Found = yield from alone.play()
        table = yield from alone.ended(least, level)
        if found is None and not (yield from fitting.falls_at_zero(least)):
            raise _singular()
        return table, least.decrement
    return (yield from fitting.ended(found, level)), found.decrement


def _singular() -> NotConverged:
    return NotConverged(
        "the covariance of the random effects is at its boundary (a singular fit), or was not found: these rows do not "
        "need all random effects",
        "leave the random slope out, set correlated = false, or fit a linear regression",
    )


class _Fit:
    """One iteration: with random effects, or where their variance is zero without."""

    def __init__(self, random: Random, shape: Shape, moments: Moments, public: _Public) -> None:
        self.random, self.shape, self.public = random, shape, public
        self.p, self.v = 1 + shape.features, shape.extra
        self.moments = replace(moments, means=public.after(moments.means))
        self.triangle = np.triu_indices(self.p)
        self.words: Float | None = None
        self.units = np.zeros(0)
        self.curve: Float | None = None  # what REML adds to the information, (P, P)

    def play(self) -> Fitting:
        entries = entries_of(self.public.q, self.random.correlated)
        start = np.concatenate(([0.0, 0.5], [0.5 * float(i == j == 0) for i, j in entries]))
        zeros = np.zeros((self.p + self.v, self.p + self.v), dtype=np.bool_)
        zeros[: self.p, self.p :] = zeros[self.p :, : self.p] = True
        traits = Traits(
            zeros=zeros,
            indefinite=True,
            curved_table=True,
            signed=True,
            allowed=lambda beta: bool(beta[self.p] > 0.0),
            tilt=self.tilt if self.random.reml else None,
        )
        return (yield from fitted(self.shape, self.moments, start, traits))

    def tilt(self, at: Point) -> Fitting:
        """What REML adds to the score of the variances, and to the deviance, from A and its slopes."""
        A, slopes = yield from self._slopes(at, "tilt", self.random.bits[0])
        found = factor(A)
        if not isinstance(found, Factor):
            raise NotConverged("the effects lose their information on the way", "choose fewer features")
        inverse = _inverse(found)
        traces = [0.5 * math.fsum((inverse * slope).ravel().tolist()) for slope in slopes]
        log_det = 2.0 * math.fsum(math.log(value) for value in found.L.diagonal().tolist())
        if self.curve is None:
            values = yield from by_size("curve", at, self.shape.users, self.random.bits[3])
            second = _full(values[: self.random.numbers("second", self.p, self.v)], self.triangle, self.p)
            self.curve = np.zeros((self.p + self.v, self.p + self.v))
            self.curve[self.p :, self.p :] = _curvature(inverse, slopes, second)
        return np.concatenate((np.zeros(self.p), traces)), round(log_det * _GRID) / _GRID, self.curve

    def _slopes(self, at: Point, of: str, bits: int) -> Fitting:
        """A and its slope by each variance; of a restricted likelihood what has changed since they were asked for."""
        if self.words is None:
            sizes = yield Sizes(of, at)
            assert isinstance(sizes, np.ndarray)
            most = powers(sizes[: self._numbers])
            self.units = np.zeros(len(sizes))
            self.units[: len(most)] = np.maximum(most, most.max() * _SMALLEST) * self.shape.users * 2.0**-bits
            self.words = np.zeros(self._numbers)
        values = yield from opened(Asked(of, self.units, at))
        self.words = self.words + values[: self._numbers]
        return self._matrices(self.words)

    @property
    def _numbers(self) -> int:
        return self.random.numbers("slopes", self.p, self.v)

    def _matrices(self, words: Float) -> tuple[Float, Float]:
        found = _full(words, self.triangle, self.p)
        return found[0], found[1:]

    def outside(self, found: Found) -> bool:
        """Whether the covariance of the random effects is none: it has a negative direction."""
        G = covariance_of(found.beta[self.p :], self.public.q, self.random.correlated)
        return self.public.q > 0 and isinstance(factor(G), int)

    def falls_at_zero(self, found: Found) -> Fitting:
        """Whether the likelihood falls where a random intercept gets variance, at the fit without one."""
        at = Point(np.append(found.beta, 0.0), self.moments.means, information=False)
        units = np.zeros(2 + self.p + self.v)
        units[-1] = power(float(self.shape.n)) * 2.0**-20
        answer = yield Asked("score", units, at)
        assert isinstance(answer, Totals)
        return answer.values is not None and bool(answer.values[-1] <= 0.0)

    # --- the end --------------------------------------------------------------------------------------------------

    def ended(self, found: Found, level: float) -> Fitting:
        deviance, clusters = (yield from by_size("end", found.at, self.shape.users, self.random.bits[2])).tolist()
        if self.random.reml:
            assert self.words is not None
            A, slopes = self._matrices(self.words)
            numbers = self.random.numbers("second", self.p, self.v)
            values = yield from by_size("second", found.at, self.shape.users, self.random.bits[1])
            second = _full(values[:numbers], self.triangle, self.p)
        else:
            A, slopes = yield from self._slopes(found.at, "slopes", self.random.bits[1])
            second = np.zeros((0, self.p, self.p))
        H = np.asarray(np.linalg.inv(found.root @ found.root.T), dtype=np.float64)
        covariance = np.asarray(np.linalg.inv(A if self.random.reml else H[: self.p, : self.p]), dtype=np.float64)
        freedom = self._freedom(H, covariance, slopes, second, self._shift(found))
        if self.random.reml:
            deviance += float(np.linalg.slogdet(A)[1]) - self.p * math.log(2.0 * math.pi)
        return self._inference(found, deviance, round(clusters), covariance, freedom, level)

    def _shift(self, found: Found) -> Float:
        """From effects of centred columns to those of the columns as they are."""
        shift = np.eye(self.p)
        shift[0, 1:] = -found.centre[: self.shape.features]
        return shift

    def _freedom(self, H: Float, covariance: Float, slopes: Float, second: Float, shift: Float) -> Float:
        """Satterthwaite's degrees of freedom of each effect, by the observed information of the variances."""
        p = self.p
        information = H[p:, p:] - H[p:, :p] @ np.linalg.solve(H[:p, :p], H[:p, p:])
        turned = [covariance @ slope for slope in slopes]
        if len(second):
            information = information + _curvature(covariance, slopes, second)
        spread = np.linalg.inv(information)
        gradient = np.array([(shift @ each @ covariance @ shift.T).diagonal() for each in turned])  # (v, p)
        errors = (shift @ covariance @ shift.T).diagonal()
        found: Float = 2.0 * errors**2 / np.einsum("up,uw,wp->p", gradient, spread, gradient)
        return found

    def _inference(
        self, found: Found, deviance: float, clusters: int, covariance: Float, freedom: Float, level: float
    ) -> MixedInference:
        """In the units of the data: columns less nothing, outcomes as they are."""
        n, public = self.shape.n, self.public
        unit = public.unit
        shift = self._shift(found)
        beta = unit * (shift @ found.beta[: self.p])
        beta[0] += public.mean
        V = unit**2 * shift @ covariance @ shift.T
        scaled = deviance + 2.0 * (n - (self.p if self.random.reml else 0)) * math.log(unit)
        variances = unit**2 * found.beta[self.p :]
        G = np.zeros((self.random.q, self.random.q))
        if public.q:
            G = self._in_data_units(covariance_of(variances, public.q, self.random.correlated))
        parameters = self.p + self.v
        likelihood = -0.5 * scaled
        tests = wald(beta, np.sqrt(V.diagonal()), level, freedom)
        return MixedInference(
            family=MIXED,
            coefficients=beta,
            intercept=True,
            standard_errors=tests.errors,
            z=tests.statistic,
            p=tests.p,
            intervals=tests.intervals,
            covariance=V,
            n=n,
            rank=self.p,
            df_residual=n - parameters,
            df_null=n - 1,
            scale=float(variances[0]),
            deviance=scaled,
            null_deviance=0.0,
            pearson=0.0,
            log_likelihood=likelihood,
            aic=scaled + 2.0 * parameters,
            bic=scaled + math.log(n) * parameters,
            iterations=found.iterations,
            halvings=found.halvings,
            alpha=0.0,
            level=level,
            solution=beta,
            clusters=clusters,
            random=G,
            degrees=freedom,
            reml=self.random.reml,
            slope=self.random.slope,
            correlated=self.random.correlated,
        )

    def _in_data_units(self, G: Float) -> Float:
        """G of an intercept at zero and a slope of the column as it is."""
        T, public = np.eye(self.public.q), self.public
        if public.q > 1:
            T[1, 1] = 1.0 / public.slope_unit
            T[0, 1] = -public.slope_mean / public.slope_unit if self.random.correlated else 0.0
        return np.asarray(T @ G @ T.T)


def _curvature(inverse: Float, slopes: Float, second: Float) -> Float:
    """What ``log |A| / 2`` adds to the information of the variances, (v, v); elementwise, as all opened numbers."""
    v = len(slopes)
    turned = [np.stack([product(inverse, column) for column in slope.T], axis=1) for slope in slopes]
    found = np.zeros((v, v))
    pairs = [(u, w) for u in range(v) for w in range(u, v)]
    for (u, w), matrix in zip(pairs, second, strict=True):
        crossed = math.fsum((turned[u] * turned[w].T).ravel().tolist())
        found[u, w] = found[w, u] = math.fsum((inverse * matrix).ravel().tolist()) - 0.5 * crossed
    return found


def _rounded(value: float, unit: float) -> float:
    """To a part of the unit that is far below it."""
    return round(value / unit * _GRID) * unit / _GRID


def _full(words: Float, triangle: tuple[Any, ...], p: int) -> Float:
    """Symmetric matrices from their upper triangles one after the other."""
    rows = words.reshape(-1, len(triangle[0]))
    found = np.zeros((len(rows), p, p))
    found[:, triangle[0], triangle[1]] = rows
    found[:, triangle[1], triangle[0]] = rows
    return found


def _inverse(found: Factor) -> Float:
    """Elementwise, so that every party comes to the same next request."""
    root = found.inverse_root()
    return np.stack([product(root, row) for row in root], axis=1)
