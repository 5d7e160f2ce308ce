"""The fit of a linear mixed model by sums of few digits (``newton.py``): effects and variances together.

Outcomes are taken less their joint mean and in units of their spread inside sites, columns less their joint means, and
random slopes in units of their spread, so that all parameters are of one size. These public numbers follow the means of
the columns in the ``centre`` of every point, with what says how G follows from its parameters:

    centre      means of the columns; mean and unit of the outcome, and of each slope; the rank of G and an order
    parameters  intercept, effects; residual variance; those of G (``mixed_covariance.py``)

Maximum likelihood is a sum over clusters. The restricted one (REML) adds ``-log |A| / 2`` with ``A = sum X^T V^-1 X``,
which is no sum. Once steps are short A is opened ahead of each score, each time what has changed since, in as many
digits as that score has: by its inverse every party adds its own part of the term's slope to its score
(``mixed.py``), and A is the effects' part of the information, which is then opened no more.

A covariance that wants to leave the cone of positive semidefinite matrices is a singular fit, of a model on the cone's
face. Degrees of freedom are Satterthwaite's, by the curvature of the likelihood in the variances, as lmerTest has them.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fedsvd.errors import DataError, NotConverged, Separated
from fedsvd.statistics.distributions import wald
from fedsvd.statistics.families import MIXED
from fedsvd.statistics.mixed_records import ENDS, Public, Random, shift_of
from fedsvd.statistics.mixed_table import MixedInference
from fedsvd.statistics.newton import TABLE, Fitting, Refused, Traits, fitted, opened, opened_moments, power, powers
from fedsvd.statistics.newton_requests import Asked, Found, Moments, Point, Shape, Sizes, Tilt, Totals
from fedsvd.statistics.positive import Factor, factor, product, squares
from fedsvd.types import Float

GRAM_BITS, SLOPE_BITS, DEVIANCE_BITS, END_BITS = 46, 16, 48, 24
"""Of A at the end, of its slopes, of the deviance and of other sums at the end."""

DEGREE_BITS, DEGREE_BITS_MORE = 16, 30
"""Of what degrees of freedom need, the last slopes and how squared errors move: to 1e-3 of them, or to 1e-7."""

_LEAST_BITS = 16  # of A, whose determinant judges steps
_CURVED = 4.0  # standard errors of a step, from which on the curvature is asked for, and steps out of the cone count
_SHORT = 0.3  # standard errors of a step that may leave the cone of covariances
_SHORTEST = 1e-9  # standard errors of a step, below which the iteration ends
_NO_SPREAD = 2.0**-60  # of a row: of a constant noise alone is left
_GRID = 2.0**20  # logarithms may differ in the last digit between machines; so far down they do not
_LEAST_SHARE = 2.0**-6  # of the variance of outcomes, in either part, where the iteration begins
_MOST_OUTSIDE, _LONG_COUNTS = 2.0, 0.5  # steps that leave the cone of covariances, one after the other; and a long one
_SLACK = 64.0  # units that rounding and the last step leave of a slope that is zero


def fit_by_digits(random: Random, shape: Shape, *, level: float = 0.95) -> Fitting:
    """The whole fit: a ``MixedInference``, and the length of its last step."""
    moments: Moments = yield from opened_moments(shape)
    public, start, groups = _begun(random, shape, moments)
    shape = replace(shape, tolerance=max(shape.tolerance, _SHORTEST))
    # The optimum is inside of the cone of covariances, or on a face of it, which is tried as soon as steps lead out of
    # the cone again and again. It is there if the likelihood falls wherever G leaves the face; if not, it is looked for
    # once more by a factor of G, which does not leave the cone.
    G, beta = public.covariance, None
    while True:
        fit = _Fit(random, shape, moments, replace(public, covariance=G), groups)
        try:
            found: Found = yield from fit.play(start, beta)
            last, done = found.beta, not G.outside(found.beta[fit.p + 1 :])
        except Refused:
            raise
        except (NotConverged, Separated):
            last, done = fit.last, False
        whole = G.rank == G.q
        if done:
            table = yield from fit.ended(found, level)
            if whole or (yield from fit.falls_off(found)):
                return table, found.decrement
        if G.factored and whole:
            raise _singular()
        other = G.face if G.free or (G.rank and not (done or G.correlated)) else G.whole
        s2 = float(last[fit.p])
        G, values = other(G.matrix(last[fit.p + 1 :]), s2)
        beta = np.concatenate((last[: fit.p], [s2], values))


def _begun(random: Random, shape: Shape, moments: Moments) -> tuple[Public, Float, int]:
    """Units and means of outcomes and slopes, where the iteration begins, and how many groups there are."""
    *sums, left, freedom, groups = moments.targets.tolist()
    n, q, units = shape.n, random.q, []
    pairs = list(zip(sums[::2], sums[1::2], strict=True))
    for j, (_, squares_about) in enumerate(pairs):
        if not squares_about > n * _NO_SPREAD:
            if j == 0:
                raise DataError("the outcome is constant inside every party", "there is nothing to model")
            raise DataError("a random slope is of a constant column", "name another column, or leave it out")
        units.append(power(math.sqrt(squares_about / n)))
    if round(freedom) < 1 or n <= q * round(groups):
        effects = "a random intercept" if q == 1 else f"{q} random effects"
        raise DataError(
            f"{n} rows of {round(groups)} groups: as many random effects as rows, so that residuals have no variance",
            f"{effects} of each group need groups with more rows than that; fit a linear regression",
        )
    means = [_rounded(total / n, unit) for (total, _), unit in zip(pairs, units, strict=True)]
    slopes = tuple(zip(means[1:], units[1:], strict=True))
    if not random.correlated:  # effects are so of the columns as they are
        slopes = tuple((0.0, power(math.sqrt(mean * mean + unit * unit))) for mean, unit in slopes)
    total, within = pairs[0][1] / n / units[0] ** 2, left / freedom / units[0] ** 2
    within = min(max(within, _LEAST_SHARE * total), total)
    between = max(total - within, _LEAST_SHARE * total) / q
    start = np.array([0.0, within, *(between * float(i == j) for i, j in random.covariance.places)])
    return Public(means[0], units[0], slopes, random.covariance), start, round(groups)


def _singular() -> NotConverged:
    return NotConverged(
        "the covariance of the random effects is at its boundary (a singular fit), and was not found there: these rows "
        "do not need all random effects",
        "leave a random slope out, set correlated = false, or fit a linear regression",
    )


class _Left(NotConverged):
    """Steps lead out of the cone of covariances."""


class _Fit:
    """One iteration: inside of the cone of covariances, or on a face of it."""

    def __init__(self, random: Random, shape: Shape, moments: Moments, public: Public, groups: int) -> None:
        self.random, self.public, self.G, self.groups = random, public, public.covariance, groups
        self.p, self.v = 1 + shape.features, self.G.parameters
        self.shape = replace(shape, extra=self.v)
        self.moments = replace(moments, means=public.after(moments.means))
        self.triangle = np.triu_indices(self.p)
        self.words = np.zeros(len(self.triangle[0]))  # of A
        self.slope_units = np.zeros(0)
        self.degree_bits = DEGREE_BITS_MORE if shape.table > TABLE else DEGREE_BITS
        self.slopes = np.zeros((self.v, self.p, self.p))
        self.tilted: Tilt | None = None
        self.last, self._from = np.zeros(0), np.zeros(0)  # where a step led to, and from where
        self._left = 0.0  # steps out of the cone one after the other

    def play(self, start: Float, beta: Float | None) -> Fitting:
        P, p = self.p + self.v, self.p
        zeros, given = np.zeros((2, P, P), dtype=np.bool_)
        zeros[:p, p:] = zeros[p:, :p] = True
        given[:p, :p] = True
        traits = Traits(
            zeros=zeros,
            indefinite=True,
            curved_table=True,
            signed=True,
            curved_from=_CURVED,
            allowed=lambda beta: bool(beta[p] > 0.0),
            cut=self.cut,
            tilt=self.tilt if self.random.reml else None,
            given=given,
        )
        self.last = np.concatenate((np.zeros(p), start[1:])) if beta is None else beta
        return (yield from fitted(self.shape, self.moments, start, traits, beta))

    def cut(self, beta: Float, there: Float, length: float) -> Float:
        """A long step that leaves the cone ends before it; short ones may leave it, for a while."""
        values = there[self.p + 1 :]
        if there[self.p] > 0.0:
            self.last = there
        if not self.G.outside(values):
            self._left = 0.0
            return there
        if not np.array_equal(beta, self._from):
            self._left += 1.0 if length < _CURVED else _LONG_COUNTS
        self._from = beta
        if self._left > _MOST_OUTSIDE:
            raise _Left("steps lead out of the cone of covariances")
        if length < _SHORT:
            return there
        return np.concatenate((there[: self.p + 1], self.G.cut(beta[self.p + 1 :], values)))

    # --- restricted likelihood ------------------------------------------------------------------------------------

    def tilt(self, at: Point, unit: float, sizes: Float, errors: Float) -> Fitting:
        """What REML adds, from A at this point and its slopes at the first one."""
        sizes = np.multiply.outer(sizes[: self.p], sizes[: self.p])[self.triangle]
        # What rounding makes of the traces stays below what it makes of the score.
        condition = math.fsum(errors[: self.p].tolist())
        bit = min(max(power(unit / condition) / 2.0, 2.0**-GRAM_BITS), 2.0**-_LEAST_BITS)
        values = yield from opened(Asked("tilt", bit * sizes, at))
        self.words = self.words + values
        A = _full(self.words, self.triangle, self.p)[0]
        found = factor(A)
        if not isinstance(found, Factor):
            raise NotConverged("the effects lose their information on the way", "choose fewer features")
        inverse = _inverse(found)
        log_det = 2.0 * math.fsum(math.log(value) for value in found.L.diagonal().tolist())
        if not len(self.slope_units):
            about = self.G.sizes(at.beta[self.p :])
            self.slope_units = np.zeros(self.random.covariance.parameters * len(sizes))
            grid = [2.0**-SLOPE_BITS / power(each) for each in about.tolist()]
            self.slope_units[: self.v * len(sizes)] = np.multiply.outer(grid, sizes).ravel()
            yield from self._slopes("slopes", self.slope_units, at)
        P, p = self.p + self.v, self.p
        given, lean = np.zeros((P, P)), np.zeros((P, P))
        given[:p, :p], lean[p:, p:] = A, self._lean(inverse)
        self.tilted = Tilt(inverse, round(log_det * _GRID) / _GRID, given, lean)
        return self.tilted

    def _slopes(self, of: str, units: Float, at: Point) -> Fitting:
        """The slope of A by each parameter; what has changed where they were asked for before."""
        values = yield from opened(Asked(of, units, at))
        self.slopes = self.slopes + _full(values[: self.v * len(self.triangle[0])], self.triangle, self.p)

    def _lean(self, inverse: Float) -> Float:
        """What of the curvature of ``log |A| / 2`` is no sum: ``-tr(C B_u C B_w) / 2``, elementwise."""
        turned = [np.stack([product(inverse, column) for column in slope.T], axis=1) for slope in self.slopes]
        found = [[-0.5 * math.fsum((a * b.T).ravel().tolist()) for b in turned] for a in turned]
        return np.array(found)

    # --- the boundary ---------------------------------------------------------------------------------------------

    def falls_off(self, found: Found) -> Fitting:
        """Whether the likelihood falls wherever G leaves the face it was found on, inside of the cone."""
        G = self.G.matrix(found.beta[self.p + 1 :])
        inside = self.random.covariance
        beta = np.concatenate((found.beta[: self.p + 1], [G[i, j] for i, j in inside.places]))
        centre = replace(self.public, covariance=inside).after(self.moments.means[: self.shape.features])
        tilt = None if self.tilted is None else self.tilted.public
        at = Point(beta, centre, information=False, tilt=tilt)
        units = np.zeros(2 + len(beta))
        unit = power(float(self.shape.n)) * 2.0**-34
        units[2 + self.p + 1 :] = unit
        answer = yield Asked("score", units, at)
        assert isinstance(answer, Totals)
        if answer.values is None:
            return False
        slope = np.zeros((inside.q, inside.q))
        for value, (i, j) in zip(answer.values[2 + self.p + 1 :].tolist(), inside.places, strict=True):
            slope[i, j] = slope[j, i] = value / (1.0 + (i != j))
        slack = _SLACK * unit * self.shape.users
        return isinstance(factor(slack * np.eye(inside.q) - slope), Factor)

    # --- the end --------------------------------------------------------------------------------------------------

    def ended(self, found: Found, level: float) -> Fitting:
        sizes = yield Sizes("end", found.at)
        assert isinstance(sizes, np.ndarray)
        bits = np.array([DEVIANCE_BITS, *[END_BITS] * (ENDS - 1)])
        ends: Float = yield from opened(Asked("end", powers(sizes) * self.shape.users * 2.0**-bits, found.at))
        H = np.asarray(np.linalg.inv(found.root @ found.root.T), dtype=np.float64)
        if self.tilted is None:
            covariance = np.asarray(np.linalg.inv(H[: self.p, : self.p]), dtype=np.float64)
        else:
            covariance, before = self.tilted.public, self.tilted.lean[self.p :, self.p :]
            ends[0] += self.tilted.deviance - self.p * math.log(2.0 * math.pi)
            yield from self._slopes("last slopes", self.slope_units * 2.0 ** (SLOPE_BITS - self.degree_bits), found.at)
            H[self.p :, self.p :] += self._lean(covariance) - before
        gradient = yield from self._gradient(found, covariance)
        shift = shift_of(found.centre[: self.shape.features])
        freedom = self._freedom(H, (shift @ covariance @ shift.T).diagonal(), gradient)
        made = self._inference(found, ends, covariance, freedom, level)
        return replace(made, moves=self.public.unit**2 * self._moves(H, gradient, shift @ covariance))

    def _gradient(self, found: Found, covariance: Float) -> Fitting:
        """How the squared error of each effect moves with each variance, (v, p)."""
        rows = shift_of(found.centre[: self.shape.features])
        errors = [squares(product(found.root.T[:, : self.p], row)) for row in rows]
        sizes = self.G.sizes(found.beta[self.p :])
        units = np.zeros(self.random.covariance.parameters * self.p)
        grid = [2.0**-self.degree_bits * power(error) / power(size) for size in sizes.tolist() for error in errors]
        units[: len(grid)] = grid
        values = yield from opened(Asked("degrees", units, replace(found.at, tilt=covariance)))
        return values[: len(grid)].reshape(self.v, self.p)

    def _freedom(self, H: Float, errors: Float, gradient: Float) -> Float:
        """Satterthwaite's degrees of freedom of each effect, by the observed information of the variances."""
        found: Float = 2.0 * errors**2 / np.einsum("up,uw,wp->p", gradient, self._spread(H), gradient)
        return found

    def _spread(self, H: Float) -> Float:
        """The covariance of the variances."""
        p = self.p
        return np.asarray(np.linalg.inv(H[p:, p:] - H[p:, :p] @ np.linalg.solve(H[:p, :p], H[:p, p:])))

    def _moves(self, H: Float, gradient: Float, turn: Float) -> Float:
        """How the covariance of the effects moves with the variances, (v, p, p), in directions in which these have unit
        spread and are independent.

        It follows from the slopes that a restricted likelihood opens, and squared errors have digits of their own; a
        likelihood opens no slopes, and none are given.
        """
        try:
            root = np.linalg.cholesky(self._spread(H))
        except np.linalg.LinAlgError:  # the curvature of a singular fit
            root = None
        if self.tilted is None or root is None:
            return np.zeros((0, self.p, self.p))
        moves = turn @ self.slopes @ turn.T
        moves[:, np.arange(self.p), np.arange(self.p)] = gradient
        found: Float = np.einsum("uw,uij->wij", root, moves)
        return found

    def _inference(self, found: Found, ends: Float, covariance: Float, freedom: Float, level: float) -> MixedInference:
        """In the units of the data: columns less nothing, outcomes as they are."""
        n, unit, p = self.shape.n, self.public.unit, self.p
        shift = shift_of(found.centre[: self.shape.features])
        beta = unit * (shift @ found.beta[:p])
        beta[0] += self.public.mean
        V = unit**2 * shift @ covariance @ shift.T
        deviance = float(ends[0]) + 2.0 * (n - (p if self.random.reml else 0)) * math.log(unit)
        fixed = unit**2 * (float(ends[2]) - float(ends[1]) ** 2 / n) / (n - 1)
        parameters = p + self.random.covariance.parameters
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
            rank=p,
            df_residual=n - parameters,
            df_null=n - 1,
            scale=unit**2 * float(found.beta[p]),
            deviance=deviance,
            null_deviance=0.0,
            pearson=0.0,
            log_likelihood=-0.5 * deviance,
            aic=deviance + 2.0 * parameters,
            bic=deviance + math.log(n) * parameters,
            iterations=found.iterations,
            halvings=found.halvings,
            alpha=0.0,
            level=level,
            solution=beta,
            clusters=self.groups,
            random=self._in_data_units(unit**2 * self.G.matrix(found.beta[p + 1 :])),
            degrees=freedom,
            reml=self.random.reml,
            correlated=self.random.correlated,
            singular=self.G.singular(found.beta[p:]),
            fixed=fixed,
            mean_random=unit**2 * float(ends[3]) / n,
        )

    def _in_data_units(self, G: Float) -> Float:
        """G of an intercept at zero and slopes of the columns as they are."""
        T = np.eye(self.random.q)
        for j, (mean, unit) in enumerate(self.public.slopes, start=1):
            T[j, j], T[0, j] = 1.0 / unit, -mean / unit
        return np.asarray(T @ G @ T.T)


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
