"""Newton's method by sums of few digits: the fit of a model as a generator without data (specification, section 3).

A Newton step needs few new digits, because the score is near zero against the last one. The generator asks for sums,
each in a public unit, and knows no party:

    Sizes       for each number the power of two above every party's own
    Asked       totals in the units that it names; each party rounds at home and adds noise of a few units

    begin       sizes of the columns; their means and the outcome's (the null model); sizes at the null model
    score       gradient 14 bits of the last largest entry; deviance and Pearson's sum 24 bits while steps are long
    information 12 bits of its largest diagonal entry, then twelves of what is left while its least eigenvalue is within
                rounding; asked for again while steps are long or the decrement falls less than eightfold
    table       the expected information at the end, in as many digits as standard errors need

Coefficients are those of centred columns, the intercept first in each equation. Sums are in units of ``scales``, powers
of two above the root mean square of each column. All arithmetic on opened totals is elementwise (``positive.py``), so
every party comes to the same next request.
"""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import DataError, NotConverged
from fedsvd.statistics.irls import not_converged, separated
from fedsvd.statistics.newton_requests import Asked, Found, Moments, Point, Shape, Sizes, Tilt, Totals
from fedsvd.statistics.positive import Factor, factor, product, squares
from fedsvd.types import Float

NOISE = 4
"""Units within which every party adds a whole number of its own stream to each number that it sends."""

SCORE_BITS, TWELVE, START_BITS, MEAN_BITS = 14, 12, 24, 16
MOST_BITS, PIECES = 56, 5
"""Bits of an information matrix at most, and in how many sums: 12, 24, 36, 48, 56."""

TABLE, MORE = 16, 26
"""Bits of a table beyond those that its condition takes: standard errors to 1e-4, or to 1e-7."""

_LONG = 0.3  # standard errors: a longer step is judged by the deviance, and by expected information
_LONG_STEP, _SETTLED = 2.0**-4, 1e-3  # on the scale of the linear predictor; decrements below need no new information
_LEAST_FALL, _LEFT = 8.0, 2.0  # of the decrement between two scores; of the noise of the first of them
_FIRST_SCORE = 64.0  # standard deviations
_NOISE_OF_STEP = 4.0  # of the tolerance: what rounding may make of the last step
_ROUGH, _SLOW, _MOST_SLOW = 1e-6, 1.5, 3
_VANISHED = 2.0**-20  # of the first information, in any direction
_SHORTEST = 2.0**-12
DEVIATION = 2.7  # of one party's rounding and noise, in units
_NO_SPREAD = 2.0**-24  # of the dispersion of the null model
_SOLVED = 2.0**-20
_SEEN, _CLEAR = 0.05, 16.0  # standard errors that rounding may hide of a step; by how much the next ones show
_START_GRID = 20
_TWICE = 3  # bits of a table that has robust errors, beyond those of another


Fitting = Generator[Sizes | Asked, NDArray[np.int64] | Totals, Any]


@dataclass(frozen=True, repr=False)
class Traits:
    """How an iteration differs from that of a generalised linear model; all of it is public."""

    zeros: NDArray[np.bool_] | None = None  # (P, P): entries of the expected information that are 0 whatever the data
    curved_zeros: NDArray[np.bool_] | None = None  # likewise of the curvature; neither are opened
    indefinite: bool = False  # the curvature need not be positive: the expected information takes its place there
    curved_table: bool = False  # standard errors are of the curvature
    signed: bool = False  # the deviance may be below zero
    curved_from: float = _LONG  # standard errors of a step, from which on the curvature is asked for
    allowed: Callable[[Float], bool] = lambda beta: True  # a step to any other point is halved; may raise
    # From a point, the one a step leads to, and how long it is in standard errors: where it goes instead; may raise.
    cut: Callable[[Float, Float, float], Float] = lambda beta, there, length: there
    vanished: Callable[[Float], Exception] = lambda beta: separated()  # where a direction has no information left
    # A term of the log-likelihood that is no sum, from when on steps are short (a restricted likelihood's determinant).
    # From a point, what one unit of the score is in standard errors, roots of the information of each parameter, and
    # the squared errors of all in units of these, a generator of what it opens, which ends with a ``Tilt``.
    tilt: Callable[[Point, float, Float, Float], Fitting] | None = None
    given: NDArray[np.bool_] | None = None  # (P, P): entries of the information that a ``Tilt`` gives


def fitted(
    shape: Shape, moments: Moments, constants: Float, traits: Traits | None = None, beta: Float | None = None
) -> Fitting:
    """The whole iteration, a ``Found``, from the constants of the null model and the extra parameters after them, or
    from coefficients that are there already."""
    if beta is None:
        beta = _null_model(shape, constants)
    centre = moments.means if shape.centres else np.zeros(shape.features)
    return (yield from _Newton(shape, moments, centre, traits or Traits()).play(beta))


def _null_model(shape: Shape, constants: Float) -> Float:
    beta, last = np.zeros(shape.coefficients), shape.coefficients - shape.extra
    # Logarithms may differ in the last digit between machines; so far down they do not.
    start = np.rint(constants * 2.0**_START_GRID) * 2.0**-_START_GRID
    if shape.first:
        beta[: last : shape.width] = start[: len(start) - shape.extra]
    beta[last:] = start[len(start) - shape.extra :]
    return beta


def opened_moments(shape: Shape) -> Fitting:
    """Sizes of the columns, then means in 16 bits, weights and the outcome in 24."""
    sizes = yield Sizes("columns")
    assert isinstance(sizes, np.ndarray)
    most = powers(sizes) * shape.users
    columns = slice(2 + shape.targets, None)
    units = most * 2.0**-START_BITS
    units[0] *= float(shape.weighted)
    units[columns] = powers(sizes[columns]) * power(shape.n) * 2.0**-MEAN_BITS
    if not shape.centres:
        units[columns] = 0.0
    if shape.counted:
        units[2 : columns.start] = 1.0 / power(4.0 * NOISE * shape.users)
    values = yield from opened(Asked("moments", units))
    targets = values[2 : columns.start]
    weight = float(values[0]) if shape.weighted else float(shape.n)
    targets = np.rint(targets) if shape.counted else targets
    return Moments(weight, float(values[1]), targets, values[columns] / shape.n)


def ending_bits(table: int) -> int:
    """Bits of deviance and likelihood at the end."""
    return 24 if table == TABLE else 36


def by_size(of: str, at: Point, users: int, bits: int, scale: float = 1.0) -> Fitting:
    """Totals of numbers of any size: their sizes, then ``bits`` of each."""
    sizes = yield Sizes(of, at, scale)
    assert isinstance(sizes, np.ndarray)
    return (yield from opened(Asked(of, powers(sizes) * users * 2.0**-bits, at, scale)))


def opened(asked: Asked) -> Fitting:
    answer = yield asked
    assert isinstance(answer, Totals)
    if answer.values is None:
        raise refused()
    return answer.values


class Refused(NotConverged):
    """A party's home test failed, or no more bits may be opened: there is no going on in another way."""


def refused(kind: type[NotConverged] = Refused) -> NotConverged:
    """A party's home test failed: the same words as for any other end without a result."""
    return kind(
        "the model came to coefficients that a party does not sum its rows at, or needs more digits than were approved",
        "choose fewer features, rank or cap columns with extreme values, or add a ridge penalty, as where a "
        "combination of features predicts the outcome without error",
    )


def dependent(column: int) -> DataError:
    """Columns that are combinations of others have no coefficients; ``column`` counts from 1, 0 is the constant."""
    which = f"column {column}" if column > 0 else "a column"
    return DataError(
        f"the columns of this model depend on each other: {which} is a combination of those before it, or nearly",
        "leave it out (drop); where the model has them, a ridge penalty (alpha) fits it, and "
        'digits = "all" names what is aliased',
    )


class _Newton:
    """One iteration: the point, the information as it was opened last, the units."""

    def __init__(self, shape: Shape, moments: Moments, centre: Float, traits: Traits) -> None:
        self.shape, self.moments, self.centre, self.traits = shape, moments, centre, traits
        self.tilted = False
        self.tilt: Tilt | None = None
        self.A = np.zeros((0, 0))  # the information of the steps
        self.opened = self.A, True  # of it what was opened last; whether it is expected
        self.triangle = np.triu_indices(shape.coefficients)
        self.bits = TWELVE
        self.first: Float | None = None
        self.unit = 0.0  # of the score

    def play(self, beta: Float) -> Fitting:
        shape = self.shape
        at = Point(beta, self.centre, information=True, constant_only=shape.constant_only)
        yield from self._start(at)
        answer = yield from self._score(at, deviance=True)
        if answer is None:
            raise refused()
        deviance, score = answer
        at_start = deviance
        yield from self._information(at)
        start, first = at, self.factor.inverse_root() / self.scales[:, None]
        first_step = self._step(score)[0] / self.scales
        previous, rounded, slow, halvings = math.inf, 0.0, 0, 0
        for iteration in range(shape.max_iterations + 1):
            step, decrement, noise = self._step(score)
            if self.traits.tilt is not None and not self.tilted and decrement <= _LONG:
                self.tilted = True
                deviance, score = yield from self._again(at, deviance=True)
                step, decrement, noise = self._step(score)
            while noise > _SEEN and noise > decrement / _LEAST_FALL:
                # Nearly dependent columns: what rounding hides of the score is a long step. More of its digits.
                self.unit *= 2.0**-SCORE_BITS
                _, score = yield from self._again(at)
                step, decrement, noise = self._step(score)
            if decrement <= shape.tolerance and noise <= _NOISE_OF_STEP * shape.tolerance:
                break
            slow = slow + 1 if previous / _SLOW < decrement < _ROUGH else 0
            if slow >= _MOST_SLOW:
                break
            if iteration == shape.max_iterations:
                raise not_converged(shape.max_iterations)
            # Of the first step nothing is known. What rounding left of the last score is no fault of the information.
            # Nor is it, if it was opened here, how much the step before was worth.
            falls_slowly = _LEAST_FALL * decrement > previous and decrement > _LEFT * rounded and not at.information
            if falls_slowly and decrement < 0.1:
                self.bits = min(self.bits + 4, MOST_BITS)
            # The next score has 14 bits of this one, and enough that rounding stays a part of the next step.
            clear = self.unit * max(decrement, shape.tolerance) / (_CLEAR * noise)
            self.unit = min(power(self._largest(score)) * 2.0**-SCORE_BITS, power(clear))
            at, deviance, score, halved = yield from self._advance(at, step, decrement, deviance, falls_slowly)
            halvings += halved
            if at.information:
                yield from self._information(at)
            previous, rounded = decrement, noise
        table = replace(at, information=True, expected=not self.traits.curved_table, final=True)
        root = np.zeros((0, 0))
        if not shape.constant_only:  # of the null model the deviance alone is wanted
            root = yield from self._table(table)
        return Found(
            at.beta,
            self.centre,
            root,
            self.moments,
            table,
            at_start,
            decrement,
            decrement <= shape.tolerance,
            iteration,
            halvings,
            start,
            first_step,
            first,
        )

    # --- sums -----------------------------------------------------------------------------------------------------

    def _start(self, at: Point) -> Fitting:
        """Sizes at the null model: scales of the columns, and bounds of information, deviance and Pearson's sum."""
        shape = self.shape
        sizes = yield Sizes("start", at)
        assert isinstance(sizes, np.ndarray)
        information, deviance, pearson = (powers(sizes[:3]) * shape.users).tolist()
        one = np.ones(shape.first)
        columns = one[:0] if shape.constant_only else powers(sizes[3:])
        self.scales = np.concatenate((np.tile(np.concatenate((one, columns)), shape.equations), np.ones(shape.extra)))
        self.most = np.full(shape.coefficients, math.sqrt(power(information)))
        self.deviance_unit = power(deviance) * 2.0**-START_BITS
        self.pearson_unit = power(pearson) * 2.0**-START_BITS
        self.dispersion = pearson / shape.n if shape.dispersion else 1.0
        self.null_dispersion = self.dispersion
        self.unit = power(_FIRST_SCORE * math.sqrt(information * self.dispersion)) * 2.0**-SCORE_BITS

    def _score(self, at: Point, deviance: bool) -> Fitting:
        """Deviance and score at a point; None where a party's own deviance is beyond its limit."""
        more = 0.0
        if self.tilted and self.traits.tilt is not None:
            sizes = _roots(self.A)
            root = self.factor.inverse_root()
            errors = np.array([squares(row) for row in sizes[:, None] * root])
            unit = self.unit * math.sqrt(self.inverse)
            self.tilt = yield from self.traits.tilt(at, unit, sizes * self.scales, errors)
            more = self.tilt.deviance
            self._take(*self.opened)
        told = (self.deviance_unit, self.pearson_unit if self.shape.dispersion else 0.0) if deviance else (0.0, 0.0)
        units = np.concatenate((told, self.unit * self.scales))
        answer = yield Asked("score", units, self._tilted(at), self.dispersion)
        assert isinstance(answer, Totals)
        if answer.beyond:
            return None
        if answer.values is None:
            raise refused()
        if deviance and self.shape.dispersion:
            least = max(self.null_dispersion * _NO_SPREAD, math.ulp(0.0))
            freedom = max(1, self.shape.n - self.shape.coefficients)
            self.dispersion = max(float(answer.values[1]) / freedom, least)
        score = answer.values[2:] / self.scales
        if self.shape.penalty is not None:
            score = score - product(self.shape.penalty, at.beta) / self.scales
        return float(answer.values[0]) + more, score

    def _tilted(self, at: Point) -> Point:
        return at if self.tilt is None else replace(at, tilt=self.tilt.public)

    def _take(self, opened: Float, expected: bool) -> None:
        """Take an information as opened, with what is public of it; without a lean by which it is not positive."""
        if self.tilt is not None and self.traits.given is not None:
            opened = np.where(self.traits.given, 0.0, opened)
        for lean in (not expected, False):
            A = opened + self._public(lean)
            found = factor(A)
            if isinstance(found, Factor):
                break
        else:
            raise refused()
        self.opened, self.factor, self.A = (opened, expected), found, A
        self.inverse = squares(found.inverse_root())  # the trace of the inverse

    def _public(self, lean: bool) -> Float:
        """What is added to the information and not opened: a penalty, what a tilt gives, and on request its lean."""
        public = np.zeros((self.shape.coefficients,) * 2) if self.shape.penalty is None else self.shape.penalty
        if self.tilt is not None:
            public = public + self.tilt.given + (self.tilt.lean if lean else 0.0)
        return np.asarray(public / np.multiply.outer(self.scales, self.scales))

    def _again(self, at: Point, deviance: bool = False) -> Fitting:
        """The score at the same point: in a finer unit, or with what was not asked for there before."""
        answer = yield from self._score(at, deviance)
        if answer is None:
            raise refused()
        return answer

    def _information(self, at: Point) -> Fitting:
        """The information in as many twelves as it needs; where none are enough, columns depend on each other."""
        opened = yield from self._pieces(at, self.bits, settle=True)
        if opened is None:
            # Curvature that is not positive. Information of the same evaluation was opened: this is another one.
            yield from self._again(at)
            at = replace(at, expected=True)
            opened = yield from self._pieces(at, self.bits, settle=True)
        self._take(opened, at.expected)
        if self.first is None:
            self.first = self.A
        elif self.shape.penalty is None and isinstance(factor(self.A - _VANISHED * self.first), int):
            raise self.traits.vanished(at.beta)
        self.most = np.maximum(self.most / 2.0, _roots(self.A))

    def _pieces(self, at: Point, least: int, settle: bool) -> Fitting:
        """What is opened of the information at a point, in this many bits of its sizes, or in more where it must.

        None where a curvature is found not to be positive.
        """
        shape, P = self.shape, self.shape.coefficients
        A, bits = np.zeros((P, P)), 0
        scales = np.multiply.outer(self.scales, self.scales)[self.triangle]
        sizes = scales * np.multiply.outer(self.most, self.most)[self.triangle]
        zeros = self.traits.zeros if at.expected else self.traits.curved_zeros
        asked = np.ones(len(scales)) if zeros is None else 1.0 - zeros[self.triangle]
        if self.tilt is not None and self.traits.given is not None:
            asked = asked * ~self.traits.given[self.triangle]
        may_fail = self.traits.indefinite and not at.expected
        public = self._public(not at.expected)
        for piece in range(PIECES):
            enough = not settle and bits < least  # a table stops at its last bit, unless rounding asks for more
            bits = min(bits + TWELVE, max(least, TWELVE) if enough else MOST_BITS)
            kind = "information" if settle else "table"
            values = yield from opened(Asked(kind, 2.0**-bits * sizes * asked, self._tilted(at), piece=piece))
            A[self.triangle] += asked * values / scales
            full = A + np.triu(A, 1).T
            rounding = 2.0 * math.sqrt(P * shape.users) * (1 + NOISE) * 2.0**-bits * np.diag(np.square(self.most))
            settled = factor(full + public - rounding)
            if bits >= least and not isinstance(settled, int):
                self.bits = max(self.bits, bits) if settle else self.bits
                return full
            if may_fail and (bits >= MOST_BITS or isinstance(factor(full + public + rounding), int)):
                return None
        if self.first is not None:
            raise self.traits.vanished(at.beta)
        row = settled if isinstance(settled, int) else 0
        raise dependent(row % shape.width - shape.first + 1 if row < P - shape.extra else 0)

    def _table(self, at: Point) -> Fitting:
        """A root of the inverse of the expected information at the end, in natural units."""
        condition = squares(self.most[:, None] * self.factor.inverse_root()) * math.sqrt(self.shape.users)
        # In robust errors the inverse stands twice, with the rounding of both sums.
        bits = self.shape.table + _TWICE * int(self.shape.errors.robust) + max(0, math.frexp(condition)[1])
        A = yield from self._pieces(at, min(bits, MOST_BITS), settle=False)
        found = factor(A + self._public(not at.expected))
        assert isinstance(found, Factor)
        return found.inverse_root() / self.scales[:, None]

    # --- steps ----------------------------------------------------------------------------------------------------

    def _step(self, score: Float) -> tuple[Float, float, float]:
        """The step in scaled coefficients, its length in standard errors, and what rounding makes of that."""
        step, unit = self.factor.solve(score), math.sqrt(self.dispersion)
        left = score - product(self.A, step)
        if not math.sqrt(squares(left)) <= _SOLVED * math.sqrt(squares(score)) + math.ulp(0.0):
            raise refused()
        decrement = math.sqrt(squares(self.factor.forward(score))) / unit
        return step, decrement, DEVIATION * self.unit * math.sqrt(self.shape.users * self.inverse) / unit

    def _largest(self, score: Float) -> float:
        """The largest entry of the score, or what its rounding could hide."""
        return max(float(np.abs(score).max()), self.unit * (1 + NOISE))

    def _advance(self, at: Point, step: Float, decrement: float, deviance: float, falls_slowly: bool) -> Fitting:
        """The first point on the way back from the whole step whose deviance did not rise; halvings."""
        gone, halved = 1.0, 0
        judged = decrement > _LONG
        slack = 4.0 * (1 + NOISE) * math.sqrt(self.shape.users) * self.deviance_unit
        while gone >= _SHORTEST:
            moved = gone * step
            beta = self.traits.cut(at.beta, at.beta + moved / self.scales, decrement)
            if not self.traits.allowed(beta):
                gone, halved = gone / 2.0, halved + 1
                continue
            long = float(np.abs(moved).max()) > _LONG_STEP and decrement > _SETTLED
            expected = decrement > self.traits.curved_from
            there = replace(at, beta=beta, information=long or falls_slowly, expected=expected)
            answer = yield from self._score(there, deviance=judged)
            if answer is not None:
                found, score = answer
                if found < -slack and not self.traits.signed:
                    raise refused()  # no sum of rows has a deviance below zero
                rose = self._objective(there, found) > self._objective(at, deviance) + slack
                if not (judged and rose):
                    return there, found if judged else deviance, score, halved
            elif not judged:
                raise refused(NotConverged)
            gone, halved = gone / 2.0, halved + 1
        raise NotConverged(
            f"the deviance does not fall after {halved} halvings of a step",
            "standardise the features, or add a ridge penalty (alpha)",
        )

    def _objective(self, at: Point, deviance: float) -> float:
        if self.shape.penalty is None:
            return deviance
        return deviance + math.fsum((at.beta * product(self.shape.penalty, at.beta)).tolist())


def _roots(A: Float) -> Float:
    """For each parameter the root of a power of two at or above its information."""
    return np.array([math.sqrt(power(each)) for each in A.diagonal().tolist()])


def power(value: float) -> float:
    """The power of two at or above a number; of none the smallest that has digits to spare."""
    if not value > 0.0:
        return 2.0**-960
    mantissa, exponent = math.frexp(value)
    return math.ldexp(1.0, exponent - (mantissa == 0.5))


def powers(exponents: NDArray[np.int64]) -> Float:
    return np.ldexp(np.ones(len(exponents)), exponents)
